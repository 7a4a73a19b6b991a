//! The Lambda function of [`tenant_settings`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(tenant_settings::function).await
}
