//! The Lambda function of [`auth_request_password_reset`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_request_password_reset::function).await
}
