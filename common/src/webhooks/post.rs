//! Makes delivery attempts. Each is a signed POST to an untrusted receiver.
//!
//! The `Dialer` connects to permitted addresses only, a `Connection` limits the bytes that are read from it, and the
//! `Pool` keeps connections for reuse. One deadline covers everything from the DNS lookup to the end of the response.
//!
//! The project has its own pool, since that of `hyper-util`'s client bounds idle connections per host but not over all
//! hosts: many receivers could take all file descriptors of the process. Nor does it see data that precedes a response.

use std::{error::Error, io, iter::successors, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderName, HeaderValue},
};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use url::{Host, Position, Url};

pub use self::dialer::{Connect, Lookup, Network, Stream};
use self::{
    connection::{Connection, Meter, Metered, TooMuch},
    dialer::{DialError, Dialer},
    pool::Pool,
};
use super::{
    delivery::{Failure, Outcome, RESPONSE_BYTES, WebhookId, retry_after},
    destination::{DestinationPolicy, Headers, SigningKeys, Target, body_signature, standard_signatures},
    event::EventName,
};
use crate::timestamp::Timestamp;

mod connection;
mod dialer;
mod pool;

/// Receivers know the service by this name. Every function that sends uses it.
const USER_AGENT: &str = concat!("fanfare/", env!("CARGO_PKG_VERSION"));
const EVENT_TYPE: HeaderName = HeaderName::from_static("x-event-type");
const EVENT_TIME: HeaderName = HeaderName::from_static("x-event-time");
const BODY_SIGNATURE: HeaderName = HeaderName::from_static("x-webhook-signature");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const STANDARD_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Posts deliveries. Connections are kept for reuse, even across invocations.
pub struct Client {
    dialer: Dialer,
    tls: TlsConnector,
    pool: Pool,
    timeout: Duration,
}

/// The process had no file descriptor left. This failure is not the receiver's, and does not count as an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDescriptor;

/// The content of an attempt and its destination.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The URL, keys and headers of the attempt.
    pub target: Target<'a>,
    /// The id of the delivery for its receiver.
    pub id: WebhookId,
    /// The name of the event.
    pub event: EventName,
    /// The time at which the event entered its queue.
    pub event_at: Timestamp,
    /// The JSON to send, byte for byte.
    pub body: &'a Bytes,
}

/// The content of an attempt, independent of its destination.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The keys that sign the attempt.
    pub keys: SigningKeys<'a>,
    /// The tenant's own headers, if any.
    pub headers: Option<&'a Headers>,
    /// The id of the delivery for its receiver.
    pub id: WebhookId,
    /// The name of the event.
    pub event: EventName,
    /// The time at which the event entered its queue.
    pub event_at: Timestamp,
    /// The JSON to send, byte for byte.
    pub body: &'a Bytes,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Whether the receiver accepted the delivery.
    pub outcome: Outcome,
    /// The first 1,024 bytes of the response to a failed attempt, in the form of text.
    pub response: Option<String>,
}

impl From<Outcome> for Posted {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, response: None }
    }
}

/// The reason why there is no response.
enum NoResponse {
    Failed(Failure),
    NoDescriptor,
}

impl Client {
    /// A client for the destinations that `policy` allows, with a `timeout` for each attempt. The limit on open
    /// connections is chosen for `attempts` concurrent attempts.
    #[must_use]
    pub fn new(
        policy: DestinationPolicy,
        timeout: Duration,
        attempts: usize,
        tls: rustls::ClientConfig,
        network: Network,
    ) -> Self {
        let (tls, pool) = (TlsConnector::from(Arc::new(tls)), Pool::new(attempts));
        Self { dialer: Dialer::new(policy, network), tls, pool, timeout }
    }

