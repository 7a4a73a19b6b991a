//! Storing a webhook endpoint.

use std::sync::Arc;

use common::{
    api_keys::{ApiKeys, KeyHolder},
    aws::Aws,
    config::{ConfigError, Env},
    destination::DestinationPolicy,
    endpoint_url::EndpointUrl,
    endpoints::{Endpoint, Endpoints},
    error::Result,
    http::{self, Fields, Function, Rejected},
    id::EndpointId,
    name::Description,
    signing_secret::SigningSecret,
    timestamp::Timestamp,
};
use serde::Serialize;

/// The method and path, as the template maps them.
pub const ROUTE: &str = "POST /v1/webhooks/create";

/// What the route needs.
pub struct App {
    endpoints: Endpoints,
    destinations: DestinationPolicy,
    limit: u32,
}

/// The function, with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        endpoints: Endpoints::from_env(env, &aws)?,
        destinations: DestinationPolicy::from_env(env)?,
        limit: env.parsed("MAX_ENDPOINTS_PER_TENANT")?,
    };
    Ok(Function::with_api_key(ROUTE, app, ApiKeys::from_env(env, &aws)?, Input::parse, handle))
}

/// The endpoint to store.
pub struct Input {
    url: EndpointUrl,
    signing_secret: SigningSecret,
    description: Option<Description>,
    active: bool,
}

impl Input {
    fn parse(app: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let url = fields.text("url", |text| EndpointUrl::parse_permitted(text, &app.destinations));
        let signing_secret = fields.text("signing_secret", SigningSecret::parse);
        let description = fields.nullable_text("description", Description::parse);
        let active = fields.optional_bool("active");
        Ok(Self {
            url: url?,
            signing_secret: signing_secret?,
            description: description?.flatten(),
            active: active?.unwrap_or(true),
        })
    }
}

/// The answer.
#[derive(Serialize)]
pub struct Output {
    success: bool,
    webhook_endpoint_id: EndpointId,
    message: &'static str,
}

impl http::Output for Output {}

async fn handle(app: Arc<App>, caller: KeyHolder, input: Input) -> Result<Output> {
    let endpoint = Endpoint {
        id: EndpointId::generate(),
        url: input.url,
        signing_secret: input.signing_secret,
        description: input.description,
        active: input.active,
        created_at: Timestamp::now(),
    };
    app.endpoints.create(&caller.tenant, &endpoint, app.limit).await?;
    Ok(Output { success: true, webhook_endpoint_id: endpoint.id, message: "Webhook endpoint created" })
}
