//! The AWS clients, built for a fast cold start: region and credentials come from the environment variables that Lambda
//! sets, TLS is rustls with ring, default features are off, and certificates are read only when the first connection is
//! made.

use std::{sync::OnceLock, time::Duration};

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::{
    config::{SharedHttpClient, StalledStreamProtectionConfig},
    operation::{delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError},
};
use aws_smithy_runtime_api::client::{
    interceptors::context::InterceptorContext,
    retries::classifiers::{ClassifyRetry, RetryAction},
};
use aws_smithy_types::{retry::RetryConfig, timeout::TimeoutConfig};

use crate::{
    aws::https::Https,
    config::{ConfigError, Env},
};

/// The parts shared by all AWS clients. A function builds only the clients that it uses, and each only once.
pub struct Aws<'env> {
    env: &'env Env,
    region: String,
    credentials: SharedCredentialsProvider,
    https: SharedHttpClient,
    dynamodb: OnceLock<aws_sdk_dynamodb::Client>,
}

/// Builds a client. This is a macro because the SDK's three configuration builders are unrelated types.
macro_rules! config {
    ($sdk:ident, $aws:expr, $service_variable:literal $(, $own:ident($value:expr))?) => {{
        let endpoint = $aws.endpoint($service_variable);
        let mut config = $sdk::Config::builder()
            .behavior_version($sdk::config::BehaviorVersion::latest())
            .region($sdk::config::Region::new($aws.region.clone()))
            .credentials_provider($aws.credentials.clone())
            .timeout_config(timeouts())
            .retry_config(retries())
            // Each client has its own retry budget, with the SDK's default costs. By default, all functions in one
            // process, such as the local runner, would share one budget.
            .retry_partition($sdk::config::retry::RetryPartition::custom("function").build())
            // The attempt timeout is shorter, and also covers reading the response body.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .http_client($aws.http_client(endpoint.as_deref()))
            $(.$own($value))?;
        config.set_endpoint_url(endpoint);
        $sdk::Client::from_conf(config.build())
    }};
}

impl<'env> Aws<'env> {
    /// Reads region and credentials from the environment. No connection is made yet.
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
            https: SharedHttpClient::new(Https::new()),
            dynamodb: OnceLock::new(),
        })
    }

    /// The DynamoDB client, which also retries writes that conflicted with a transaction.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        let client = || config!(aws_sdk_dynamodb, self, "AWS_ENDPOINT_URL_DYNAMODB", retry_classifier(MetTransaction));
        self.dynamodb.get_or_init(client).clone()
    }

    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        config!(aws_sdk_sqs, self, "AWS_ENDPOINT_URL_SQS")
    }

    pub fn ses(&self) -> aws_sdk_ses::Client {
        config!(aws_sdk_ses, self, "AWS_ENDPOINT_URL_SES", timeout_config(patient_timeouts()))
    }

    /// The service's endpoint override, from the environment variables that all AWS SDKs share.
    fn endpoint(&self, service_variable: &str) -> Option<String> {
        self.env.optional(service_variable).or_else(|| self.env.optional("AWS_ENDPOINT_URL"))
    }

    /// Returns the client that all services share, so the certificates are read once. Plain HTTP endpoints do not need
    /// certificates.
    fn http_client(&self, endpoint: Option<&str>) -> SharedHttpClient {
        self.env.aws().unwrap_or_else(|| match endpoint {
            Some(plain) if plain.starts_with("http://") => plain_http(),
            _ => self.https.clone(),
        })
    }
}

/// An HTTP client for services without TLS, such as those embedded in the local runner.
pub fn plain_http() -> SharedHttpClient {
    SharedHttpClient::new(Https::plain())
}

/// Retries single-item writes that conflicted with a transaction on the same item. The write had no effect and the
/// transaction ends within milliseconds, but the SDK does not retry this error itself.
#[derive(Debug)]
struct MetTransaction;

impl ClassifyRetry for MetTransaction {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let result = context.output_or_error();
        let Some(error) = result.and_then(|result| result.err()?.as_operation_error()) else {
            return RetryAction::NoActionIndicated;
        };
        let met = error.downcast_ref().is_some_and(UpdateItemError::is_transaction_conflict_exception)
            || error.downcast_ref().is_some_and(PutItemError::is_transaction_conflict_exception)
            || error.downcast_ref().is_some_and(DeleteItemError::is_transaction_conflict_exception);
        if met { RetryAction::transient_error() } else { RetryAction::NoActionIndicated }
    }

    fn name(&self) -> &'static str {
        "a write that conflicted with a transaction"
    }
}

