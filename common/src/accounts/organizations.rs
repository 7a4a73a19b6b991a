//! Organizations: the service's customers, each with its members and settings.

pub mod settings;

use std::{collections::BTreeMap, iter};

use aws_sdk_dynamodb::{Client, types::AttributeValue};

use crate::{
    accounts::{
        email::EmailAddress,
        users::{CREATED_AT, NAME, ORGANIZATION_ID, PK, pk},
    },
    audit::{self, Target, TargetKind},
    aws::{
        batch::batch_get,
        dynamo::{Attribute, Item, ItemReader, boolean, get, item, text, texts},
        expression::{Condition, Update},
    },
    error::{Error, Result},
    id::{TenantId, UserId},
    name::{Name, Slug},
    timestamp::Timestamp,
};

#[derive(Clone, Debug)]
pub struct Organization {
    pub id: TenantId,
    /// The display name, chosen by its founder.
    pub name: Name,
    /// The unique name used in URLs and commands.
    pub slug: Slug,
    /// The address for notifications about failures.
    pub debug_notification_email: EmailAddress,
    /// Whether the owner of that address has to agree before emails contain text of jobs. False for an address that was
    /// chosen before 0.2.0.
    pub asks_recipient: bool,
    /// Whether notifications about failed jobs are off.
    pub disable_job_failure_notifications: bool,
    /// Whether members need a second factor. Each member's item contains a copy.
    pub require_two_factor: bool,
    /// When the founder signed up.
    pub created_at: Timestamp,
}

pub(crate) const SLUG: Attribute = Attribute("slug");
const DEBUG_NOTIFICATION_EMAIL: Attribute = Attribute("debug_notification_email");
const ASKS_RECIPIENT: Attribute = Attribute("asks_recipient");
const DISABLE_JOB_FAILURE_NOTIFICATIONS: Attribute = Attribute("disable_job_failure_notifications");
const REQUIRE_TWO_FACTOR: Attribute = Attribute("require_two_factor");
/// The users who have joined and have not left. Members who joined before this attribute existed may be missing.
pub(crate) const JOINED: Attribute = Attribute("joined");
pub(crate) const DELETED_AT: Attribute = Attribute("deleted_at");

/// The key of the guard item that makes a slug unique.
pub(crate) fn slug_key(slug: &Slug) -> String {
    format!("slug#{slug}")
}

pub(crate) fn organization_key(id: &TenantId) -> String {
    format!("org#{id}")
}

/// The condition that an organization exists and was not deleted.
pub(crate) fn exists() -> Condition {
    PK.exists().and(DELETED_AT.is_absent())
}

/// Records that `user` joins an organization, provided that the organization [`exists`]. The users index lags, so the
/// deletion of an organization uses this record to rule out other members.
///
/// `requires_two_factor` is the setting copied to the user's item. The write fails if the setting has changed since.
pub(crate) fn join(table: &str, organization: &TenantId, user: UserId, requires_two_factor: bool) -> Update {
    let joins = Update::of(table, pk(organization_key(organization))).add(JOINED, one(user)).only_if(exists());
    joins.only_if(is_required(requires_two_factor))
}

/// The condition that an organization's members need a second factor, or that they do not.
fn is_required(requires_two_factor: bool) -> Condition {
    let is_required = REQUIRE_TWO_FACTOR.equals(boolean(requires_two_factor));
    if requires_two_factor { is_required } else { REQUIRE_TWO_FACTOR.is_absent().or(is_required) }
}

/// Whether an organization's members need a second factor. `None` if it was deleted.
pub(super) async fn requires_two_factor(dynamodb: &Client, table: &str, id: &TenantId) -> Result<Option<bool>> {
    let found = existing(dynamodb, table, id).await?;
    let read = |item| ItemReader::new("organization", item).optional_boolean(REQUIRE_TWO_FACTOR).unwrap_or_default();
    Ok(found.as_ref().map(read))
}

