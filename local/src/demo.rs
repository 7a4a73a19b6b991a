//! The demo: the service in use over HTTP, from sign-up to a verified signed delivery, and one that is sent again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Request, StatusCode, request},
    routing::post,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use local::{Options, Stack};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::{net::TcpListener, sync::mpsc};

const TIME_LIMIT: Duration = Duration::from_secs(30);
const SIGNING_SECRET: &str = "correct-horse-battery-staple";

/// Speaks HTTP to the service, as any client does.
type Http = Client<HttpConnector, Full<Bytes>>;

/// The headers and body that reached the receiver.
type Delivery = (HeaderMap, Bytes);

/// Runs the demo, and fails at the first step that does not go as expected.
pub(crate) async fn run() -> Result<()> {
    let stack = Stack::start(Options::default()).await?;
    let told = tokio::time::timeout(TIME_LIMIT, tell(&stack)).await.context("the demo took too long");
    stack.stop().await;
    told?
}

async fn tell(stack: &Stack) -> Result<()> {
    let http: Http = Client::builder(TokioExecutor::new()).build_http();
    let (tenant, key) = become_customer(&http, stack).await?;
    deliver(&http, stack, &tenant, &key).await
}

/// The first half: returns the tenant and its API key.
async fn become_customer(http: &Http, stack: &Stack) -> Result<(String, String)> {
    let api = stack.api();
    say("1. Ada signs up and creates an organization.");
    let sign_up = json!({"json": {
        "name": "Ada Lovelace",
        "email": "ada@example.com",
        "password": "a long password",
        "organizationName": "Analytical Engines",
        "organizationSlug": "analytical-engines",
        "debugNotificationEmail": "debug@example.com",
    }});
    let account = post_json(http, Request::post(format!("{api}/v1/auth/signupAndCreateOrg")), &sign_up).await?;
    let tenant = text(&account, "/json/organizationId")?;
    let cookie = text(&account, "/json/setCookie/0")?.split(';').next().unwrap_or_default();

    say("2. She opens the link in the mail, and presses the button of the page.");
    let mails = Request::get(format!("{}/messages", stack.mail())).body(String::new())?;
    let mails: Value = serde_json::from_str(&answered(http, mails).await?)?;
    let link = find_link(text(&mails, "/0/text")?, api).context("the mail has no link to the API")?;
    shown(http, Request::get(link).body(String::new())?).await?;
    let (page, token) = link.split_once("?token=").context("the link has no token")?;
    let press = Request::post(page).header("origin", api).header("content-type", "application/x-www-form-urlencoded");
    shown(http, press.body(format!("token={token}"))?).await?;

    say("3. With a verified address, she issues an API key.");
    let create_key = Request::post(format!("{api}/api/auth/api-key/create")).header("cookie", cookie);
    let key = post_json(http, create_key.header("origin", api), &json!({"name": "demo"})).await?;
    Ok((tenant.to_owned(), text(&key, "/key")?.to_owned()))
}

/// The second half: a delivery that arrives, and a delivery that is sent again.
async fn deliver(http: &Http, stack: &Stack, tenant: &str, key: &str) -> Result<()> {
    let api = stack.api();
    say("4. With the key, she stores a webhook endpoint.");
    let (url, mut deliveries, is_down) = receiver().await?;
    let create = Request::post(format!("{api}/v1/webhooks/create")).header("x-api-key", key);
    post_json(http, create, &json!({"json": {"url": url, "signing_secret": SIGNING_SECRET}})).await?;

    say("5. A job finishes: its event goes into the queue.");
    send_job_event(stack, tenant, "job-1").await?;

    say("6. The webhook arrives, signed.");
    let (headers, body) = deliveries.recv().await.context("the receiver stopped")?;
    show_delivery(&url, &headers, &body, StatusCode::NO_CONTENT)?;
    verify(&headers, &body)?;
    say("   Both signatures are right.\n");

    say("7. Her receiver restarts just when another job finishes.");
    is_down.store(true, Ordering::SeqCst);
    send_job_event(stack, tenant, "job-2").await?;
    let (headers, body) = deliveries.recv().await.context("the receiver stopped")?;
    show_delivery(&url, &headers, &body, StatusCode::SERVICE_UNAVAILABLE)?;
    is_down.store(false, Ordering::SeqCst);

    say("8. The delivery log has what was sent, and what came back.");
    let list = || Request::post(format!("{api}/v1/deliveries/list")).header("x-api-key", key);
    let pending = json!({"json": {"status": "pending"}});
    // The log is written within a second.
    while post_quietly(http, list(), &pending).await?.pointer("/json/deliveries/0").is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let found = post_json(http, list(), &pending).await?;
    let delivery = text(&found, "/json/deliveries/0/delivery_id")?;

    say("9. The next attempt would come after five seconds. She does not wait, and sends it again.");
    let resend = Request::post(format!("{api}/v1/deliveries/resend")).header("x-api-key", key);
    post_json(http, resend, &json!({"json": {"delivery_id": delivery}})).await?;

    say("10. It arrives, with the id that it had before.");
    let id = header(&headers, "webhook-id")?.to_owned();
    let (headers, body) = deliveries.recv().await.context("the receiver stopped")?;
    show_delivery(&url, &headers, &body, StatusCode::NO_CONTENT)?;
    verify(&headers, &body)?;
    ensure!(header(&headers, "webhook-id")? == id, "the id has changed");
    Ok(())
}

