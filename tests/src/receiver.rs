//! A webhook receiver on a loopback port: a real HTTP server that records its requests.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use common::webhooks::destination::{SigningSecret, body_signature};
use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::{net::TcpListener, sync::Mutex, task::JoinHandle, time::Instant};

/// A received delivery.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path and query of the request.
    pub path: String,
    /// The headers of the request.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
    /// When the request had arrived completely.
    pub at: Instant,
}

impl Received {
    /// The header `name`, or an empty string if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Verifies the signature with the bytes of this secret. An invalid signature fails the test.
    pub fn verify(&self, secret: &str) {
        let webhook = Webhook::from_bytes(secret.as_bytes().to_vec()).expect("a key");
        webhook.verify(&self.body, &self.headers).expect("Standard Webhooks' own code verifies it");
        let secret = SigningSecret::parse(secret).expect("a secret");
        assert_eq!(self.header("x-webhook-signature"), body_signature(&secret, &self.body));
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }
}

/// A scripted response: a status and headers.
pub type Scripted = (u16, &'static [(&'static str, &'static str)]);

#[derive(Default)]
struct Shared {
    received: Vec<Received>,
    script: VecDeque<Scripted>,
}

/// A receiver with scripted responses, followed by 200. At `/echo`, the response body contains the request's headers.
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    server: JoinHandle<()>,
}

impl Receiver {
    /// Starts a receiver that responds with 200.
    pub async fn start() -> Self {
        Self::scripted(&[]).await
    }

    /// Starts a receiver that first gives the responses in `script`.
    pub async fn scripted(script: &[Scripted]) -> Self {
        Self::at([127, 0, 0, 1], script).await
    }

    /// Starts a receiver at every loopback address of this machine, which represents many hosts.
    pub async fn everywhere() -> Self {
        Self::at([0, 0, 0, 0], &[]).await
    }

    async fn at(address: [u8; 4], script: &[Scripted]) -> Self {
        let shared = Arc::new(Mutex::new(Shared { script: script.iter().copied().collect(), received: Vec::new() }));
        let listener = TcpListener::bind(SocketAddr::from((address, 0))).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let app = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
        Self { address, shared, server }
    }

    /// The URL of `path` on this receiver.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A URL on one of the hosts that the receiver represents.
    #[must_use]
    pub fn url_of_host(&self, host: Ipv4Addr) -> String {
        format!("http://{host}:{}/", self.address.port())
    }

    /// The requests received so far.
    pub async fn received(&self) -> Vec<Received> {
        self.shared.lock().await.received.clone()
    }

    /// The number of deliveries received so far.
    pub async fn count(&self) -> usize {
        self.shared.lock().await.received.len()
    }

    /// Waits for `count` requests, and returns all requests received.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let received = self.received().await;
            if received.len() >= count {
                return received;
            }
            assert!(Instant::now() < deadline, "{} of {count} deliveries arrived", received.len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(shared): State<Arc<Mutex<Shared>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut shared = shared.lock().await;
    let echo = if path == "/echo" { format!("{:?}", parts.headers) } else { String::new() };
    shared.received.push(Received { path, headers: parts.headers, body, at: Instant::now() });
    let (status, headers) = shared.script.pop_front().unwrap_or((200, &[]));
    let mut response = (StatusCode::from_u16(status).expect("a status"), echo).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().expect("a header value"));
    }
    response
}
