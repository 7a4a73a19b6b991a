//! The dependencies of the handlers.

use common::{
    accounts::{
        alerts::Alerts,
        api_keys::ApiKeys,
        cli_logins::CliLogins,
        consent::Consents,
        departures::Departures,
        email_change::EmailChanges,
        invitation_emails::Inviting,
        invitations::Invitations,
        mail::Mailer,
        members::Members,
        organizations::Organizations,
        password_reset::PasswordResets,
        rate_limits::{RateLimits, VERIFICATION_MAIL},
        sessions::Sessions,
        settings::Settings,
        sign_in::SignIns,
        signup::Accounts,
        two_factor::TwoFactor,
        users::{User, Users},
        verification::Verifications,
    },
    application::{deletion::Deletions, moves::Moving},
    audit::AuditLog,
    base_url::BaseUrl,
    error::Result,
    presentation::docs::Docs,
    timestamp::Timestamp,
    webhooks::endpoints::Endpoints,
};

common::from_env! {
    /// The stores and clients of the pages.
    pub(crate) struct App {
        pub(crate) accounts: Accounts,
        pub(crate) alerts: Alerts,
        pub(crate) rate_limits: RateLimits,
        pub(crate) audit: AuditLog,
        pub(crate) consents: Consents,
        pub(crate) deletions: Deletions,
        pub(crate) departures: Departures,
        pub(crate) docs: Docs = Docs::from_env,
        pub(crate) email_changes: EmailChanges,
        pub(crate) endpoints: Endpoints,
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
}

impl App {
    /// Sends `user` another email with a link that confirms their address, unless it is already confirmed. The limit is
    /// shared with emails requested through the API.
    ///
    /// # Errors
    /// [`Error::TooMany`](common::error::Error::TooMany) if too many emails were requested, or a call to AWS fails.
    pub(crate) async fn send_confirmation(&self, user: &User, base: &BaseUrl) -> Result<()> {
        let now = Timestamp::now();
        self.rate_limits.count(VERIFICATION_MAIL, user.email_to_verify().as_str(), now).await?;
        self.verifications.send_again(user, &self.mailer, base, now).await
    }
}
