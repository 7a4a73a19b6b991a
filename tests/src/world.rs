//! The service on loopback ports, with methods for the actions of tests.

use std::{collections::HashMap, sync::atomic::AtomicBool};

use common::timestamp::Timestamp;
use local::{Data, Options, Stack};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::{Proxy, description, plain_http};

pub mod faults;
pub mod log;
pub mod people;
pub mod queues;
pub mod tables;

/// The running service and an HTTP client for it.
pub struct World {
    /// The running service.
    pub stack: Stack,
    /// The HTTP client.
    pub http: reqwest::Client,
    /// The proxies in front of the tables and the queues, if any.
    proxies: Vec<Proxy>,
    started: Timestamp,
    /// Whether the first sweep has begun.
    is_swept: AtomicBool,
}

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON, or else as a string.
    pub body: Value,
}

impl Answer {
    /// The contents of the envelope.
    #[must_use]
    pub fn json(&self) -> &Value {
        self.body.get("json").unwrap_or(&Value::Null)
    }

    /// The contents of the envelope in a 200 response. Any other response fails the test.
    pub fn ok(&self) -> &Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    /// Status, code and reason of an error in the envelope.
    #[must_use]
    pub fn error(&self) -> (u16, &str, &str) {
        let error = self.json();
        assert_eq!(error["status"], self.status, "{}", self.body);
        (self.status, error["code"].as_str().unwrap_or_default(), error["data"]["reason"].as_str().unwrap_or_default())
    }

    /// Status and code of an error from `/api/auth`.
    #[must_use]
    pub fn refused(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> &str {
        self.body.as_str().expect("a page")
    }

    /// The field and code of every issue.
    #[must_use]
    pub fn issues(&self) -> Vec<(&str, &str)> {
        let issues = self.json()["data"]["issues"].as_array().expect("issues");
        issues
            .iter()
            .map(|issue| (issue["path"][0].as_str().unwrap_or_default(), issue["code"].as_str().unwrap_or_default()))
            .collect()
    }
}

/// A user who has signed up, verified the email address and created a key, with the user's organization.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The organization's id.
    pub id: String,
    /// The organization's slug.
    pub slug: String,
    /// The id of the user who signed up.
    pub user: String,
    /// The user's email.
    pub email: String,
    /// The session cookie, as a `cookie` header.
    pub cookie: String,
    /// The API key.
    pub key: String,
}

/// Passwords are hashed cheaply in tests.
const SETTINGS: [(&str, &str); 2] = [("ARGON2_MEMORY_KIB", "64"), ("ARGON2_ITERATIONS", "1")];

/// The `accept` header of a browser.
pub const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

