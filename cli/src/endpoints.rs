//! `fanfare endpoints`.

mod list;

use std::time::{Duration, Instant};

use api::{
    Done, EndpointId, Secret, Timestamp,
    deliveries::{Attempt, Get},
    error::Reason,
    webhooks::{Create, Delete, Endpoint, EventName, Kind, PayloadForm, Test, Update},
};
use serde_json::json;

pub(crate) use self::list::is_meant;
use self::list::{list, state};
use crate::{
    args::{Ceiling, Endpoints},
    calls::Api,
    clock,
    config::Config,
    deliveries,
    failure::Failure,
    ids,
    input::{confirm, signing_secret},
    terminal::{cell, cell_of, print_json, print_line, print_note, print_result, shown},
};

const SECRET: &str = "Signing secret, shown once";
/// The maximum time to wait for the result of a test, and the interval between calls.
const TEST_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) async fn run(api: &Api, config: &mut Config, command: Endpoints, is_json: bool) -> Result<(), Failure> {
    match command {
        Endpoints::List(sought) => list(api, &sought, is_json).await,
        Endpoints::Get { id } => {
            let endpoint = ids::whole_endpoint(api, &id).await?;
            if is_json { Ok(print_json(&endpoint)?) } else { show(api, &endpoint) }
        }
        Endpoints::Create { url, pull, description, events, workflows, sending, headers, secret } => {
            let call = Create {
                kind: pull.then_some(Kind::Pull),
                url,
                signing_secret: if secret { Some(signing_secret()?) } else { None },
                headers: (!headers.is_empty()).then(|| Some(headers.into_iter().collect())),
                description: description.map(Some),
                events: self::events(&events),
                workflows: (!workflows.is_empty()).then_some(Some(workflows)),
                payload: sending.payload.map(Some),
                keep_payload: sending.keep_payload.map(Some),
                max_concurrent: sending.max_concurrent.map(|Ceiling(number)| number),
                ..Create::new()
            };
            let created = api.call(&call).await?;
            print_result(&created, is_json, &cell(&created.message))?;
            let secret = created.signing_secret.as_ref().map_or("", Secret::reveal);
            details(is_json, &[("Endpoint", created.webhook_endpoint_id.as_str()), (SECRET, secret)])
        }
        Endpoints::Update {
            id,
            url,
            description,
            active,
            events,
            workflows,
            all_workflows,
            sending,
            headers,
            no_headers,
        } => {
            let workflows = match all_workflows {
                true => Some(None),
                false => (!workflows.is_empty()).then_some(Some(workflows)),
            };
            let headers = match no_headers {
                true => Some(None),
                false => (!headers.is_empty()).then(|| Some(headers.into_iter().collect())),
            };
            let update = Update {
                url,
                headers,
                description: description.map(|text| Some(text).filter(|text| !text.is_empty())),
                active,
                events: self::events(&events),
                workflows,
                payload: sending.payload.map(Some),
                keep_payload: sending.keep_payload.map(Some),
                max_concurrent: sending.max_concurrent.map(|Ceiling(number)| number),
                ..Update::new(ids::endpoint(api, &id).await?)
            };
            let done = api.call(&update).await.map_err(|failure| match failure.reason() {
                Some(Reason::HeadersNeeded) => failure.hint("Add --header for each header, or --no-headers."),
                _ => failure,
            })?;
            Ok(print_result(&done, is_json, &cell(&done.message))?)
        }
        Endpoints::Enable { id } => switch(api, &id, true, is_json).await,
        Endpoints::Disable { id } => switch(api, &id, false, is_json).await,
        Endpoints::Rotate { id, overlap, secret: is_chosen } => {
            let id = ids::endpoint(api, &id).await?;
            let secret = if is_chosen { signing_secret()? } else { crate::secret::generate()? };
            let rotation_overlap_seconds = overlap.map(|overlap| match overlap.as_str() {
                "now" => 0,
                "day" => 86_400,
                _ => 604_800,
            });
            let update =
                Update { signing_secret: Some(secret.clone()), rotation_overlap_seconds, ..Update::new(id.clone()) };
            let Done { success, message } = api.call(&update).await?;
            // A machine stores only secrets of endpoints that its own `listen` created.
            if config.service(&api.origin()).secrets.contains_key(&id) {
                let kept = config.change(&api.origin(), |service| drop(service.secrets.insert(id, secret.clone())));
                // The secret is printed even then, because there is no other copy of it.
                if let Err(error) = kept {
                    print_note(&format!("The secret could not be stored on this machine: {error}"));
                }
            }
            if is_chosen {
                print_result(&Done { success, message: message.clone() }, is_json, &cell(&message))?;
            } else {
                let rotated = json!({ "success": success, "message": message, "signing_secret": secret });
                print_result(&rotated, is_json, &cell(&message))?;
                details(is_json, &[(SECRET, secret.reveal())])?;
            }
            ends_now(api, &update).await
        }
        Endpoints::Test { id, event } => test(api, ids::endpoint(api, &id).await?, event, is_json).await,
        Endpoints::Delete { id, yes } => {
            let endpoint = ids::whole_endpoint(api, &id).await?;
            let label = ids::label(&endpoint);
            confirm(&format!("Delete the endpoint {label}? Its pending and held deliveries will not be sent."), yes)?;
            let done = api.call(&Delete::new(endpoint.webhook_endpoint_id)).await?;
            Ok(print_result(&done, is_json, &cell(&done.message))?)
        }
    }
}

