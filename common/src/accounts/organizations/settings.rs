//! The settings of an organization, which its owners change.

use aws_sdk_dynamodb::types::ReturnValue;

use super::{
    DEBUG_NOTIFICATION_EMAIL, DISABLE_JOB_FAILURE_NOTIFICATIONS, JOINED, Organization, Organizations,
    REQUIRE_TWO_FACTOR, existing, exists, is_required, organization_key,
};
use crate::{
    accounts::{
        email::Email,
        mail::{Mail, Part},
        users::{NAME, Role, User, pk},
    },
    aws::{
        dynamo::{Item, Record, boolean, text},
        expression::Update,
        transaction::Transaction,
    },
    base_url::BaseUrl,
    error::{Error, Result},
    id::{TenantId, UserId},
    name::Name,
};

/// A change of settings. `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// The new address for notifications about failures.
    pub debug_notification_email: Option<Email>,
    /// Whether notifications about failed jobs are off.
    pub disable_job_failure_notifications: Option<bool>,
    /// Whether members need a second factor.
    pub require_two_factor: Option<bool>,
}

impl SettingsChange {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the part of this change that would change `organization`.
    #[must_use]
    pub fn left_of(self, organization: &Organization) -> Self {
        let Self { debug_notification_email: address, disable_job_failure_notifications: disable, require_two_factor } =
            self;
        Self {
            debug_notification_email: address.filter(|address| *address != organization.debug_notification_email),
            disable_job_failure_notifications: disable
                .filter(|disable| *disable != organization.disable_job_failure_notifications),
            // It is copied to the members again, because an earlier call may have been interrupted.
            require_two_factor,
        }
    }
}

impl Organization {
    /// Applies `change` to the organization.
    #[must_use]
    pub fn changed(mut self, change: SettingsChange) -> Self {
        let SettingsChange { debug_notification_email, disable_job_failure_notifications, require_two_factor } = change;
        self.debug_notification_email = debug_notification_email.unwrap_or(self.debug_notification_email);
        self.disable_job_failure_notifications =
            disable_job_failure_notifications.unwrap_or(self.disable_job_failure_notifications);
        self.require_two_factor = require_two_factor.unwrap_or(self.require_two_factor);
        self
    }
}

impl Organizations {
    /// Changes at least one setting of a user's own organization. Returns the organization as it was immediately before
    /// the change, so each of several concurrent changes sees the result of the previous one.
    ///
    /// # Errors
    /// The organization and the user were deleted in the meantime ([`Error::Unauthorized`]).
    pub async fn change_settings(&self, id: &TenantId, settings: &SettingsChange) -> Result<Organization> {
        let address = settings.debug_notification_email.as_ref();
        let disable = settings.disable_job_failure_notifications;
        let update = Update::of(&self.table, pk(organization_key(id)))
            .set_all(address.map(|address| (DEBUG_NOTIFICATION_EMAIL, text(address))))
            .set_all(disable.map(|disable| (DISABLE_JOB_FAILURE_NOTIFICATIONS, boolean(disable))))
            .set_all(settings.require_two_factor.map(|is_required| (REQUIRE_TWO_FACTOR, boolean(is_required))))
            .only_if(exists());
        let doing = "changing the settings of an organization";
        let before = update.send_for(&self.dynamodb, ReturnValue::AllOld, doing).await?;
        Organization::from_item(&before.ok_or(Error::Unauthorized)?)
    }

    /// The ids of the users who have joined the organization `id` and have not left. Members from before 0.2.0 may be
    /// missing. Empty if it was deleted.
    pub(in crate::accounts) async fn joined(&self, id: &TenantId) -> Result<Vec<UserId>> {
        let found = existing(&self.dynamodb, &self.table, id).await?;
        let read = |item: &Item| Record::new("organization", item).optional_set(JOINED, UserId::parse);
        Ok(found.as_ref().map(read).transpose()?.flatten().unwrap_or_default())
    }

    /// Adds the check that members of the organization `id` need a second factor, or that they do not.
    pub(in crate::accounts) fn check_required(&self, writes: Transaction, id: &TenantId, is_it: bool) -> Transaction {
        writes.check(&self.table, pk(organization_key(id)), exists().and(is_required(is_it)))
    }

    /// Changes the name of a user's own organization, and returns the changed organization.
    ///
    /// # Errors
    /// Those of [`Self::change_settings`].
    pub async fn rename(&self, id: &TenantId, name: &Name) -> Result<Organization> {
        let update = Update::of(&self.table, pk(organization_key(id))).set(NAME, text(name.as_str())).only_if(exists());
        let after = update.send_for(&self.dynamodb, ReturnValue::AllNew, "renaming an organization").await?;
        Organization::from_item(&after.ok_or(Error::Unauthorized)?)
    }

    /// Adds the write that sends notifications to `new`, the new address of `user`, if `user` is an owner and the
    /// notifications went to their old address.
    pub(in crate::accounts) async fn with_notifications_moved(
        &self,
        writes: Transaction,
        user: &User,
        new: &Email,
    ) -> Result<Transaction> {
        let organization = self.get(&user.organization).await?;
        if user.role != Role::Owner || organization.debug_notification_email != user.email {
            return Ok(writes);
        }
        let update = Update::of(&self.table, pk(organization_key(&organization.id)))
            .set(DEBUG_NOTIFICATION_EMAIL, text(new))
            .only_if(exists().and(DEBUG_NOTIFICATION_EMAIL.equals(text(&user.email))));
        Ok(writes.update(update))
    }
}

/// Builds the emails to the old and the new notification address of an organization. The new address may be a
/// stranger's: the email explains why they get notifications, but does not reveal the old address. The subject omits
/// the name of the organization, which its founder chose.
#[must_use]
pub fn address_mails(base: &BaseUrl, organization: &Organization) -> [Mail; 2] {
    let (name, new) = (organization.name.as_str(), &organization.debug_notification_email);
    let mail = |news: String, why: String| {
        Mail::new(
            "The email address for notifications has changed",
            &[Part::Text(news), Part::Button("View settings", format!("{base}/console/settings"))],
            &[Part::Text(why)],
        )
    };
    [
        mail(
            format!("Notifications about failures in the organization {name} now go to {new} instead of this address."),
            format!(
                "You get this email because this was the address for notifications. An owner of {name} changed it, and \
                 can change it back."
            ),
        ),
        mail(
            format!("Notifications about failures in the organization {name} now go to this address."),
            format!(
                "You get this email because an owner of {name} chose this address, and can choose another one. If you do \
                 not know {name}, ignore this email."
            ),
        ),
    ]
}
