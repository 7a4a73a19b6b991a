//! An organization's settings, which its owners change.

use super::{
    ASKS_RECIPIENT, DEBUG_NOTIFICATION_EMAIL, DISABLE_JOB_FAILURE_NOTIFICATIONS, JOINED, Organization, Organizations,
    REQUIRE_TWO_FACTOR, existing, exists, is_required, organization_key,
};
use crate::{
    accounts::{
        consent::Consent,
        email::EmailAddress,
        mail::{EmailMessage, Part},
        users::{NAME, Role, User, Users, pk},
    },
    audit::{Action, Entry, Recorder, change},
    aws::{
        dynamo::{Item, ItemReader, boolean, text},
        expression::Update,
        transaction::Transaction,
    },
    base_url::BaseUrl,
    error::{Error, ForbiddenReason, Result},
    id::{TenantId, UserId},
    name::Name,
};

/// The maximum number of tries for a change that conflicts with other calls.
pub(in crate::accounts) const MAX_TRIES: usize = 10;

/// A change of settings. `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// The new address for notifications about failures.
    pub debug_notification_email: Option<EmailAddress>,
    /// Whether notifications about failed jobs are off.
    pub disable_job_failure_notifications: Option<bool>,
    /// Whether members need a second factor.
    pub require_two_factor: Option<bool>,
}

impl SettingsChange {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns only the settings that this change would alter in `organization`.
    pub fn left_of(self, organization: &Organization) -> Self {
        let Self { debug_notification_email: address, disable_job_failure_notifications: disable, require_two_factor } =
            self;
        Self {
            debug_notification_email: address.filter(|address| *address != organization.debug_notification_email),
            disable_job_failure_notifications: disable
                .filter(|disable| *disable != organization.disable_job_failure_notifications),
            // This setting is kept even if it is unchanged, so that it is copied to the members again: an earlier call
            // may have been interrupted.
            require_two_factor,
        }
    }
}

impl Organization {
    /// Applies `change` to the organization.
    pub fn changed(mut self, change: SettingsChange) -> Self {
        let SettingsChange { debug_notification_email, disable_job_failure_notifications, require_two_factor } = change;
        self.asks_recipient |= debug_notification_email.is_some();
        self.debug_notification_email = debug_notification_email.unwrap_or(self.debug_notification_email);
        self.disable_job_failure_notifications =
            disable_job_failure_notifications.unwrap_or(self.disable_job_failure_notifications);
        self.require_two_factor = require_two_factor.unwrap_or(self.require_two_factor);
        self
    }
}

impl Organizations {
    /// Stores those `settings` that differ from `organization`, on condition that `by`, if given, is still an owner.
    /// Returns `false` if one of them was changed in the meantime, or the organization was deleted.
    ///
    /// # Errors
    /// `by` is no longer an owner ([`ForbiddenReason::OwnersOnly`]), or the write fails.
    pub async fn change_settings(
        &self,
        recorder: &Recorder,
        organization: &Organization,
        settings: &SettingsChange,
        users: &Users,
        by: Option<&User>,
    ) -> Result<bool> {
        let (mut update, mut changes) = (self.change(organization), Vec::new());
        if let Some(new) = &settings.debug_notification_email {
            let old = &organization.debug_notification_email;
            update = update
                .set(DEBUG_NOTIFICATION_EMAIL, text(new))
                .set(ASKS_RECIPIENT, boolean(true))
                .only_if(DEBUG_NOTIFICATION_EMAIL.equals(text(old)));
            changes.push(change("debug_notification_email", Some(old.to_string()), Some(new.to_string())));
        }
        if let Some(new) = settings.disable_job_failure_notifications {
            let old = organization.disable_job_failure_notifications;
            let is_old = DISABLE_JOB_FAILURE_NOTIFICATIONS.equals(boolean(old));
            let is_old = if old { is_old } else { DISABLE_JOB_FAILURE_NOTIFICATIONS.is_absent().or(is_old) };
            update = update.set(DISABLE_JOB_FAILURE_NOTIFICATIONS, boolean(new)).only_if(is_old);
            changes.push(change("disable_job_failure_notifications", Some(old.to_string()), Some(new.to_string())));
        }
        if let Some(new) = settings.require_two_factor {
            let old = organization.require_two_factor;
            let is_old = REQUIRE_TWO_FACTOR.equals(boolean(old));
            let is_old = if old { is_old } else { REQUIRE_TWO_FACTOR.is_absent().or(is_old) };
            update = update.set(REQUIRE_TWO_FACTOR, boolean(new)).only_if(is_old);
            if old != new {
                changes.push(change("require_two_factor", Some(old.to_string()), Some(new.to_string())));
            }
        }
        let mut writes = Transaction::new("changing the settings of an organization").update(update);
        if !changes.is_empty() {
            let entry = Entry::new(Action::SettingsChanged, &organization.id, organization.target());
            writes = writes.record(recorder, entry.with(changes))?;
        }
        if let Some(by) = by {
            writes = users.check_unchanged(by, writes);
        }
        is_made(writes.first_refused(&self.dynamodb).await?)
    }