/// Enables or disables an endpoint.
async fn switch(api: &Api, id: &str, active: bool, is_json: bool) -> Result<(), Failure> {
    let id = ids::endpoint(api, id).await?;
    let done = api.call(&Update { active: Some(active), ..Update::new(id) }).await?;
    Ok(print_result(&done, is_json, if active { "Endpoint enabled." } else { "Endpoint disabled." })?)
}

/// Checks that the previous secret has ended, if it was to end now: an older service ignores the field.
async fn ends_now(api: &Api, update: &Update) -> Result<(), Failure> {
    if update.rotation_overlap_seconds == Some(0)
        && let Some(until) = ids::whole_endpoint(api, update.id.as_str()).await?.previous_secret_expires_at
    {
        let until = clock::short(&until);
        return Err(Failure::local(format!(
            "The service is too old for --overlap: the previous secret signs until {until} UTC."
        )));
    }
    Ok(())
}

/// Sends a test event, or a sample of another event. Without `--json`, waits for the result and prints it.
pub(crate) async fn test(api: &Api, id: EndpointId, event: Option<EventName>, is_json: bool) -> Result<(), Failure> {
    let tested = api.call(&Test { event, ..Test::new(id) }).await?;
    print_result(&tested, is_json, &cell(&tested.message))?;
    if is_json {
        return Ok(());
    }
    details(is_json, &[("Delivery", tested.delivery_id.as_str())])?;
    let (get, end) = (Get::new(tested.delivery_id), Instant::now() + TEST_TIMEOUT);
    while Instant::now() < end {
        if let Some(attempt) = api.call(&get).await?.delivery.last_attempt {
            return tried(&attempt);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    print_note("No attempt yet. `fanfare deliveries get` shows the result later.");
    Ok(())
}

/// Prints the result of an attempt. Fails if the attempt failed.
fn tried(attempt: &Attempt) -> Result<(), Failure> {
    let result = deliveries::result(attempt);
    if deliveries::is_delivered(attempt) {
        return Ok(print_line(&format!("Result: {result} after {} ms", attempt.duration_ms))?);
    }
    let cause = attempt.detail.as_ref().or(attempt.response.as_ref()).map(|text| format!(": {}", cell(&text.trim())));
    let failure = Failure::local(format!("The attempt failed with {result}{}", cause.as_deref().unwrap_or(".")));
    let may_be_signature = matches!(attempt.status_code, Some(400 | 401 | 403));
    Err(if may_be_signature {
        failure.hint("`fanfare verify` finds out why a signature does not match.")
    } else {
        failure
    })
}

/// Prints more details of a response below its message, unless the output is JSON.
fn details(is_json: bool, details: &[(&str, &str)]) -> Result<(), Failure> {
    for (title, value) in details.iter().filter(|(_, value)| !is_json && !value.is_empty()) {
        print_line(&format!("{title}: {}", cell(value)))?;
    }
    Ok(())
}

/// Returns the `events` field of a call. `all` is sent as null.
pub(crate) fn events(events: &[String]) -> Option<Option<Vec<String>>> {
    (!events.is_empty()).then(|| Some(events.to_vec()).filter(|events| events != &["all"]))
}

fn show(api: &Api, endpoint: &Endpoint) -> Result<(), Failure> {
    let id = &endpoint.webhook_endpoint_id;
    let time = |time: Option<&Timestamp>| {
        time.map_or_else(String::new, |time| format!("{} UTC ({} ago)", clock::short(time), clock::age(time)))
    };
    let until = endpoint.previous_secret_expires_at.as_ref().map(clock::short);
    for (title, value) in [
        ("Endpoint", cell(id)),
        ("URL", cell_of(endpoint.url.as_ref())),
        ("URL as sent", cell_of(endpoint.url_as_sent.as_ref())),
        ("Kind", cell(&endpoint.kind)),
        ("Description", cell_of(endpoint.description.as_ref())),
        ("State", state(endpoint)),
        ("Events", endpoint.events.as_ref().map_or_else(|| "all".to_owned(), |events| cell(&events))),
        ("Workflows", endpoint.workflows.as_ref().map_or_else(String::new, |workflows| cell(&workflows))),
        ("Payload", cell_of(endpoint.payload.as_ref().filter(|form| **form != PayloadForm::Full))),
        ("Payloads kept", if endpoint.keep_payload == Some(false) { "no".to_owned() } else { String::new() }),
        ("Requests at a time", endpoint.max_concurrent.map_or_else(String::new, |number| number.to_string())),
        ("Headers", shown(&endpoint.header_names.join(", "))),
        ("Created", time(Some(&endpoint.created_at))),
        ("Changed", time(Some(&endpoint.updated_at))),
        ("Failing since", time(endpoint.failing_since.as_ref())),
        ("First permanent failure", time(endpoint.first_failed_delivery_at.as_ref())),
        ("Disabled", time(endpoint.disabled_at.as_ref())),
        ("Previous secret signs until", until.map_or_else(String::new, |until| format!("{until} UTC"))),
        ("Last call to receive", time(endpoint.last_asked_at.as_ref())),
        ("Last received delivery", time(endpoint.last_taken_at.as_ref())),
        ("Page", api.page(&format!("/console/endpoints/{}", cell(id)))),
    ] {
        if !value.is_empty() {
            print_line(&format!("{title}: {value}"))?;
        }
    }
    Ok(())
}
