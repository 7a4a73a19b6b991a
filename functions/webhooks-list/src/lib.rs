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
        .faults(&[Fault::EmailNotVerified])
}

/// The endpoints of the tenant, oldest first.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    webhook_endpoints: Vec<Endpoint>,
}

/// An endpoint, without its secret and the values of its headers.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "WebhookEndpoint")]
struct Endpoint {
    webhook_endpoint_id: EndpointId,
    kind: Kind,
    /// Absent for a pull endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Description")]
    description: Option<Description>,
    active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EventFilter")]
    events: Option<EventFilter>,
    /// The names of the headers that the endpoint gets with each attempt, sorted; absent if it has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("minItems" = 1, "maxItems" = 10))]
    header_names: Vec<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    previous_secret_expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    failing_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    disabled_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DisabledReason")]
    disabled_reason: Option<DisabledReason>,
    /// When somebody last asked for what waits for a pull endpoint, to ten minutes; absent if nobody has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    last_asked_at: Option<Timestamp>,
    /// When something was last taken, to a minute; absent if nothing has been.
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
