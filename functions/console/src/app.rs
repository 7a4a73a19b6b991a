//! What the handlers need.

use common::{
    accounts::{
        api_keys::ApiKeys, cli_logins::CliLogins, invitations::Invitations, mail::Mailer, organizations::Organizations,
        password::Hasher, password_reset::PasswordResets, sessions::Sessions, sign_in::SignIns, signup::Accounts,
        verification::Verifications,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
};

use crate::docs::Docs;

/// The dependencies of the pages.
pub(crate) struct App {
    pub(crate) accounts: Accounts,
    pub(crate) docs: Option<Docs>,
    pub(crate) hasher: Hasher,
    pub(crate) invitations: Invitations,
    pub(crate) keys: ApiKeys,
    pub(crate) logins: CliLogins,
    pub(crate) mailer: Mailer,
    pub(crate) organizations: Organizations,
    pub(crate) resets: PasswordResets,
    pub(crate) sessions: Sessions,
    pub(crate) sign_ins: SignIns,
    pub(crate) verifications: Verifications,
}

impl App {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        let hasher = Hasher::from_env(env)?;
        Ok(Self {
            accounts: Accounts::from_env(env, aws)?,
            docs: Docs::from_env(env)?,
            invitations: Invitations::from_env(env, aws)?,
            keys: ApiKeys::from_env(env, aws)?,
            logins: CliLogins::from_env(env, aws)?,
            mailer: Mailer::from_env(env, aws)?,
            organizations: Organizations::from_env(env, aws)?,
            resets: PasswordResets::from_env(env, aws)?,
            sessions: Sessions::from_env(env, aws)?,
            sign_ins: SignIns::from_env(env, aws, hasher.clone())?,
            hasher,
            verifications: Verifications::from_env(env, aws)?,
        })
    }
}
