//! Organizations.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::email::Email,
    aws::{
        clients::Aws,
        dynamo::{Item, Record, item, text},
        failure,
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    name::{Name, Slug},
    timestamp::Timestamp,
};

/// An organization.
#[derive(Clone, Debug)]
pub struct Organization {
    /// The organization's id.
    pub id: TenantId,
    /// The display name.
    pub name: Name,
    /// The unique name used in URLs and commands.
    pub slug: Slug,
    /// Where notifications about failing workflows go.
    pub debug_notification_email: Email,
    /// When it was created.
    pub created_at: Timestamp,
}

/// The key of the guard that makes a slug unique.
pub(crate) fn slug_key(slug: &Slug) -> String {
    format!("slug#{slug}")
}

fn organization_key(id: &TenantId) -> String {
    format!("org#{id}")
}

impl Organization {
    pub(crate) fn slug_guard(&self) -> Item {
        item([("pk", text(slug_key(&self.slug))), ("organization_id", text(&self.id))])
    }

    pub(crate) fn to_item(&self) -> Item {
        item([
            ("pk", text(organization_key(&self.id))),
            ("organization_id", text(&self.id)),
            ("name", text(self.name.as_str())),
            ("slug", text(&self.slug)),
            ("debug_notification_email", text(&self.debug_notification_email)),
            ("created_at", text(self.created_at)),
        ])
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = Record::new("organization", item);
        Ok(Self {
            id: record.parsed("organization_id")?,
            name: Name::stored(record.text("name")?),
            slug: record.checked("slug", Slug::parse)?,
            debug_notification_email: Email::stored(record.text("debug_notification_email")?),
            created_at: record.parsed("created_at")?,
        })
    }
}

/// The table of organizations.
#[derive(Clone)]
pub struct Organizations {
    dynamodb: Client,
    table: String,
}

impl Organizations {
    /// The store over the table that `env` names.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { dynamodb: aws.dynamodb(), table: env.required("ORGANIZATIONS_TABLE")? })
    }

    /// Reads a user's own organization, which always exists.
    ///
    /// # Errors
    /// It does not exist, which is a bug; or the read fails.
    pub async fn get(&self, id: &TenantId) -> Result<Organization> {
        let doing = "reading an organization";
        let found = self.dynamodb.get_item().table_name(&self.table).key("pk", text(organization_key(id)));
        let found = found.consistent_read(true).send().await.map_err(failure(doing))?;
        let found = found.item.ok_or_else(|| Error::Internal(format!("{doing}: {id} does not exist")))?;
        Organization::from_item(&found)
    }
}
