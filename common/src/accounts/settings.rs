//! Changes an organization's settings, and notifies the affected addresses.

use crate::{
    accounts::{
        attempts::Attempts,
        mail::Mailer,
        organizations::{
            Organization, Organizations,
            settings::{ATTEMPTS, SettingsChange, address_mails},
        },
        suppressions::Cause,
        two_factor::requirement::Requirement,
        users::{User, Users},
    },
    base_url::BaseUrl,
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
};

crate::from_env! {
    /// The stores and the mailer for settings changes.
    pub struct Settings {
        attempts: Attempts,
        mailer: Mailer,
        organizations: Organizations,
        requirement: Requirement,
        users: Users,
    }
}

impl Settings {
    /// Changes the settings of the organization `id`, and returns the changed organization. Links in the emails start
    /// with `base`. The caller must have checked that a verified owner requests the change: a new address gets an
    /// email, so without this check, any stranger could make the service send email to any address. `by` is that owner;
    /// `None` for an organization key.
    ///
    /// # Errors
    /// The address was changed too often, or `by` is no longer an owner.
    pub async fn change(
        &self,
        (id, by): (&TenantId, Option<&User>),
        change: SettingsChange,
        base: &BaseUrl,
    ) -> Result<Organization> {
        for attempt in 0..ATTEMPTS {
            let before = self.organizations.get(id).await?;
            let change = change.clone().left_of(&before);
            if change.is_empty() {
                return Ok(before);
            }
            if let Some(address) = change.debug_notification_email.as_ref().filter(|_| attempt == 0) {
                self.attempts.count_notified(id, address, Timestamp::now()).await?;
            }
            if self.organizations.change_settings(&before, &change, (&self.users, by)).await? {
                if let Some(is_required) = change.require_two_factor {
                    self.requirement.copy(id, is_required).await?;
                }
                let after = before.clone().changed(change);
                self.tell(&before, &after, base).await;
                return Ok(after);
            }
        }
        Err(Error::Busy)
    }

    /// Returns why emails are not sent to the notification address of `organization`, or `None` if they are sent.
    pub async fn suppressed(&self, organization: &Organization) -> Result<Option<Cause>> {
        self.mailer.suppressed(&organization.debug_notification_email).await
    }

    /// If the notification address has changed, sends emails to the old and the new address.
    async fn tell(&self, before: &Organization, after: &Organization, base: &BaseUrl) {
        let (old, new) = (&before.debug_notification_email, &after.debug_notification_email);
        if old == new {
            return;
        }
        let [to_old, to_new] = address_mails(base, after);
        tokio::join!(self.mailer.send(old, to_old, &after.id), self.mailer.send(new, to_new, &after.id));
    }
}