    /// The maximum duration of an attempt.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes an attempt. `now` is the time in the signature.
    ///
    /// # Errors
    /// The process had no file descriptor left.
    pub async fn post(&self, post: Post<'_>, now: Timestamp) -> Result<Posted, NoDescriptor> {
        if !self.dialer.permits(post.target.url.url()) {
            return Ok(Outcome::Failed(Failure::Blocked).into());
        }
        match tokio::time::timeout(self.timeout, self.exchange(post, now)).await {
            Ok(Ok(posted)) => Ok(posted),
            Ok(Err(NoResponse::Failed(failure))) => Ok(Outcome::Failed(failure).into()),
            Ok(Err(NoResponse::NoDescriptor)) => {
                // Idle connections hold descriptors that other calls need, among them calls to AWS.
                self.pool.clear();
                Err(NoDescriptor)
            }
            Err(_elapsed) => Ok(Outcome::Failed(Failure::Timeout).into()),
        }
    }

    async fn exchange(&self, post: Post<'_>, now: Timestamp) -> Result<Posted, NoResponse> {
        let url = post.target.url.url();
        let (origin, headers) = (post.target.url.origin(), post.target.headers);
        if let Some(mut connection) = self.pool.take(origin) {
            let request = request(post, now)?;
            match connection.send(request, async |response| read(response, headers, now).await).await {
                // The receiver closed the idle connection before the request arrived. Open a new one.
                Err(_) if connection.is_unanswered() => {}
                Err(error) => return Err(error.into()),
                Ok(posted) => {
                    self.pool.put(origin, connection);
                    return Ok(posted);
                }
            }
        }
        // Boxed: the future takes thousands of bytes, and most attempts find an open connection.
        let mut connection = Box::pin(self.open(url)).await?;
        let request = request(post, now)?;
        let posted = connection.send(request, async |response| read(response, headers, now).await).await?;
        self.pool.put(origin, connection);
        Ok(posted)
    }

    async fn open(&self, url: &Url) -> Result<Connection, NoResponse> {
        let (host, port) = url.host().zip(url.port_or_known_default()).ok_or(NoResponse::Failed(Failure::Protocol))?;
        let mut permit = self.pool.reserve();
        let tcp = self.dialer.dial(&host, port).await?;
        // A connection needs only one of the sockets reserved for the dial.
        drop(permit.as_mut().and_then(|permit| permit.split(permit.num_permits() - 1)));
        let wire = Meter::new();
        let tcp = Metered::new(tcp, Arc::clone(&wire));
        if url.scheme() == "http" {
            return Ok(Connection::over(tcp, wire, permit).await?);
        }
        let name = server_name(host).ok_or(NoResponse::Failed(Failure::Tls))?;
        let tls =
            self.tls.connect(name, tcp).await.map_err(|error| NoResponse::Failed(failure(&error, Failure::Connect)))?;
        Ok(Connection::over(Metered::new(tls, Meter::new()), wire, permit).await?)
    }
}

impl From<DialError> for NoResponse {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Refused => Self::Failed(Failure::Blocked),
            DialError::NoAddress => Self::Failed(Failure::Dns),
            DialError::NoAnswer => Self::Failed(Failure::Connect),
            DialError::NoDescriptor => Self::NoDescriptor,
        }
    }
}

impl From<hyper::Error> for NoResponse {
    fn from(error: hyper::Error) -> Self {
        Self::Failed(failure(&error, Failure::Protocol))
    }
}

impl From<hyper::http::Error> for NoResponse {
    fn from(_not_a_request: hyper::http::Error) -> Self {
        Self::Failed(Failure::Protocol)
    }
}

/// The name that the certificate must be valid for.
fn server_name(host: Host<&str>) -> Option<ServerName<'static>> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.to_owned()).ok(),
        Host::Ipv4(address) => Some(ServerName::from(IpAddr::from(address))),
        Host::Ipv6(address) => Some(ServerName::from(IpAddr::from(address))),
    }
}

fn request(post: Post<'_>, now: Timestamp) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let Post { target: Target { url, keys, headers }, id, event, event_at, body } = post;
    let url = url.url();
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url[Position::BeforePath..].parse()?;
    *request.headers_mut() = Content { keys, headers, id, event, event_at, body }.headers(now)?;
    let host = url[Position::BeforeHost..Position::AfterPort].try_into()?;
    request.headers_mut().insert(header::HOST, host);
    Ok(request)
}

