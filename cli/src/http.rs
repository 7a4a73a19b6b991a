//! The HTTP client for the service and for local programs. It does not follow redirects.

use std::{error::Error as _, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, Response,
    body::Incoming,
    header::{HeaderMap, RETRY_AFTER},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore};

/// The largest part of an answer to a POST that is read, in bytes.
const LARGEST: usize = 64 << 10;
/// The largest part of a failed answer that the service stores, in bytes, and the time limit for it: the status matters more.
const KEPT: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends requests over pooled connections.
#[derive(Clone)]
pub(crate) struct Http(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// An answer of the service.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
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

/// The reason for a missing answer, in the words of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    Timeout,
    Dns,
    Connect,
    Tls,
    Protocol,
}

impl NoAnswer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
        }
    }
}

impl Http {
    /// Creates a client that keeps idle connections for `idle`.
    pub(crate) fn new(idle: Duration) -> Self {
        // Without root certificates on the machine, plain HTTP works anyway, and TLS reports the cause.
        let https = HttpsConnectorBuilder::new().with_native_roots().unwrap_or_else(|_no_certificates| {
            let none = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            HttpsConnectorBuilder::new().with_tls_config(none.with_no_client_auth())
        });
        let connector = https.https_or_http().enable_http1().build();
        let mut client = Client::builder(TokioExecutor::new());
        Self(client.pool_timer(TokioTimer::new()).pool_idle_timeout(idle).pool_max_idle_per_host(16).build(connector))
    }

    /// Sends a request. An answer of more than `most` bytes is a failure.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        most: usize,
        timeout: Duration,
    ) -> Result<Answer, NoAnswer> {
        let exchange = async {
            let (head, body) = self.head(request).await?.into_parts();
            let body = Limited::new(body, most).collect().await.map_err(|_broken| NoAnswer::Protocol)?.to_bytes();
            Ok(Answer { status: head.status.as_u16(), body, retry_after: retry_after(&head.headers) })
        };
        tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(NoAnswer::Timeout))
    }

    /// Sends a request by the rules of a delivery: a 2xx counts once its body is complete or exceeds the limit. Of other
    /// answers, the beginning is kept.
    pub(crate) async fn post(&self, request: Request<Full<Bytes>>, timeout: Duration) -> Result<Posted, NoAnswer> {
        let exchange = async {
            let response = self.head(request).await?;
            let status = response.status().as_u16();
            let mut body = response.into_body();
            if (200..300).contains(&status) {
                let mut left = LARGEST;
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(|_broken| NoAnswer::Protocol)?;
                    left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                    if left == 0 {
                        break;
                    }
                }
                return Ok(Posted { status, response: None });
            }
            Ok(Posted { status, response: Some(beginning(body).await) })
        };
        tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(NoAnswer::Timeout))
    }

    async fn head(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, NoAnswer> {
        self.0.request(request).await.map_err(|error| kind(&error))
    }
}

/// The first bytes of a body as text, as far as they arrive in time.
async fn beginning(mut body: Incoming) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            let left = KEPT.saturating_sub(bytes.len());
            bytes.extend(frame.data_ref().into_iter().flatten().take(left));
            if bytes.len() == KEPT {
                break;
            }
        }
    };
    let _in_time = tokio::time::timeout(PATIENCE, read).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The seconds of a `Retry-After`. A date is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn kind(error: &hyper_util::client::legacy::Error) -> NoAnswer {
    if !error.is_connect() {
        return NoAnswer::Protocol;
    }
    let (mut cause, mut kind) = (error.source(), NoAnswer::Connect);
    while let Some(error) = cause {
        let text = error.to_string();
        if text.contains("dns error") {
            kind = NoAnswer::Dns;
        } else if text.contains("certificate") || text.contains("tls") || text.contains("handshake") {
            kind = NoAnswer::Tls;
        }
        cause = error.source();
    }
    kind
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Posts to a program that answers with these bytes and closes the connection.
    async fn answered(answer: Vec<u8>) -> Result<Posted, NoAnswer> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _head = stream.read(&mut [0; 4096]).await;
            let _gone = stream.write_all(&answer).await;
        });
        let request = Request::post(url).body(Full::default()).expect("a request");
        Http::new(Duration::ZERO).post(request, Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn a_success_counts_however_long_its_answer_is() {
        let long = [b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec(), vec![b'x'; 1_000_000]].concat();
        assert_eq!(answered(long).await, Ok(Posted { status: 200, response: None }));
        let broken = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".to_vec();
        assert_eq!(answered(broken).await, Err(NoAnswer::Protocol));
    }

    #[tokio::test]
    async fn failures_keep_their_beginning_and_redirects_stay() {
        let long = [b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n".to_vec(), vec![b'x'; 5_000]].concat();
        assert_eq!(answered(long).await, Ok(Posted { status: 302, response: Some("x".repeat(KEPT)) }));
        let broken = b"HTTP/1.1 500 Oh\r\ncontent-length: 9\r\n\r\nabc".to_vec();
        assert_eq!(answered(broken).await, Ok(Posted { status: 500, response: Some("abc".to_owned()) }));
        assert_eq!(answered(Vec::new()).await, Err(NoAnswer::Protocol));
    }
}
