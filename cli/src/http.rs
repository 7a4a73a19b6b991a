//! The HTTP client for the service and for local programs. It does not follow redirects.

use std::{error::Error, fmt, io, net::SocketAddr, time::Duration};

use api::deliveries::Unanswered;
use reqwest::{
    Client, Method, Request, RequestBuilder, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderMap, RETRY_AFTER},
    redirect::Policy,
};

use crate::failure::Failure;

/// The largest part of an answer to a POST that is read, in bytes.
const LARGEST: usize = 64 << 10;
/// The largest part of a failed answer that the service stores, in bytes, and the time limit for it: the status matters more.
const KEPT: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends requests over pooled connections.
#[derive(Clone)]
pub(crate) struct Http(Client);

/// An answer of the service.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The value of `Retry-After`, if any.
    pub(crate) retry_after: Option<Duration>,
}

/// A program's answer to a POST.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) status: u16,
    /// The beginning of the body, unless the status is 2xx.
    pub(crate) response: Option<String>,
}

impl Http {
    /// Creates a client that keeps idle connections for `idle`.
    pub(crate) fn new(idle: Duration) -> Result<Self, Failure> {
        let _may_be_installed = rustls::crypto::ring::default_provider().install_default();
        let client = || {
            let client = Client::builder().redirect(Policy::none()).no_proxy().dns_resolver(Resolver);
            client.pool_idle_timeout(idle).pool_max_idle_per_host(16)
        };
        // Without root certificates on the machine, plain HTTP works anyway, and TLS reports the cause.
        let built = client().build().or_else(|_no_certificates| client().tls_certs_only([]).build());
        built.map(Self).map_err(|error| Failure::Local(format!("The HTTP client could not be built: {error}.")))
    }

    pub(crate) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.0.request(method, url)
    }

    async fn begin(&self, mut request: Request, timeout: Duration) -> Result<Response, Unanswered> {
        *request.timeout_mut() = Some(timeout);
        self.0.execute(request).await.map_err(|error| kind(&error))
    }

    /// Sends a request. An answer of more than `most` bytes is a failure.
    pub(crate) async fn send(&self, request: Request, most: usize, timeout: Duration) -> Result<Answer, Unanswered> {
        let mut response = self.begin(request, timeout).await?;
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| kind(&error))? {
            body.extend(part);
            if body.len() > most {
                return Err(Unanswered::Protocol);
            }
        }
        Ok(Answer { status: response.status().as_u16(), body, retry_after: retry_after(response.headers()) })
    }

    /// Sends a request by the rules of a delivery: a 2xx counts once its body is complete or exceeds the limit. Of other
    /// answers, the beginning is kept.
    pub(crate) async fn post(&self, request: Request, timeout: Duration) -> Result<Posted, Unanswered> {
        let mut response = self.begin(request, timeout).await?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            return Ok(Posted { status, response: Some(beginning(response).await) });
        }
        let mut left = LARGEST;
        while left > 0
            && let Some(part) = response.chunk().await.map_err(|error| kind(&error))?
        {
            left = left.saturating_sub(part.len());
        }
        Ok(Posted { status, response: None })
    }
}

/// The first bytes of a body as text, as far as they arrive in time.
async fn beginning(mut response: Response) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < KEPT
            && let Ok(Some(part)) = response.chunk().await
        {
            bytes.extend(part.into_iter().take(KEPT - bytes.len()));
        }
    };
    let _in_time = tokio::time::timeout(PATIENCE, read).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The seconds of a `Retry-After`. A date is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Resolves host names. Its own error tells a name without addresses from other failures to connect.
struct Resolver;

#[derive(Debug)]
struct NoAddress(io::Error);

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for NoAddress {}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(NoAddress)?;
            Ok(Box::new(found.collect::<Vec<SocketAddr>>().into_iter()) as Addrs)
        })
    }
}

/// The reason for a missing answer.
fn kind(error: &reqwest::Error) -> Unanswered {
    if error.is_timeout() {
        return Unanswered::Timeout;
    }
    if !error.is_connect() {
        return Unanswered::Protocol;
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<NoAddress>() {
            return Unanswered::Dns;
        }
        if error.downcast_ref().is_some_and(is_of_tls) {
            return Unanswered::Tls;
        }
        cause = error.source();
    }
    Unanswered::Connect
}

/// Whether the error is one of a TLS handshake. Only an open connection can end or be reset.
fn is_of_tls(error: &io::Error) -> bool {
    // An error within an error is not its source.
    let is_within =
        error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>() || inner.downcast_ref().is_some_and(is_of_tls));
    is_within || matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Posts to a program that answers with these bytes and closes the connection.
    async fn answered(answer: Vec<u8>) -> Result<Posted, Unanswered> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _head = stream.read(&mut [0; 4096]).await;
            let _gone = stream.write_all(&answer).await;
        });
        let http = Http::new(Duration::ZERO).expect("a client");
        http.post(http.request(Method::POST, &url).build().expect("a request"), Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn a_success_counts_however_long_its_answer_is() {
        let long = [b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec(), vec![b'x'; 1_000_000]].concat();
        assert_eq!(answered(long).await, Ok(Posted { status: 200, response: None }));
        let broken = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".to_vec();
        assert_eq!(answered(broken).await, Err(Unanswered::Protocol));
    }

    #[tokio::test]
    async fn failures_keep_their_beginning_and_redirects_stay() {
        let long = [b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n".to_vec(), vec![b'x'; 5_000]].concat();
        assert_eq!(answered(long).await, Ok(Posted { status: 302, response: Some("x".repeat(KEPT)) }));
        let broken = b"HTTP/1.1 500 Oh\r\ncontent-length: 9\r\n\r\nabc".to_vec();
        assert_eq!(answered(broken).await, Ok(Posted { status: 500, response: Some("abc".to_owned()) }));
        assert_eq!(answered(Vec::new()).await, Err(Unanswered::Protocol));
    }

    #[tokio::test]
    async fn each_reason_for_a_missing_answer_has_its_name() {
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
        let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (ends, silent) = (TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await);
        let (ends, silent) = (ends.expect("a port"), silent.expect("a port"));
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        let cases = [
            (format!("http://{closed}/"), Unanswered::Connect),
            // A label of 64 bytes has no address, and no resolver asks for it.
            (format!("http://{}/", "x".repeat(64)), Unanswered::Dns),
            (format!("https://localhost:{}/", port(&plain)), Unanswered::Tls),
            (format!("https://localhost:{}/", port(&ends)), Unanswered::Tls),
            (format!("http://127.0.0.1:{}/", port(&silent)), Unanswered::Timeout),
        ];
        tokio::spawn(async move {
            let (mut stream, _) = plain.accept().await.expect("a connection");
            let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        });
        tokio::spawn(async move { drop(ends.accept().await) });
        let http = Http::new(Duration::ZERO).expect("a client");
        for (url, expected) in cases {
            let request = http.request(Method::POST, &url).build().expect("a request");
            assert_eq!(http.post(request, Duration::from_secs(1)).await, Err(expected), "{url}");
        }
    }
}
