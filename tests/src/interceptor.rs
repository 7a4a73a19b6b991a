//! A proxy in front of the tables that counts what is read, and answers some calls itself, with what the embedded
//! tables never do: lag or refuse.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, body::Body, extract::Request, response::Response};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// Given an operation and its body, returns a status and body, or `None` to pass the call on.
type Answer = dyn Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync;

/// A proxy in front of the tables. Dropping it stops it.
pub struct Interceptor {
    address: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    answer: Box<Answer>,
    behind: OnceLock<String>,
    http: reqwest::Client,
    calls: AtomicUsize,
    items_read: AtomicUsize,
}

impl Interceptor {
    /// Starts a proxy that asks `answer` about every call.
    pub async fn start(answer: impl Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let (calls, items_read) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared { answer: Box::new(answer), behind: OnceLock::new(), http, calls, items_read });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let handler = Arc::clone(&shared);
        let app = Router::new().fallback(move |request| async move { handler.handle(request).await });
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
        Self { address, shared, server }
    }

    /// The address of the proxy.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sets the address of the tables that calls are passed on to. It only exists once a world has started, which needs
    /// the address of the proxy first.
    pub fn stand_before(&self, behind: &str) {
        self.shared.behind.set(behind.to_owned()).expect("set once");
    }

    /// How many calls were passed on since this was last asked, and how many items they read, those included that a
    /// filter left out.
    #[must_use]
    pub fn counted(&self) -> (usize, usize) {
        (self.shared.calls.swap(0, Ordering::Relaxed), self.shared.items_read.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Interceptor {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    async fn handle(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
        let target = parts.headers["x-amz-target"].to_str().expect("a text").to_owned();
        let (_, operation) = target.split_once('.').expect("a service and an operation");
        let call = serde_json::from_slice(&body).expect("JSON");
        if let Some((status, answer)) = (self.answer)(operation, &call) {
            return Response::builder().status(status).body(Body::from(answer.to_string())).expect("a response");
        }
        let url = format!("{}{}", self.behind.get().expect("set"), parts.uri);
        let sent = self.http.request(parts.method, url).headers(parts.headers).body(body).send().await;
        let answer = sent.expect("an answer");
        let mut response = Response::builder().status(answer.status());
        *response.headers_mut().expect("headers") = answer.headers().clone();
        let body = answer.bytes().await.expect("a whole answer");
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.items_read.fetch_add(items_read(operation, &body), Ordering::Relaxed);
        response.body(Body::from(body)).expect("a response")
    }
}

/// How many items a call read.
fn items_read(operation: &str, answer: &[u8]) -> usize {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    match operation {
        "GetItem" => usize::from(answer["Item"].is_object()),
        "BatchGetItem" => {
            let tables = answer["Responses"].as_object().into_iter().flatten();
            tables.filter_map(|(_, items)| items.as_array()).map(Vec::len).sum()
        }
        _ => answer["ScannedCount"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
    }
}
