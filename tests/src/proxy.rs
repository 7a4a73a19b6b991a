//! A proxy between the functions and the tables or the queues. The proxy counts calls, measures their capacity, makes
//! calls fail, or simulates AWS behavior that the embedded services lack, such as a lag.

use std::{
    mem,
    ops::{Index, Range},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Response, StatusCode, header::CONTENT_LENGTH},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::plain_http;

/// The percentage of calls that fail before taking effect. The same percentage fails after taking effect.
const LOST_CALLS: u64 = 10;
const LOST_ANSWERS: u64 = 10;

/// The behavior of a proxy, in addition to counting and forwarding.
enum Manner {
    Faithful,
    Faulty,
    Metering,
    CutOff(Arc<CutOff>),
    Answering(Box<Answer>),
    Paging(Pages),
    Repeating,
}

/// How the tables mark that a statement has more results. The embedded tables answer all of a list at once.
#[derive(Clone, Copy, Debug)]
pub enum Pages {
    /// Ten elements of a list of keys at a time, with a `NextToken`
    /// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-operators.html>).
    OfTen,
    /// Ten items at a time, with a `NextToken`: the other meaning of the same sentence.
    OfTenItems,
    /// With a `LastEvaluatedKey` and no `NextToken`.
    OnlyKeys,
}

/// Returns a status and body, or `None` to forward the call.
type Answer = dyn Fn(&Call) -> Option<(u16, Value)> + Send + Sync;

/// A call to the tables or the queues, which dereferences to the fields in its body.
pub struct Call {
    /// The name of the calling function, which the local runner sets as the function's access key.
    pub function: String,
    /// The operation, such as `GetItem`.
    pub operation: String,
    /// The fields of the call.
    pub body: Value,
}

impl Call {
    fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let credential = header("authorization").split_once("Credential=").map_or("", |(_, credential)| credential);
        Self {
            function: credential.split('/').next().unwrap_or_default().to_owned(),
            operation: header("x-amz-target").split('.').nth(1).unwrap_or_default().to_owned(),
            body: serde_json::from_slice(body).expect("JSON"),
        }
    }
}

impl Index<&str> for Call {
    type Output = Value;

    fn index(&self, member: &str) -> &Value {
        &self.body[member]
    }
}

/// The calls that fail. Calls are numbered across all proxies that share this value. If all calls after some point
/// fail, the calling process appears to be dead.
#[derive(Debug, Default)]
pub struct CutOff(Mutex<Failing>);

#[derive(Debug, Default)]
struct Failing {
    /// The number of calls since the failing calls were chosen.
    calls: u64,
    fails: Range<u64>,
    /// Whether the first failing call takes effect, so only its response is lost.
    takes_effect: bool,
}

enum Fate {
    Succeeds,
    Fails,
    AnswerIsLost,
}

impl CutOff {
    /// Makes the calls with these numbers fail, counted from now. The first failing call may take effect.
    pub fn fail(&self, calls: Range<u64>, takes_effect: bool) {
        *self.failing() = Failing { calls: 0, fails: calls, takes_effect };
    }

    /// Whether a call has failed.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        let failing = self.failing();
        failing.calls > failing.fails.start
    }

    fn next(&self) -> Fate {
        let mut failing = self.failing();
        let call = failing.calls;
        failing.calls += 1;
        if !failing.fails.contains(&call) {
            Fate::Succeeds
        } else if call == failing.fails.start && failing.takes_effect {
            Fate::AnswerIsLost
        } else {
            Fate::Fails
        }
    }

    fn failing(&self) -> MutexGuard<'_, Failing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The capacity that calls to the tables have used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Units {
    /// Read units: one for 4 KB of a strongly consistent read.
    pub read: f64,
    /// Write units: one for 1 KB of an item, and of each index entry that changes.
    pub written: f64,
    /// The number of calls.
    pub calls: usize,
    /// The number of items read, including those that a filter removed.
    pub items: usize,
}

struct Shared {
    /// The service's address behind the proxy. The address of the tables is set later, because it is known only after
    /// the functions have started, and they need the proxy's address to start.
    behind: OnceLock<String>,
    manner: Manner,
    http: reqwest::Client,
    calls: AtomicU64,
    units: Mutex<Units>,
}

