//! The Lambda function of [`deliveries_erase`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(deliveries_erase::function).await
}
