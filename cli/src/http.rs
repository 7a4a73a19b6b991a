//! The HTTP client for the service and for local programs. It does not follow redirects.

use std::{
    env,
    error::Error,
    fmt, fs, io,
    net::SocketAddr,
    path::Path,
    time::{Duration, SystemTime},
};

use api::deliveries::Unanswered;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::{
    Certificate, Client, Method, Request, RequestBuilder, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{DATE, HeaderMap, RETRY_AFTER},
    redirect::Policy,
};
use url::Url;

use crate::{address::is_loopback, failure::Failure, terminal::shown};

/// Returns the version and the platform. The service shows them to users who approve a login.
pub(crate) fn user_agent() -> String {
    format!("fanfare/{} ({} {})", env!("CARGO_PKG_VERSION"), env::consts::OS, env::consts::ARCH)
}

/// The maximum number of bytes to read from the response to a POST.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// The number of bytes that the service stores from a failed response, and the time limit for reading them, which is
/// short because the status matters more.
const STORED_RESPONSE_BYTES: usize = 1024;
const FAILED_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An HTTP client with pooled connections.
#[derive(Clone)]
pub(crate) struct Http(Client);

/// A response from the service.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The value of `Retry-After`, if any.
    pub(crate) retry_after: Option<Duration>,
    /// The value of `Date`, if any, which shows the service's clock.
    pub(crate) date: Option<SystemTime>,
}

/// A missing response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) why: Unanswered,
    /// Whether no program listens at the address.
    pub(crate) is_refused: bool,
    /// A description of the cause.
    pub(crate) cause: String,
}

/// A program's response to a POST.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProgramResponse {
    pub(crate) status: u16,
    /// The beginning of the body, unless the status is 2xx.
    pub(crate) response: Option<String>,
}

/// The network settings from the environment and the command line.
#[derive(Clone, Default)]
pub(crate) struct NetworkSettings {
    /// Certificates that are trusted in addition to the system's certificates.
    trusted: Vec<Certificate>,
}

impl NetworkSettings {
    /// Reads the certificates in `cacert`. On systems other than Linux, also reads those in `SSL_CERT_FILE`, which add
    /// to the system's store; on Linux, the variable replaces the system's certificates.
    pub(crate) fn load(cacert: Option<&Path>) -> Result<Self, Failure> {
        let mut trusted = Vec::new();
        if let Some(file) = cacert {
            trusted.extend(certificates(file)?);
        }
        if let Some(file) = env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty() && !cfg!(target_os = "linux")) {
            trusted.extend(certificates(Path::new(&file))?);
        }
        Ok(Self { trusted })
    }

    /// Builds a client for `url`. It uses the proxy from the environment, except for addresses on this machine, and
    /// keeps idle connections for `idle`.
    pub(crate) fn client(&self, url: &Url, idle: Duration) -> Result<Http, Failure> {
        match malformed_proxy(url) {
            None => self.built(idle, !is_loopback(url), false),
            Some(name) => Err(Failure::local(format!("{name} is not the address of a proxy."))
                .hint("Set it to http://HOST:PORT or socks5h://HOST:PORT, or unset it.")),
        }
    }

    /// Builds a client for a local program, without a proxy. If `is_insecure`, it accepts any certificate.
    pub(crate) fn client_of_program(&self, is_insecure: bool, idle: Duration) -> Result<Http, Failure> {
        self.built(idle, false, is_insecure)
    }

    fn built(&self, idle: Duration, has_proxies: bool, is_insecure: bool) -> Result<Http, Failure> {
        let _may_be_installed = rustls::crypto::ring::default_provider().install_default();
        let client = || {
            let client = Client::builder().redirect(Policy::none()).dns_resolver(Resolver).user_agent(user_agent());
            let client = client.pool_idle_timeout(idle).pool_max_idle_per_host(16);
            let client = client.tls_danger_accept_invalid_certs(is_insecure);
            if has_proxies { client } else { client.no_proxy() }
        };
        let built = client().tls_certs_merge(self.trusted.clone()).build();
        // If the machine has no root certificates, plain HTTP still works, and TLS reports the cause.
        let built = built.or_else(|_no_certificates| client().tls_certs_only(self.trusted.clone()).build());
        built.map(Http).map_err(|error| {
            let cause = shown(&innermost(&error));
            Failure::local(format!("The HTTP client could not be built: {cause}."))
        })
    }
}

