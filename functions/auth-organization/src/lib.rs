//! The caller's organization in the command-line authentication flow: its members and invitations. Requests and
//! responses are plain JSON.

use common::{
    config::{ConfigError, Env},
    http::{BodyFormat, Function},
};

mod app;
mod invitation;
mod member;
mod organization;
mod received_invitations;
mod rights;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let routes = [
        organization::list(),
        organization::full(),
        organization::set_active(),
        organization::update(),
        invitation::invite(),
        invitation::list(),
        invitation::cancel(),
        received_invitations::get(),
        received_invitations::list(),
        received_invitations::accept(),
        received_invitations::reject(),
        member::list(),
        member::active(),
        member::active_role(),
        member::update_role(),
        member::remove(),
        member::leave(),
    ];
    Function::new(BodyFormat::Plain, env, routes)
}
