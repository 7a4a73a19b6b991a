//! One attempt: a signed POST to a receiver that nobody trusts.
//!
//! The cast: a [`Dialer`] that connects to permitted addresses only, TLS and a connection pool around it, and
//! one deadline over everything from the look-up of the name to the last byte of the answer.

use std::{error::Error, io, iter::successors, sync::Arc, time::Duration};

use bytes::Bytes;
use common::{
    timestamp::Timestamp,
    webhooks::{
        destination::{DestinationPolicy, Refused},
        endpoint_url::EndpointUrl,
        endpoints::Receiver,
        signing::{body_signature, standard_signature},
        signing_secret::SigningSecret,
    },
};
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderName, HeaderValue},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::Client as HyperClient,
    rt::{TokioExecutor, TokioTimer},
};

use crate::{
    delivery::Delivery,
    dialer::{Dialer, Lookup, NoAddress},
    schedule::{Failure, Outcome, retry_after},
};

/// No more of a response is read.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// A connection that waited longer is not used again: gateways forget idle connections without a word.
const POOL_IDLE: Duration = Duration::from_secs(10);

const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
const EVENT_TYPE: HeaderName = HeaderName::from_static("x-event-type");
const BODY_SIGNATURE: HeaderName = HeaderName::from_static("x-webhook-signature");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const STANDARD_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Posts deliveries. Connections are kept and used again, across invocations too.
#[derive(Clone)]
pub(crate) struct Client {
    hyper: HyperClient<HttpsConnector<Dialer>, Full<Bytes>>,
    policy: Arc<DestinationPolicy>,
    timeout: Duration,
}

/// Where to post, and what to sign with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) url: &'a EndpointUrl,
    pub(crate) secret: &'a SigningSecret,
}

impl<'a> Target<'a> {
    /// Of a stored endpoint.
    pub(crate) fn of(receiver: &'a Receiver) -> Self {
        Self { url: &receiver.url, secret: &receiver.signing_secret }
    }
}

impl Client {
    /// A client that sends where `policy` allows, gives each attempt `timeout`, and makes `at_once` of them at once.
    /// It keeps as many connections to one host: a batch would open what is missing each time anew.
    pub(crate) fn new(
        policy: DestinationPolicy,
        timeout: Duration,
        at_once: usize,
        tls: rustls::ClientConfig,
        lookup: Lookup,
    ) -> Self {
        let policy = Arc::new(policy);
        let dialer = Dialer::new(Arc::clone(&policy), lookup);
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let hyper = HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(at_once)
            .http1_max_buf_size(MAX_RESPONSE_BYTES)
            .build(connector.wrap_connector(dialer));
        Self { hyper, policy, timeout }
    }

    /// The time that an attempt may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes one attempt, signed `now`.
    pub(crate) async fn post(&self, delivery: &Delivery, target: Target<'_>, now: Timestamp) -> Outcome {
        if self.policy.refusals(target.url.url()).next().is_some() {
            return Outcome::Failed(Failure::Blocked);
        }
        let Ok(request) = request(delivery, target, now.as_second()) else {
            return Outcome::Failed(Failure::Protocol);
        };
        let attempt = async {
            match self.hyper.request(request).await {
                Ok(response) => read(response, now).await,
                Err(error) => Outcome::Failed(failure(&error, error.is_connect())),
            }
        };
        tokio::time::timeout(self.timeout, attempt).await.unwrap_or(Outcome::Failed(Failure::Timeout))
    }
}

fn request(
    delivery: &Delivery,
    target: Target<'_>,
    timestamp: i64,
) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let (id, body) = (&delivery.webhook_id, &delivery.body);
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.url.url().as_str().parse()?;
    *request.headers_mut() = HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::USER_AGENT, HeaderValue::from_static(USER_AGENT)),
        (EVENT_TYPE, HeaderValue::from_static(delivery.event.as_str())),
        (BODY_SIGNATURE, body_signature(target.secret, body).try_into()?),
        (ID, id.try_into()?),
        (TIMESTAMP, timestamp.into()),
        (STANDARD_SIGNATURE, standard_signature(target.secret, id, timestamp, body).try_into()?),
    ]);
    Ok(request)
}

