//! Changing the settings of an organization, and telling those whom it concerns.

use crate::{
    accounts::{
        attempts::Attempts,
        mail::Mailer,
        organizations::{
            Organization, Organizations,
            settings::{SettingsChange, address_mails},
        },
        users::{Role, User},
    },
    aws::clients::Aws,
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::{Error, Refusal, Result},
    timestamp::Timestamp,
};

/// What changing settings takes.
pub struct Settings {
    attempts: Attempts,
    mailer: Mailer,
    organizations: Organizations,
}

impl Settings {
    /// The stores over the tables that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            attempts: Attempts::from_env(env, aws)?,
            mailer: Mailer::from_env(env, aws)?,
            organizations: Organizations::from_env(env, aws)?,
        })
    }

    /// Makes this change of the settings of the organization of `user`, and returns it as it is then. `base` is where its mails
    /// link to. A change of the address sends mail, so whoever makes one has to be verified: otherwise anybody could make us
    /// send mail to anybody.
    ///
    /// # Errors
    /// Something would change, and `user` is no owner; the address was changed too often; or a call fails.
    pub async fn change(&self, user: &User, change: SettingsChange, base: &BaseUrl) -> Result<Organization> {
        let id = &user.organization;
        if !change.is_empty() && user.role != Role::Owner {
            return Err(Error::Forbidden(Refusal::OwnersOnly));
        }
        let current = self.organizations.get(id).await?;
        let change = change.left_of(&current);
        if change.is_empty() {
            return Ok(current);
        }
        if let Some(address) = &change.debug_notification_email {
            self.attempts.count_notified(id, address, Timestamp::now()).await?;
        }
        let before = self.organizations.change_settings(id, &change).await?;
        let after = before.clone().changed(change);
        self.tell(&before, &after, base).await;
        Ok(after)
    }

    /// Tells both addresses if another one gets notifications from now on.
    async fn tell(&self, before: &Organization, after: &Organization, base: &BaseUrl) {
        let (old, new) = (&before.debug_notification_email, &after.debug_notification_email);
        if old == new {
            return;
        }
        let [to_old, to_new] = address_mails(base, after);
        tokio::join!(self.mailer.send(old, to_old, &after.id), self.mailer.send(new, to_new, &after.id));
    }
}
