//! The Lambda function of [`deliveries_receive`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(deliveries_receive::function).await
}