impl Content<'_> {
    /// The signed headers of an attempt made at `now`.
    ///
    /// # Errors
    /// A stored header is not a valid header.
    pub fn headers(self, now: Timestamp) -> Result<HeaderMap, hyper::http::Error> {
        let Self { keys, headers, id, event, event_at, body } = self;
        let id = id.to_string();
        let mut all = HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (header::USER_AGENT, HeaderValue::from_static(USER_AGENT)),
            (EVENT_TYPE, HeaderValue::from_static(event.as_str())),
            (EVENT_TIME, event_at.to_string().try_into()?),
            (BODY_SIGNATURE, body_signature(keys.current, body).try_into()?),
            (ID, HeaderValue::try_from(&id)?),
            (TIMESTAMP, now.as_second().into()),
            (STANDARD_SIGNATURE, standard_signatures(keys, &id, now, body).try_into()?),
        ]);
        for (name, value) in headers.into_iter().flat_map(Headers::reveal) {
            let (name, mut value) = (HeaderName::from_lowercase(name.as_bytes())?, HeaderValue::from_str(value)?);
            value.set_sensitive(true);
            // The service's own headers take precedence over stored headers.
            all.entry(name).or_insert(value);
        }
        Ok(all)
    }
}

/// Reads a response. A 2xx counts once its body is complete, or longer than the limit. For other responses, the
/// beginning of the body is kept, with the values of the tenant's headers masked.
async fn read(response: Response<Incoming>, headers: Option<&Headers>, now: Timestamp) -> Posted {
    let status = response.status();
    if !status.is_success() {
        let outcome = Outcome::Failed(Failure::Status(status.as_u16(), asked_to_wait(&response, now)));
        let answer = beginning(response.into_body()).await;
        let answer = headers.into_iter().fold(answer, |answer, headers| headers.mask(answer));
        return Posted { outcome, response: Some(answer) };
    }
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(_) => {}
            Err(error) if is_caused_by::<TooMuch>(&error) => break,
            Err(_) => return Outcome::Failed(Failure::Protocol).into(),
        }
    }
    Outcome::Delivered(status.as_u16()).into()
}

/// The maximum time for the body of a failed response, since the status matters more.
const BODY_OF_FAILURE: Duration = Duration::from_secs(1);

/// The first bytes of a body in the form of text, or as many as arrive in time.
async fn beginning(mut body: Incoming) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(data) = frame.into_data() {
                let left = RESPONSE_BYTES - bytes.len();
                bytes.extend_from_slice(data.get(..left).unwrap_or(&data));
            }
            if bytes.len() == RESPONSE_BYTES {
                break;
            }
        }
    };
    // The bytes that arrived in time are kept.
    tokio::time::timeout(BODY_OF_FAILURE, read).await.ok();
    // A character that is cut in two is omitted.
    let whole = match std::str::from_utf8(&bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    bytes.truncate(whole);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn asked_to_wait(response: &Response<Incoming>, now: Timestamp) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    retry_after(response.headers().get(header::RETRY_AFTER)?.to_str().ok()?, now)
}

/// Classifies an error: as TLS if one of its causes is a TLS error, else as `otherwise`.
fn failure(error: &(dyn Error + 'static), otherwise: Failure) -> Failure {
    if is_caused_by::<rustls::Error>(error) { Failure::Tls } else { otherwise }
}

fn is_caused_by<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    successors(Some(error), |error| cause(*error)).any(<dyn Error>::is::<E>)
}