/// Reads the certificates in a PEM file.
fn certificates(file: &Path) -> Result<Vec<Certificate>, Failure> {
    let text = fs::read(file).map_err(|error| Failure::of_file(file, &error))?;
    let found = Certificate::from_pem_bundle(&text).unwrap_or_default();
    match found.is_empty() {
        true => Err(Failure::local(format!("{} contains no PEM certificate.", shown(&file.display().to_string())))),
        false => Ok(found),
    }
}

/// Returns the environment's proxy for an address, without the proxy's credentials.
pub(crate) fn proxy_for(url: &Url) -> Option<String> {
    let proxy = intercept(&Matcher::from_system(), url).filter(|_| !is_loopback(url))?;
    Some(shown(proxy.uri().to_string().trim_end_matches('/')))
}

fn intercept(proxies: &Matcher, url: &Url) -> Option<Intercept> {
    proxies.intercept(&url.as_str().parse().ok()?)
}

/// Returns the variable with a malformed proxy for an address, if there is no other proxy. `reqwest` ignores such a
/// variable, so keys and events would leave the machine without the proxy.
fn malformed_proxy(url: &Url) -> Option<&'static str> {
    let excluded = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| env::var(name).ok()).unwrap_or_default();
    let is_excluded = intercept(&Matcher::builder().all("http://proxy").no(excluded).build(), url).is_none();
    if is_excluded || is_loopback(url) || proxy_for(url).is_some() {
        return None;
    }
    let names = if url.scheme() == "https" { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let is_malformed = |name: &&str| {
        let value = env::var_os(name).unwrap_or_default();
        let proxies = || value.to_str().map(|value| Matcher::builder().all(value).build());
        !value.is_empty() && proxies().is_none_or(|proxies| intercept(&proxies, url).is_none())
    };
    names.into_iter().chain(["ALL_PROXY", "all_proxy"]).find(is_malformed)
}

impl Http {
    pub(crate) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        self.0.request(method, url)
    }

    async fn begin(&self, mut request: Request, timeout: Duration) -> Result<Response, Missing> {
        *request.timeout_mut() = Some(timeout);
        self.0.execute(request).await.map_err(|error| missing(&error))
    }

    /// Sends a request. Fails if the response has more than `most` bytes.
    pub(crate) async fn send(&self, request: Request, most: usize, timeout: Duration) -> Result<HttpResponse, Missing> {
        let mut response = self.begin(request, timeout).await?;
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| missing(&error))? {
            body.extend(part);
            if body.len() > most {
                let cause = "the response is too long".to_owned();
                return Err(Missing { why: Unanswered::Protocol, is_refused: false, cause });
            }
        }
        let (status, headers) = (response.status().as_u16(), response.headers());
        Ok(HttpResponse { status, retry_after: retry_after(headers), date: date(headers), body })
    }

    /// Sends a request by the rules for deliveries: a 2xx counts as soon as its body is complete or exceeds the limit,
    /// and the beginning of any other response is kept.
    pub(crate) async fn post(&self, request: Request, timeout: Duration) -> Result<ProgramResponse, Missing> {
        let mut response = self.begin(request, timeout).await?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            return Ok(ProgramResponse { status, response: Some(beginning(response).await) });
        }
        let mut left = MAX_RESPONSE_BYTES;
        while left > 0
            && let Some(part) = response.chunk().await.map_err(|error| missing(&error))?
        {
            left = left.saturating_sub(part.len());
        }
        Ok(ProgramResponse { status, response: None })
    }
}

