//! The service on loopback ports, with the actions that tests need.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use common::{
    aws::clients::Aws,
    config::Env,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Status},
        endpoints::Endpoints,
        log::{Log, search::Filter},
    },
};
use local::{Options, Stack};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::description;

/// The running service, and an HTTP client for it.
pub struct World {
    /// The running service.
    pub stack: Stack,
    /// The HTTP client.
    pub http: reqwest::Client,
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

    /// The contents of the envelope of a 200; anything else fails the test.
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

    /// Field and code of every issue.
    #[must_use]
    pub fn issues(&self) -> Vec<(&str, &str)> {
        let issues = self.json()["data"]["issues"].as_array().expect("issues");
        issues
            .iter()
            .map(|issue| (issue["path"][0].as_str().unwrap_or_default(), issue["code"].as_str().unwrap_or_default()))
            .collect()
    }
}

/// A user who signed up, verified their email and has a key, with their organization.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The organization's id.
    pub id: String,
    /// The organization's slug.
    pub slug: String,
    /// The id of the user who founded it.
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

/// What a browser accepts.
pub const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

impl World {
    /// Starts the service with the test settings. Queues are polled only when a test does it.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts the service with these settings on top.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::run(settings, false).await
    }

    /// The same, but its queues are polled, as `cargo local` does.
    pub async fn live(settings: &[(&str, &str)]) -> Self {
        Self::run(settings, true).await
    }

    async fn run(settings: &[(&str, &str)], poll: bool) -> Self {
        crate::log::collect();
        let env: HashMap<String, String> =
            SETTINGS.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = Options { env, poll, ..Options::default() };
        let stack = Stack::start(options).await.expect("the service starts");
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        Self { stack, http: http.build().expect("a client") }
    }

    /// Calls `POST /v1/{route}` with these fields and, unless it is empty, this key.
    pub async fn rpc(&self, key: &str, route: &str, fields: Value) -> Answer {
        self.post(key, &format!("/v1/{route}"), json!({ "json": fields }).to_string().into_bytes()).await
    }

    /// The same, with this `idempotency-key`.
    pub async fn rpc_once(&self, key: &str, route: &str, idempotency_key: &str, fields: Value) -> Answer {
        let request = self.http.post(self.url(&format!("/v1/{route}"))).json(&json!({ "json": fields }));
        self.send(request.header("x-api-key", key).header("idempotency-key", idempotency_key)).await
    }

    /// Calls `POST /v1/{route}` with these fields and this session, from a page of our own.
    pub async fn rpc_by_session(&self, cookie: &str, route: &str, fields: Value) -> Answer {
        let request = self.http.post(self.url(&format!("/v1/{route}"))).json(&json!({ "json": fields }));
        self.send(request.header("cookie", cookie).header("origin", self.stack.api())).await
    }

    /// Posts raw bytes.
    pub async fn post(&self, key: &str, path: &str, body: Vec<u8>) -> Answer {
        let request = self.http.post(self.url(path)).body(body);
        self.send(if key.is_empty() { request } else { request.header("x-api-key", key) }).await
    }

    /// Sends a request, and checks the response against the description of the API.
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

    /// The fields of a valid sign-up.
    #[must_use]
    pub fn sign_up_fields(slug: &str) -> Value {
        json!({
            "name": "Jo Doe", "email": format!("jo@{slug}.example.com"), "password": "correct horse battery",
            "organizationName": "Doe & Co", "organizationSlug": slug, "debugNotificationEmail": "ops@example.com",
        })
    }

    /// Signs up, and returns the fields of the response.
    pub async fn sign_up(&self, slug: &str) -> Value {
        self.rpc("", "auth/signupAndCreateOrg", Self::sign_up_fields(slug)).await.ok().clone()
    }

    /// Opens a page as a browser does.
    pub async fn open(&self, url: &str) -> Answer {
        self.send(self.http.get(url).header("accept", BROWSER)).await
    }

    /// Opens the link in a verification mail and submits the form of the page, if it has one, as a browser does.
    pub async fn confirm(&self, link: &str) -> Answer {
        let page = self.open(link).await;
        if page.status != 200 {
            return page;
        }
        let form = hidden_fields(page.body.as_str().expect("a page"));
        let action = link.split('?').next().unwrap_or_default();
        self.send(self.http.post(action).header("origin", self.stack.api()).form(&form)).await
    }

    /// Signs up, verifies the email, and issues a key.
    pub async fn tenant(&self, slug: &str) -> Tenant {
        let account = self.sign_up(slug).await;
        let text = |name: &str| account[name].as_str().expect("a text").to_owned();
        let (email, cookie) = (text("email"), cookie(&account));
        assert_eq!(self.confirm(&link(&self.mail_to(&email).await)).await.status, 200);
        let issued = self.cli(&cookie, "api-key/create", json!({"name": "test"})).await;
        let key = issued.body["key"].as_str().expect("a key").to_owned();
        Tenant { id: text("organizationId"), slug: slug.to_owned(), user: text("userId"), email, cookie, key }
    }

    /// Adds a verified user to the organization of `owner`, and issues a key of theirs.
    pub async fn member(&self, owner: &Tenant, email: &str, role: &str) -> Tenant {
        let fields = json!({"email": email, "role": role, "organizationId": owner.id});
        let invited = self.cli(&owner.cookie, "organization/invite-member", fields).await.body;
        let fields = json!({
            "invitationId": invited["id"], "tenantSlug": owner.slug, "name": "Al", "password": "correct horse battery",
        });
        let account = self.rpc("", "auth/acceptInviteAndSignup", fields).await.ok().clone();
        let cookie = cookie(&account);
        assert_eq!(self.confirm(&link(&self.mail_to(email).await)).await.status, 200);
        let issued = self.cli(&cookie, "api-key/create", json!({"name": "a member's"})).await;
        let key = issued.body["key"].as_str().expect("a key").to_owned();
        let user = account["userId"].as_str().expect("an id").to_owned();
        Tenant { user, email: email.to_owned(), cookie, key, ..owner.clone() }
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

    /// What `get-session` returns for a cookie.
    pub async fn session(&self, cookie: &str) -> Answer {
        self.send(self.http.get(self.url("/api/auth/get-session")).header("cookie", cookie)).await
    }

    /// The latest mail to an address.
    pub async fn mail_to(&self, email: &str) -> Value {
        let messages = self.send(self.http.get(format!("{}/messages", self.stack.mail()))).await.body;
        let mut messages = messages.as_array().expect("a list of mails").clone();
        messages.retain(|mail| mail["to"] == json!([email]));
        messages.sort_by_key(|mail| mail["sent_at"].to_string());
        messages.pop().expect("a mail")
    }

    /// Stores a pending invitation that expires at `expires_at`, in Unix seconds.
    pub async fn invitation(&self, organization: &str, email: &str, expires_at: i64) -> String {
        let id = uuid::Uuid::now_v7().to_string();
        let text = |value: &str| AttributeValue::S(value.to_owned());
        self.stack
            .dynamodb_client()
            .put_item()
            .table_name("invitations")
            .item("invitation_id", text(&id))
            .item("organization_id", text(organization))
            .item("email", text(email))
            .item("role", text("member"))
            .item("status", text("pending"))
            .item("invited_by", text(&uuid::Uuid::now_v7().to_string()))
            .item("created_at", text("2026-01-31T12:00:00.000Z"))
            .item("expires_at", AttributeValue::N(expires_at.to_string()))
            .send()
            .await
            .expect("the invitation is stored");
        id
    }

    /// Lets all sessions and keys have been used last long ago.
    pub async fn forget_uses(&self) {
        let long_ago = AttributeValue::S("2026-01-31T00:00:00.000Z".to_owned());
        for (table, key, is_one, day) in
            [("tokens", "token_hash", "session_id", "seen_on"), ("api-keys", "key_hash", "key_id", "last_request")]
        {
            for item in self.items(table).await.into_iter().filter(|item| item.contains_key(is_one)) {
                let update = self.stack.dynamodb_client().update_item().table_name(table);
                let update = update.key(key, item[key].clone()).update_expression(format!("SET {day} = :day"));
                update.expression_attribute_values(":day", long_ago.clone()).send().await.expect("it is updated");
            }
        }
    }

    /// All items of a table.
    pub async fn items(&self, table: &str) -> Vec<HashMap<String, AttributeValue>> {
        let scan = self.stack.dynamodb_client().scan().table_name(table).send().await.expect("the table is read");
        scan.items.unwrap_or_default()
    }

    /// Creates an endpoint, and returns its id.
    pub async fn endpoint(&self, tenant: &Tenant, url: &str, secret: &str) -> String {
        let fields = json!({"url": url, "signing_secret": secret});
        let answer = self.rpc(&tenant.key, "webhooks/create", fields).await;
        answer.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned()
    }

    /// Sends a message to a queue.
    pub async fn enqueue(&self, queue: &str, body: impl Into<String>) {
        let url = self.stack.queues().get(queue).expect("a queue of that name");
        self.stack.sqs_client().send_message().queue_url(url).message_body(body).send().await.expect("it is sent");
    }

    /// The delivery log.
    #[must_use]
    pub fn delivery_log(&self) -> Log {
        let env = self.delivering();
        Log::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings")
    }

    /// The endpoints of all tenants.
    #[must_use]
    pub fn stored_endpoints(&self) -> Endpoints {
        let env = self.delivering();
        Endpoints::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings")
    }

    /// The settings of the delivery function, but with nothing before the tables.
    fn delivering(&self) -> Env {
        let mut settings = self.stack.environment("webhooks-deliver").expect("a function of the template").clone();
        settings.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), self.stack.dynamodb().to_owned());
        Env::new(move |name| settings.get(name).cloned())
    }

    /// What the log says of a tenant's deliveries, newest first.
    pub async fn log(&self, tenant: &str) -> Vec<Delivery> {
        self.search(tenant, Filter::default()).await
    }

    /// The same, of those with this status.
    pub async fn log_of(&self, tenant: &str, status: Status) -> Vec<Delivery> {
        self.search(tenant, Filter { status: Some(status), ..Filter::default() }).await
    }

    /// The only delivery of a tenant in the log.
    pub async fn only_logged(&self, tenant: &str) -> Delivery {
        let mut logged = self.log(tenant).await;
        assert_eq!(logged.len(), 1, "{logged:?}");
        logged.remove(0)
    }

    async fn search(&self, tenant: &str, filter: Filter) -> Vec<Delivery> {
        let tenant = tenant.parse::<TenantId>().expect("a tenant");
        let shards = self.stored_endpoints().shards(&tenant, None).await.expect("the endpoints are read");
        let (log, now, mut found, mut cursor) = (self.delivery_log(), Timestamp::now(), Vec::new(), None);
        loop {
            let page = log.search(&tenant, &shards, &filter, cursor.as_ref(), 1000, now).await;
            let page = page.expect("the log is read");
            found.extend(page.deliveries);
            cursor = page.next;
            if cursor.is_none() {
                return found;
            }
        }
    }

    /// Changes when the next attempt of a pending delivery is due.
    pub async fn make_due(&self, tenant: &str, delivery: &Delivery, at: Timestamp) {
        let id = delivery.id.to_string();
        let (moment, shard) = id.match_indices('.').nth(1).map(|(dot, _)| (&id[dot + 1..], &id[..dot])).expect("an id");
        let update = self.stack.dynamodb_client().update_item().table_name("deliveries");
        update
            .key("destination", AttributeValue::S(format!("{tenant}/{shard}")))
            .key("delivery", AttributeValue::S(moment.to_owned()))
            .update_expression("SET next_attempt_at = :at")
            .condition_expression("attribute_exists(next_attempt_at)")
            .expression_attribute_values(":at", AttributeValue::N(at.as_millisecond().to_string()))
            .send()
            .await
            .expect("it is pending");
    }

    /// Removes and returns all messages of a queue that are visible now.
    pub async fn drain(&self, queue: &str) -> Vec<Value> {
        let (sqs, url) = (self.stack.sqs_client(), self.stack.queues().get(queue).expect("a queue of that name"));
        let mut messages = Vec::new();
        loop {
            let batch = sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await;
            let batch = batch.expect("the queue answers").messages.unwrap_or_default();
            if batch.is_empty() {
                return messages;
            }
            for message in batch {
                let body = message.body().expect("a body");
                messages.push(serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())));
                let handle = message.receipt_handle().expect("a receipt handle");
                sqs.delete_message().queue_url(url).receipt_handle(handle).send().await.expect("it is deleted");
            }
        }
    }
}

/// The message that says that the next attempt of a delivery is due.
#[must_use]
pub fn due_message(tenant: &str, delivery: &Delivery) -> Value {
    json!({"tenant_id": tenant, "delivery_id": delivery.id, "attempt": delivery.attempts + 1})
}

/// The session cookie from the response to a sign-up, as a `cookie` header.
#[must_use]
pub fn cookie(account: &Value) -> String {
    let set_cookie = account["setCookie"][0].as_str().expect("a cookie");
    set_cookie.split(';').next().unwrap_or_default().to_owned()
}

/// Names and values of the hidden fields of a page.
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

/// The link that a mail has on a line of its own.
#[must_use]
pub fn link(mail: &Value) -> String {
    let text = mail["text"].as_str().expect("a text part");
    text.lines().find(|line| line.starts_with("http")).expect("a link").to_owned()
}