/// A 2xx counts once the response is complete, or has more bytes than anyone wants to read. The body of another
/// status says nothing, so it is not read.
async fn read(response: Response<Incoming>, now: Timestamp) -> Outcome {
    let status = response.status();
    if !status.is_success() {
        return Outcome::Failed(Failure::Status(status.as_u16(), asked_to_wait(&response, now)));
    }
    let (mut body, mut left) = (response.into_body(), MAX_RESPONSE_BYTES);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Outcome::Failed(Failure::Protocol) };
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            break;
        }
    }
    Outcome::Delivered(status.as_u16())
}

fn asked_to_wait(response: &Response<Incoming>, now: Timestamp) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    retry_after(response.headers().get(header::RETRY_AFTER)?.to_str().ok()?, now)
}

/// What kind of failure an error of the client is, by the first of its causes that says.
fn failure(error: &(dyn Error + 'static), connecting: bool) -> Failure {
    let known = successors(Some(error), |error| cause(*error)).find_map(|cause| {
        if cause.is::<Refused>() {
            Some(Failure::Blocked)
        } else if cause.is::<rustls::Error>() {
            Some(Failure::Tls)
        } else if cause.is::<NoAddress>() {
            Some(Failure::Dns)
        } else {
            None
        }
    });
    known.unwrap_or(if connecting { Failure::Connect } else { Failure::Protocol })
}

/// The next cause. An `io::Error` skips the error that it wraps and names only that one's own cause.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use common::id::TenantId;
    use futures::future::BoxFuture;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::{
        io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
        net::TcpListener,
    };
    use tower_service::Service;

    use super::*;
    use crate::{delivery::Destination, dialer::system_lookup, event::JobEvent};

    fn tls(roots: rustls::RootCertStore) -> rustls::ClientConfig {
        rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// A client that may dial 127.0.0.1 and nothing else of loopback, with these answers of the resolver.
    fn client(answers: Vec<Vec<&'static str>>, roots: rustls::RootCertStore) -> (Client, Arc<AtomicUsize>) {
        let policy = DestinationPolicy::new(true, vec!["127.0.0.1/32".parse().expect("a range")]);
        let (answers, asked) = (Mutex::new(answers.into_iter()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&asked);
        let lookup = move |_| -> BoxFuture<'static, _> {
            count.fetch_add(1, Ordering::Relaxed);
            let answer = answers.lock().expect("no panic").next().unwrap_or_default();
            Box::pin(async move { Ok(answer.iter().map(|address| address.parse().expect("an address")).collect()) })
        };
        (Client::new(policy, Duration::from_secs(2), 10, tls(roots), Arc::new(lookup)), asked)
    }

    async fn post(client: &Client, url: &str) -> Outcome {
        let event = JobEvent::parse(r#"{"event":"job.completed","tenant_id":"t","job_id":"j"}"#).expect("an event");
        let (url, secret) = (EndpointUrl::parse(url).expect("a URL"), SigningSecret::parse("s").expect("a secret"));
        let destination = Destination::Callback { url: url.clone(), secret: secret.clone() };
        let delivery = Delivery::first(&event, destination, None);
        assert_eq!(delivery.tenant, "t".parse::<TenantId>().expect("an id"));
        client.post(&delivery, Target { url: &url, secret: &secret }, Timestamp::now()).await
    }

    /// Answers every request on a connection with 200, `keep` of them before it closes.
    async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, keep: usize) {
        for _ in 0..keep {
            let mut request = [0; 4096];
            if stream.read(&mut request).await.unwrap_or(0) == 0 {
                return;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("it is taken");
        }
    }

    /// A server at `address` that counts its connections.
    async fn server(address: &str, keep: usize) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let (port, connections) = (listener.local_addr().expect("an address").port(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(answer(stream, keep));
            }
        });
        (port, connections)
    }

    #[tokio::test]
    async fn of_good_and_bad_addresses_only_the_good_are_dialled() {
        let (port, good) = server("127.0.0.1:0", 1).await;
        let (_, bad) = server(&format!("127.0.0.2:{port}"), 1).await;
        let (client, _) =
            client(vec![vec!["127.0.0.2", "10.0.0.1", "127.0.0.1", "::1"]], rustls::RootCertStore::empty());
        assert_eq!(post(&client, &format!("http://mixed.example:{port}/")).await, Outcome::Delivered(200));
        assert_eq!((good.load(Ordering::Relaxed), bad.load(Ordering::Relaxed)), (1, 0));
    }

    #[tokio::test]
    async fn a_resolver_that_answers_differently_the_second_time_gains_nothing() {
        let (port, good) = server("127.0.0.1:0", 1).await;
        let (_, bad) = server(&format!("127.0.0.2:{port}"), 1).await;
        let answers = vec![vec!["127.0.0.1"], vec!["127.0.0.2"], vec![]];
        let (client, asked) = client(answers, rustls::RootCertStore::empty());
        let url = format!("http://rebinding.example:{port}/");
        assert_eq!(post(&client, &url).await, Outcome::Delivered(200));
        assert_eq!(asked.load(Ordering::Relaxed), 1, "nothing looks the name up between the check and the dial");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(post(&client, &url).await, Outcome::Failed(Failure::Blocked));
        assert_eq!(post(&client, &url).await, Outcome::Failed(Failure::Dns));
        assert_eq!((good.load(Ordering::Relaxed), bad.load(Ordering::Relaxed)), (1, 0));
    }

    #[tokio::test]
    async fn a_literal_address_is_checked_where_it_is_dialled() {
        let (client, asked) = client(Vec::new(), rustls::RootCertStore::empty());
        let mut dialer = Dialer::new(Arc::clone(&client.policy), system_lookup());
        for uri in ["http://127.0.0.2:1/", "http://[::1]:1/", "https://169.254.169.254/", "http://[::ffff:10.0.0.1]/"] {
            let error = dialer.call(uri.parse().expect("a URI")).await.expect_err("it is refused");
            assert!(error.is::<Refused>(), "{uri}: {error}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_connection_is_used_again() {
        let (port, connections) = server("127.0.0.1:0", 10).await;
        let (client, _) = client(Vec::new(), rustls::RootCertStore::empty());
        for _ in 0..5 {
            assert_eq!(post(&client, &format!("http://127.0.0.1:{port}/")).await, Outcome::Delivered(200));
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_url_is_requested_as_it_was_understood_not_as_it_was_written() {
        let (port, _) = server("127.0.0.1:0", 1).await;
        let (client, asked) = client(vec![vec!["127.0.0.1"]], rustls::RootCertStore::empty());
        let url = format!("http:\\\\b\u{fc}cher.example:{port}\\hook");
        assert_eq!(post(&client, &url).await, Outcome::Delivered(200));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn tls_is_spoken_with_a_trusted_receiver_of_that_name() {
        let certified = rcgen::generate_simple_self_signed(["hook.example".to_owned()]).expect("a certificate");
        let certificate: CertificateDer<'static> = certified.cert.der().clone();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).expect("a key");
        let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a configuration");
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, 1).await;
                }
            }
        });
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).expect("a root");
        let (client, _) = client(vec![vec!["127.0.0.1"], vec!["127.0.0.1"]], roots);
        assert_eq!(post(&client, &format!("https://hook.example:{port}/")).await, Outcome::Delivered(200));
        let other_name = format!("https://other.example:{port}/");
        assert_eq!(post(&client, &other_name).await, Outcome::Failed(Failure::Tls));
    }
}
