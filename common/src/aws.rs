//! The AWS clients, built the way that starts fast: region and credentials from the environment that Lambda
//! itself sets, rustls with ring, no default features.

use std::{sync::OnceLock, time::Duration};

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use aws_smithy_types::timeout::TimeoutConfig;

use crate::config::{ConfigError, Env};

/// What every client is built from. A function builds only the clients that it uses.
pub struct Aws<'env> {
    env: &'env Env,
    region: String,
    credentials: SharedCredentialsProvider,
    https: OnceLock<aws_sdk_dynamodb::config::SharedHttpClient>,
}

/// A service's client configuration: the same builder calls on three unrelated types.
macro_rules! config {
    ($sdk:ident, $aws:expr, $service_variable:literal) => {{
        let endpoint = $aws.endpoint($service_variable);
        let mut config = $sdk::Config::builder()
            .behavior_version($sdk::config::BehaviorVersion::latest())
            .region($sdk::config::Region::new($aws.region.clone()))
            .credentials_provider($aws.credentials.clone())
            .timeout_config(timeouts())
            .http_client($aws.http_client(endpoint.as_deref()));
        config.set_endpoint_url(endpoint);
        $sdk::Client::from_conf(config.build())
    }};
}

impl<'env> Aws<'env> {
    /// Reads region and credentials.
    ///
    /// # Errors
    /// One of `AWS_REGION`, `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` is not set.
    pub fn new(env: &'env Env) -> Result<Self, ConfigError> {
        let credentials = Credentials::new(
            env.required("AWS_ACCESS_KEY_ID")?,
            env.required("AWS_SECRET_ACCESS_KEY")?,
            env.optional("AWS_SESSION_TOKEN"),
            None,
            "environment",
        );
        Ok(Self {
            env,
            region: env.required("AWS_REGION")?,
            credentials: SharedCredentialsProvider::new(credentials),
            https: OnceLock::new(),
        })
    }

    /// A DynamoDB client.
    #[must_use]
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        config!(aws_sdk_dynamodb, self, "AWS_ENDPOINT_URL_DYNAMODB")
    }

    /// An SQS client.
    #[must_use]
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        config!(aws_sdk_sqs, self, "AWS_ENDPOINT_URL_SQS")
    }

    /// An SES client.
    #[must_use]
    pub fn ses(&self) -> aws_sdk_ses::Client {
        config!(aws_sdk_ses, self, "AWS_ENDPOINT_URL_SES")
    }

    /// The endpoint override of a service, by the names that all AWS SDKs share.
    fn endpoint(&self, service_variable: &str) -> Option<String> {
        self.env.optional(service_variable).or_else(|| self.env.optional("AWS_ENDPOINT_URL"))
    }

    /// TLS is set up only for an endpoint that speaks it, and then once for all clients of the function.
    fn http_client(&self, endpoint: Option<&str>) -> aws_sdk_dynamodb::config::SharedHttpClient {
        match endpoint {
            Some(plain) if plain.starts_with("http://") => Builder::new().build_http(),
            _ => self
                .https
                .get_or_init(|| Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https())
                .clone(),
        }
    }
}

/// The longest that one call of AWS may take, retries included.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// An attempt that hangs is given up early enough for another one.
fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(2))
        .operation_timeout(CALL_TIMEOUT)
        .build()
}