    /// The ids of the users who have joined the organization `id` and have not left. Members from before 0.2.0 may be
    /// missing. Empty if the organization was deleted.
    pub(in crate::accounts) async fn joined(&self, id: &TenantId) -> Result<Vec<UserId>> {
        let found = existing(&self.dynamodb, &self.table, id).await?;
        let read = |item: &Item| ItemReader::new("organization", item).optional_set(JOINED, UserId::parse);
        Ok(found.as_ref().map(read).transpose()?.flatten().unwrap_or_default())
    }

    /// Adds the check that the second-factor requirement of the organization `id` has the given value.
    pub(in crate::accounts) fn check_required(&self, writes: Transaction, id: &TenantId, is_it: bool) -> Transaction {
        writes.check(&self.table, pk(organization_key(id)), exists().and(is_required(is_it)))
    }

    /// Changes the name of the organization of `by`, who must be an owner, and returns the changed organization.
    ///
    /// # Errors
    /// `by` is no longer an owner ([`ForbiddenReason::OwnersOnly`]), or the organization was deleted in the meantime
    /// ([`Error::Busy`]).
    pub async fn rename(&self, recorder: &Recorder, users: &Users, by: &User, name: &Name) -> Result<Organization> {
        let id = &by.organization;
        for _ in 0..MAX_TRIES {
            let organization = self.get(id).await?;
            if organization.name == *name {
                return Ok(organization);
            }
            let is_unchanged = NAME.equals(text(organization.name.as_str()));
            let update = self.change(&organization).set(NAME, text(name.as_str())).only_if(is_unchanged);
            let [old, new] = [&organization.name, name].map(|name| Some(name.as_str().to_owned()));
            let entry = Entry::new(Action::OrganizationRenamed, id, organization.target());
            let entry = entry.with([change("name", old, new)]);
            let writes = Transaction::new("renaming an organization").update(update).record(recorder, entry)?;
            let writes = users.check_unchanged(by, writes);
            if is_made(writes.first_refused(&self.dynamodb).await?)? {
                return Ok(Organization { name: name.clone(), ..organization });
            }
        }
        Err(Error::Busy)
    }

    fn change(&self, organization: &Organization) -> Update {
        Update::of(&self.table, pk(organization_key(&organization.id))).only_if(exists())
    }

    /// Adds the write that sends notifications to `new`, the new address of `user`, if `user` is an owner and the
    /// notifications went to their old address.
    pub(in crate::accounts) async fn with_notifications_moved(
        &self,
        recorder: &Recorder,
        writes: Transaction,
        user: &User,
        new: &EmailAddress,
    ) -> Result<Transaction> {
        let organization = self.get(&user.organization).await?;
        if user.role != Role::Owner || organization.debug_notification_email != user.email {
            return Ok(writes);
        }
        let update = Update::of(&self.table, pk(organization_key(&organization.id)))
            .set(DEBUG_NOTIFICATION_EMAIL, text(new))
            .only_if(exists().and(DEBUG_NOTIFICATION_EMAIL.equals(text(&user.email))));
        let (old, new) = (user.email.to_string(), new.to_string());
        let entry = Entry::new(Action::SettingsChanged, &organization.id, organization.target()).by(user.actor());
        writes.update(update).record(recorder, entry.with([change("debug_notification_email", Some(old), Some(new))]))
    }

