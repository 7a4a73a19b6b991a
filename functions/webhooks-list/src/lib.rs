//! Listing the webhook endpoints of the caller's tenant.

use std::sync::Arc;

use common::{
    api_keys::{ApiKeys, KeyHolder},
    aws::Aws,
    config::{ConfigError, Env},
    endpoints::{EndpointView, Endpoints},
    error::Result,
    http::{self, Function},
};
use serde::Serialize;

/// The method and path, as the template maps them.
pub const ROUTE: &str = "POST /v1/webhooks/list";

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
    Ok(Function::with_api_key(ROUTE, app, ApiKeys::from_env(env, &aws)?, |_, _| Ok(()), handle))
}

/// The answer.
#[derive(Serialize)]
pub struct Output {
    webhook_endpoints: Vec<EndpointView>,
}

impl http::Output for Output {}

async fn handle(app: Arc<App>, caller: KeyHolder, (): ()) -> Result<Output> {
    Ok(Output { webhook_endpoints: app.endpoints.list(&caller.tenant).await? })
}
