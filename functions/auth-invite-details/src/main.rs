//! The Lambda function of [`auth_invite_details`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_invite_details::function).await
}
