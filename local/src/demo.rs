//! The demo: uses the service over HTTP, from sign-up to a verified delivery and a resent one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, ensure};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Request, StatusCode, request},
    routing::post,
};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use local::{Options, Stack, signatures::verdicts};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};

const TIME_LIMIT: Duration = Duration::from_secs(30);
const SIGNING_SECRET: &str = "correct-horse-battery-staple";
/// The response of a receiver that is down.
const DOWN: &str = "restarting, please try later";

/// The HTTP client for the service.
type Http = Client<HttpConnector, Full<Bytes>>;

/// The headers and the body of a webhook.
type Delivery = (HeaderMap, Bytes);

/// Runs the demo. Fails on the first unexpected result.
pub(crate) async fn run(has_colors: bool) -> Result<()> {
    let story = Story { has_colors, http: Client::builder(TokioExecutor::new()).build_http() };
    say("From sign-up to a signed webhook, and a failed delivery that is resent.\n");
    let stack = Stack::start(Options::default()).await?;
    let told = tokio::time::timeout(TIME_LIMIT, story.run_steps(&stack)).await.context("the demo took too long");
    stack.stop().await;
    told?
}

/// Uses the service and prints each step, on lines of at most 100 columns.
struct Story {
    has_colors: bool,
    http: Http,
}

impl Story {
    async fn run_steps(&self, stack: &Stack) -> Result<()> {
        let (tenant, key) = self.become_customer(stack).await?;
        self.deliver(stack, &tenant, &key).await?;
        say(&format!("\nNext, run `{} --memory --demo-data` and open the link that it prints:", program()));
        say("the same service, running until Ctrl-C, with a console and a day of deliveries in it.");
        Ok(())
    }

    /// The first half, from sign-up to an API key. Returns the tenant and the key.
    async fn become_customer(&self, stack: &Stack) -> Result<(String, String)> {
        let api = stack.api();
        self.step(1, "Ada signs up and creates an organization.");
        let sign_up = json!({"json": {
            "name": "Ada Lovelace",
            "email": "ada@example.com",
            "password": "a long password",
            "organizationName": "Analytical Engines",
            "organizationSlug": "analytical-engines",
            "debugNotificationEmail": "debug@example.com",
        }});
        let path = "/v1/auth/signupAndCreateOrg";
        let account = self.post(Request::post(format!("{api}{path}")), &sign_up).await?;
        self.sent(path, &brief(&sign_up, &["organizationName"]));
        self.answered(StatusCode::OK, &brief(&account, &["organizationId"]));
        let tenant = text(&account, "/json/organizationId")?;
        let cookie = text(&account, "/json/setCookie/0")?.split(';').next().unwrap_or_default();

        self.step(2, "She opens the link in the email and presses the button on the page.");
        let emails = Request::get(format!("{}/messages", stack.mail())).body(String::new())?;
        let emails: Value = serde_json::from_str(&self.ask(emails).await?)?;
        let link = find_link(text(&emails, "/0/text")?, api).context("the email has no link to the API")?;
        self.ask(Request::get(link).body(String::new())?).await?;
        let (page, token) = link.split_once("?token=").context("the link has no token")?;
        let press =
            Request::post(page).header("origin", api).header("content-type", "application/x-www-form-urlencoded");
        self.ask(press.body(format!("token={token}"))?).await?;
        self.sent(page.trim_start_matches(api), &format!("token={}", short(token)));
        self.answered(StatusCode::OK, "(a page)");

        self.step(3, "She issues an API key.");
        let path = "/api/auth/api-key/create";
        let create_key = Request::post(format!("{api}{path}")).header("cookie", cookie).header("origin", api);
        let name = json!({"name": "demo"});
        let key = self.post(create_key, &name).await?;
        self.sent(path, &name.to_string());
        self.answered(StatusCode::OK, &brief(&key, &["key"]));
        Ok((tenant.to_owned(), text(&key, "/key")?.to_owned()))
    }

