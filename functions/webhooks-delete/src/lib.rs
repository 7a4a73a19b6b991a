//! Deleting a webhook endpoint.

use std::sync::Arc;

use common::{
    accounts::api_keys::{ApiKeys, KeyHolder},
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{Call, Done, Fault, Fields, Function, Key, Origins, Rejected, Route, Wire},
    id::EndpointId,
    webhooks::endpoints::Endpoints,
};

/// The dependencies of the route.
pub struct App {
    keys: ApiKeys,
    endpoints: Endpoints,
}

impl AsRef<ApiKeys> for App {
    fn as_ref(&self) -> &ApiKeys {
        &self.keys
    }
}

/// Builds the function with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App { keys: ApiKeys::from_env(env, &aws)?, endpoints: Endpoints::from_env(env, &aws)? };
    Ok(Function::new(Wire::Envelope, app, Origins::none(), [route()]))
}

fn route() -> Route<App> {
    Route::post("/v1/webhooks/delete", Key, Input::read, handle)
        .summary("Deletes a webhook endpoint.")
        .faults(&[Fault::NotFound])
}

/// The endpoint to delete.
pub struct Input {
    id: EndpointId,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields.text("id", EndpointId::parse);
        Ok(Self { id: id? })
    }
}

async fn handle(app: Arc<App>, call: Call<KeyHolder>, input: Input) -> Result<Done> {
    app.endpoints.delete(&call.caller.tenant, input.id).await?;
    Ok(Done::new("Webhook endpoint deleted"))
}
