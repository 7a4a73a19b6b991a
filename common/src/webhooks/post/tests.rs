//! A client's posts over real connections.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures::future::BoxFuture;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex},
    net::TcpListener,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::webhooks::destination::SigningSecret;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A client for two concurrent attempts, which may dial 127.0.0.1 but no other loopback address.
fn client_with(lookup: Resolve, roots: rustls::RootCertStore) -> Client {
    client_for(2, lookup, roots)
}

fn client_for(attempts: usize, lookup: Resolve, roots: rustls::RootCertStore) -> Client {
    let policy = DestinationPolicy::new(true, vec!["127.0.0.1/32".parse().expect("a range")]);
    Client::new(
        policy,
        Duration::from_secs(2),
        attempts,
        tls(roots).expect("versions"),
        Network { lookup, ..Network::system() },
    )
}

/// Resolves every name to 127.0.0.1.
fn here() -> Resolve {
    Arc::new(|_| -> BoxFuture<'static, _> { Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) }) })
}

/// A client that resolves every name to 127.0.0.1.
fn client_trusting(roots: rustls::RootCertStore) -> Client {
    client_with(here(), roots)
}

/// A client that resolves every name to 127.0.0.1 and trusts no certificate.
fn client() -> Client {
    client_trusting(rustls::RootCertStore::empty())
}

/// A client whose resolver returns these responses in turn, and a count of the lookups.
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

async fn try_to_post(client: &Client, url: &str) -> Result<PostResult, NoDescriptor> {
    post_for(&TenantId::generate(), client, url).await
}

async fn post_for(tenant: &TenantId, client: &Client, url: &str) -> Result<PostResult, NoDescriptor> {
    let (url, secret) = (EndpointUrl::parse(url).expect("a URL"), SigningSecret::parse("s").expect("a secret"));
    let (keys, id) = ((&secret).into(), WebhookId::unique());
    let (event, event_at, body) = (EventName::Completed, Timestamp::now(), Bytes::from_static(b"{}"));
    let body = (&body, PayloadForm::Full);
    let content = Content { keys, headers: None, id, event, event_at, trace: None, body };
    client.post(Post { tenant, url: &url, content }, Timestamp::now()).await
}

async fn post(client: &Client, url: &str) -> Outcome {
    try_to_post(client, url).await.expect("there are descriptors").outcome
}

/// A server's behavior on a connection: it answers each request with the next response, sent in pieces, and then
/// closes.
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

    /// Waits until at most `most` connections are open.
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

/// A server that responds with 200 to this many requests per connection.
async fn good(address: &str, requests: usize) -> (u16, Arc<Connections>) {
    server(address, None, vec![vec![vec![OK]; requests]]).await
}

/// A root store that trusts a certificate for `hook.example`, and an acceptor that presents it.
fn certified() -> (rustls::RootCertStore, TlsAcceptor) {
    let (certificate, key) = self_signed(&CertificateParams::new(["hook.example".to_owned()]).expect("a name"));
    (trusting(&certificate), presenting(vec![certificate.der().clone()], &key))
}

fn self_signed(of: &CertificateParams) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().expect("a key");
    (of.self_signed(&key).expect("a certificate"), key)
}

fn trusting(certificate: &Certificate) -> rustls::RootCertStore {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a root");
    roots
}

