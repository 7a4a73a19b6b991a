//! A proxy in front of the tables or the queues that counts calls, and optionally makes some of them fail.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{Response, StatusCode},
};
use tokio::{net::TcpListener, task::JoinHandle};

/// This many of a hundred calls fail before they take effect, and as many after.
const LOST_CALLS: u64 = 10;
const LOST_ANSWERS: u64 = 10;

struct Shared {
    behind: String,
    faulty: bool,
    http: reqwest::Client,
    calls: AtomicU64,
}

/// A counting proxy. Dropping it stops it.
pub struct Proxy {
    shared: Arc<Shared>,
    address: String,
    server: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of the service at `behind` that passes every call on.
    pub async fn faithful(behind: &str) -> Self {
        Self::before(behind, false).await
    }

    /// Starts a proxy in front of the service at `behind` that makes a fifth of all calls fail: half of them before
    /// they take effect, half after.
    pub async fn faulty(behind: &str) -> Self {
        Self::before(behind, true).await
    }

    async fn before(behind: &str, faulty: bool) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let shared = Arc::new(Shared { behind: behind.to_owned(), faulty, http, calls: AtomicU64::new(0) });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let app = Router::new().fallback(forward).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
        Self { shared, address, server }
    }

    /// The address of the proxy.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response<axum::body::Body> {
    let draw = draw(shared.calls.fetch_add(1, Ordering::Relaxed));
    if shared.faulty && draw < LOST_CALLS {
        return failure();
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let url = format!("{}{}", shared.behind, parts.uri);
    let sent = shared.http.request(parts.method, url).headers(parts.headers).body(body).send().await;
    let Ok(answer) = sent else { return failure() };
    let (status, headers) = (answer.status(), answer.headers().clone());
    let Ok(body) = answer.bytes().await else { return failure() };
    if shared.faulty && draw < LOST_CALLS + LOST_ANSWERS { failure() } else { respond(status, headers, body) }
}

fn respond(status: StatusCode, headers: axum::http::HeaderMap, body: Bytes) -> Response<axum::body::Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn failure() -> Response<axum::body::Body> {
    respond(StatusCode::INTERNAL_SERVER_ERROR, axum::http::HeaderMap::new(), Bytes::new())
}

/// A number below 100 for each call, the same in every run (the finalizer of splitmix64).
fn draw(call: u64) -> u64 {
    let mut mixed = call.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % 100
}
