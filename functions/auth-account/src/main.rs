//! The Lambda function of [`auth_account`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_account::function).await
}