fn presenting(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> TlsAcceptor {
    let builder = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = builder.with_no_client_auth().with_single_cert(chain, key).expect("a configuration");
    TlsAcceptor::from(Arc::new(config))
}

/// Returns why an attempt fails, with the detail.
async fn why(client: &Client, url: &str) -> (&'static str, String) {
    let posted = try_to_post(client, url).await.expect("there are descriptors");
    let Outcome::Failed(failure) = posted.outcome else { return ("delivered", String::new()) };
    (failure.reason(), posted.detail.map(|detail| detail.as_str().to_owned()).unwrap_or_default())
}

#[tokio::test]
async fn the_detail_of_a_413_names_the_size_of_the_body() {
    const TOO_LARGE: &[u8] = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (port, _) = server("127.0.0.1:0", None, vec![vec![vec![TOO_LARGE]]]).await;
    let posted = try_to_post(&client(), &format!("http://receiver.example:{port}/")).await.expect("an answer");
    assert_eq!(posted.outcome, Outcome::Failed(Failure::Status(413, None)));
    let detail = "The receiver accepts no body of this size (1 KB). Raise its limit for request bodies, or choose thin payloads for its endpoint";
    assert_eq!(posted.detail, Some(Detail::new(detail)));
}

#[tokio::test]
async fn a_burst_shares_the_connections_that_it_has_opened() {
    const POSTS: usize = 200;
    let (port, connections) = server("127.0.0.1:0", None, vec![vec![vec![OK]; POSTS]]).await;
    let client = client_for(POSTS, here(), rustls::RootCertStore::empty());
    let (tenant, url) = (TenantId::generate(), format!("http://receiver.example:{port}/"));
    let posts = futures::future::join_all((0..POSTS).map(|_| post_for(&tenant, &client, &url))).await;
    assert!(posts.into_iter().all(|post| post.expect("there are descriptors").outcome == Outcome::Delivered(200)));
    assert!(connections.all() < POSTS, "{} connections", connections.all());
}

#[tokio::test]
async fn only_permitted_addresses_of_a_name_are_dialed() {
    let (port, permitted) = good("127.0.0.1:0", 1).await;
    let (_, refused) = good(&format!("127.0.0.2:{port}"), 1).await;
    let (client, _) = client_resolving(vec![vec!["127.0.0.2", "10.0.0.1", "127.0.0.1", "::1"]]);
    assert_eq!(post(&client, &format!("http://mixed.example:{port}/")).await, Outcome::Delivered(200));
    assert_eq!((permitted.all(), refused.all()), (1, 0));
}

#[tokio::test]
async fn a_resolver_that_changes_its_response_gains_nothing() {
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
async fn a_lookup_without_a_descriptor_does_not_count_as_an_attempt() {
    let lookup = |_| -> BoxFuture<'static, _> { Box::pin(async { Err(io::Error::from_raw_os_error(24)) }) };
    let client = client_with(Arc::new(lookup), rustls::RootCertStore::empty());
    assert_eq!(try_to_post(&client, "http://hook.example/").await, Err(NoDescriptor));
}

#[tokio::test]
async fn a_connection_is_reused() {
    let (port, connections) = good("127.0.0.1:0", 10).await;
    let client = client();
    for _ in 0..5 {
        assert_eq!(post(&client, &format!("http://127.0.0.1:{port}/")).await, Outcome::Delivered(200));
    }
    assert_eq!(connections.all(), 1);
}

#[tokio::test]
async fn a_connection_is_reused_after_a_failure() {
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

/// A server whose first connection answers a request, waits, and then sends `late`, which an earlier request or an idle
/// connection caused. Later connections respond with 200.
async fn late(late: &'static [u8], after: Duration, requests: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let mut is_first = true;
        while let Ok((mut stream, _)) = listener.accept().await {
            let (requests, is_late) = (Arc::clone(&requests), std::mem::take(&mut is_first));
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while stream.read(&mut request).await.unwrap_or(0) > 0 {
                    requests.fetch_add(1, Ordering::Relaxed);
                    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("a write");
                    if is_late {
                        sleep(after).await;
                        stream.write_all(late).await.ok();
                    }
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn the_rest_of_an_earlier_response_repeats_the_request() {
    let timed_out: &[u8] = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for bytes in [b"ok", b"0\r\n\r\n".as_slice(), b"{\"ok\": true}", b"\r\nno", timed_out] {
        for (after, wait) in [(0, 0), (20, 10), (20, 19), (20, 20), (20, 21), (20, 40)] {
            let port = late(bytes, Duration::from_millis(after), Arc::default()).await;
            let (client, url) = (client(), format!("http://127.0.0.1:{port}/"));
            for _ in 0..3 {
                assert_eq!(post(&client, &url).await, Outcome::Delivered(204), "{bytes:?} {after} {wait}");
                sleep(Duration::from_millis(wait)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_gets_stray_bytes_is_repeated() {
    let timed_out: &[u8] = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    // Many frameworks answer with this status if a handler is too slow.
    let late_handler: &[u8] = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n";
    for (answer, outcome, connections_made) in [
        (b"ok".as_slice(), Outcome::Delivered(200), 2),
        (b"okHTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", Outcome::Delivered(200), 2),
        (b"\0\0\0", Outcome::Delivered(200), 2),
        (b"5\r\nhello\r\n0\r\n\r\n", Outcome::Delivered(200), 2),
        (timed_out, Outcome::Delivered(200), 2),
        (late_handler, Outcome::Failed(Failure::Status(408, None)), 1),
        (b"\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Outcome::Delivered(200), 1),
        (b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n", Outcome::Failed(Failure::Status(429, None)), 1),
        (b"HTTP/9", Outcome::Failed(Failure::Protocol), 1),
    ] {
        let scripts = vec![vec![vec![OK], vec![answer]], vec![vec![OK]]];
        let (port, connections) = server("127.0.0.1:0", None, scripts).await;
        let (client, url) = (client(), format!("http://127.0.0.1:{port}/"));
        assert_eq!(post(&client, &url).await, Outcome::Delivered(200));
        assert_eq!(post(&client, &url).await, outcome, "{answer:?}");
        assert_eq!(connections.all(), connections_made, "{answer:?}");
    }
    // On a new connection, the same answers count.
    for (answer, outcome) in [(b"ok".as_slice(), Failure::Protocol), (timed_out, Failure::Status(408, None))] {
        let (port, connections) = server("127.0.0.1:0", None, vec![vec![vec![answer]]]).await;
        assert_eq!(post(&client(), &format!("http://127.0.0.1:{port}/")).await, Outcome::Failed(outcome));
        assert_eq!(connections.all(), 1);
    }
}

/// A server at a free port that answers each connection with these bytes and, over TLS, closes without close_notify or,
/// if it `stays`, does not close.
async fn abrupt(tls: Option<TlsAcceptor>, answer: &'static [u8], stays: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let answer = async |stream: &mut dyn Stream| {
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            stream.write_all(answer).await.ok();
            stream.flush().await.ok();
            if stays {
                sleep(Duration::from_mins(1)).await;
            }
            read
        };
        while let Ok((mut tcp, _)) = listener.accept().await {
            match &tls {
                None => drop(answer(&mut tcp).await),
                Some(tls) => {
                    let mut tls = tls.accept(tcp).await.expect("a handshake");
                    answer(&mut tls).await;
                    // Only the TCP connection is shut down.
                    tls.get_mut().0.shutdown().await.ok();
                }
            }
        }
    });
    port
}

#[tokio::test]
async fn a_success_over_tls_may_end_without_close_notify() {
    for (answer, is_delivered) in [
        (b"HTTP/1.0 200 OK\r\n\r\nok".as_slice(), true),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok", true),
        (b"HTTP/1.1 202 Accepted\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nok", true),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok", true),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", false),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", false),
        (b"HTTP/1.1 200 OK\r\n", false),
    ] {
        let (roots, acceptor) = certified();
        let port = abrupt(Some(acceptor), answer, false).await;
        let why = why(&client_trusting(roots), &format!("https://hook.example:{port}/")).await;
        let expected = if is_delivered { ("delivered", "") } else { ("protocol", INCOMPLETE) };
        assert_eq!((why.0, why.1.as_str()), expected, "{:?}", str::from_utf8(answer));
    }
}

#[tokio::test]
async fn a_response_with_the_coding_identity_has_an_end() {
    for (answer, stays, outcome) in [
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\ncontent-length: 2\r\n\r\nok".as_slice(),
            true,
            "delivered",
        ),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: Identity\r\ncontent-length: 0\r\n\r\n", true, "delivered"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nok", false, "delivered"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\nok", true, "timeout"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\ncontent-length: 9\r\n\r\nok", true, "timeout"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity, chunked\r\n\r\n0\r\n\r\n", true, "delivered"),
        (b"HTTP/1.0 200 OK\r\ntransfer-encoding: identity\r\ncontent-length: 2\r\n\r\nok", true, "protocol"),
    ] {
        let port = abrupt(None, answer, stays).await;
        let why = why(&client(), &format!("http://127.0.0.1:{port}/")).await;
        assert_eq!(why.0, outcome, "{:?}", str::from_utf8(answer));
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
    // Sent in large pieces, the same headers would be accepted, because they are below the limit in bytes.
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

#[tokio::test]
async fn the_detail_names_the_fault_of_a_certificate() {
    let names = |names: &[&str]| {
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("names")
    };
    let mut authority = names(&[]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "An authority");
    let (authority_certificate, authority_key) = self_signed(&authority);
    let issuer = Issuer::new(authority.clone(), authority_key);
    let issued = |of: &CertificateParams| {
        let key = KeyPair::generate().expect("a key");
        (of.signed_by(&key, &issuer).expect("a certificate"), key)
    };
    let hook = names(&["hook.example"]);
    let mut expired = hook.clone();
    (expired.not_before, expired.not_after) = (date_time_ymd(2019, 1, 31), date_time_ymd(2020, 1, 31));
    let mut future = hook.clone();
    (future.not_before, future.not_after) = (date_time_ymd(4000, 1, 31), date_time_ymd(4001, 1, 31));
    let mut only_a_common_name = names(&[]);
    only_a_common_name.distinguished_name.push(DnType::CommonName, "hook.example");
    let mut own_authority = hook.clone();
    own_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let many = names(&["a.example", "*.b.example", "10.0.0.1", "d.example", "e.example"]);
    let mut address_as_a_name = names(&[]);
    let name = SanType::DnsName("127.0.0.1".to_owned().try_into().expect("ASCII"));
    address_as_a_name.subject_alt_names.push(name);
    let unknown_issuer = "The certificate's issuer is not a public authority, or the receiver does not send the \
                          intermediate certificate";
    let self_issued = "The certificate is self-signed";
    for ((certificate, key), sends_issuer, is_trusted, detail) in [
        (issued(&hook), false, true, ""),
        (issued(&expired), false, true, "The certificate expired on 2020-01-31 00:00:00 UTC"),
        (self_signed(&expired), false, false, "The certificate expired on 2020-01-31 00:00:00 UTC"),
        (issued(&future), false, true, "The certificate is not valid before 4000-01-31 00:00:00 UTC"),
        (
            issued(&names(&["other.example"])),
            false,
            true,
            "The certificate is not valid for the host name; it is valid for other.example",
        ),
        (
            issued(&many),
            false,
            true,
            "The certificate is not valid for the host name; it is valid for a.example, *.b.example, 10.0.0.1 and \
             2 more",
        ),
        (
            issued(&only_a_common_name),
            false,
            true,
            "The certificate has no subjectAltName, which must contain the host name",
        ),
        (self_signed(&hook), false, false, self_issued),
        (self_signed(&own_authority), false, false, self_issued),
        (issued(&hook), false, false, unknown_issuer),
        (issued(&hook), true, false, "The certificate was not issued by a public authority"),
        (
            issued(&address_as_a_name),
            false,
            true,
            "The certificate is not valid for the host name; it is valid for 127.0.0.1 as a name, not as an address",
        ),
    ] {
        let roots = if is_trusted { trusting(&authority_certificate) } else { rustls::RootCertStore::empty() };
        let mut chain = vec![certificate.der().clone()];
        chain.extend(sends_issuer.then(|| authority_certificate.der().clone()));
        let (port, _) = server("127.0.0.1:0", Some(presenting(chain, &key)), vec![vec![vec![OK]]]).await;
        let reason = if detail.is_empty() { "delivered" } else { "tls" };
        let why = why(&client_trusting(roots), &format!("https://hook.example:{port}/")).await;
        assert_eq!(why, (reason, detail.to_owned()));
    }
}

#[tokio::test]
async fn the_detail_names_a_wrong_or_unsupported_signature() {
    const ECDSA_WITH_SHA_2: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3];
    let (certificate, key) = self_signed(&CertificateParams::new(["hook.example".to_owned()]).expect("a name"));
    let der = certificate.der().to_vec();
    let mut wrong = der.clone();
    *wrong.last_mut().expect("a signature") ^= 1;
    let mut with_sha_512 = der.clone();
    for at in 0..der.len() - ECDSA_WITH_SHA_2.len() {
        if der[at..].starts_with(&ECDSA_WITH_SHA_2) {
            with_sha_512[at + ECDSA_WITH_SHA_2.len()] = 4;
        }
    }
    for (der, detail) in [
        (wrong, "A signature in the certificate chain is wrong, or an RSA key has fewer than 2048 bits"),
        (with_sha_512, "The certificate is signed with an algorithm that deliveries do not support"),
    ] {
        let acceptor = presenting(vec![der.into()], &key);
        let (port, _) = server("127.0.0.1:0", Some(acceptor), vec![vec![vec![OK]]]).await;
        let why = why(&client_trusting(trusting(&certificate)), &format!("https://hook.example:{port}/")).await;
        assert_eq!(why, ("tls", detail.to_owned()));
    }
}

#[tokio::test]
async fn the_detail_names_the_cause_of_a_failed_handshake() {
    const CIPHERS: &str = "The receiver supports none of the cipher suites, key exchanges and signatures that \
                           deliveries offer";
    const VERSIONS: &str = "The receiver supports neither TLS 1.2 nor TLS 1.3";
    const CLIENT: &str = "The receiver requires a client certificate, which deliveries do not present";
    const NO_TLS: &str = "The receiver does not speak TLS on this port";
    // An alert: its record, "fatal", and its number. The relevant part of a TLS 1.1 ServerHello.
    let hello_of_1_1 = [&[22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2][..], &[7; 32], &[0, 0xc0, 0x13, 0]].concat().leak();
    // The beginning of a message that is longer than 64 KiB.
    let long_message = [&[22, 3, 3, 0x40, 0, 2, 0, 0xff, 0xff][..], &[0; 0x4000 - 4]].concat().repeat(6).leak();
    for (bytes, reason, detail) in [
        (&[21, 3, 3, 0, 2, 2, 40][..], "tls", CIPHERS),
        (&[21, 3, 3, 0, 2, 2, 71], "tls", CIPHERS),
        (&[21, 3, 1, 0, 2, 2, 70], "tls", VERSIONS),
        (&*hello_of_1_1, "tls", VERSIONS),
        (&[21, 3, 3, 0, 2, 2, 120], "tls", HTTP_2),
        (&[21, 3, 3, 0, 2, 2, 112], "tls", "The receiver has no certificate for this host name"),
        (&[21, 3, 3, 0, 2, 2, 116], "tls", CLIENT),
        (&[21, 3, 3, 0, 2, 2, 80], "tls", "The receiver ended the TLS handshake with the alert InternalError"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "tls", NO_TLS),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "tls", NO_TLS),
        (b"220 mail.example ESMTP\r\n", "tls", NO_TLS),
        (b"", "connect", "The receiver closed the connection during the TLS handshake"),
        (&*long_message, "connect", "The TLS handshake exceeds 64 KiB"),
    ] {
        let (port, _) = server("127.0.0.1:0", None, vec![vec![vec![bytes]]]).await;
        let why = why(&client(), &format!("https://hook.example:{port}/")).await;
        assert_eq!(why, (reason, detail.to_owned()), "{bytes:?}");
    }
}

#[tokio::test]
async fn the_detail_mentions_a_requested_client_certificate() {
    let (certificate, key) = self_signed(&CertificateParams::new(["hook.example".to_owned()]).expect("a name"));
    for version in [&TLS12, &TLS13] {
        let acceptor = demanding(&certificate, &key, version);
        let (port, _) = server("127.0.0.1:0", Some(acceptor), vec![vec![vec![OK]]]).await;
        let why = why(&client_trusting(trusting(&certificate)), &format!("https://hook.example:{port}/")).await;
        let detail = "The receiver requires a client certificate, which deliveries do not present";
        assert_eq!(why, ("tls", detail.to_owned()), "{version:?}");
    }
}

/// OpenSSL rejects a client without a certificate with an alert that had other meanings before TLS 1.3.
#[tokio::test]
async fn a_general_alert_after_a_certificate_request_is_explained() {
    const REQUIRED: [u8; 7] = [21, 3, 3, 0, 2, 2, 116];
    let (certificate, key) = self_signed(&CertificateParams::new(["hook.example".to_owned()]).expect("a name"));
    let acceptor = demanding(&certificate, &key, &TLS12);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.expect("a connection");
        let ((mut from_client, mut to_client), (near, far)) = (client.into_split(), duplex(65_536));
        let (mut from_server, mut to_server) = tokio::io::split(near);
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        tokio::spawn(async move { acceptor.accept(far).await.err() });
        let mut piece = [0; 65_536];
        while let Ok(length @ 1..) = from_server.read(&mut piece).await {
            if piece[..length] == REQUIRED {
                piece[length - 1] = 40;
            }
            to_client.write_all(&piece[..length]).await.expect("the client reads");
        }
    });
    let why = why(&client_trusting(trusting(&certificate)), &format!("https://hook.example:{port}/")).await;
    assert_eq!(why.1, "The receiver requires a client certificate, which deliveries do not present");
}

/// An acceptor that requires a client certificate.
fn demanding(
    certificate: &Certificate,
    key: &KeyPair,
    version: &'static rustls::SupportedProtocolVersion,
) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(trusting(certificate).into(), provider.clone());
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = config
        .expect("versions")
        .with_client_cert_verifier(clients.build().expect("a verifier"))
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a configuration");
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn an_http_2_only_receiver_fails_at_once() {
    let (certificate, key) = self_signed(&CertificateParams::new(["hook.example".to_owned()]).expect("a name"));
    let mut config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
        .expect("a configuration");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (port, _) = server("127.0.0.1:0", Some(acceptor), vec![vec![vec![]]]).await;
    let why_of = async |url: String| why(&client_trusting(trusting(&certificate)), &url).await;
    assert_eq!(why_of(format!("https://hook.example:{port}/")).await, ("tls", HTTP_2.to_owned()));
    // Without TLS: SETTINGS, SETTINGS with six settings, and SETTINGS followed by GOAWAY.
    let settings: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let long = [&[0, 0, 36, 4, 0, 0, 0, 0, 0][..], &[1; 36]].concat();
    let go_away: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    for frames in [vec![settings], vec![&*long.leak()], vec![go_away], vec![settings, go_away]] {
        let (port, _) = server("127.0.0.1:0", None, vec![vec![frames]]).await;
        let why = why_of(format!("http://127.0.0.1:{port}/")).await;
        assert_eq!(why, ("protocol", HTTP_2.to_owned()));
    }
}

#[tokio::test]
async fn the_detail_explains_a_failed_connection() {
    for (text, detail) in [
        ("Name or service not known", "The host name does not exist"),
        ("nodename nor servname provided, or not known", "The host name does not exist"),
        ("No address associated with hostname", "The host name exists but has no IPv4 or IPv6 address"),
        ("Temporary failure in name resolution", "The host's name servers did not respond, or reported an error"),
    ] {
        let lookup = move |_| -> BoxFuture<'static, _> {
            Box::pin(async move { Err(io::Error::other(format!("failed to lookup address information: {text}"))) })
        };
        let client = client_with(Arc::new(lookup), rustls::RootCertStore::empty());
        assert_eq!(why(&client, "http://hook.example/").await, ("dns", detail.to_owned()));
    }
    for (kind, detail) in [
        (io::ErrorKind::ConnectionRefused, "The connection was refused"),
        (io::ErrorKind::ConnectionReset, "The connection was reset"),
        (io::ErrorKind::HostUnreachable, "The host is unreachable"),
        (io::ErrorKind::NetworkUnreachable, "The host's network is unreachable"),
        (io::ErrorKind::TimedOut, "No address of the host responded in time"),
    ] {
        let lookup: Resolve = Arc::new(|_| Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) }));
        let connect: Connect = Arc::new(move |_| Box::pin(async move { Err(kind.into()) }));
        let policy = DestinationPolicy::new(true, vec!["127.0.0.1/32".parse().expect("a range")]);
        let tls = tls(rustls::RootCertStore::empty()).expect("versions");
        let client = Client::new(policy, Duration::from_secs(2), 2, tls, Network { lookup, connect });
        assert_eq!(why(&client, "http://hook.example/").await, ("connect", detail.to_owned()));
    }
}

#[tokio::test]
async fn the_detail_names_the_cause_of_a_broken_exchange() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(70_000)).into_bytes().leak();
    let lines = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: 1\r\n".repeat(1_025)).into_bytes().leak();
    let no_http = "The response is not valid HTTP/1.1, or has more than 1,024 header lines";
    for (answer, reason, detail) in [
        (vec![], "protocol", "The receiver closed the connection without a response"),
        (vec![&b"HTTP/1.1 200"[..]], "protocol", INCOMPLETE),
        (vec![b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"], "protocol", INCOMPLETE),
        (
            vec![b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n"],
            "protocol",
            "The response body is not valid HTTP/1.1",
        ),
        (vec![b"220 mail.example ESMTP\r\n"], "protocol", no_http),
        (vec![&*lines], "protocol", no_http),
        (vec![&*long], "protocol", "The response headers exceed 64 KiB"),
    ] {
        let (port, _) = server("127.0.0.1:0", None, vec![vec![answer.clone()]]).await;
        let why = why(&client(), &format!("http://127.0.0.1:{port}/")).await;
        assert_eq!(why, (reason, detail.to_owned()), "{:?}", answer.first().map(|piece| &piece[..piece.len().min(60)]));
    }
}

#[tokio::test]
async fn the_detail_of_a_timeout_names_its_phase() {
    let hanging = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = hanging.local_addr().expect("an address").port();
    let (dripping, _) =
        server("127.0.0.1:0", None, vec![vec![vec![b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"], vec![]]]).await;
    let policy = DestinationPolicy::new(true, vec!["127.0.0.1/32".parse().expect("a range")]);
    let system = Network::system();
    let lookup: Resolve = Arc::new(|_| Box::pin(std::future::pending()));
    let tls = tls(rustls::RootCertStore::empty()).expect("versions");
    let network = Network { lookup, ..system };
    let client = Client::new(policy, Duration::from_millis(300), 2, tls, network);
    for (url, detail) in [
        ("http://hook.example/".to_owned(), "The name servers did not respond"),
        (format!("https://127.0.0.1:{port}/"), "The TLS handshake did not finish in time"),
        (format!("http://127.0.0.1:{port}/"), "The receiver accepted the connection but did not respond"),
        (format!("http://127.0.0.1:{dripping}/"), "The response did not finish in time"),
    ] {
        assert_eq!(why(&client, &url).await, ("timeout", detail.to_owned()), "{url}");
    }
}

#[tokio::test]
async fn the_detail_of_a_redirect_has_its_target_without_query() {
    const TO: &str = "The receiver redirected the request to ";
    for (location, detail) in [
        ("location: /elsewhere", "http://127.0.0.1:PORT/elsewhere"),
        ("location: https://example.com/a?token=secret#here", "https://example.com/a"),
        ("location: //ada:secret@example.com/", "http://example.com/"),
        ("location: ?token=secret", "http://127.0.0.1:PORT/hook"),
        ("location: /[2J\u{202e}\u{fc}", "http://127.0.0.1:PORT/[2J%E2%80%AE%C3%BC"),
        ("location: https://b\u{fc}cher.example/", "https://xn--bcher-kva.example/"),
        ("location: mailto:ada@example.com?subject=secret", "mailto:ada@example.com"),
        ("location: https://", "an invalid URL"),
        ("x: no location", ""),
    ] {
        let answer = format!("HTTP/1.1 308 Elsewhere\r\n{location}\r\ncontent-length: 0\r\n\r\n");
        let answer: &[u8] = answer.into_bytes().leak();
        let (port, _) = server("127.0.0.1:0", None, vec![vec![vec![answer]]]).await;
        let detail = detail.replace("PORT", &port.to_string());
        let detail = if detail.is_empty() { detail } else { format!("{TO}{detail}") };
        let why = why(&client(), &format!("http://127.0.0.1:{port}/hook?mine=secret")).await;
        assert_eq!(why, ("redirect", detail), "{location}");
    }
    let long = format!("HTTP/1.1 302 Found\r\nlocation: /{}\r\n\r\n", "x".repeat(9_000)).into_bytes().leak();
    let (port, _) = server("127.0.0.1:0", None, vec![vec![vec![&*long]]]).await;
    assert_eq!(why(&client(), &format!("http://127.0.0.1:{port}/")).await.1.len(), 240);
}

#[tokio::test]
async fn a_response_with_headers_of_real_servers_counts() {
    let lines = |number: usize| (0..number).map(|line| format!("x-{line}: 1\r\n")).collect::<String>();
    for (head, is_delivered) in [
        (format!("HTTP/1.1 200 OK\r\n{}", lines(101)), true),
        (format!("HTTP/1.1 200 OK\r\n{}", lines(1_020)), true),
        (format!("HTTP/1.1 200 OK\r\n{}", lines(1_030)), false),
        (format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "x".repeat(60_000)), true),
        ("HTTP/1.1 200 OK\r\nserver : spaced\r\n".to_owned(), true),
        ("HTTP/1.1 200 OK\r\nx-folded: one\r\n two\r\n\tthree\r\n".to_owned(), true),
        ("HTTP/1.1 200 OK\r\nx powered by: a shop\r\n".to_owned(), true),
        ("HTTP/1.1 200 OK\r\nx: \u{1}control\r\n".to_owned(), true),
        ("HTTP/1.1 200 OK\r\n: no name\r\n".to_owned(), true),
        ("HTTP/1.1 200\r\n".to_owned(), true),
        ("HTTP/1.1 200 \u{c4}OK\r\nx: \u{fc}\r\n".to_owned(), true),
        ("HTTP/1.0 200 OK\r\n".to_owned(), true),
        ("HTTP/1.1 200 OK\nserver: with line feeds\n".to_owned(), true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n".to_owned(), true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n".to_owned(), true),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\nConnection: close\r\n".to_owned(), true),
    ] {
        let body = if head.contains("chunked") { "0\r\n\r\n" } else { "" };
        // Two equal content lengths count as one.
        let length = if body.is_empty() { "content-length: 0\r\n" } else { "" };
        let answer: &[u8] = format!("{head}{length}\r\n{body}").into_bytes().leak();
        let (port, _) = server("127.0.0.1:0", None, vec![vec![vec![answer]]]).await;
        let outcome = post(&client(), &format!("http://127.0.0.1:{port}/")).await;
        let start = &head[..head.len().min(60)];
        assert_eq!(outcome == Outcome::Delivered(200), is_delivered, "{start:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_text_is_named_with_its_length() {
    let compressed: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
    for (headers, body, shown) in [
        ("content-encoding: gzip", compressed, "(gzip, 10 bytes)"),
        ("content-encoding: BR", b"\x8b\x02", "(BR, 2 bytes)"),
        ("content-encoding: deflate, gzip", compressed, "(deflate, gzip, 10 bytes)"),
        ("content-encoding: gzip", &[b'x'; 5_000], "(gzip, at least 1024 bytes)"),
        ("content-encoding: gzip", b"", ""),
        ("content-encoding: identity", b"plain", "plain"),
        ("content-encoding: ", b"plain", "plain"),
        ("content-type: image/png", b"\x89PNG\r\n\x1a\n\0", "(image/png, 9 bytes)"),
        ("x: no type", b"a\0", "(binary, 2 bytes)"),
        ("content-type: text/plain; charset=iso-8859-1", b"caf\xe9 noir", "caf\u{fffd} noir"),
    ] {
        let head = format!("HTTP/1.1 500 Oh\r\n{headers}\r\ncontent-length: {}\r\n\r\n", body.len());
        let answer: &[u8] = [head.as_bytes(), body].concat().leak();
        let (port, _) = server("127.0.0.1:0", None, vec![vec![vec![answer]]]).await;
        let posted = try_to_post(&client(), &format!("http://127.0.0.1:{port}/")).await.expect("a response");
        assert_eq!(posted.response.as_deref(), Some(shown), "{headers}");
    }
}
