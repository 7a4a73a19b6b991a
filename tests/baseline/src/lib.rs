//! Code shared by the baselines: a signed post, and a DynamoDB client that starts fast.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, Region},
};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::Request;
use sha2::Sha256;

/// Any error, because a baseline stops at the first one.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The value of an environment variable.
///
/// # Errors
/// The variable is missing.
pub fn variable(name: &str) -> Result<String, Error> {
    Ok(std::env::var(name).map_err(|error| format!("{name}: {error}"))?)
}

/// A client for the tables at the address in the environment.
///
/// # Errors
/// A variable is missing.
pub fn dynamodb() -> Result<Client, Error> {
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
    Ok(Client::from_conf(config))
}

/// A POST request that sends `body` to `url` with both signatures.
///
/// # Errors
/// The URL is invalid.
pub fn signed(url: &str, secret: &[u8], id: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Error> {
    let timestamp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let plain = hex::encode(hmac(secret, &[&body])?);
    let standard = hex::encode(hmac(secret, &[format!("{id}.{timestamp}.").as_bytes(), &body])?);
    let request = Request::post(url)
        .header("content-type", "application/json")
        .header("x-webhook-signature", plain)
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", standard);
    Ok(request.body(Full::new(body))?)
}

fn hmac(secret: &[u8], parts: &[&[u8]]) -> Result<[u8; 32], Error> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret)?;
    for part in parts {
        mac.update(part);
    }
    Ok(mac.finalize().into_bytes().into())
}
