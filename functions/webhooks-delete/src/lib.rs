//! Deleting a webhook endpoint.

use std::sync::Arc;

use common::{
    api_keys::{ApiKeys, KeyHolder},
    aws::Aws,
    config::{ConfigError, Env},
    endpoints::Endpoints,
    error::Result,
    http::{Done, Fields, Function, Rejected},
    id::EndpointId,
};

/// The method and path, as the template maps them.
pub const ROUTE: &str = "POST /v1/webhooks/delete";

/// What the route needs.
pub struct App {
    endpoints: Endpoints,
}

/// The function, with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App { endpoints: Endpoints::from_env(env, &aws)? };
    Ok(Function::with_api_key(ROUTE, app, ApiKeys::from_env(env, &aws)?, Input::parse, handle))
}

/// Which endpoint.
pub struct Input {
    id: EndpointId,
}

impl Input {
    fn parse(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields.text("id", EndpointId::parse);
        Ok(Self { id: id? })
    }
}

async fn handle(app: Arc<App>, caller: KeyHolder, input: Input) -> Result<Done> {
    app.endpoints.delete(&caller.tenant, input.id).await?;
    Ok(Done::new("Webhook endpoint deleted"))
}
