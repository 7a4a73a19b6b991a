//! The Lambda function of [`console`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(console::function).await
}
