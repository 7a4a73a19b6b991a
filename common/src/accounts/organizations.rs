//! Organizations: the customers of the service, each with its members and settings.

pub mod settings;

use std::iter;

use aws_sdk_dynamodb::{
    Client,
    types::{Update, builders::UpdateBuilder},
};

use crate::{
    accounts::email::Email,
    aws::{
        clients::Aws,
        dynamo::{Item, Record, item, text, texts},
        failure,
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    id::{TenantId, UserId},
    name::{Name, Slug},
    timestamp::Timestamp,
};

/// An organization with its settings.
#[derive(Clone, Debug)]
pub struct Organization {
    /// The organization's id.
    pub id: TenantId,
    /// The display name, chosen by its founder.
    pub name: Name,
    /// The unique name used in URLs and commands.
    pub slug: Slug,
    /// The address for notifications about failures.
    pub debug_notification_email: Email,
    /// Whether notifications about failed jobs are off.
    pub disable_job_failure_notifications: bool,
    /// The time of its founder's sign-up.
    pub created_at: Timestamp,
}

/// The key of the guard that makes a slug unique.
pub(crate) fn slug_key(slug: &Slug) -> String {
    format!("slug#{slug}")
}

pub(crate) fn organization_key(id: &TenantId) -> String {
    format!("org#{id}")
}

/// The condition that an organization exists and was not deleted.
pub(crate) const EXISTS: &str = "attribute_exists(pk) AND attribute_not_exists(deleted_at)";

/// Records that `user` joins an organization, if it [`EXISTS`]. The index of users lags, so the deletion of the last
/// member relies on this list to rule out other members.
pub(crate) fn join(table: &str, organization: &TenantId, user: UserId) -> UpdateBuilder {
    note(table, organization, user).update_expression("ADD joined :user").condition_expression(EXISTS)
}

/// Records that `user` leaves an organization.
pub(crate) fn part(table: &str, organization: &TenantId, user: UserId) -> UpdateBuilder {
    note(table, organization, user).update_expression("DELETE joined :user")
}

fn note(table: &str, organization: &TenantId, user: UserId) -> UpdateBuilder {
    Update::builder()
        .table_name(table)
        .key("pk", text(organization_key(organization)))
        .expression_attribute_values(":user", texts(iter::once(user.to_string().as_str())))
}

impl Organization {
    pub(crate) fn slug_guard(&self) -> Item {
        item([("pk", text(slug_key(&self.slug))), ("organization_id", text(&self.id))])
    }

    /// The item of a new organization. Its founder is recorded as by [`join`], because the index may not show them yet.
    /// A missing setting has its default.
    pub(crate) fn to_item(&self, founder: UserId) -> Item {
        item([
            ("pk", text(organization_key(&self.id))),
            ("organization_id", text(&self.id)),
            ("name", text(self.name.as_str())),
            ("slug", text(&self.slug)),
            ("debug_notification_email", text(&self.debug_notification_email)),
            ("created_at", text(self.created_at)),
            ("joined", texts(iter::once(founder.to_string().as_str()))),
        ])
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = Record::new("organization", item);
        Ok(Self {
            id: record.parsed("organization_id")?,
            name: Name::stored(record.text("name")?),
            slug: record.checked("slug", Slug::parse)?,
            debug_notification_email: Email::stored(record.text("debug_notification_email")?),
            disable_job_failure_notifications: record
                .optional_boolean("disable_job_failure_notifications")
                .unwrap_or_default(),
            created_at: record.parsed("created_at")?,
        })
    }
}

/// The store of organizations.
#[derive(Clone)]
pub struct Organizations {
    dynamodb: Client,
    table: String,
}

impl Organizations {
    /// The store over the table that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { dynamodb: aws.dynamodb(), table: env.required("ORGANIZATIONS_TABLE")? })
    }

    /// Reads a user's own organization, which exists as long as the user does.
    ///
    /// # Errors
    /// It was deleted in the meantime, and the user with it: [`Error::Unauthorized`]; or the read fails.
    pub async fn get(&self, id: &TenantId) -> Result<Organization> {
        self.find(id).await?.ok_or(Error::Unauthorized)
    }

    /// Finds an organization, unless it was deleted.
    pub async fn find(&self, id: &TenantId) -> Result<Option<Organization>> {
        let found = self.dynamodb.get_item().table_name(&self.table).key("pk", text(organization_key(id)));
        let found = found.consistent_read(true).send().await.map_err(failure("reading an organization"))?;
        let existing = found.item.filter(|item| !item.contains_key("deleted_at"));
        existing.as_ref().map(Organization::from_item).transpose()
    }
}
