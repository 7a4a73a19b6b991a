//! Changes an organization's settings, and notifies the affected addresses.

use crate::{
    accounts::{
        consent::{Consent, Consents, Recipient},
        email::EmailAddress,
        mail::{EmailMessage, Mailer},
        organizations::{
            Organization, Organizations,
            settings::{MAX_TRIES, SettingsChange, chosen_mail, moved_mail},
        },
        rate_limits::{NOTIFIED, RateLimits},
        suppressions::Cause,
        two_factor::requirement::Requirement,
        users::{User, Users},
    },
    audit::Recorder,
    base_url::BaseUrl,
    error::{Error, Result},
    id::TenantId,
    telemetry::metrics,
    timestamp::Timestamp,
};

crate::from_env! {
    /// The stores and the mailer for settings changes.
    pub struct Settings {
        rate_limits: RateLimits,
        consents: Consents,
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
    /// `None` for an organization key. If the address is that of `by`, who had stopped the emails to it, they agree again.
    ///
    /// # Errors
    /// The address was changed too often, or `by` is no longer an owner.
    pub async fn change(
        &self,
        recorder: &Recorder,
        id: &TenantId,
        by: Option<&User>,
        change: SettingsChange,
        base: &BaseUrl,
    ) -> Result<Organization> {
        let own = change.debug_notification_email.clone();
        let own = own.filter(|address| by.is_some_and(|by| by.email_verified && by.email == *address));
        let organization = self.apply(recorder, id, by, change, base).await?;
        if let Some(address) = own
            && self.consents.is_stopped(id, &address).await?
        {
            let recipient = Recipient { organization: id.clone(), address };
            self.consents.set(recorder, &recipient, &organization, true, Timestamp::now()).await?;
        }
        Ok(organization)
    }

    async fn apply(
        &self,
        recorder: &Recorder,
        id: &TenantId,
        by: Option<&User>,
        change: SettingsChange,
        base: &BaseUrl,
    ) -> Result<Organization> {
        for attempt in 0..MAX_TRIES {
            let before = self.organizations.get(id).await?;
            let change = change.clone().left_of(&before);
            if change.is_empty() {
                return Ok(before);
            }
            if change.debug_notification_email.is_some() && attempt == 0 {
                self.rate_limits.count_notified(id, Timestamp::now()).await?;
            }
            if self.organizations.change_settings(recorder, &before, &change, &self.users, by).await? {
                if let Some(is_required) = change.require_two_factor {
                    self.requirement.copy(id, is_required).await?;
                }
                let after = before.clone().changed(change);
                let notified = self.notify(&before, &after, base).await;
                metrics::upkeep("notifying the addresses of a change", notified);
                return Ok(after);
            }
        }
        Err(Error::Busy)
    }

    /// Returns why emails are not sent to the notification address of `organization`, or `None` if they are sent.
    pub async fn suppressed(&self, organization: &Organization) -> Result<Option<Cause>> {
        self.mailer.suppressed(&organization.debug_notification_email).await
    }

    /// Returns whether the owner of the notification address of `organization` agreed to the emails or stopped them.
    pub async fn consent(&self, organization: &Organization) -> Result<Consent> {
        self.consents.to_notifications(organization).await
    }

    /// If the notification address has changed, sends emails to the old and the new address, except to one whose owner
    /// stopped them. An address whose owner has not agreed gets no email if it has got too many.
    async fn notify(&self, before: &Organization, after: &Organization, base: &BaseUrl) -> Result<()> {
        let (old, new) = (&before.debug_notification_email, &after.debug_notification_email);
        if old == new {
            return Ok(());
        }
        let to_old = async {
            let consent = self.consents.to_notifications(before).await?;
            self.send(old, consent, &after.id, base, |stop| moved_mail(base, after, consent, stop)).await
        };
        let to_new = async {
            let consent = self.consents.to_notifications(after).await?;
            self.send(new, consent, &after.id, base, |stop| chosen_mail(base, after, consent, stop)).await
        };
        let (to_old, to_new): (Result<()>, Result<()>) = tokio::join!(to_old, to_new);
        to_old.and(to_new)
    }

    /// Sends an email of the organization `id` to `to`, unless its owner stopped the emails, or has not agreed and has got
    /// too many.
    async fn send(
        &self,
        to: &EmailAddress,
        consent: Consent,
        id: &TenantId,
        base: &BaseUrl,
        mail: impl FnOnce(String) -> EmailMessage,
    ) -> Result<()> {
        let now = Timestamp::now();
        if consent == Consent::Stopped {
            crate::log!("email.stopped", about = %id);
        } else if consent == Consent::Agreed || self.rate_limits.may_send(NOTIFIED, to, now).await? {
            let stop = self.consents.link(base, id, to, now).await?;
            self.mailer.send(to, mail(stop), id).await;
        } else {
            crate::log!("notifications.withheld", tenant = %id);
        }
        Ok(())
    }
}
