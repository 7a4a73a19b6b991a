//! A webhook receiver on a loopback port: a real HTTP server that keeps what it gets.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::Mutex, task::JoinHandle, time::Instant};

/// One delivery, as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path and query of the request.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, to the byte.
    pub body: Bytes,
    /// When it had arrived.
    pub at: Instant,
}

impl Received {
    /// The header `name`; empty if it is not there.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }
}

/// What a receiver answers: a status and headers.
pub type Scripted = (u16, &'static [(&'static str, &'static str)]);

#[derive(Default)]
struct Shared {
    received: Vec<Received>,
    script: VecDeque<Scripted>,
}

/// A receiver. It answers by its script, and 200 once that is over.
pub struct Receiver {
    address: String,
    shared: Arc<Mutex<Shared>>,
    server: JoinHandle<()>,
}

impl Receiver {
    /// A receiver that answers 200.
    pub async fn start() -> Self {
        Self::scripted(&[]).await
    }

    /// A receiver that answers by `script` first.
    pub async fn scripted(script: &[Scripted]) -> Self {
        let shared = Arc::new(Mutex::new(Shared { script: script.iter().copied().collect(), received: Vec::new() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let app = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
        Self { address, shared, server }
    }

    /// A URL of the receiver.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it got so far.
    pub async fn received(&self) -> Vec<Received> {
        self.shared.lock().await.received.clone()
    }

    /// What it got, once that is `count` deliveries.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let received = self.received().await;
            if received.len() >= count {
                return received;
            }
            assert!(Instant::now() < deadline, "{} of {count} deliveries came", received.len());
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
    shared.received.push(Received { path, headers: parts.headers, body, at: Instant::now() });
    let (status, headers) = shared.script.pop_front().unwrap_or((200, &[]));
    let mut response = StatusCode::from_u16(status).expect("a status").into_response();
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().expect("a header value"));
    }
    response
}
