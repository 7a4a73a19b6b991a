//! The Lambda function of [`auth_status`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_status::function).await
}
