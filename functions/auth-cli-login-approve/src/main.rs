//! The Lambda function of [`auth_cli_login_approve`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_cli_login_approve::function).await
}
