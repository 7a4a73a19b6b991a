//! The AWS clients, built the way that starts fast: region and credentials from the environment that Lambda
//! itself sets, rustls with ring, no default features, and no certificate read before the first connection.

use std::{sync::OnceLock, time::Duration};

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient, StalledStreamProtectionConfig};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::http::{HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_types::timeout::TimeoutConfig;

use crate::config::{ConfigError, Env};

/// What every client is built from. A function builds only the clients that it uses, and each of them once.
pub struct Aws<'env> {
    env: &'env Env,
    region: String,
    credentials: SharedCredentialsProvider,
    https: SharedHttpClient,
    dynamodb: OnceLock<aws_sdk_dynamodb::Client>,
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
            // The timeout of an attempt holds for the body of the answer too, and is shorter.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
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
            https: http_client(&TrustStore::default()),
            dynamodb: OnceLock::new(),
        })
    }

    /// A DynamoDB client.
    #[must_use]
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        self.dynamodb.get_or_init(|| config!(aws_sdk_dynamodb, self, "AWS_ENDPOINT_URL_DYNAMODB")).clone()
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

    /// One for all services, so that the certificates are read once; an endpoint without TLS needs none of them.
    fn http_client(&self, endpoint: Option<&str>) -> SharedHttpClient {
        match endpoint {
            Some(plain) if plain.starts_with("http://") => http_client(&TrustStore::empty()),
            _ => self.https.clone(),
        }
    }
}

/// The one kind of HTTP client that there is: each further kind brings its own copy of the HTTP stack.
fn http_client(roots: &TrustStore) -> SharedHttpClient {
    #[expect(clippy::expect_used, reason = "it fails for no trust store (1.5), and has nothing else to check")]
    let tls = TlsContext::builder().with_trust_store(roots.clone()).build().expect("a TLS context");
    let client = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).tls_context(tls).build_https();
    SharedHttpClient::new(ReadsRootsLate(client))
}

/// The SDK's HTTP client sets a connector up when a service's client is built, to read the machine's root
/// certificates early, and then throws it away. That is five sixths of the instructions of a start, and a share of
/// them again for each client. This leaves it to the first connection.
#[derive(Debug)]
struct ReadsRootsLate(SharedHttpClient);

impl HttpClient for ReadsRootsLate {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        self.0.http_connector(settings, components)
    }

    // `validate_base_client_config` is not handed on: it is what reads the certificates.
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
