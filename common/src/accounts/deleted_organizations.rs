//! Organizations that were deleted with their last member, until what is stored for them is deleted, too.
//!
//! The transaction that deletes one also adds it to a set, the item `deleted` of the table, so that it is found without a
//! scan and never forgotten.

use std::iter;

use aws_sdk_dynamodb::{
    Client,
    types::{Delete, Update, builders::UpdateBuilder},
};

use crate::{
    accounts::{api_keys::ApiKeys, invitations, organizations::organization_key},
    aws::{
        clients::Aws,
        dynamo::{Record, batch_get_all, item, text, texts},
        failure,
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
};

/// The key of the item that lists them.
const LIST: &str = "deleted";

/// An organization that was deleted.
#[derive(Clone, Debug)]
pub struct DeletedOrganization {
    /// The organization's id.
    pub id: TenantId,
    /// When it was deleted.
    pub at: Timestamp,
}

/// The tables with what organizations leave behind, but for that of `webhooks`.
#[derive(Clone)]
pub struct DeletedOrganizations {
    dynamodb: Client,
    organizations: String,
    invitations: String,
    keys: ApiKeys,
}

impl DeletedOrganizations {
    /// The store over the tables that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            organizations: env.required("ORGANIZATIONS_TABLE")?,
            invitations: env.required("INVITATIONS_TABLE")?,
            keys: ApiKeys::from_env(env, aws)?,
        })
    }

    /// Lists those that are not forgotten yet, in any order.
    ///
    /// # Errors
    /// A read fails, or what it finds cannot be read.
    pub async fn list(&self) -> Result<Vec<DeletedOrganization>> {
        let doing = "listing deleted organizations";
        let list = self.dynamodb.get_item().table_name(&self.organizations).key("pk", text(LIST));
        let list = list.consistent_read(true).send().await.map_err(failure(doing))?.item.unwrap_or_default();
        let ids: Option<Vec<TenantId>> = Record::new("list", &list).optional_set("organizations", TenantId::parse)?;
        let keys = ids.unwrap_or_default().iter().map(|id| item([("pk", text(organization_key(id)))])).collect();
        let found = batch_get_all(&self.dynamodb, &self.organizations, keys, doing).await?;
        let read = found.iter().map(|found| {
            let record = Record::new("organization", found);
            Ok(DeletedOrganization { id: record.parsed("organization_id")?, at: record.parsed("deleted_at")? })
        });
        read.collect()
    }

    /// Deletes the invitations and keys of an organization. It can stop anywhere and be repeated.
    pub async fn delete_invitations_and_keys(&self, id: &TenantId) -> Result<()> {
        invitations::delete_all(&self.dynamodb, &self.invitations, id).await?;
        self.keys.delete_all(id).await
    }

    /// Deletes an organization for good, when nothing else is left of it.
    pub async fn forget(&self, id: &TenantId) -> Result<()> {
        let organization = Delete::builder().table_name(&self.organizations).key("pk", text(organization_key(id)));
        let unlist = change_list(&self.organizations, id).update_expression("DELETE organizations :organization");
        Transaction::new("forgetting an organization").delete(organization).update(unlist).commit(&self.dynamodb).await
    }
}

/// Notes that an organization is deleted.
pub(crate) fn note_deletion(table: &str, id: &TenantId) -> UpdateBuilder {
    change_list(table, id).update_expression("ADD organizations :organization")
}

fn change_list(table: &str, id: &TenantId) -> UpdateBuilder {
    Update::builder()
        .table_name(table)
        .key("pk", text(LIST))
        .expression_attribute_values(":organization", texts(iter::once(id.as_str())))
}
