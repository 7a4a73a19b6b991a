//! Explains the state of a delivery: what happened, why, and what can be done.

use api::{
    Extensible,
    deliveries::{Attempt, Delivery, Found, Status},
    outcome::{error_meaning, error_name},
    webhooks::{DisabledReason, Endpoint, Kind},
};

use crate::{clock, deliveries::is_delivered, ids, terminal::cell};

/// The maximum number of characters of a response.
const RESPONSE: usize = 300;

/// Explains a delivery. `endpoint` is the delivery's endpoint, if it exists and could be read.
pub(super) fn explained(Found { delivery, payload, attempts, .. }: &Found, endpoint: Option<&Endpoint>) -> Vec<String> {
    let made = match delivery.attempts {
        0 => "no attempt".to_owned(),
        1 => "1 attempt".to_owned(),
        many => format!("{many} attempts"),
    };
    let Delivery { delivery_id, event, job_id, status, .. } = delivery;
    let receiver = receiver(delivery, endpoint);
    let mut lines = vec![format!(
        "Delivery {}, {} of {} to {receiver}: {} after {made}.",
        cell(delivery_id),
        cell(event),
        cell(job_id),
        cell(status)
    )];
    lines.extend(attempts.last().map(attempted));
    lines.push(consequence(delivery, endpoint));
    lines.extend(endpoint.and_then(state));
    if payload.is_none() && *status != Status::Pending {
        lines.push("Its payload is no longer stored, so it cannot be resent.".to_owned());
    }
    lines
}

fn receiver(delivery: &Delivery, endpoint: Option<&Endpoint>) -> String {
    match (&delivery.webhook_endpoint_id, endpoint) {
        (None, _) => "the callback of its job".to_owned(),
        (Some(id), Some(endpoint)) => format!("{} (endpoint {})", ids::label(endpoint), cell(id)),
        (Some(id), None) => format!("endpoint {}", cell(id)),
    }
}

fn attempted(last: &Attempt) -> String {
    let when = format!("The last attempt, {} ago ({} UTC),", clock::age(&last.at), clock::short(&last.at));
    let name = error_name(&last.outcome, last.status_code);
    if is_delivered(last) {
        return format!("{when} was accepted with {name} after {} ms.", last.duration_ms);
    }
    let meaning = cell(&error_meaning(&last.outcome, last.detail.as_deref()));
    let signature = match last.status_code {
        Some(400 | 401 | 403) => {
            " Receivers often respond so because they reject the signature; verifying the request as they saw it shows why."
        }
        _ => "",
    };
    let response = last.response.as_deref().map(str::trim).filter(|response| !response.is_empty());
    let response = response.map_or_else(String::new, |response| {
        format!(" Its response begins: {}", cell(&response.chars().take(RESPONSE).collect::<String>()))
    });
    format!("{when} failed after {} ms: {name}. {meaning}{signature}{response}", last.duration_ms)
}

/// The consequence of the status, and the remedy.
fn consequence(delivery: &Delivery, endpoint: Option<&Endpoint>) -> String {
    let is_active = endpoint.is_none_or(|endpoint| endpoint.active);
    let is_fetched = endpoint.is_some_and(|endpoint| endpoint.active && endpoint.kind == Kind::Pull);
    let is_retried = delivery.next_attempt_at.as_ref().is_some_and(clock::is_ahead);
    match &delivery.status {
        Extensible::Known(Status::Delivered) => "Nothing has to be done.".to_owned(),
        Extensible::Known(Status::Held | Status::Pending) if is_fetched && !is_retried => {
            "It waits at a pull endpoint until a client, such as `fanfare listen`, receives and settles it.".to_owned()
        }
        Extensible::Known(Status::Pending) => match delivery.next_attempt_at.as_ref() {
            Some(at) if clock::is_ahead(at) => {
                let wait = clock::until(at).unwrap_or_default();
                format!("The next attempt is due in {wait}, at {} UTC. A resend makes it now.", clock::short(at))
            }
            _ => "The next attempt is due: it is in progress, or waits because the receiver is slow or silent."
                .to_owned(),
        },
        Extensible::Known(Status::Failed) => {
            "No more attempts follow. Once the receiver works, resend this delivery, or recover all deliveries that it \
             missed."
                .to_owned()
        }
        Extensible::Known(Status::Held) if is_active => {
            "It is held. A resend or a recovery of held deliveries sends it.".to_owned()
        }
        Extensible::Known(Status::Held) => {
            "It is held because the endpoint is inactive. Enable the endpoint, then recover held deliveries.".to_owned()
        }
        Extensible::Known(Status::Ended) => {
            "It ended: its endpoint was deleted, or it was erased while it waited at a pull endpoint.".to_owned()
        }
        Extensible::Later(_) => "This client does not know the status. Update fanfare.".to_owned(),
    }
}