/// A counting proxy, which stops when dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    address: String,
    server: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of the service at `behind` that forwards every call.
    pub async fn faithful(behind: &str) -> Self {
        Self::start(Manner::Faithful).await.before(behind)
    }

    /// Starts a proxy in front of the service at `behind` that makes a fifth of all calls fail, half of them before and
    /// half after taking effect.
    pub async fn faulty(behind: &str) -> Self {
        Self::start(Manner::Faulty).await.before(behind)
    }

    /// Starts a proxy for tables that forwards every call and measures its capacity.
    pub async fn metering() -> Self {
        Self::start(Manner::Metering).await
    }

    /// Starts a proxy that makes the calls in `cut_off` fail.
    pub async fn cut_off(cut_off: &Arc<CutOff>) -> Self {
        Self::start(Manner::CutOff(Arc::clone(cut_off))).await
    }

    /// Starts a proxy for tables or queues that calls `answer` for every call.
    pub async fn answering(answer: impl Fn(&Call) -> Option<(u16, Value)> + Send + Sync + 'static) -> Self {
        Self::start(Manner::Answering(Box::new(answer))).await
    }

    /// Starts a proxy for tables that divides the results of statements into `pages`.
    pub async fn paging(pages: Pages) -> Self {
        Self::start(Manner::Paging(pages)).await
    }

    /// Starts a proxy for tables or queues that makes each write twice and returns the second response, like an SDK that
    /// repeats a call whose response was lost.
    pub async fn repeating() -> Self {
        Self::start(Manner::Repeating).await
    }

    async fn start(manner: Manner) -> Self {
        let http = plain_http().build().expect("a client");
        let (calls, units) = (AtomicU64::new(0), Mutex::default());
        let shared = Arc::new(Shared { behind: OnceLock::new(), manner, http, calls, units });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let app = Router::new().fallback(forward).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
        Self { shared, address, server }
    }

    /// Places this proxy in front of the service at `behind`.
    #[must_use]
    pub fn before(self, behind: &str) -> Self {
        self.shared.behind.set(behind.to_owned()).expect("set once");
        self
    }

    /// The proxy's address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// The capacity used since the last call, if the proxy measures it.
    #[must_use]
    pub fn units(&self) -> Units {
        mem::take(&mut self.shared.units.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let number = shared.calls.fetch_add(1, Ordering::Relaxed);
    let (mut parts, body) = request.into_parts();
    let mut body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut statement = None;
    let fate = match &shared.manner {
        Manner::Paging(pages) => {
            let target = parts.headers.get("x-amz-target");
            if target.is_some_and(|target| target.as_bytes().ends_with(b".ExecuteStatement")) {
                let read = Statement::read(*pages, &body);
                body = read.part();
                parts.headers.remove(CONTENT_LENGTH);
                statement = Some(read);
            }
            Fate::Succeeds
        }
        Manner::Faithful | Manner::Repeating => Fate::Succeeds,
        Manner::Faulty => match draw(number) {
            ..LOST_CALLS => Fate::Fails,
            draw if draw < LOST_CALLS + LOST_ANSWERS => Fate::AnswerIsLost,
            _ => Fate::Succeeds,
        },
        Manner::CutOff(cut_off) => cut_off.next(),
        Manner::Metering => {
            body = asking_for_capacity(&body);
            parts.headers.remove(CONTENT_LENGTH);
            Fate::Succeeds
        }
        Manner::Answering(answer) => {
            if let Some((status, body)) = answer(&Call::read(&parts.headers, &body)) {
                let status = StatusCode::from_u16(status).expect("a status");
                return respond(status, HeaderMap::new(), body.to_string().into());
            }
            Fate::Succeeds
        }
    };
    if matches!(fate, Fate::Fails) {
        return failure();
    }
    let url = format!("{}{}", shared.behind.get().expect("the proxy has a service behind it"), parts.uri);
    if matches!(shared.manner, Manner::Repeating) && is_write(&parts.headers) {
        let first = shared.http.request(parts.method.clone(), &url).headers(parts.headers.clone()).body(body.clone());
        // Its response is lost.
        drop(first.send().await);
    }
    let sent = shared.http.request(parts.method, url).headers(parts.headers.clone()).body(body).send().await;
    let Ok(answer) = sent else { return failure() };
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    let Ok(mut body) = answer.bytes().await else { return failure() };
    if let Some(statement) = statement {
        body = statement.page(&body);
        headers.remove(CONTENT_LENGTH);
        headers.remove("x-amz-crc32");
    }
    if matches!(shared.manner, Manner::Metering) {
        shared.meter(&parts.headers, &body);
    }
    if matches!(fate, Fate::AnswerIsLost) { failure() } else { respond(status, headers, body) }
}

/// Whether a call changes a table, or sends messages.
fn is_write(headers: &HeaderMap) -> bool {
    const WRITES: [&str; 7] = ["Put", "Update", "Delete", "BatchWrite", "BatchExecute", "Transact", "Send"];
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let operation = target.split_once('.').map_or("", |(_, operation)| operation);
    WRITES.iter().any(|write| operation.starts_with(write))
}

/// A statement `... IN [?, ...] AND ...` that is answered in pages.
struct Statement {
    pages: Pages,
    call: Value,
    /// The number of the part of the list, and the token of the tables within this part.
    part: usize,
    token: Option<String>,
}

impl Statement {
    fn read(pages: Pages, body: &[u8]) -> Self {
        let call: Value = serde_json::from_slice(body).expect("a call of a table");
        let token = call["NextToken"].as_str().unwrap_or("0 ");
        let (part, token) = token.split_once(' ').expect("the proxy's token");
        let token = Some(token.to_owned()).filter(|token| !token.is_empty());
        Self { pages, part: part.parse().expect("a number"), token, call }
    }

    /// The keys in the list, and the other parameters.
    fn parameters(&self) -> (&[Value], &[Value]) {
        let text = self.call["Statement"].as_str().expect("a statement");
        let (_, list) = text.split_once("IN [").expect("a list");
        let keys = list.split(']').next().expect("a list").matches('?').count();
        self.call["Parameters"].as_array().expect("parameters").split_at(keys)
    }

    /// The call for this part of the list.
    fn part(&self) -> Bytes {
        let mut call = self.call.clone();
        match self.pages {
            Pages::OnlyKeys => {}
            Pages::OfTenItems => call["Limit"] = json!(10),
            Pages::OfTen => {
                let (keys, others) = self.parameters();
                let part = keys.chunks(10).nth(self.part).expect("a part");
                let marks = |number: usize| format!("IN [{}]", vec!["?"; number].join(", "));
                let text = self.call["Statement"].as_str().expect("a statement");
                call["Statement"] = json!(text.replace(&marks(keys.len()), &marks(part.len())));
                call["Parameters"] = json!([part, others].concat());
            }
        }
        call["NextToken"] = json!(self.token);
        call.as_object_mut().expect("a call").retain(|_, value| !value.is_null());
        call.to_string().into()
    }

    /// The page for this answer.
    fn page(&self, answer: &[u8]) -> Bytes {
        let mut answer: Value = serde_json::from_slice(answer).expect("a response from a table");
        let more = answer["NextToken"].as_str().map(str::to_owned);
        let page = answer.as_object_mut().expect("a response");
        page.remove("NextToken");
        page.remove("LastEvaluatedKey");
        match self.pages {
            Pages::OnlyKeys if more.is_some() => {
                drop(page.insert("LastEvaluatedKey".to_owned(), json!({"key": {"S": "k"}})));
            }
            Pages::OfTen if more.is_some() || (self.part + 1) * 10 < self.parameters().0.len() => {
                let part = self.part + usize::from(more.is_none());
                page.insert("NextToken".to_owned(), json!(format!("{part} {}", more.unwrap_or_default())));
            }
            Pages::OfTenItems if more.is_some() => {
                page.insert("NextToken".to_owned(), json!(format!("0 {}", more.unwrap_or_default())));
            }
            Pages::OnlyKeys | Pages::OfTen | Pages::OfTenItems => {}
        }
        answer.to_string().into()
    }
}

/// The call to a table, changed to request the consumed capacity. (The embedded tables do not verify signatures.)
fn asking_for_capacity(body: &[u8]) -> Bytes {
    let mut call: Value = serde_json::from_slice(body).expect("a call of a table");
    call["ReturnConsumedCapacity"] = json!("TOTAL");
    call.to_string().into()
}

impl Shared {
    /// Adds the capacity stated in the response, for one table or for each table in the call.
    fn meter(&self, call: &HeaderMap, answer: &[u8]) {
        let answer: Value = serde_json::from_slice(answer).expect("a response from a table");
        let used = &answer["ConsumedCapacity"];
        let tables = used.as_array().map_or(std::slice::from_ref(used), Vec::as_slice);
        let used: f64 = tables.iter().filter_map(|table| table["CapacityUnits"].as_f64()).sum();
        let operation = call.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        let reads = ["GetItem", "Query", "Scan", ".ExecuteStatement"].iter().any(|read| operation.ends_with(read));
        *(if reads { &mut units.read } else { &mut units.written }) += used;
        units.calls += 1;
        // A GetItem, a BatchGetItem, a Query or Scan, or a statement that reads.
        let got = answer["Responses"].as_object().into_iter().flatten().filter_map(|(_, items)| items.as_array());
        let scanned = answer["ScannedCount"].as_u64().and_then(|count| usize::try_from(count).ok());
        units.items += usize::from(answer["Item"].is_object()) + got.map(Vec::len).sum::<usize>();
        units.items += answer["Items"].as_array().filter(|_| scanned.is_none()).map_or(0, Vec::len);
        units.items += scanned.unwrap_or_default();
    }
}

fn respond(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn failure() -> Response<Body> {
    respond(StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new(), Bytes::new())
}

/// Returns a number below 100 for each call, the same in every run (using the finalizer of SplitMix64).
fn draw(call: u64) -> u64 {
    let mut mixed = call.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % 100
}