    /// The second half: a delivery that arrives, and one that is resent.
    async fn deliver(&self, stack: &Stack, tenant: &str, key: &str) -> Result<()> {
        let call = |path: &str| Request::post(format!("{}{path}", stack.api())).header("x-api-key", key);
        self.step(4, "With the key, she creates a webhook endpoint.");
        let (url, mut deliveries, is_down) = receiver().await?;
        let path = "/v1/webhooks/create";
        let endpoint = json!({"json": {"url": url, "signing_secret": SIGNING_SECRET}});
        let created = self.post(call(path), &endpoint).await?;
        self.sent(path, &brief(&endpoint, &["url"]));
        self.answered(StatusCode::OK, &brief(&created, &["webhook_endpoint_id"]));

        self.step(5, "A job finishes: the service that ran it sends an event to the queue job-events.");
        let event = send_job_event(stack, tenant, "job-1").await?;
        self.line('>', &brief(&event, &["event", "tenant_id", "job_id"]));

        let (headers, body) = deliveries.recv().await.context("the receiver stopped")?;
        verify(&headers, &body)?;
        self.step(6, "The webhook arrives. Ada's receiver verifies both signatures.");
        self.arrived(&headers)?;
        for name in ["x-webhook-signature", "webhook-signature"] {
            self.line('>', &format!("{name}: {}", short(header(&headers, name)?)));
        }
        let body = serde_json::from_slice(&body)?;
        self.line('>', &brief(&body, &["event", "job_id", "status", "result"]));
        self.answered(StatusCode::NO_CONTENT, "");

        self.resend(stack, tenant, key, &mut deliveries, &is_down).await
    }

