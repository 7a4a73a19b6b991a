//! The Lambda function of [`webhooks_delete`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(webhooks_delete::function).await
}
