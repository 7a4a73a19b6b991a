//! Lists the webhook endpoints of the caller's tenant.

use std::sync::Arc;

use api::{
    Call as _,
    webhooks::{Endpoint, List, Listed},
};
use common::{
    accounts::permissions::Scope,
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, DeclaredError, Function, Route, Tenant},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::endpoints::{EndpointView, Endpoints, Options},
};

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<Endpoints> {
    Route::post(List::PATH, Tenant, |_, _| Ok(()), handle)
        .scope(Scope::WebhooksRead)
        .summary("Lists the webhook endpoints, oldest first.")
        .description(
            "The list contains neither secrets nor header values. The organization's `debugNotificationEmail` gets an \
             email within ten minutes when an endpoint is failing, and within a minute when the service disables it and \
             when it works again. An endpoint is failing if its last three attempts or more have failed, the first of \
             them at least five minutes ago, or if a delivery has failed permanently since the last success.",
        )
        .errors(&[DeclaredError::EmailNotVerified])
}

/// Returns the endpoint in the API's format.
fn shown(view: EndpointView, now: Timestamp) -> Endpoint {
    let url_as_sent = view.url_as_sent();
    let Options { description, events, workflows, payload, keep_payload, max_concurrent } = view.options;
    let (disabled_at, disabled_reason) = view.disabled.unzip();
    Endpoint {
        webhook_endpoint_id: view.id.into(),
        kind: view.kind.into(),
        url: view.url,
        url_as_sent,
        description: description.map(Into::into),
        active: view.active,
        events: events.map(Into::into),
        workflows: workflows.map(Into::into),
        payload: payload.map(Into::into),
        keep_payload,
        max_concurrent: max_concurrent.map(|ceiling| ceiling.get().into()),
        header_names: view.header_names,
        created_at: view.created_at.into(),
        updated_at: view.updated_at.into(),
        previous_secret_expires_at: view.previous_secret_expires_at.filter(|at| now < *at).map(Into::into),
        failing_since: view.health.failing_since(now).map(Into::into),
        first_failed_delivery_at: view.health.first_failed_at.map(Into::into),
        disabled_at: disabled_at.map(Into::into),
        disabled_reason: disabled_reason.map(Into::into),
        last_asked_at: view.pulled.asked_at.map(Into::into),
        last_taken_at: view.pulled.taken_at.map(Into::into),
    }
}

async fn handle(endpoints: Arc<Endpoints>, call: Call<TenantId>, (): ()) -> Result<Listed> {
    let endpoints = endpoints.list(&call.caller).await?;
    let now = Timestamp::now();
    Ok(Listed { webhook_endpoints: endpoints.into_iter().map(|view| shown(view, now)).collect() })
}
