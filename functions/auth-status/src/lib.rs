//! Returns the signed-in user and their organization.

use std::sync::Arc;

use common::{
    accounts::email::EmailAddress,
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Function, Route, Session, SignedIn},
    id::{TenantId, UserId},
};
use schemars::JsonSchema;
use serde::Serialize;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<()> {
    Route::post("/v1/auth/status", Session, |_, _| Ok(()), handle)
        .summary("Returns the signed-in user and their organization.")
        .description("API keys cannot call this route.")
}

/// The user and their organization.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// The id of the user.
    user_id: UserId,
    /// The email address for signing in.
    email: EmailAddress,
    /// Whether the user has verified their email address.
    email_verified: bool,
    /// Always `true`, because every user belongs to exactly one organization.
    has_tenant: bool,
    /// The id of the organization. Producers put it into job events as `tenant_id`.
    tenant_id: TenantId,
}

async fn handle(_: Arc<()>, call: Call<SignedIn>, (): ()) -> Result<Output> {
    let user = call.caller.user;
    Ok(Output {
        user_id: user.id,
        email: user.email,
        email_verified: user.email_verified,
        // Always true, but clients expect the field.
        has_tenant: true,
        tenant_id: user.organization,
    })
}
