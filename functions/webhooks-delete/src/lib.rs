//! Deletes a webhook endpoint.

use std::sync::Arc;

use api::{Call as _, webhooks::Delete};
use common::{
    accounts::permissions::Scope,
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Done, Fields, Function, Rejected, Route, Verified},
    id::EndpointId,
    timestamp::Timestamp,
    webhooks::{delivery::Retention, endpoints::Endpoints, log::endings::Endings},
};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        endings: Endings,
        endpoints: Endpoints,
        retention: Retention = Retention::from_env,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(Delete::PATH, Verified, read, handle)
        .scope(Scope::WebhooksWrite)
        .records(&[Action::WebhookDeleted])
        .summary("Deletes a webhook endpoint.")
        .description("Unfinished deliveries to the endpoint get the status `ended`, and remain in the delivery log: those that are \
             held or wait at a pull endpoint within two minutes, and others at their next attempt. A client can still \
             settle the deliveries that it has leased. A delivery whose event arrived during the call ends within \
             twenty minutes.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

fn read(_: &App, fields: &mut Fields) -> Result<EndpointId, Rejected> {
    fields.about("The id of the endpoint to delete.").text(Delete::NAMES.id, EndpointId::parse)
}

async fn handle(app: Arc<App>, call: Call<Caller, Recorder>, id: EndpointId) -> Result<Done> {
    let remembered_until = app.retention.end(Timestamp::now());
    app.endpoints.delete(&call.recorder, &call.caller.organization, id, &app.endings, remembered_until).await?;
    Ok(Done::new("Webhook endpoint deleted"))
}
