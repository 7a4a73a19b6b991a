//! A proxy in front of the tables or the queues that counts calls, and optionally makes some of them fail, or measures
//! the capacity that they use.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, Response, StatusCode, header::CONTENT_LENGTH},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// This many of a hundred calls fail before they take effect, and as many after.
const LOST_CALLS: u64 = 10;
const LOST_ANSWERS: u64 = 10;

/// What a proxy does besides counting and passing on.
#[derive(Clone, PartialEq, Eq)]
enum Manner {
    Faithful,
    Faulty,
    Metering,
    CutOff(Arc<CutOff>),
}

/// A point from which on all calls fail, counted over all proxies that share it: as far as others can see, the process
/// that makes these calls dies there.
#[derive(Debug)]
pub struct CutOff {
    calls: AtomicU64,
    /// The number of the first call that fails, and of the first after it that would succeed again.
    fails: Range<u64>,
    /// Whether the first call that fails takes effect: then only its answer is lost.
    takes_effect: bool,
}

impl CutOff {
    /// The calls with these numbers fail; the first may take effect.
    #[must_use]
    pub fn new(fails: Range<u64>, takes_effect: bool) -> Arc<Self> {
        Arc::new(Self { calls: AtomicU64::new(0), fails, takes_effect })
    }

    /// Whether the point has been reached.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > self.fails.start
    }
}

impl PartialEq for CutOff {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for CutOff {}

/// DynamoDB's capacity units, which are what its on-demand tables are paid by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Units {
    /// Read units: one for 4 KB read consistently.
    pub read: f64,
    /// Write units: one for 1 KB of an item, and of its entry in an index where that changes.
    pub written: f64,
}

struct Shared {
    behind: String,
    manner: Manner,
    http: reqwest::Client,
    calls: AtomicU64,
    units: Mutex<Units>,
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
        Self::before(behind, Manner::Faithful).await
    }

    /// Starts a proxy in front of the service at `behind` that makes a fifth of all calls fail: half of them before
    /// they take effect, half after.
    pub async fn faulty(behind: &str) -> Self {
        Self::before(behind, Manner::Faulty).await
    }

    /// Starts a proxy in front of the tables at `behind` that passes every call on, and asks what capacity it used.
    pub async fn metering(behind: &str) -> Self {
        Self::before(behind, Manner::Metering).await
    }

    /// Starts a proxy in front of the service at `behind`, all of whose calls fail from some point on.
    pub async fn cut_off(behind: &str, cut_off: &Arc<CutOff>) -> Self {
        Self::before(behind, Manner::CutOff(Arc::clone(cut_off))).await
    }

    async fn before(behind: &str, manner: Manner) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let (calls, units) = (AtomicU64::new(0), Mutex::default());
        let shared = Arc::new(Shared { behind: behind.to_owned(), manner, http, calls, units });
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

    /// The capacity used so far, if the proxy measures it.
    #[must_use]
    pub fn units(&self) -> Units {
        *self.shared.units.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response<axum::body::Body> {
    let (draw, faulty) = (draw(shared.calls.fetch_add(1, Ordering::Relaxed)), shared.manner == Manner::Faulty);
    let mut is_lost = faulty && (LOST_CALLS..LOST_CALLS + LOST_ANSWERS).contains(&draw);
    if faulty && draw < LOST_CALLS {
        return failure();
    }
    if let Manner::CutOff(cut_off) = &shared.manner {
        let call = cut_off.calls.fetch_add(1, Ordering::SeqCst);
        is_lost = cut_off.fails.contains(&call);
        if is_lost && !(call == cut_off.fails.start && cut_off.takes_effect) {
            return failure();
        }
    }
    let (mut parts, body) = request.into_parts();
    let mut body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    if shared.manner == Manner::Metering {
        body = asking_for_capacity(&body);
        parts.headers.remove(CONTENT_LENGTH);
    }
    let url = format!("{}{}", shared.behind, parts.uri);
    let sent = shared.http.request(parts.method, url).headers(parts.headers.clone()).body(body).send().await;
    let Ok(answer) = sent else { return failure() };
    let (status, headers) = (answer.status(), answer.headers().clone());
    let Ok(body) = answer.bytes().await else { return failure() };
    if shared.manner == Manner::Metering {
        shared.meter(&parts.headers, &body);
    }
    if is_lost { failure() } else { respond(status, headers, body) }
}

/// The call of a table, with the question what it uses. The embedded tables do not verify signatures.
fn asking_for_capacity(body: &[u8]) -> Bytes {
    let mut call: Value = serde_json::from_slice(body).expect("a call of a table");
    call["ReturnConsumedCapacity"] = json!("TOTAL");
    call.to_string().into()
}

impl Shared {
    /// Adds what the answer says that the call used: for its table, or for each of its tables.
    fn meter(&self, call: &HeaderMap, answer: &[u8]) {
        let answer: Value = serde_json::from_slice(answer).expect("an answer of a table");
        let used = &answer["ConsumedCapacity"];
        let tables = used.as_array().map_or(std::slice::from_ref(used), Vec::as_slice);
        let used: f64 = tables.iter().filter_map(|table| table["CapacityUnits"].as_f64()).sum();
        let operation = call.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        let reads = ["GetItem", "Query", "Scan"].iter().any(|read| operation.ends_with(read));
        *(if reads { &mut units.read } else { &mut units.written }) += used;
    }
}

fn respond(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<axum::body::Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn failure() -> Response<axum::body::Body> {
    respond(StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new(), Bytes::new())
}

/// A number below 100 for each call, the same in every run (the finalizer of splitmix64).
fn draw(call: u64) -> u64 {
    let mut mixed = call.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % 100
}
