//! Changing a webhook endpoint.

use std::sync::Arc;

use common::{
    api_keys::{ApiKeys, KeyHolder},
    aws::Aws,
    config::{ConfigError, Env},
    destination::DestinationPolicy,
    endpoint_url::EndpointUrl,
    endpoints::{Change, Endpoints},
    error::Result,
    http::{Done, Fields, Function, Rejected},
    id::EndpointId,
    name::Description,
    signing_secret::SigningSecret,
    timestamp::Timestamp,
};

/// The method and path, as the template maps them.
pub const ROUTE: &str = "POST /v1/webhooks/update";

/// What the route needs.
pub struct App {
    endpoints: Endpoints,
    destinations: DestinationPolicy,
}

/// The function, with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App { endpoints: Endpoints::from_env(env, &aws)?, destinations: DestinationPolicy::from_env(env)? };
    Ok(Function::with_api_key(ROUTE, app, ApiKeys::from_env(env, &aws)?, Input::parse, handle))
}

/// Which endpoint, and what to change of it.
pub struct Input {
    id: EndpointId,
    change: Change,
}

impl Input {
    fn parse(app: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields.text("id", EndpointId::parse);
        let url = fields.optional_text("url", |text| EndpointUrl::parse_permitted(text, &app.destinations));
        let signing_secret = fields.optional_text("signing_secret", SigningSecret::parse);
        let description = fields.nullable_text("description", Description::parse);
        let active = fields.optional_bool("active");
        let change = Change { url: url?, signing_secret: signing_secret?, description: description?, active: active? };
        Ok(Self { id: id?, change })
    }
}

async fn handle(app: Arc<App>, caller: KeyHolder, input: Input) -> Result<Done> {
    app.endpoints.update(&caller.tenant, input.id, input.change, Timestamp::now()).await?;
    Ok(Done::new("Webhook endpoint updated"))
}
