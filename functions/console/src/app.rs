//! The dependencies of the handlers.

use common::{
    accounts::{
        alerts::Alerts,
        api_keys::ApiKeys,
        attempts::{Attempts, VERIFICATION_MAIL},
        cli_logins::CliLogins,
        email_change::EmailChanges,
        invitations::Invitations,
        inviting::Inviting,
        leaving::Departures,
        mail::Mailer,
        members::Members,
        organizations::Organizations,
        password::Hasher,
        password_reset::PasswordResets,
        sessions::Sessions,
        settings::Settings,
        sign_in::SignIns,
        signup::Accounts,
        two_factor::TwoFactor,
        users::{User, Users},
        verification::Verifications,
    },
    application::{deletion::Deletions, moving::Moving},
    audit::AuditLog,
    aws::clients::Aws,
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::Result,
    presentation::docs::Docs,
    timestamp::Timestamp,
    webhooks::endpoints::Endpoints,
};

/// The stores and clients of the pages.
pub(crate) struct App {
    pub(crate) accounts: Accounts,
    pub(crate) alerts: Alerts,
    pub(crate) attempts: Attempts,
    pub(crate) audit: AuditLog,
    pub(crate) deletions: Deletions,
    pub(crate) departures: Departures,
    pub(crate) docs: Docs,
    pub(crate) email_changes: EmailChanges,
    pub(crate) endpoints: Endpoints,
    pub(crate) hasher: Hasher,
    pub(crate) invitations: Invitations,
    pub(crate) inviting: Inviting,
    pub(crate) keys: ApiKeys,
    pub(crate) logins: CliLogins,
    pub(crate) mailer: Mailer,
    pub(crate) members: Members,
    pub(crate) moving: Moving,
    pub(crate) organizations: Organizations,
    pub(crate) resets: PasswordResets,
    pub(crate) sessions: Sessions,
    pub(crate) settings: Settings,
    pub(crate) sign_ins: SignIns,
    pub(crate) two_factor: TwoFactor,
    pub(crate) users: Users,
    pub(crate) verifications: Verifications,
}

impl App {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        let hasher = Hasher::from_env(env)?;
        Ok(Self {
            accounts: Accounts::from_env(env, aws)?,
            alerts: Alerts::from_env(env, aws)?,
            attempts: Attempts::from_env(env, aws)?,
            audit: AuditLog::from_env(env, aws)?,
            deletions: Deletions::from_env(env, aws, hasher.clone())?,
            departures: Departures::from_env(env, aws)?,
            docs: Docs::from_env(env)?,
            email_changes: EmailChanges::from_env(env, aws)?,
            endpoints: Endpoints::from_env(env, aws)?,
            invitations: Invitations::from_env(env, aws)?,
            inviting: Inviting::from_env(env, aws)?,
            keys: ApiKeys::from_env(env, aws)?,
            logins: CliLogins::from_env(env, aws)?,
            mailer: Mailer::from_env(env, aws)?,
            members: Members::from_env(env, aws)?,
            moving: Moving::from_env(env, aws)?,
            organizations: Organizations::from_env(env, aws)?,
            resets: PasswordResets::from_env(env, aws)?,
            sessions: Sessions::from_env(env, aws)?,
            settings: Settings::from_env(env, aws)?,
            sign_ins: SignIns::from_env(env, aws, hasher.clone())?,
            hasher,
            two_factor: TwoFactor::from_env(env, aws)?,
            users: Users::from_env(env, aws)?,
            verifications: Verifications::from_env(env, aws)?,
        })
    }

    /// Sends `user` another email with a link that confirms their address, unless it is already confirmed. The limit is
    /// shared with emails requested through the API.
    ///
    /// # Errors
    /// [`Error::TooMany`](common::error::Error::TooMany) if too many emails were requested, or a call to AWS fails.
    pub(crate) async fn send_confirmation(&self, user: &User, base: &BaseUrl) -> Result<()> {
        let now = Timestamp::now();
        self.attempts.count(VERIFICATION_MAIL, user.email_to_verify().as_str(), now).await?;
        self.verifications.send_again(user, &self.mailer, base, now).await
    }
}
