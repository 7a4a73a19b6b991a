//! Signing in, in the command-line authentication flow: verifying the email address, sessions, and forgotten passwords.
//! Requests and responses are plain JSON, with a session cookie.

use common::{
    config::{ConfigError, Env},
    http::{BodyFormat, Function},
};

mod app;
mod email;
mod password;
mod session;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let routes = [
        email::send_verification(),
        session::sign_in(),
        session::get(),
        session::sign_out(),
        password::request_reset(),
        password::reset(),
        session::list(),
        session::revoke(),
        session::revoke_others(),
        session::revoke_all(),
    ];
    Function::new(BodyFormat::Plain, env, routes)
}
