//! The Lambda function of [`auth_signup_and_create_org`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_signup_and_create_org::function).await
}