    /// A delivery that fails, and is resent.
    async fn resend(
        &self,
        stack: &Stack,
        tenant: &str,
        key: &str,
        deliveries: &mut Deliveries,
        is_down: &AtomicBool,
    ) -> Result<()> {
        let call = |path: &str| Request::post(format!("{}{path}", stack.api())).header("x-api-key", key);
        is_down.store(true, Ordering::SeqCst);
        send_job_event(stack, tenant, "job-2").await?;
        let (headers, _body) = deliveries.recv().await.context("the receiver stopped")?;
        self.step(7, "The receiver restarts just as another job finishes.");
        self.arrived(&headers)?;
        self.answered(StatusCode::SERVICE_UNAVAILABLE, DOWN);
        is_down.store(false, Ordering::SeqCst);

        let path = "/v1/deliveries/list";
        let pending = json!({"json": {"status": "pending"}});
        // The attempt appears in the log within a second. If the receiver still counts as new, its delivery does so
        // first.
        let (delivery, attempt) = loop {
            let found = self.post(call(path), &pending).await?;
            let delivery = found.pointer("/json/deliveries/0");
            if let Some((delivery, attempt)) = delivery.and_then(|it| Some((it, it.get("last_attempt")?))) {
                break (delivery.clone(), brief(attempt, &["status_code"]));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        self.step(8, "The delivery log shows the attempt and the receiver's response.");
        self.sent(path, &pending.to_string());
        self.answered(StatusCode::OK, &format!(r#"{{"json":{{"deliveries":[{{"last_attempt":{attempt}, …}}]}}}}"#));

        self.step(9, "The next attempt is due in five seconds. Ada resends the delivery now.");
        let path = "/v1/deliveries/resend";
        let resend = json!({"json": {"delivery_id": text(&delivery, "/delivery_id")?}});
        let resent = self.post(call(path), &resend).await?;
        self.sent(path, &brief(&resend, &["delivery_id"]));
        self.answered(StatusCode::OK, &resent.to_string());

        let id = header(&headers, "webhook-id")?.to_owned();
        let (headers, body) = deliveries.recv().await.context("the receiver stopped")?;
        verify(&headers, &body)?;
        ensure!(header(&headers, "webhook-id")? == id, "the id has changed");
        self.step(10, "It arrives with the same id, so a receiver can recognize duplicates.");
        self.arrived(&headers)?;
        self.answered(StatusCode::NO_CONTENT, "");
        Ok(())
    }

    fn step(&self, number: u8, title: &str) {
        say(&format!("{number:>2}. {}", self.styled(Style::new().bold(), title)));
    }

    fn arrived(&self, headers: &HeaderMap) -> Result<()> {
        self.line('>', &format!("POST /hook webhook-id: {}", short(header(headers, "webhook-id")?)));
        Ok(())
    }

    fn sent(&self, path: &str, body: &str) {
        self.line('>', &format!("POST {path} {body}"));
    }

    fn answered(&self, status: StatusCode, body: &str) {
        let color = if status.is_success() { AnsiColor::Green } else { AnsiColor::Red };
        let status = self.styled(color.on_default(), status.as_str());
        self.line('<', format!("{status} {body}").trim_end());
    }

    fn line(&self, direction: char, text: &str) {
        say(&format!("    {} {text}", self.styled(Style::new().dimmed(), &direction.to_string())));
    }

    fn styled(&self, style: Style, text: &str) -> String {
        if self.has_colors { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    async fn post(&self, request: request::Builder, body: &Value) -> Result<Value> {
        let request = request.header("content-type", "application/json").body(body.to_string())?;
        Ok(serde_json::from_str(&self.ask(request).await?)?)
    }

    /// Sends `request`. Returns the body of the response if its status is 200.
    async fn ask(&self, request: Request<String>) -> Result<String> {
        let response = self.http.request(request.map(|body| Full::new(body.into()))).await?;
        let status = response.status();
        let body = String::from_utf8(response.into_body().collect().await?.to_bytes().into())?;
        ensure!(status == StatusCode::OK, "the response is {status}: {body}");
        Ok(body)
    }
}

async fn send_job_event(stack: &Stack, tenant: &str, job: &str) -> Result<Value> {
    let event = json!({
        "event": "job.completed",
        "tenant_id": tenant,
        "job_id": job,
        "workflow": "difference-engine",
        "status": "completed",
        "result": {"answer": 42},
    });
    let queue = stack.queues().get("job-events").context("there is no queue job-events")?;
    stack.sqs_client().send_message().queue_url(queue).message_body(event.to_string()).send().await?;
    Ok(event)
}

/// Starts a webhook receiver as a customer might run it. Returns its URL, the webhooks that it receives, and a switch
/// that makes it respond with 503.
async fn receiver() -> Result<(String, Deliveries, Arc<AtomicBool>)> {
    let (sender, deliveries) = mpsc::channel(1);
    let is_down = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    let router = Router::new().route("/hook", post(receive)).with_state((sender, Arc::clone(&is_down)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((url, deliveries, is_down))
}

/// The webhooks that reached the receiver.
type Deliveries = mpsc::Receiver<Delivery>;

type Inbox = (mpsc::Sender<Delivery>, Arc<AtomicBool>);

async fn receive(
    State((sender, is_down)): State<Inbox>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let is_down = is_down.load(Ordering::SeqCst);
    match sender.send((headers, body)).await {
        Ok(()) if !is_down => (StatusCode::NO_CONTENT, ""),
        _ => (StatusCode::SERVICE_UNAVAILABLE, DOWN),
    }
}

/// Fails if a signature is wrong.
fn verify(headers: &HeaderMap, body: &[u8]) -> Result<()> {
    let verdicts = verdicts(SIGNING_SECRET, headers, body, SystemTime::now());
    ensure!(verdicts.are_right(), "a signature is wrong: {verdicts:?}");
    Ok(())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str> {
    Ok(headers.get(name).with_context(|| format!("the header {name} is missing"))?.to_str()?)
}

/// Formats these members of `value`, or of the object in its `json` envelope, with an ellipsis if there are other
/// members.
fn brief(value: &Value, members: &[&str]) -> String {
    if let Some(fields) = value.get("json") {
        return format!(r#"{{"json":{}}}"#, brief(fields, members));
    }
    let shown = members.iter().filter_map(|name| Some((name, value.get(name)?)));
    let shown = shown.map(|(name, member)| match member {
        Value::String(text) => format!(r#""{name}":"{}""#, short(text)),
        other => format!(r#""{name}":{other}"#),
    });
    let shown = shown.collect::<Vec<_>>().join(",");
    let has_others = value.as_object().is_some_and(|object| object.len() > members.len());
    format!("{{{shown}{}}}", if has_others { ", …" } else { "" })
}

/// Shortens ids, tokens and signatures to their start and end. Returns other strings unchanged.
fn short(text: &str) -> String {
    let is_random = text.len() >= 30 && (text.starts_with("v1,") || !text.contains([' ', '/']));
    match (text.get(..8), text.get(text.len().saturating_sub(4)..)) {
        (Some(start), Some(end)) if is_random => format!("{start}…{end}"),
        _ => text.to_owned(),
    }
}

/// Returns the command that started this program. `cargo run` sets the variable.
fn program() -> String {
    let is_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some();
    let name = || std::env::args().next().unwrap_or_else(|| "local".to_owned());
    if is_cargo { "cargo local".to_owned() } else { name() }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer} in {value}"))
}

fn find_link<'a>(email: &'a str, api: &str) -> Option<&'a str> {
    email.split_whitespace().find(|word| word.starts_with(api))
}

#[expect(clippy::print_stdout, reason = "the demo prints its output")]
fn say(text: &str) {
    println!("{text}");
}