/// The maximum duration of one AWS call, including its retries.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits at most 50 ms before the first retry. The SDK's default of up to a second is too long for a waiting caller,
/// and for a process that may be stopped in the meantime.
fn retries() -> RetryConfig {
    RetryConfig::standard().with_initial_backoff(Duration::from_millis(50))
}

/// Aborts a hanging attempt early enough to leave time for another one.
fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(2))
        .operation_timeout(CALL_TIMEOUT)
        .build()
}

/// Waits for a slow response as long as for a call. SES would send an email again if the call were repeated.
fn patient_timeouts() -> TimeoutConfig {
    timeouts().to_builder().operation_attempt_timeout(CALL_TIMEOUT).build()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;

    use aws_sdk_dynamodb::{Client, error::ProvideErrorMetadata, types::AttributeValue};
    use aws_sdk_ses::{primitives::Blob, types::RawMessage};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        task::JoinHandle,
    };

    use super::*;

    /// A client whose first call fails with `code` and whose second call succeeds.
    async fn client(code: &str) -> Client {
        let refusal = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}"}}"#);
        client_of([answer("400 Bad Request", &refusal), answer("200 OK", "{}")]).await
    }

    pub(crate) fn answer(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    /// A client whose calls get these responses, each over a separate connection.
    async fn client_of(answers: [String; 2]) -> Client {
        serve(answers.into(), Duration::ZERO).await.0.dynamodb()
    }

    /// Starts a service that gives these responses, each after `time` and over a separate connection. Returns its
    /// clients, and the requests once all of them have been answered.
    pub(crate) async fn serve(answers: Vec<String>, time: Duration) -> (Aws<'static>, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = tokio::spawn(async move {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut connection, _) = listener.accept().await.expect("a connection");
                let mut request = Vec::new();
                while !is_whole(&request) {
                    connection.read_buf(&mut request).await.expect("a request");
                }
                requests.push(String::from_utf8(request).expect("text"));
                tokio::time::sleep(time).await;
                connection.write_all(answer.as_bytes()).await.expect("an answer");
            }
            requests
        });
        let env = Env::new(move |name| match name.starts_with("AWS_ENDPOINT_URL") {
            true => Some(address.clone()),
            false => Some("x".to_owned()),
        });
        (Aws::new(Box::leak(Box::new(env))).expect("settings"), requests)
    }

    /// Whether a request has arrived with its complete body.
    fn is_whole(request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request).to_ascii_lowercase();
        let Some((headers, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        body.len() >= length.unwrap_or(0)
    }

    #[tokio::test]
    async fn a_write_in_conflict_with_a_transaction_is_retried() {
        let key = HashMap::from([("id".to_owned(), AttributeValue::S("1".to_owned()))]);
        let conflicting = async || client("TransactionConflictException").await;
        let (update, put, delete) = (conflicting().await, conflicting().await, conflicting().await);
        update.update_item().table_name("t").set_key(Some(key.clone())).send().await.expect("it is updated");
        put.put_item().table_name("t").set_item(Some(key.clone())).send().await.expect("it is put");
        delete.delete_item().table_name("t").set_key(Some(key)).send().await.expect("it is deleted");
    }

    #[tokio::test]
    async fn a_call_that_loses_its_response_is_retried() {
        for cut in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"] {
            let get = client_of([cut.to_owned(), answer("200 OK", "{}")]).await.get_item().table_name("t");
            get.key("id", AttributeValue::S("1".to_owned())).send().await.expect(cut);
        }
    }

    #[tokio::test]
    async fn a_failed_condition_is_not_retried() {
        let put = client("ConditionalCheckFailedException").await.put_item().table_name("t");
        let error = put.item("id", AttributeValue::S("1".to_owned())).send().await.expect_err("a refusal");
        assert_eq!(error.code(), Some("ConditionalCheckFailedException"));
    }

    #[tokio::test]
    async fn an_email_that_ses_accepts_late_is_sent_once() {
        let accepted = "<SendRawEmailResponse><SendRawEmailResult><MessageId>m</MessageId></SendRawEmailResult>\
                        </SendRawEmailResponse>";
        let (aws, requests) = serve(vec![answer("200 OK", accepted)], Duration::from_millis(2300)).await;
        let message = RawMessage::builder().data(Blob::new("Subject: hello")).build().expect("a message");
        let sent = aws.ses().send_raw_email().raw_message(message).send().await.expect("it is sent");
        assert_eq!((sent.message_id(), requests.await.expect("no panic").len()), ("m", 1));
    }
}