/// Records that `user` leaves an organization.
pub(crate) fn part(table: &str, organization: &TenantId, user: UserId) -> Update {
    Update::of(table, pk(organization_key(organization))).delete(JOINED, one(user))
}

fn one(user: UserId) -> AttributeValue {
    texts(iter::once(user.to_string().as_str()))
}

impl Organization {
    /// The organization as an audit log target.
    pub(crate) fn target(&self) -> Target {
        audit::target(TargetKind::Organization, &self.id, self.name.as_str().to_owned())
    }

    pub(crate) fn slug_guard(&self) -> Item {
        item([(PK, text(slug_key(&self.slug))), (ORGANIZATION_ID, text(&self.id))])
    }

    /// Builds the item of a new organization. Like [`join`], it records the founder, whom the index may not show yet.
    /// Settings with their default values are omitted.
    pub(crate) fn to_item(&self, founder: UserId) -> Item {
        item([
            (PK, text(organization_key(&self.id))),
            (ORGANIZATION_ID, text(&self.id)),
            (NAME, text(self.name.as_str())),
            (SLUG, text(&self.slug)),
            (DEBUG_NOTIFICATION_EMAIL, text(&self.debug_notification_email)),
            (ASKS_RECIPIENT, boolean(self.asks_recipient)),
            (CREATED_AT, text(self.created_at)),
            (JOINED, one(founder)),
        ])
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = ItemReader::new("organization", item);
        Ok(Self {
            id: record.parsed(ORGANIZATION_ID)?,
            name: Name::stored(record.text(NAME)?),
            slug: record.checked(SLUG, Slug::parse)?,
            debug_notification_email: EmailAddress::stored(record.text(DEBUG_NOTIFICATION_EMAIL)?),
            asks_recipient: record.optional_boolean(ASKS_RECIPIENT).unwrap_or_default(),
            disable_job_failure_notifications: record
                .optional_boolean(DISABLE_JOB_FAILURE_NOTIFICATIONS)
                .unwrap_or_default(),
            require_two_factor: record.optional_boolean(REQUIRE_TWO_FACTOR).unwrap_or_default(),
            created_at: record.parsed(CREATED_AT)?,
        })
    }
}

/// Reads an organization's item, unless the organization was deleted.
pub(crate) async fn existing(dynamodb: &Client, table: &str, id: &TenantId) -> Result<Option<Item>> {
    let found = get(dynamodb, table, pk(organization_key(id)), "reading an organization").await?;
    Ok(found.filter(|item| !item.contains_key(DELETED_AT.name())))
}

crate::from_env! {
    #[derive(Clone)]
    pub struct Organizations {
        dynamodb: Client,
        table: String = "ORGANIZATIONS_TABLE",
    }
}

impl Organizations {
    /// Reads a user's own organization, which exists as long as the user does.
    ///
    /// # Errors
    /// The organization was deleted in the meantime, and the user has moved or was deleted ([`Error::Busy`]).
    pub async fn get(&self, id: &TenantId) -> Result<Organization> {
        self.find(id).await?.ok_or(Error::Busy)
    }

    /// Finds the organizations among `ids` that were not deleted.
    pub async fn find_all<'a>(
        &self,
        ids: impl Iterator<Item = &'a TenantId>,
    ) -> Result<BTreeMap<TenantId, Organization>> {
        let keys = ids.map(|id| pk(organization_key(id))).collect();
        let found = batch_get(&self.dynamodb, &self.table, keys, "reading organizations").await?;
        let existing = found.iter().filter(|item| !item.contains_key(DELETED_AT.name()));
        existing.map(Organization::from_item).map(|read| read.map(|found| (found.id.clone(), found))).collect()
    }

    /// Finds an organization, unless it was deleted.
    pub async fn find(&self, id: &TenantId) -> Result<Option<Organization>> {
        let found = existing(&self.dynamodb, &self.table, id).await?;
        found.as_ref().map(Organization::from_item).transpose()
    }
}