/// The next cause of an error. `source` of an `io::Error` skips the wrapped error, so this function returns that first.
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

    use futures::future::BoxFuture;
    use rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    };
    use tokio::{
        io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
        net::TcpListener,
        time::sleep,
    };
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::webhooks::destination::{EndpointUrl, SigningSecret};

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    fn tls(roots: rustls::RootCertStore) -> rustls::ClientConfig {
        rustls::ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// A client for two concurrent attempts, which may dial 127.0.0.1 but no other loopback address.
    fn client_with(lookup: Lookup, roots: rustls::RootCertStore) -> Client {
        let policy = DestinationPolicy::new(true, vec!["127.0.0.1/32".parse().expect("a range")]);
        Client::new(policy, Duration::from_secs(2), 2, tls(roots), Network { lookup, ..Network::system() })
    }

    /// A client for which every name resolves to 127.0.0.1.
    fn client_trusting(roots: rustls::RootCertStore) -> Client {
        let here = |_| -> BoxFuture<'static, _> { Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) }) };
        client_with(Arc::new(here), roots)
    }

    /// A client for which every name resolves to 127.0.0.1, and which trusts no certificate.
    fn client() -> Client {
        client_trusting(rustls::RootCertStore::empty())
    }

    /// A client whose resolver gives these answers in turn, and a count of the lookups.
    fn client_resolving(answers: Vec<Vec<&'static str>>) -> (Client, Arc<AtomicUsize>) {
        let (answers, asked) = (Mutex::new(answers.into_iter()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&asked);
        let lookup = move |_| -> BoxFuture<'static, _> {
            count.fetch_add(1, Ordering::Relaxed);
            let answer = answers.lock().expect("no panic").next().unwrap_or_default();
            Box::pin(async move { Ok(answer.iter().map(|address| address.parse().expect("an address")).collect()) })
        };
        (client_with(Arc::new(lookup), rustls::RootCertStore::empty()), asked)
    }

    async fn try_to_post(client: &Client, url: &str) -> Result<Outcome, NoDescriptor> {
        let (url, secret) = (EndpointUrl::parse(url).expect("a URL"), SigningSecret::parse("s").expect("a secret"));
        let (target, id) = (Target { url: &url, keys: (&secret).into(), headers: None }, WebhookId::unique());
        let (event, event_at, body) = (EventName::Completed, Timestamp::now(), Bytes::from_static(b"{}"));
        let posted = client.post(Post { target, id, event, event_at, body: &body }, Timestamp::now()).await;
        posted.map(|posted| posted.outcome)
    }

    async fn post(client: &Client, url: &str) -> Outcome {
        try_to_post(client, url).await.expect("there are descriptors")
    }

    /// The behavior of a server on a connection: it answers each request with the next response in pieces, then closes.
    type Script = Vec<Vec<&'static [u8]>>;

    async fn play(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: Script) {
        for answer in script {
            let mut request = [0; 4096];
            if stream.read(&mut request).await.unwrap_or(0) == 0 {
                return;
            }
            for piece in answer {
                if stream.write_all(piece).await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(1)).await;
            }
        }
        // Over TLS, this sends close_notify.
        stream.shutdown().await.ok();
    }

    /// The number of connections that a server has accepted, and of those that are still open.
    #[derive(Default)]
    struct Connections {
        all: AtomicUsize,
        open: AtomicUsize,
    }

    impl Connections {
        fn all(&self) -> usize {
            self.all.load(Ordering::Relaxed)
        }

        /// Waits until at most `most` are open.
        async fn open_at_most(&self, most: usize) {
            for _ in 0..400 {
                if self.open.load(Ordering::Relaxed) <= most {
                    return;
                }
                sleep(Duration::from_millis(5)).await;
            }
            panic!("{} are open", self.open.load(Ordering::Relaxed));
        }
    }

    /// A server at `address` that plays one script per connection, and repeats the last script.
    async fn server(address: &str, tls: Option<TlsAcceptor>, scripts: Vec<Script>) -> (u16, Arc<Connections>) {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let (port, connections) = (listener.local_addr().expect("an address").port(), Arc::<Connections>::default());
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = scripts[count.all().min(scripts.len() - 1)].clone();
                count.all.fetch_add(1, Ordering::Relaxed);
                count.open.fetch_add(1, Ordering::Relaxed);
                let (count, tls) = (Arc::clone(&count), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => play(stream, script).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                play(stream, script).await;
                            }
                        }
                    }
                    count.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        (port, connections)
    }

    /// A server that answers this many requests per connection, each with 200.
    async fn good(address: &str, requests: usize) -> (u16, Arc<Connections>) {
        server(address, None, vec![vec![vec![OK]; requests]]).await
    }

    /// A certificate for `hook.example`: a root store that trusts it, and an acceptor that presents it.
    fn certified() -> (rustls::RootCertStore, TlsAcceptor) {
        let certified = rcgen::generate_simple_self_signed(["hook.example".to_owned()]).expect("a certificate");
        let certificate: CertificateDer<'static> = certified.cert.der().clone();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a configuration");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).expect("a root");
        (roots, TlsAcceptor::from(Arc::new(config)))
    }

    #[tokio::test]
    async fn only_permitted_addresses_of_a_name_are_dialled() {
        let (port, permitted) = good("127.0.0.1:0", 1).await;
        let (_, refused) = good(&format!("127.0.0.2:{port}"), 1).await;
        let (client, _) = client_resolving(vec![vec!["127.0.0.2", "10.0.0.1", "127.0.0.1", "::1"]]);
        assert_eq!(post(&client, &format!("http://mixed.example:{port}/")).await, Outcome::Delivered(200));
        assert_eq!((permitted.all(), refused.all()), (1, 0));
    }

    #[tokio::test]
    async fn a_resolver_that_changes_its_answer_gains_nothing() {
        let (port, permitted) = good("127.0.0.1:0", 1).await;
        let (_, refused) = good(&format!("127.0.0.2:{port}"), 1).await;
        let (client, asked) = client_resolving(vec![vec!["127.0.0.1"], vec!["127.0.0.2"], vec![]]);
        let url = format!("http://rebinding.example:{port}/");
        assert_eq!(post(&client, &url).await, Outcome::Delivered(200));
        assert_eq!(asked.load(Ordering::Relaxed), 1, "there is no lookup between the check and the connection");
        assert_eq!(post(&client, &url).await, Outcome::Failed(Failure::Blocked));
        assert_eq!(post(&client, &url).await, Outcome::Failed(Failure::Dns));
        assert_eq!((permitted.all(), refused.all()), (1, 0));
    }

    #[tokio::test]
    async fn a_look_up_without_a_descriptor_does_not_count_as_an_attempt() {
        let lookup = |_| -> BoxFuture<'static, _> { Box::pin(async { Err(io::Error::from_raw_os_error(24)) }) };
        let client = client_with(Arc::new(lookup), rustls::RootCertStore::empty());
        assert_eq!(try_to_post(&client, "http://hook.example/").await, Err(NoDescriptor));
    }

    #[tokio::test]
    async fn a_connection_is_used_again() {
        let (port, connections) = good("127.0.0.1:0", 10).await;
        let client = client();
        for _ in 0..5 {
            assert_eq!(post(&client, &format!("http://127.0.0.1:{port}/")).await, Outcome::Delivered(200));
        }
        assert_eq!(connections.all(), 1);
    }

    #[tokio::test]
    async fn a_connection_is_used_again_after_a_failure() {
        let failure: &[u8] = b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\nno";
        let (port, connections) = server("127.0.0.1:0", None, vec![vec![vec![failure]; 9]]).await;
        let client = client();
        for _ in 0..5 {
            let outcome = post(&client, &format!("http://127.0.0.1:{port}/")).await;
            assert_eq!(outcome, Outcome::Failed(Failure::Status(500, None)));
        }
        assert_eq!(connections.all(), 1);
    }

    #[tokio::test]
    async fn open_connections_are_bounded_over_all_hosts() {
        let (port, connections) = good("127.0.0.1:0", 10).await;
        let client = client();
        let url = |host: usize| format!("http://host-{host}.example:{port}/");
        for host in 0..20 {
            assert_eq!(post(&client, &url(host)).await, Outcome::Delivered(200));
        }
        // Two concurrent attempts, with at most two sockets each.
        connections.open_at_most(4).await;
        // The most recently used connection is kept.
        assert_eq!(post(&client, &url(19)).await, Outcome::Delivered(200));
        assert_eq!(connections.all(), 20);
    }

    #[tokio::test]
    async fn an_attempt_that_is_cut_off_closes_its_connection() {
        let (port, connections) = server("127.0.0.1:0", None, vec![vec![vec![], vec![]]]).await;
        let client = client();
        let url = format!("http://127.0.0.1:{port}/");
        let attempt = tokio::time::timeout(Duration::from_millis(50), post(&client, &url));
        attempt.await.expect_err("nothing answers");
        assert_eq!(connections.all(), 1);
        connections.open_at_most(0).await;
    }

    #[tokio::test]
    async fn a_kept_connection_that_dies_unanswered_is_replaced() {
        let once: Script = vec![vec![OK], vec![]];
        let (port, connections) = server("127.0.0.1:0", None, vec![once]).await;
        let client = client();
        for connection in 1..=5 {
            assert_eq!(post(&client, &format!("http://127.0.0.1:{port}/")).await, Outcome::Delivered(200));
            assert_eq!(connections.all(), connection);
        }
    }

    #[tokio::test]
    async fn a_kept_connection_that_tls_closes_is_replaced_at_once() {
        let (roots, acceptor) = certified();
        let once: Script = vec![vec![OK], vec![]];
        let (port, connections) = server("127.0.0.1:0", Some(acceptor), vec![once]).await;
        let client = client_trusting(roots);
        for connection in 1..=3 {
            assert_eq!(post(&client, &format!("https://hook.example:{port}/")).await, Outcome::Delivered(200));
            assert_eq!(connections.all(), connection);
        }
    }

    #[tokio::test]
    async fn a_kept_connection_is_replaced_once_and_only_unanswered() {
        for (second, connections_made) in [(vec![], 2), (vec![b"HTTP/1.1 2".as_slice()], 1)] {
            let scripts = vec![vec![vec![OK], second], vec![vec![]]];
            let (port, connections) = server("127.0.0.1:0", None, scripts).await;
            let (client, url) = (client(), format!("http://127.0.0.1:{port}/"));
            assert_eq!(post(&client, &url).await, Outcome::Delivered(200));
            assert_eq!(post(&client, &url).await, Outcome::Failed(Failure::Protocol));
            assert_eq!(connections.all(), connections_made);
        }
    }

    #[tokio::test]
    async fn an_unrequested_response_ends_the_connection() {
        let twice: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let (port, connections) = server("127.0.0.1:0", None, vec![vec![vec![twice], vec![twice]]]).await;
        let (client, url) = (client(), format!("http://127.0.0.1:{port}/"));
        for connection in 1..=3 {
            assert_eq!(post(&client, &url).await, Outcome::Delivered(200));
            assert_eq!(connections.all(), connection);
        }
    }

    #[tokio::test]
    async fn a_few_interim_responses_pass_and_many_are_a_failure() {
        for (interim, outcome) in [(8, Outcome::Delivered(200)), (17, Outcome::Failed(Failure::Protocol))] {
            let mut answer: Vec<&[u8]> = vec![b"HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n"; interim];
            answer.push(OK);
            let (port, _) = server("127.0.0.1:0", None, vec![vec![answer]]).await;
            assert_eq!(post(&client(), &format!("http://127.0.0.1:{port}/")).await, outcome, "{interim}");
        }
    }

    #[tokio::test]
    async fn headers_in_tiny_pieces_are_a_failure() {
        // The same headers would be accepted in large pieces: they stay below the limit in bytes.
        let large: &[u8] = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(60_000)).leak().as_bytes();
        let mut answer = vec![large];
        answer.resize(60, b"x");
        answer.push(b"\r\ncontent-length: 0\r\n\r\n");
        let (port, _) = server("127.0.0.1:0", None, vec![vec![answer]]).await;
        let outcome = post(&client(), &format!("http://127.0.0.1:{port}/")).await;
        assert_eq!(outcome, Outcome::Failed(Failure::Protocol));
    }

    #[tokio::test]
    async fn a_url_is_requested_as_it_was_parsed() {
        let (port, _) = good("127.0.0.1:0", 1).await;
        let (client, asked) = client_resolving(vec![vec!["127.0.0.1"]]);
        let url = format!("http:\\\\b\u{fc}cher.example:{port}\\hook");
        assert_eq!(post(&client, &url).await, Outcome::Delivered(200));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn tls_is_spoken_with_a_trusted_receiver_of_that_name() {
        let (roots, acceptor) = certified();
        let (port, _) = server("127.0.0.1:0", Some(acceptor), vec![vec![vec![OK]]]).await;
        let client = client_trusting(roots);
        assert_eq!(post(&client, &format!("https://hook.example:{port}/")).await, Outcome::Delivered(200));
        let other_name = format!("https://other.example:{port}/");
        assert_eq!(post(&client, &other_name).await, Outcome::Failed(Failure::Tls));
    }
}
