//! `fanfare trigger`: posts a sample event to a local program, without the service.

use std::time::{Duration, Instant, SystemTime};

use api::{Secret, webhooks::EventName};
use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    address::host_and_port,
    args::Trigger,
    clock,
    config::Config,
    failure::Failure,
    http::Network,
    ids,
    input::signing_secret,
    secret::{random_hex, signatures},
    terminal::{cell, tell},
};

/// The time limit of a post, the same as the service's.
const TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) async fn run(
    origin: &str,
    network: &Network,
    config: &Config,
    trigger: Trigger,
    is_json: bool,
) -> Result<(), Failure> {
    let secret = match trigger.secret {
        true => signing_secret()?,
        false => stored(config, origin, trigger.endpoint.as_deref())?,
    };
    let id = format!("msg_{}", random_hex()?);
    let body = serde_json::to_string(&Sample::new(trigger.event, &trigger.job));
    let body = body.map_err(|error| Failure::local(format!("{error}.")))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
    let (signature, standard) = signatures(&secret, &id, &now, &body);
    let http = network.client_of_program(trigger.insecure, Duration::ZERO)?;
    let request = http.request(Method::POST, trigger.to.as_str()).header("content-type", "application/json");
    let request = request.header("x-event-type", trigger.event.as_str()).header("x-event-time", clock::now().as_str());
    let request = request.header("webhook-id", &id).header("webhook-timestamp", now);
    let request = request.header("webhook-signature", standard).header("x-webhook-signature", signature);
    let request = request.body(body).build();
    let request = request.map_err(|error| Failure::local(format!("The request could not be built: {error}.")))?;
    let began = Instant::now();
    let posted = http.post(request, TIMEOUT).await.map_err(|missing| {
        let program = host_and_port(&trigger.to);
        let failure = Failure::local(format!("{program} did not respond: {}.", cell(&missing.cause)));
        if missing.is_refused { failure.hint("Start the program, or check --to.") } else { failure }
    })?;
    let (status, took) = (posted.status, began.elapsed().as_millis());
    let answer = json!({ "webhook_id": id, "event": trigger.event, "status_code": status, "duration_ms": u64::try_from(took).ok() });
    tell(&answer, is_json, &format!("{}  {}  {status}  {took} ms", trigger.event, cell(&trigger.job)))?;
    match posted.response {
        None => Ok(()),
        Some(response) => {
            let line = response.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            Err(Failure::local(format!("The program returned HTTP {status}: {}", cell(&line.trim()))))
        }
    }
}

/// The secret of an endpoint of `listen`: the named one, or the only one on this machine.
fn stored(config: &Config, origin: &str, endpoint: Option<&str>) -> Result<Secret, Failure> {
    let typed = endpoint.unwrap_or_default().to_ascii_lowercase();
    let secrets = config.service(origin).secrets.into_iter().filter(|(id, _)| id.as_str().starts_with(&typed));
    let found: Vec<_> = secrets.map(|(id, secret)| (secret, cell(&id))).collect();
    if found.is_empty() {
        let failure = Failure::not_found("This machine has no endpoint's signing secret.");
        return Err(failure.hint("Run `fanfare listen` once, or pass the secret with --secret."));
    }
    ids::only(&typed, "endpoint", found).map_err(|failure| failure.hint("Choose one with --endpoint."))
}

/// The payload, in the order of every event.
#[derive(Serialize)]
struct Sample<'a> {
    event: EventName,
    job_id: &'a str,
    nonce: Option<&'a str>,
    workflow: &'static str,
    deployment_id: Option<&'a str>,
    status: &'static str,
    result: Value,
    error: Value,
    mapped_stack: Option<&'a str>,
}

impl<'a> Sample<'a> {
    fn new(event: EventName, job: &'a str) -> Self {
        let (status, result, error) = match event {
            EventName::Failed => ("failed", Value::Null, json!({ "message": "A sample error" })),
            _ => ("completed", json!({ "answer": 42 }), Value::Null),
        };
        let (nonce, deployment_id, mapped_stack) = (None, None, None);
        Self { event, job_id: job, nonce, workflow: "sample", deployment_id, status, result, error, mapped_stack }
    }
}