impl World {
    /// Starts the service with the test settings. Queues are polled only when a test does so.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts the service with these settings in addition to the test settings.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::run(settings, false).await
    }

    /// Like [`Self::with`], but polls the queues as `cargo local` does.
    pub async fn live(settings: &[(&str, &str)]) -> Self {
        Self::run(settings, true).await
    }

    /// Starts the service with the demo tenant and its data. Queues are polled only when a test does so.
    pub async fn with_demo_data(data: Data) -> Self {
        Self::started(&[], Options { data, poll: false, demo_data: true, ..Options::default() }).await
    }

    async fn run(settings: &[(&str, &str)], poll: bool) -> Self {
        Self::started(settings, Options { poll, ..Options::default() }).await
    }

    /// Starts the service with these settings in addition to the test settings, in the given mode.
    pub async fn started(settings: &[(&str, &str)], options: Options) -> Self {
        crate::log::collect();
        let env: HashMap<String, String> =
            SETTINGS.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let started = Timestamp::now();
        let stack = Stack::start(Options { env, ..options }).await.expect("the service starts");
        let http = plain_http().redirect(reqwest::redirect::Policy::none());
        Self {
            stack,
            http: http.build().expect("a client"),
            proxies: Vec::new(),
            started,
            is_swept: AtomicBool::default(),
        }
    }

    /// Calls `POST /v1/{route}` with these fields and, unless it is empty, this key.
    pub async fn rpc(&self, key: &str, route: &str, fields: Value) -> Answer {
        self.post(key, &format!("/v1/{route}"), json!({ "json": fields }).to_string().into_bytes()).await
    }

    /// Like [`Self::rpc`], with this `idempotency-key`.
    pub async fn rpc_once(&self, key: &str, route: &str, idempotency_key: &str, fields: Value) -> Answer {
        let request = self.http.post(self.url(&format!("/v1/{route}"))).json(&json!({ "json": fields }));
        self.send(request.header("x-api-key", key).header("idempotency-key", idempotency_key)).await
    }

    /// Calls `POST /v1/{route}` with these fields and this session, from one of the service's own pages.
    pub async fn rpc_by_session(&self, cookie: &str, route: &str, fields: Value) -> Answer {
        let request = self.http.post(self.url(&format!("/v1/{route}"))).json(&json!({ "json": fields }));
        self.send(request.header("cookie", cookie).header("origin", self.stack.api())).await
    }

    /// Posts raw bytes.
    pub async fn post(&self, key: &str, path: &str, body: Vec<u8>) -> Answer {
        let request = self.http.post(self.url(path)).body(body);
        self.send(if key.is_empty() { request } else { request.header("x-api-key", key) }).await
    }

    /// Sends a request, and checks the response against the API's description.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let (client, request) = request.build_split();
        let request = request.expect("a request");
        let (method, url) = (request.method().clone(), request.url().clone());
        let response = client.execute(request).await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("a complete answer");
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if url.as_str().starts_with(self.stack.api()) {
            description::check(&method, url.path(), status, &body);
        }
        Answer { status, headers, body }
    }

    /// The URL of `path` on the API.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.stack.api())
    }

    /// Opens a page like a browser.
    pub async fn open(&self, url: &str) -> Answer {
        self.send(self.http.get(url).header("accept", BROWSER)).await
    }

    /// Opens the link in a verification email and submits the form on the page, if any, like a browser.
    pub async fn confirm(&self, link: &str) -> Answer {
        let page = self.open(link).await;
        if page.status != 200 {
            return page;
        }
        let form = hidden_fields(page.page());
        let action = link.split('?').next().unwrap_or_default();
        self.send(self.http.post(action).header("origin", self.stack.api()).form(&form)).await
    }

    /// Posts JSON to `/api/auth/{route}` like the command-line client; `null` sends no body.
    pub async fn cli(&self, cookie: &str, route: &str, body: Value) -> Answer {
        let request = self.http.post(self.url(&format!("/api/auth/{route}"))).header("origin", self.stack.api());
        let request = if body.is_null() { request } else { request.json(&body) };
        self.send(if cookie.is_empty() { request } else { request.header("cookie", cookie) }).await
    }

    /// Sends a GET to `/api/auth/{route}`.
    pub async fn cli_get(&self, cookie: &str, route: &str) -> Answer {
        let request = self.http.get(self.url(&format!("/api/auth/{route}")));
        self.send(if cookie.is_empty() { request } else { request.header("cookie", cookie) }).await
    }

    /// Creates an endpoint whose receiver has answered quickly, and returns its id.
    pub async fn endpoint(&self, tenant: &Tenant, url: &str, secret: &str) -> String {
        let id = self.new_endpoint(tenant, url, secret).await;
        self.make_quick(tenant, &id).await;
        id
    }

    /// Creates an endpoint that has had no attempt yet, and returns its id. A secret that is too short for a new
    /// endpoint is written directly to the table, as 0.1.0 could have stored it.
    pub async fn new_endpoint(&self, tenant: &Tenant, url: &str, secret: &str) -> String {
        let is_old = secret.split_whitespace().map(str::len).sum::<usize>() < 16;
        let chosen = if is_old { "correct-horse-battery" } else { secret };
        let fields = json!({"url": url, "signing_secret": chosen});
        let answer = self.rpc(&tenant.key, "webhooks/create", fields).await;
        let id = answer.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned();
        if is_old {
            self.store_secret(tenant, &id, secret).await;
        }
        id
    }

    /// The endpoints of a tenant, as listed by the API.
    pub async fn endpoints(&self, tenant: &Tenant) -> Vec<Value> {
        let listed = self.rpc(&tenant.key, "webhooks/list", json!({})).await;
        listed.ok()["webhook_endpoints"].as_array().expect("a list").clone()
    }

    /// A tenant's only endpoint, as listed by the API.
    pub async fn only_endpoint(&self, tenant: &Tenant) -> Value {
        let mut listed = self.endpoints(tenant).await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed.remove(0)
    }
}

/// The session cookie from the response to a sign-up, as a `cookie` header.
#[must_use]
pub fn cookie(account: &Value) -> String {
    let set_cookie = account["setCookie"][0].as_str().expect("a cookie");
    set_cookie.split(';').next().unwrap_or_default().to_owned()
}

/// The cookie with this name that a response sets, as a `cookie` header.
#[must_use]
pub fn set_cookie(answer: &Answer, name: &str) -> String {
    let values = answer.headers.get_all("set-cookie").iter().map(|value| value.to_str().expect("a string"));
    let own = values.filter_map(|value| value.split(';').next());
    let found: Vec<_> = own.filter(|value| value.split_once('=').is_some_and(|(found, _)| found == name)).collect();
    assert_eq!(found.len(), 1, "{name} in {answer:?}");
    found[0].to_owned()
}

/// The names and values of a page's hidden fields.
#[must_use]
pub fn hidden_fields(page: &str) -> Vec<(String, String)> {
    let inputs = page.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = inputs.map(|input| {
        let mut parts = input.split('"');
        let name = parts.next().expect("a name").to_owned();
        (name, parts.nth(1).expect("a value").replace("&#x2F;", "/").replace("&amp;", "&"))
    });
    fields.collect()
}

/// The fields of a forged form, which names no account.
#[must_use]
pub fn forged(mut fields: Vec<(String, String)>) -> Vec<(String, String)> {
    fields.retain(|(name, _)| name != "shown_account");
    fields
}

/// The link in an email, which is on a separate line.
#[must_use]
pub fn link(mail: &Value) -> String {
    let text = mail["text"].as_str().expect("a text part");
    text.lines().find(|line| line.starts_with("http") && !line.contains(' ')).expect("a link").to_owned()
}
