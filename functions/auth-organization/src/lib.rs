//! The caller's organization, in the command-line authentication flow: its members, and invitations into it. Plain JSON,
//! with a module for each noun and one handler per route.

use common::{
    accounts::{
        attempts::Attempts, invitations::Invitations, mail::Mailer, members::Members, organizations::Organizations,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    http::{Callers, Function, Origins, Wire},
};

mod invitation;
mod member;
mod organization;

/// The dependencies of the routes.
pub struct App {
    attempts: Attempts,
    callers: Callers,
    invitations: Invitations,
    mailer: Mailer,
    members: Members,
    organizations: Organizations,
}

/// Builds the function with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        attempts: Attempts::from_env(env, &aws)?,
        callers: Callers::from_env(env, &aws)?,
        invitations: Invitations::from_env(env, &aws)?,
        mailer: Mailer::from_env(env, &aws)?,
        members: Members::from_env(env, &aws)?,
        organizations: Organizations::from_env(env, &aws)?,
    };
    let routes = [
        organization::list(),
        organization::full(),
        organization::set_active(),
        invitation::invite(),
        invitation::list(),
        invitation::cancel(),
        member::list(),
        member::active(),
        member::active_role(),
        member::update_role(),
        member::remove(),
        member::leave(),
    ];
    Ok(Function::new(Wire::Plain, app, Origins::from_env(env)?, routes))
}

impl AsRef<Callers> for App {
    fn as_ref(&self) -> &Callers {
        &self.callers
    }
}