/// The state of the endpoint, unless it is healthy.
fn state(endpoint: &Endpoint) -> Option<String> {
    match (endpoint.active, &endpoint.disabled_reason, &endpoint.failing_since) {
        (false, Some(reason), _) if *reason == DisabledReason::Gone => {
            Some("The service disabled the endpoint, because its receiver answered HTTP 410.".to_owned())
        }
        (false, Some(reason), _) => Some(format!("The service disabled the endpoint: {}.", cell(reason))),
        (false, None, _) => Some("The endpoint was disabled by the team.".to_owned()),
        (true, _, Some(since)) => Some(format!(
            "The endpoint is failing: no attempt has succeeded since {} UTC ({} ago).",
            clock::short(since),
            clock::age(since)
        )),
        (true, _, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ENDPOINT: &str = "01a1fd8f-0d9d-7467-9431-944eedd69c67";

    fn explanation(status: &str, attempt: Value, endpoint: &Value) -> String {
        let attempts = if attempt.is_null() { vec![] } else { vec![attempt] };
        let found = json!({
            "delivery": {
                "delivery_id": format!("{ENDPOINT}.0.1769860800999.0123456789abcdef0123456789abcdef"),
                "webhook_id": "msg_0123456789abcdef0123456789abcdef", "webhook_endpoint_id": ENDPOINT,
                "event": "job.failed", "job_id": "job-1", "status": status, "attempts": attempts.len(),
                "created_at": "2026-01-31T12:00:00.000Z", "next_attempt_at": "2026-01-31T12:00:05.000Z",
            },
            "payload": "{}",
            "attempts": attempts,
        });
        let found: Found = serde_json::from_value(found).expect("a delivery");
        let endpoint: Option<Endpoint> = serde_json::from_value(endpoint.clone()).expect("an endpoint");
        explained(&found, endpoint.as_ref()).join("\n")
    }

    fn endpoint(active: bool) -> Value {
        let at = "2026-01-31T12:00:00.000Z";
        json!({
            "webhook_endpoint_id": ENDPOINT, "kind": "push", "url": "https://example.com/hook", "active": active,
            "created_at": at, "updated_at": at, "failing_since": at,
        })
    }

    fn attempt(outcome: &str, status: Option<u16>) -> Value {
        let response = status.filter(|status| *status != 200).map(|_| " no\u{1b} match\n");
        json!({
            "at": "2026-01-31T12:00:00.000Z", "outcome": outcome, "status_code": status, "duration_ms": 12,
            "response": response, "trigger": "event",
        })
    }

    #[test]
    fn a_failure_has_its_cause_and_what_can_be_done() {
        let text = explanation("failed", attempt("status_4xx", Some(401)), &endpoint(true));
        for part in [
            format!("job.failed of job-1 to https://example.com/hook (endpoint {ENDPOINT}): failed after 1 attempt."),
            "failed after 12 ms: HTTP 401. The receiver rejected the request.".to_owned(),
            "reject the signature; verifying the request".to_owned(),
            "Its response begins: no\u{FFFD} match".to_owned(),
            "Once the receiver works, resend this delivery".to_owned(),
            "The endpoint is failing: no attempt has succeeded since 2026-01-31 12:00:00 UTC".to_owned(),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
    }

    #[test]
    fn each_status_has_a_consequence() {
        for (status, attempt, active, part) in [
            ("delivered", attempt("delivered", Some(200)), true, "was accepted with HTTP 200"),
            ("pending", Value::Null, true, ": pending after no attempt.\nThe next attempt is due: it is in progress"),
            ("held", Value::Null, true, "A resend or a recovery"),
            (
                "held",
                Value::Null,
                false,
                "Enable the endpoint, then recover held deliveries.\nThe endpoint was disabled",
            ),
            (
                "ended",
                attempt("timeout", None),
                true,
                "Timeout. No complete response arrived in time.\nIt ended: its endpoint was deleted, or",
            ),
            ("paused", Value::Null, true, "Update fanfare."),
        ] {
            let text = explanation(status, attempt, &endpoint(active));
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut pull = endpoint(true);
        pull["kind"] = json!("pull");
        for status in ["held", "pending"] {
            let text = explanation(status, Value::Null, &pull);
            assert!(text.contains("until a client, such as `fanfare listen`, receives"), "{text}");
        }
        let callback = explanation("held", Value::Null, &Value::Null);
        assert!(callback.contains(&format!("to endpoint {ENDPOINT}")), "{callback}");
    }
}
