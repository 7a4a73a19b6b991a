//! The Lambda function of [`auth_delete_user`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(auth_delete_user::function).await
}
