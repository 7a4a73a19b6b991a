//! The Lambda function of [`auth_accept_invite_for_current_user`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_accept_invite_for_current_user::function).await
}
