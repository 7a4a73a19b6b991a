//! Who is signed in, and to which tenant.

use std::sync::Arc;

use common::{
    accounts::email::Email,
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{Call, Callers, Function, Origins, Route, Session, SignedIn, Wire},
    id::{TenantId, UserId},
};
use schemars::JsonSchema;
use serde::Serialize;

/// The dependencies of the route.
pub struct App {
    callers: Callers,
}

impl AsRef<Callers> for App {
    fn as_ref(&self) -> &Callers {
        &self.callers
    }
}

/// Builds the function with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let app = App { callers: Callers::from_env(env, &Aws::new(env)?)? };
    Ok(Function::new(Wire::Envelope, app, Origins::from_env(env)?, [route()]))
}

fn route() -> Route<App> {
    Route::post("/v1/auth/status", Session, |_, _| Ok(()), handle)
        .summary("Returns who is signed in, and their tenant.")
}

/// The user and their tenant.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    user_id: UserId,
    email: Email,
    email_verified: bool,
    has_tenant: bool,
    tenant_id: TenantId,
}

async fn handle(_: Arc<App>, call: Call<SignedIn>, (): ()) -> Result<Output> {
    let user = call.caller.user;
    Ok(Output {
        user_id: user.id,
        email: user.email,
        email_verified: user.email_verified,
        // A user without one does not exist, but clients ask.
        has_tenant: true,
        tenant_id: user.organization,
    })
}
