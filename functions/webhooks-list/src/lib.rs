//! Lists the webhook endpoints of the caller's tenant.

use std::sync::Arc;

use common::{
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{Call, Fault, Function, Route, Tenant, Wire},
    id::{EndpointId, TenantId},
    name::Description,
    timestamp::Timestamp,
    webhooks::{
        endpoints::{DisabledReason, EndpointView, Endpoints, Kind},
        event::EventFilter,
    },
};
use schemars::JsonSchema;
use serde::Serialize;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    Function::new(Wire::Envelope, env, &aws, Endpoints::from_env(env, &aws)?, [route()])
}

fn route() -> Route<Endpoints> {
    Route::post("/v1/webhooks/list", Tenant, |_, _| Ok(()), handle)
        .summary("Lists the webhook endpoints, oldest first.")
        .description(
            "Secrets and the values of headers are never returned. The `debugNotificationEmail` of the organization \
             gets an email when an endpoint starts to fail and when the service disables it.",
        )
        .faults(&[Fault::EmailNotVerified])
}

/// The endpoints of the organization, oldest first.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// All endpoints of the organization, oldest first.
    webhook_endpoints: Vec<Endpoint>,
}

/// An endpoint, without its secret and the values of its headers.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "WebhookEndpoint")]
#[schemars(extend("examples" = [{
    "webhook_endpoint_id": "01a1fd8f-0d9d-7467-9431-944eedd69c67",
    "kind": "push",
    "url": "https://example.com/hook",
    "description": "Our staging server",
    "active": true,
    "events": ["job.completed"],
    "header_names": ["authorization"],
    "created_at": "2026-01-31T12:00:00.000Z",
    "updated_at": "2026-01-31T12:00:00.000Z",
}]))]
struct Endpoint {
    /// The id of the endpoint.
    webhook_endpoint_id: EndpointId,
    /// How events reach the receiver: the service posts them (`push`), or a program receives them (`pull`).
    kind: Kind,
    /// The URL to which events are posted; absent for pull endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    #[schemars(extend("examples" = ["https://example.com/hook"]))]
    url: Option<String>,
    /// The description of the endpoint; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Description")]
    description: Option<Description>,
    /// Whether deliveries are attempted. Deliveries to an inactive endpoint are held.
    active: bool,
    /// The events that the endpoint gets; absent if it gets all events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EventFilter")]
    events: Option<EventFilter>,
    /// The names of the headers that are sent with each attempt, in lower case and sorted; absent if the endpoint has
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1, "maxItems" = 10))]
    #[schemars(extend("examples" = [["authorization"]]))]
    header_names: Vec<String>,
    /// When the endpoint was created.
    created_at: Timestamp,
    /// When the endpoint was last changed.
    updated_at: Timestamp,
    /// The time until which the previous signing secret also signs; absent afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    previous_secret_expires_at: Option<Timestamp>,
    /// The time since which all deliveries to the endpoint have failed; absent while they succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    failing_since: Option<Timestamp>,
    /// When the service disabled the endpoint; absent if the service has not disabled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    disabled_at: Option<Timestamp>,
    /// The reason why the service disabled the endpoint; absent if the service has not disabled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DisabledReason")]
    disabled_reason: Option<DisabledReason>,
    /// When a program last called `receive` for the pull endpoint, accurate to ten minutes; absent before the first
    /// call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    last_asked_at: Option<Timestamp>,
    /// When a program last received a delivery of the pull endpoint, accurate to a minute; absent before the first
    /// delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    last_taken_at: Option<Timestamp>,
}

impl Endpoint {
    /// An endpoint in its state at `now`.
    fn new(view: EndpointView, now: Timestamp) -> Self {
        let previous_secret_expires_at = view.previous_secret_expires_at.filter(|at| now < *at);
        let EndpointView {
            id,
            kind,
            url,
            pulled,
            description,
            active,
            events,
            header_names,
            created_at,
            updated_at,
            failing_since,
            disabled,
            ..
        } = view;
        let (disabled_at, disabled_reason) = disabled.unzip();
        Self {
            webhook_endpoint_id: id,
            kind,
            url,
            description,
            active,
            events,
            header_names,
            created_at,
            updated_at,
            previous_secret_expires_at,
            failing_since,
            disabled_at,
            disabled_reason,
            last_asked_at: pulled.asked_at,
            last_taken_at: pulled.taken_at,
        }
    }
}

async fn handle(endpoints: Arc<Endpoints>, call: Call<TenantId>, (): ()) -> Result<Output> {
    let endpoints = endpoints.list(&call.caller).await?;
    let now = Timestamp::now();
    Ok(Output { webhook_endpoints: endpoints.into_iter().map(|view| Endpoint::new(view, now)).collect() })
}
