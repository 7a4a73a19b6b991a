//! The command-line authentication flow: what a client calls after sign-up, from verifying the email to issuing keys. Plain JSON and a session cookie, with one handler per route.

use common::{
    accounts::{
        attempts::Attempts, mail::Mailer, password::Hasher, password_reset::PasswordResets, sign_in::SignIns,
        verification::Verifications,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    http::{Callers, Function, Origins, Wire},
};
use schemars::JsonSchema;
use serde::Serialize;

mod api_key;
mod email;
mod password;
mod session;

/// The dependencies of the routes.
pub struct App {
    attempts: Attempts,
    callers: Callers,
    hasher: Hasher,
    mailer: Mailer,
    resets: PasswordResets,
    sign_ins: SignIns,
    verifications: Verifications,
}

/// Builds the function with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let hasher = Hasher::from_env(env)?;
    let app = App {
        attempts: Attempts::from_env(env, &aws)?,
        callers: Callers::from_env(env, &aws)?,
        sign_ins: SignIns::from_env(env, &aws, hasher.clone())?,
        hasher,
        mailer: Mailer::from_env(env, &aws)?,
        resets: PasswordResets::from_env(env, &aws)?,
        verifications: Verifications::from_env(env, &aws)?,
    };
    let routes = [
        email::send_verification(),
        session::sign_in(),
        session::get(),
        session::sign_out(),
        password::change(),
        password::request_reset(),
        password::reset(),
        session::list(),
        session::revoke(),
        session::revoke_others(),
        api_key::create(),
        api_key::list(),
        api_key::delete(),
    ];
    Ok(Function::new(Wire::Plain, app, Origins::from_env(env)?, routes))
}

/// A plain confirmation, for routes with nothing else to return.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Success {
    success: bool,
}

impl Success {
    const DONE: Self = Self { success: true };
}

/// The same, where clients know it by another name.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Status {
    status: bool,
}

impl Status {
    const DONE: Self = Self { status: true };
}

impl AsRef<Callers> for App {
    fn as_ref(&self) -> &Callers {
        &self.callers
    }
}
