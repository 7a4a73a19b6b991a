//! Deleted organizations whose data has not been deleted yet.
//!
//! The transaction that deletes an organization adds it to a set in the item `deleted`. The purge therefore finds every
//! deleted organization without a scan.

use std::iter;

use aws_sdk_dynamodb::{Client, types::AttributeValue};

use crate::{
    accounts::{
        api_keys::ApiKeys,
        consent, invitations,
        organizations::{DELETED_AT, organization_key},
        users::{ORGANIZATION_ID, pk},
    },
    aws::{
        batch::batch_get,
        dynamo::{Attribute, Item, ItemReader, get, texts},
        expression::Update,
        transaction::Transaction,
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
};

/// The key of the item that lists deleted organizations.
const LIST: &str = "deleted";
const ORGANIZATIONS: Attribute = Attribute("organizations");

#[derive(Clone, Debug)]
pub struct DeletedOrganization {
    pub id: TenantId,
    /// When the organization was deleted.
    pub at: Timestamp,
}

crate::from_env! {
    /// The tables with data of deleted organizations, except the tables that `webhooks` manages.
    #[derive(Clone)]
    pub struct DeletedOrganizations {
        dynamodb: Client,
        organizations: String = "ORGANIZATIONS_TABLE",
        invitations: String = "INVITATIONS_TABLE",
        tokens: String = "TOKENS_TABLE",
        keys: ApiKeys,
    }
}

impl DeletedOrganizations {
    /// Lists the deleted organizations that have not been purged yet, in any order.
    pub async fn list(&self) -> Result<Vec<DeletedOrganization>> {
        let doing = "listing deleted organizations";
        let list = get(&self.dynamodb, &self.organizations, list_key(), doing).await?.unwrap_or_default();
        let ids: Option<Vec<TenantId>> = ItemReader::new("list", &list).optional_set(ORGANIZATIONS, TenantId::parse)?;
        let keys = ids.unwrap_or_default().iter().map(|id| pk(organization_key(id))).collect();
        let found = batch_get(&self.dynamodb, &self.organizations, keys, doing).await?;
        let read = found.iter().map(|found| {
            let record = ItemReader::new("organization", found);
            Ok(DeletedOrganization { id: record.parsed(ORGANIZATION_ID)?, at: record.parsed(DELETED_AT)? })
        });
        read.collect()
    }

    /// Deletes an organization's invitations and keys, and the links in its emails. An interrupted call can be repeated.
    pub async fn delete_invitations_and_keys(&self, id: &TenantId) -> Result<()> {
        consent::delete_links(&self.dynamodb, &self.tokens, id).await?;
        invitations::delete_all(&self.dynamodb, &self.invitations, id).await?;
        self.keys.delete_all(id).await
    }

    /// Deletes an organization's item permanently, after all its other data.
    pub async fn forget(&self, id: &TenantId) -> Result<()> {
        Transaction::new("forgetting an organization")
            .delete(&self.organizations, pk(organization_key(id)))
            .update(Update::of(&self.organizations, list_key()).delete(ORGANIZATIONS, one(id)))
            .commit(&self.dynamodb)
            .await
    }
}

/// Adds an organization to the list of deleted ones.
pub(crate) fn note_deletion(table: &str, id: &TenantId) -> Update {
    Update::of(table, list_key()).add(ORGANIZATIONS, one(id))
}

fn list_key() -> Item {
    pk(LIST.to_owned())
}

fn one(id: &TenantId) -> AttributeValue {
    texts(iter::once(id.as_str()))
}
