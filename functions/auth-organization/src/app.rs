//! What the handlers need.

use common::{
    accounts::{
        api_keys::ApiKeys, attempts::Attempts, invitations::Invitations, mail::Mailer, members::Members,
        organizations::Organizations,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
};

/// The dependencies of the routes.
pub(crate) struct App {
    pub(crate) attempts: Attempts,
    pub(crate) invitations: Invitations,
    pub(crate) keys: ApiKeys,
    pub(crate) mailer: Mailer,
    pub(crate) members: Members,
    pub(crate) organizations: Organizations,
}

impl App {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            attempts: Attempts::from_env(env, aws)?,
            invitations: Invitations::from_env(env, aws)?,
            keys: ApiKeys::from_env(env, aws)?,
            mailer: Mailer::from_env(env, aws)?,
            members: Members::from_env(env, aws)?,
            organizations: Organizations::from_env(env, aws)?,
        })
    }
}
