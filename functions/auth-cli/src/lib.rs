//! The command-line authentication flow: a client's calls after sign-up, from verifying the email address to issuing
//! keys. Requests and responses are plain JSON, with a session cookie.

use common::{
    config::{ConfigError, Env},
    http::{Function, Wire},
};

mod api_key;
mod app;
mod done;
mod email;
mod password;
mod session;
mod two_factor;
mod user;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
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
        session::revoke_all(),
        user::update(),
        user::change_email(),
        two_factor::enable(),
        two_factor::verify_code(),
        two_factor::verify_backup_code(),
        two_factor::link(),
        two_factor::renew_codes(),
        two_factor::disable(),
        api_key::create(),
        api_key::list(),
        api_key::delete(),
    ];
    Function::new(Wire::Plain, env, routes)
}
