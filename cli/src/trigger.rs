//! `fanfare trigger`: sends a sample of an event to an endpoint, or posts it to a local program without the service.

use std::time::{Duration, SystemTime};

use api::Secret;
use serde_json::json;
use url::Url;

use crate::{
    address::host_and_port,
    args::Trigger,
    calls::Api,
    clock,
    config::Config,
    endpoints,
    failure::Failure,
    http::NetworkSettings,
    ids,
    input::signing_secret,
    program::{self, PostOutcome},
    secret::{random_hex, signatures},
    terminal::{cell, print_result},
};

pub(crate) async fn run(
    api: &Api,
    network: &NetworkSettings,
    config: &Config,
    trigger: Trigger,
    is_json: bool,
) -> Result<(), Failure> {
    if let Some(to) = &trigger.to {
        let secret = match trigger.secret {
            true => signing_secret()?,
            false => stored(config, &api.origin(), trigger.endpoint.as_deref())?,
        };
        return post(network, &trigger, to, &secret, is_json).await;
    }
    let endpoint = ids::endpoint_or_only(api, trigger.endpoint.as_deref()).await.map_err(|failure| {
        match trigger.endpoint.is_none() && failure.is_not_found() {
            true => {
                failure.hint("Create one with `fanfare endpoints create URL`, or post to a local program with --to.")
            }
            false => failure,
        }
    })?;
    endpoints::test(api, endpoint, Some(trigger.event), is_json).await
}

/// Posts the sample to a local program.
async fn post(
    network: &NetworkSettings,
    trigger: &Trigger,
    to: &Url,
    secret: &Secret,
    is_json: bool,
) -> Result<(), Failure> {
    let (id, body) = (format!("msg_{}", random_hex()?), trigger.event.sample());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
    let (signature, standard) = signatures(secret, &id, &now, body);
    let http = network.client_of_program(trigger.insecure, Duration::ZERO)?;
    let time = clock::now();
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, */*;q=0.8"),
        ("x-event-type", trigger.event.as_str()),
        ("x-event-time", time.as_str()),
        ("webhook-id", &id),
        ("webhook-timestamp", &now),
        ("webhook-signature", &standard),
        ("x-webhook-signature", &signature),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let tried = program::post(&http, to, &headers, body.to_owned()).await;
    let hint = tried.hint(to, "--to");
    let PostOutcome { answer, took } = tried;
    let posted = answer.map_err(|missing| {
        let failure = Failure::local(format!("{} did not respond: {}.", host_and_port(to), cell(&missing.cause)));
        hint.into_iter().fold(failure, Failure::hint)
    })?;
    let status = posted.status;
    let answer = json!({ "webhook_id": id, "event": trigger.event, "status_code": status, "duration_ms": took });
    print_result(&answer, is_json, &format!("{}  {status}  {took} ms", trigger.event))?;
    match posted.response {
        None => Ok(()),
        Some(response) => {
            let line = response.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let cause = if line.is_empty() { ".".to_owned() } else { format!(": {}", cell(&line.trim())) };
            Err(Failure::local(format!("The program returned HTTP {status}{cause}")))
        }
    }
}

/// Returns the stored secret of an endpoint that `listen` created: the given endpoint, or the only one on this machine.
fn stored(config: &Config, origin: &str, endpoint: Option<&str>) -> Result<Secret, Failure> {
    let typed = endpoint.unwrap_or_default().to_ascii_lowercase();
    let secrets = config.service(origin).secrets.into_iter().filter(|(id, _)| id.as_str().starts_with(&typed));
    let found: Vec<_> = secrets.map(|(id, secret)| (secret, cell(&id))).collect();
    if found.is_empty() {
        let failure = Failure::not_found("No endpoint's signing secret is stored on this machine.");
        return Err(failure.hint(
            "Run `fanfare listen` once, which stores the secret of an endpoint that it creates, or pass the secret with \
             --secret.",
        ));
    }
    ids::only(&typed, "endpoint", found).map_err(|failure| failure.hint("Choose one with --endpoint."))
}
