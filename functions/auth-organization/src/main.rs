//! The Lambda function of [`auth_organization`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_organization::function).await
}
