//! The Lambda function of [`webhooks_update`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(webhooks_update::function).await
}
