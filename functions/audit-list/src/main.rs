//! The Lambda function of [`audit_list`].

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    common::http::serve(audit_list::function).await
}
