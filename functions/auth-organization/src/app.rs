//! The dependencies of the handlers.

use common::{
    accounts::{
        alerts::Alerts, invitations::Invitations, inviting::Inviting, leaving::Departures, members::Members,
        organizations::Organizations, users::Users,
    },
    application::moving::Moving,
    aws::clients::Aws,
    config::{ConfigError, Env},
};

/// The routes' dependencies.
pub(crate) struct App {
    pub(crate) alerts: Alerts,
    pub(crate) departures: Departures,
    pub(crate) invitations: Invitations,
    pub(crate) inviting: Inviting,
    pub(crate) members: Members,
    pub(crate) moving: Moving,
    pub(crate) organizations: Organizations,
    pub(crate) users: Users,
}

impl App {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            alerts: Alerts::from_env(env, aws)?,
            departures: Departures::from_env(env, aws)?,
            invitations: Invitations::from_env(env, aws)?,
            inviting: Inviting::from_env(env, aws)?,
            members: Members::from_env(env, aws)?,
            moving: Moving::from_env(env, aws)?,
            organizations: Organizations::from_env(env, aws)?,
            users: Users::from_env(env, aws)?,
        })
    }
}