async fn send_job_event(stack: &Stack, tenant: &str, job: &str) -> Result<()> {
    let event = json!({
        "event": "job.completed",
        "tenant_id": tenant,
        "job_id": job,
        "workflow": "difference-engine",
        "status": "completed",
        "result": {"answer": 42},
    });
    let queue = stack.queues().get("job-events").context("there is no queue job-events")?;
    say(&format!("   > SQS SendMessage {queue}\n   > {event}\n"));
    stack.sqs_client().send_message().queue_url(queue).message_body(event.to_string()).send().await?;
    Ok(())
}

/// A webhook receiver as a customer might run it. Returns its URL, a channel with what it receives, and whether it is
/// down.
async fn receiver() -> Result<(String, mpsc::Receiver<Delivery>, Arc<AtomicBool>)> {
    let (sender, deliveries) = mpsc::channel(1);
    let is_down = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    let router = Router::new().route("/hook", post(receive)).with_state((sender, Arc::clone(&is_down)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((url, deliveries, is_down))
}

type Inbox = (mpsc::Sender<Delivery>, Arc<AtomicBool>);

async fn receive(
    State((sender, is_down)): State<Inbox>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let is_down = is_down.load(Ordering::SeqCst);
    match sender.send((headers, body)).await {
        Ok(()) if !is_down => (StatusCode::NO_CONTENT, ""),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "restarting, please try later"),
    }
}

/// Verifies both signatures from their specification, without using the service's own code.
fn verify(headers: &HeaderMap, body: &[u8]) -> Result<()> {
    let hexadecimal = hex::encode(hmac(&[body])?);
    ensure!(header(headers, "x-webhook-signature")? == hexadecimal, "x-webhook-signature is wrong");

    let (id, timestamp) = (header(headers, "webhook-id")?, header(headers, "webhook-timestamp")?);
    let signed = hmac(&[id.as_bytes(), b".", timestamp.as_bytes(), b".", body])?;
    let standard = format!("v1,{}", BASE64_STANDARD.encode(signed));
    let is_signed = header(headers, "webhook-signature")?.split(' ').any(|signature| signature == standard);
    ensure!(is_signed, "webhook-signature is wrong");
    Ok(())
}

fn hmac(parts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(SIGNING_SECRET.as_bytes())?;
    parts.iter().for_each(|part| mac.update(part));
    Ok(mac.finalize().into_bytes().to_vec())
}

fn show_delivery(url: &str, headers: &HeaderMap, body: &[u8], answer: StatusCode) -> Result<()> {
    say(&format!("   > POST {url}"));
    for name in
        ["x-event-type", "x-event-time", "x-webhook-signature", "webhook-id", "webhook-timestamp", "webhook-signature"]
    {
        say(&format!("   > {name}: {}", header(headers, name)?));
    }
    say(&format!("   > {}\n   < {}\n", std::str::from_utf8(body)?, answer.as_u16()));
    Ok(())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str> {
    Ok(headers.get(name).with_context(|| format!("the header {name} is missing"))?.to_str()?)
}

async fn post_json(http: &Http, request: request::Builder, body: &Value) -> Result<Value> {
    Ok(serde_json::from_str(&shown(http, json_request(request, body)?).await?)?)
}

/// The same without printing it.
async fn post_quietly(http: &Http, request: request::Builder, body: &Value) -> Result<Value> {
    Ok(serde_json::from_str(&answered(http, json_request(request, body)?).await?)?)
}

fn json_request(request: request::Builder, body: &Value) -> Result<Request<String>> {
    Ok(request.header("content-type", "application/json").body(body.to_string())?)
}

/// Sends `request`, prints it and the response, and returns the response's body.
async fn shown(http: &Http, request: Request<String>) -> Result<String> {
    say(&format!("   > {} {}", request.method(), request.uri()));
    for name in ["cookie", "origin", "x-api-key"] {
        if let Some(value) = request.headers().get(name) {
            say(&format!("   > {name}: {}", value.to_str()?));
        }
    }
    if !request.body().is_empty() {
        say(&format!("   > {}", request.body()));
    }
    let body = answered(http, request).await?;
    // A page is for people with a browser.
    let is_page = body.starts_with("<!DOCTYPE html>");
    say(&format!("   < 200 {}\n", if is_page { "(a page)" } else { &body }));
    Ok(body)
}

/// Sends `request`, and returns the response's body if it is a 200.
async fn answered(http: &Http, request: Request<String>) -> Result<String> {
    let response = http.request(request.map(|body| Full::new(body.into()))).await?;
    let status = response.status();
    let body = String::from_utf8(response.into_body().collect().await?.to_bytes().into())?;
    ensure!(status == StatusCode::OK, "the answer is {status}: {body}");
    Ok(body)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer} in {value}"))
}

fn find_link<'a>(mail: &'a str, api: &str) -> Option<&'a str> {
    mail.split_whitespace().find(|word| word.starts_with(api))
}

#[expect(clippy::print_stdout, reason = "printing is what the demo is for")]
fn say(text: &str) {
    println!("{text}");
}
