//! The command-line authentication flow: what a client calls after sign-up, from verifying the email to
//! issuing keys. Plain JSON, a session cookie, one table of routes and a handler each.

use std::sync::Arc;

use common::{
    api_keys::ApiKeys,
    aws::Aws,
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::{Error, Result},
    http::{Call, Failure, Function, Reply},
    sessions::Sessions,
    verification::Verifications,
};

mod routes;

/// The method and path, as the template maps them.
pub const ROUTE: &str = "ANY /api/auth/{proxy+}";

/// What the routes need.
pub struct App {
    sessions: Sessions,
    verifications: Verifications,
    keys: ApiKeys,
    trusted_origins: Vec<BaseUrl>,
}

/// The function, with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        sessions: Sessions::from_env(env, &aws)?,
        verifications: Verifications::from_env(env, &aws)?,
        keys: ApiKeys::from_env(env, &aws)?,
        trusted_origins: env.list("TRUSTED_ORIGINS")?,
    };
    Ok(Function::plain(app, BaseUrl::from_env(env)?, handle))
}

/// The table of routes.
async fn handle(app: Arc<App>, call: Call) -> Result<Reply, Failure> {
    Ok(match call.route() {
        ("GET", "/api/auth/verify-email") => routes::verify_email(&app, &call).await?,
        ("GET", "/api/auth/get-session") => routes::get_session(&app, &call).await?,
        ("POST", "/api/auth/api-key/create") => routes::create_api_key(&app, &call).await?,
        (_, "/api/auth/verify-email" | "/api/auth/get-session" | "/api/auth/api-key/create") => {
            return Err(Failure::Method);
        }
        _ => return Err(Error::NotFound("Not found").into()),
    })
}