/// Reads as much of the beginning of a body as arrives in time, as text.
async fn beginning(mut response: Response) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < STORED_RESPONSE_BYTES
            && let Ok(Some(part)) = response.chunk().await
        {
            bytes.extend(part.into_iter().take(STORED_RESPONSE_BYTES - bytes.len()));
        }
    };
    let _in_time = tokio::time::timeout(FAILED_RESPONSE_TIMEOUT, read).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses a `Retry-After` in seconds. Dates are ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn date(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// Resolves host names. Its error type distinguishes names without addresses from other connection failures.
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

fn missing(error: &reqwest::Error) -> Missing {
    let why = kind(error);
    let is_refused = sources(error).any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    });
    let cause = match why {
        Unanswered::Timeout => "no response in time".to_owned(),
        Unanswered::Dns => "the host name has no address".to_owned(),
        _ if is_refused => "connection refused".to_owned(),
        _ => innermost(error),
    };
    Missing { why, is_refused, cause }
}

fn sources<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| (*cause).source())
}

/// Returns the innermost cause of an error, as text.
fn innermost(error: &reqwest::Error) -> String {
    let text = sources(error).last().map_or_else(|| error.to_string(), ToString::to_string);
    text.split(" (os error").next().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// Returns the reason for a missing response.
fn kind(error: &reqwest::Error) -> Unanswered {
    if error.is_timeout() {
        return Unanswered::Timeout;
    }
    if !error.is_connect() {
        return Unanswered::Protocol;
    }
    for cause in sources(error) {
        if cause.is::<NoAddress>() {
            return Unanswered::Dns;
        }
        if cause.downcast_ref().is_some_and(is_of_tls) {
            return Unanswered::Tls;
        }
    }
    Unanswered::Connect
}

/// Whether the error occurred during a TLS handshake. Only an open connection can end or be reset.
fn is_of_tls(error: &io::Error) -> bool {
    // `source` does not return the error inside an `io::Error`, so `get_ref` is needed.
    let is_within =
        error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>() || inner.downcast_ref().is_some_and(is_of_tls));
    is_within || matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use ::tests::RefusingPort;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Posts to a program that answers with these bytes and closes the connection.
    async fn answered(answer: Vec<u8>) -> Result<ProgramResponse, Unanswered> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _head = stream.read(&mut [0; 4096]).await;
            let _gone = stream.write_all(&answer).await;
        });
        posted(&url, Duration::from_secs(5)).await
    }

    async fn posted(url: &str, timeout: Duration) -> Result<ProgramResponse, Unanswered> {
        let http = NetworkSettings::default().client_of_program(false, Duration::ZERO).expect("a client");
        let request = http.request(Method::POST, url).build().expect("a request");
        http.post(request, timeout).await.map_err(|missing| missing.why)
    }

    #[tokio::test]
    async fn a_success_counts_regardless_of_the_length_of_its_body() {
        let long = [b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec(), vec![b'x'; 1_000_000]].concat();
        assert_eq!(answered(long).await, Ok(ProgramResponse { status: 200, response: None }));
        let broken = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".to_vec();
        assert_eq!(answered(broken).await, Err(Unanswered::Protocol));
    }

    #[tokio::test]
    async fn failures_keep_their_beginning_and_redirects_stay() {
        let long = [b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n".to_vec(), vec![b'x'; 5_000]].concat();
        assert_eq!(
            answered(long).await,
            Ok(ProgramResponse { status: 302, response: Some("x".repeat(STORED_RESPONSE_BYTES)) })
        );
        let broken = b"HTTP/1.1 500 Oh\r\ncontent-length: 9\r\n\r\nabc".to_vec();
        assert_eq!(answered(broken).await, Ok(ProgramResponse { status: 500, response: Some("abc".to_owned()) }));
        assert_eq!(answered(Vec::new()).await, Err(Unanswered::Protocol));
    }

    #[tokio::test]
    async fn each_reason_for_a_missing_response_has_its_name() {
        let refusing = RefusingPort::new();
        let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (ends, silent) = (TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await);
        let (ends, silent) = (ends.expect("a port"), silent.expect("a port"));
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        let cases = [
            (format!("http://{}/", refusing.address()), Unanswered::Connect),
            // A DNS label is limited to 63 bytes, so resolvers reject this name without a query.
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
        for (url, expected) in cases {
            assert_eq!(posted(&url, Duration::from_secs(1)).await, Err(expected), "{url}");
        }
    }
}
