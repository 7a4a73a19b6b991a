//! The dependencies of the handlers.

use common::{
    accounts::{
        alerts::Alerts, api_keys::ApiKeys, attempts::Attempts, email_change::EmailChanges, mail::Mailer,
        password::Hasher, password_reset::PasswordResets, sessions::Sessions, sign_in::SignIns, two_factor::TwoFactor,
        users::Users, verification::Verifications,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
};

/// The routes' dependencies.
pub(crate) struct App {
    pub(crate) alerts: Alerts,
    pub(crate) attempts: Attempts,
    pub(crate) email_changes: EmailChanges,
    pub(crate) hasher: Hasher,
    pub(crate) keys: ApiKeys,
    pub(crate) mailer: Mailer,
    pub(crate) resets: PasswordResets,
    pub(crate) sessions: Sessions,
    pub(crate) sign_ins: SignIns,
    pub(crate) two_factor: TwoFactor,
    pub(crate) users: Users,
    pub(crate) verifications: Verifications,
}

impl App {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        let hasher = Hasher::from_env(env)?;
        Ok(Self {
            alerts: Alerts::from_env(env, aws)?,
            attempts: Attempts::from_env(env, aws)?,
            email_changes: EmailChanges::from_env(env, aws)?,
            sign_ins: SignIns::from_env(env, aws, hasher.clone())?,
            hasher,
            keys: ApiKeys::from_env(env, aws)?,
            mailer: Mailer::from_env(env, aws)?,
            resets: PasswordResets::from_env(env, aws)?,
            sessions: Sessions::from_env(env, aws)?,
            two_factor: TwoFactor::from_env(env, aws)?,
            users: Users::from_env(env, aws)?,
            verifications: Verifications::from_env(env, aws)?,
        })
    }
}
