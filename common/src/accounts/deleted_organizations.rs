//! Deleted organizations whose data has not been deleted yet.
//!
//! The transaction that deletes an organization with its last member adds it to a set, the item `deleted` of the table.
//! So the purge finds it without a scan, and never misses one.

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

/// The key of the item that lists deleted organizations.
const LIST: &str = "deleted";

/// An organization that was deleted.
#[derive(Clone, Debug)]
pub struct DeletedOrganization {
    /// The organization's id.
    pub id: TenantId,
    /// The time of its deletion.
    pub at: Timestamp,
}

/// The tables with data of deleted organizations, except those of `webhooks`.
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

    /// Lists the deleted organizations that are not purged yet, in any order.
    ///
    /// # Errors
    /// A read fails, or a stored item cannot be parsed.
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

    /// Deletes the invitations and keys of an organization. An interrupted call can be repeated.
    pub async fn delete_invitations_and_keys(&self, id: &TenantId) -> Result<()> {
        invitations::delete_all(&self.dynamodb, &self.invitations, id).await?;
        self.keys.delete_all(id).await
    }

    /// Deletes the item of an organization permanently, once all its other data is deleted.
    pub async fn forget(&self, id: &TenantId) -> Result<()> {
        let organization = Delete::builder().table_name(&self.organizations).key("pk", text(organization_key(id)));
        let unlist = change_list(&self.organizations, id).update_expression("DELETE organizations :organization");
        Transaction::new("forgetting an organization").delete(organization).update(unlist).commit(&self.dynamodb).await
    }
}

/// Adds an organization to the list of deleted ones.
pub(crate) fn note_deletion(table: &str, id: &TenantId) -> UpdateBuilder {
    change_list(table, id).update_expression("ADD organizations :organization")
}

fn change_list(table: &str, id: &TenantId) -> UpdateBuilder {
    Update::builder()
        .table_name(table)
        .key("pk", text(LIST))
        .expression_attribute_values(":organization", texts(iter::once(id.as_str())))
}