    /// Adds the write that sends notifications to `user`, who founded the organization with an address that was not
    /// verified: a stranger may have signed up with it, and chosen another address for notifications. A founder without a
    /// verified address is the only member, unless an operator has given the account its address.
    pub(in crate::accounts) async fn with_notifications_claimed(
        &self,
        recorder: &Recorder,
        writes: Transaction,
        user: &User,
    ) -> Result<Transaction> {
        let organization = self.get(&user.organization).await?;
        let old = &organization.debug_notification_email;
        if !user.chose_email || user.role != Role::Owner || *old == user.email {
            return Ok(writes);
        }
        let update = Update::of(&self.table, pk(organization_key(&organization.id)))
            .set(DEBUG_NOTIFICATION_EMAIL, text(&user.email))
            .set(ASKS_RECIPIENT, boolean(true))
            .only_if(exists().and(DEBUG_NOTIFICATION_EMAIL.equals(text(old))));
        let (old, new) = (old.to_string(), user.email.to_string());
        let entry = Entry::new(Action::SettingsChanged, &organization.id, organization.target()).by(user.actor());
        writes.update(update).record(recorder, entry.with([change("debug_notification_email", Some(old), Some(new))]))
    }
}

/// Returns whether a change was made, given the index of the first write whose condition failed, if any. The first
/// write is the change itself; the second checks that the caller is an owner.
///
/// # Errors
/// The caller is no longer an owner ([`ForbiddenReason::OwnersOnly`]).
fn is_made(refused: Option<usize>) -> Result<bool> {
    match refused {
        None => Ok(true),
        Some(0) => Ok(false),
        Some(_) => Err(Error::Forbidden(ForbiddenReason::OwnersOnly)),
    }
}

const MOVED: &str = "The email address for notifications has changed";

/// The email to an organization's previous notification address. The subject omits the name of the organization, which
/// its founder chose. An owner of the address who has not agreed may be a stranger, so they do not see the new address,
/// which is text that an owner of the organization chose. `stop` is the page that stops the emails.
pub fn moved_mail(base: &BaseUrl, organization: &Organization, consent: Consent, stop: String) -> EmailMessage {
    let name = organization.name.as_str();
    let to = match consent {
        Consent::Agreed => format!("to {}", organization.debug_notification_email),
        Consent::Unanswered | Consent::Stopped => "elsewhere".to_owned(),
    };
    let news = format!("Notifications about failures in the organization {name} now go {to} instead of this address.");
    let why = format!(
        "You received this email because this was the address for notifications. An owner of {name} changed it, and can \
         change it back."
    );
    let parts = [Part::Text(news), Part::Button("View settings", format!("{base}/console/settings"))];
    EmailMessage::unrequested(MOVED, &parts, vec![Part::Text(why)], stop)
}

/// The email to an organization's new notification address. The address may be a stranger's: the email explains why they
/// get notifications, but does not reveal the old address.
pub fn chosen_mail(base: &BaseUrl, organization: &Organization, consent: Consent, stop: String) -> EmailMessage {
    let name = organization.name.as_str();
    let news = Part::Text(format!("Notifications about failures in the organization {name} now go to this address."));
    let why = format!(
        "You received this email because an owner of {name} chose this address, and can choose another one. If you do \
         not know {name}, ignore this email."
    );
    let parts = match consent {
        Consent::Unanswered => vec![
            news,
            Part::text(
                "Until you agree, notifications contain no details, and you get only a few a day. You can also stop all \
                 emails of this organization.",
            ),
            Part::Button("Choose emails", stop.clone()),
        ],
        Consent::Agreed | Consent::Stopped => {
            vec![news, Part::Button("View settings", format!("{base}/console/settings"))]
        }
    };
    EmailMessage::unrequested(MOVED, &parts, vec![Part::Text(why)], stop)
}
