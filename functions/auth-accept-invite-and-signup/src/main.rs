//! The Lambda function of [`auth_accept_invite_and_signup`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_accept_invite_and_signup::function).await
}
