//! A bare function: `lambda_http`, one DynamoDB client built to start fast, and one GetItem per request.

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_http::{Body, Error, Request, Response, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = baseline::dynamodb()?;
    let client = &client;
    lambda_http::run(service_fn(move |_: Request| async move {
        let key = AttributeValue::S("none".to_owned());
        let found = client.get_item().table_name("api-keys").key("key_hash", key).consistent_read(true).send().await?;
        Ok::<_, Error>(Response::new(Body::Text(format!("{{\"found\":{}}}", found.item.is_some()))))
    }))
    .await
}
