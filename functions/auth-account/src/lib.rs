//! The caller's own account in the command-line authentication flow: name, address, password, second factor and API
//! keys. Requests and responses are plain JSON.

use common::{
    config::{ConfigError, Env},
    http::{BodyFormat, Function},
};

mod api_key;
mod app;
mod password;
mod two_factor;
mod user;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let routes = [
        password::change(),
        user::update(),
        user::change_email(),
        two_factor::setup::enable(),
        two_factor::code::verify(),
        two_factor::code::verify_backup(),
        two_factor::setup::link(),
        two_factor::setup::renew_codes(),
        two_factor::setup::disable(),
        api_key::create(),
        api_key::list(),
        api_key::delete(),
    ];
    Function::new(BodyFormat::Plain, env, routes)
}
