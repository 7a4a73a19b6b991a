//! The Lambda function of [`console_webhooks`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(console_webhooks::function).await
}
