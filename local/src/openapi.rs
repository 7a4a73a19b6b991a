//! Builds the API's OpenAPI description from the routes of the template's functions.

use std::{collections::BTreeMap, iter, sync::Arc};

use common::http;
use serde_json::{Map, Value, json};

use crate::functions::{Function, Handler};

/// Describes the routes of `functions`, for clients. The session cookie has the name that it has over https, or over
/// `http` for this process.
pub(crate) fn published(functions: &BTreeMap<String, Arc<Function>>, session: Session) -> Value {
    let mut document = document(functions);
    http::openapi::open(&mut document);
    let name = document.pointer_mut("/components/securitySchemes/session/name");
    if let (Session::OverHttp, Some(name)) = (session, name) {
        *name = json!("session_token");
    }
    document
}

/// How clients send the session cookie, which determines its name.
#[derive(Clone, Copy)]
pub(crate) enum Session {
    OverHttps,
    OverHttp,
}

/// Describes the routes of `functions` exactly: objects have no other members.
pub(crate) fn document(functions: &BTreeMap<String, Arc<Function>>) -> Value {
    let http = functions.values().filter_map(|function| match &function.handler {
        Handler::Http(function) => Some(function),
        Handler::Event(_) => None,
    });
    http::openapi::document(http, env!("CARGO_PKG_VERSION"), webhooks())
}

/// The members of an event that describe a job. In test events, they are null.
const JOB_MEMBERS: [(&str, &str); 7] = [
    ("nonce", "A value from the producer that distinguishes runs of the job."),
    ("workflow", "The workflow that the job belongs to."),
    ("deployment_id", "The deployment that ran the job."),
    ("status", "The result of the job, as reported by the producer."),
    ("result", "The result of the job."),
    ("error", "The error of the job."),
    ("mapped_stack", "The stack trace of the error, mapped to its sources."),
];

/// The headers of every request to a receiver.
const HEADERS: [(&str, &str); 6] = [
    ("x-event-type", "The name of the event."),
    ("x-event-time", "When the event entered its queue, in RFC 3339 with milliseconds. The same for all attempts."),
    ("webhook-id", "Identifies the event for this destination. The same for all attempts and duplicates."),
    ("webhook-timestamp", "The time of this attempt, in Unix seconds."),
    (
        "webhook-signature",
        "For each key, `v1,` and the base64 HMAC-SHA256 of `{webhook-id}.{webhook-timestamp}.{body}`, separated by \
         spaces.",
    ),
    ("x-webhook-signature", "The hex HMAC-SHA256 of the body alone."),
];

/// The headers that only some requests have.
const OPTIONAL_HEADERS: [(&str, &str); 2] = [
    ("x-event-payload", "`thin` for an event without its results; otherwise absent."),
    ("traceparent", "The position of the job in a trace (W3C Trace Context), if the job event has one."),
];

/// The requests that are sent to receivers.
fn webhooks() -> Value {
    json!({
        "job.completed": job("job.completed", "A job has completed."),
        "job.failed": job("job.failed", "A job has failed."),
        "webhook.test": test(),
        "endpoint.failing": notice("endpoint.failing", "Another endpoint of the organization is failing."),
        "endpoint.disabled": notice("endpoint.disabled", "The service has disabled another endpoint of the organization."),
        "endpoint.recovered": notice("endpoint.recovered", "Another endpoint of the organization works again."),
    })
}

/// The responses to an event that is retried if an attempt fails.
fn responses() -> Value {
    json!({
        "2XX": { "description": "Delivered." },
        "410": { "description": "Not delivered, and not retried. The service disables the endpoint." },
        "default": { "description": "The attempt failed. The next one follows the retry schedule." },
    })
}

/// The request with a notice about an endpoint, for endpoints that select this notice.
fn notice(name: &str, summary: &str) -> Value {
    let text = |about: &str| json!({ "description": about, "type": "string" });
    let integer = |about: &str| json!({ "description": about, "type": "integer" });
    let nullable = |about: &str| json!({ "description": about, "type": ["string", "null"] });
    let newest = |about| nullable(&format!("{about}; null if it is not known, or if the endpoint works again."));
    let members = [
        ("webhook_endpoint_id", text("The id of the endpoint that the notice is about.")),
        ("url", nullable("The URL of that endpoint, without the query; null for a pull endpoint.")),
        ("since", text("The time of its first failed attempt after its last success.")),
        (
            "reason",
            nullable(
                "The outcome of the endpoint's latest failed attempt, such as `status_5xx`; `failing` or `gone` if the \
                 service disabled it; null if it works again.",
            ),
        ),
        ("failed", integer("The number of deliveries that have failed permanently since `since`.")),
        ("at", text("The time of the change.")),
        ("delivery_id", newest("The id of the delivery of the endpoint's newest failed attempt")),
        ("job_id", newest("The id of that delivery's job")),
        ("workflow", newest("The workflow of that job")),
        ("outcome", newest("The outcome of that delivery's last attempt, such as `status_5xx`")),
        ("pending", integer("The number of deliveries that wait for another attempt after a failed one.")),
    ];
    request(name, summary, members, &responses())
}

fn job(name: &str, summary: &str) -> Value {
    let job_id = json!({ "description": "The id of the job; `test` in a sample.", "type": "string" });
    let member = |about| json!({ "description": format!("{about} As sent by the producer, or null.") });
    event(name, summary, job_id, member, responses())
}

fn test() -> Value {
    let responses = json!({
        "2XX": { "description": "Delivered." },
        "default": { "description": "Not delivered. Tests are attempted only once." },
    });
    let summary = "A test of the endpoint, requested by its owner.";
    let job_id = json!({ "description": "Always `test`.", "const": "test" });
    let member = |_| json!({ "description": "Always null: there is no job.", "const": null });
    event("webhook.test", summary, job_id, member, responses)
}

/// Builds the request with an event. `member` returns the schema of a member that describes the job, given its purpose.
fn event(name: &str, summary: &str, job_id: Value, member: impl Fn(&'static str) -> Value, responses: Value) -> Value {
    let described = JOB_MEMBERS.map(|(name, about)| (name, member(about)));
    request(name, summary, iter::once(("job_id", job_id)).chain(described), &responses)
}

/// Builds the request whose body contains the event's name and these members.
fn request(
    name: &str,
    summary: &str,
    members: impl IntoIterator<Item = (&'static str, Value)>,
    responses: &Value,
) -> Value {
    let event = ("event", json!({ "description": "The name of the event.", "const": name }));
    let members: Vec<_> = iter::once(event).chain(members).collect();
    let required: Vec<_> = members.iter().map(|(member, _)| *member).collect();
    let properties: Map<_, _> = members.into_iter().map(|(member, schema)| (member.to_owned(), schema)).collect();
    let headers = HEADERS.map(|(name, description)| {
        json!({
            "name": name, "in": "header", "required": true, "description": description,
            "schema": { "type": "string" },
        })
    });
    let optional = OPTIONAL_HEADERS.map(|(name, description)| {
        json!({ "name": name, "in": "header", "description": description, "schema": { "type": "string" } })
    });
    json!({ "post": {
        "operationId": name,
        "summary": summary,
        "description": summary,
        // Receivers verify the signatures instead.
        "security": [],
        "parameters": headers.into_iter().chain(optional).collect::<Vec<_>>(),
        "requestBody": { "required": true, "content": { "application/json": { "schema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        } } } },
        "responses": responses,
    } })
}
