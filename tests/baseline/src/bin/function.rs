//! A bare function: `lambda_http`, one DynamoDB client built to start fast, and one GetItem per request.

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, Region},
    types::AttributeValue,
};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use lambda_http::{Body, Error, Request, Response, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let variable = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    let credentials =
        Credentials::new(variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?, None, None, "environment");
    let http = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(variable("AWS_REGION")?))
        .credentials_provider(credentials)
        .http_client(http)
        .endpoint_url(variable("AWS_ENDPOINT_URL_DYNAMODB")?)
        .build();
    let client = Client::from_conf(config);
    let client = &client;
    lambda_http::run(service_fn(move |_: Request| async move {
        let key = AttributeValue::S("none".to_owned());
        let found = client.get_item().table_name("api-keys").key("key_hash", key).consistent_read(true).send().await?;
        Ok::<_, Error>(Response::new(Body::Text(format!("{{\"found\":{}}}", found.item.is_some()))))
    }))
    .await
}
