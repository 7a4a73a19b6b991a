//! Deletes the last member together with the organization.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::{Delete, Update};

use super::{ATTEMPTS, Members, NOT_FOUND};
use crate::{
    accounts::{
        deleted_organizations::note_deletion,
        organizations::{EXISTS, organization_key, slug_key},
        users::{User, user_key},
    },
    aws::{
        dynamo::{Item, Record, item, text},
        failure,
        transaction::Transaction,
    },
    error::{Conflict, Error, Result},
    id::{TenantId, UserId},
    name::Slug,
    timestamp::Timestamp,
};

impl Members {
    /// Deletes the account of `last`, the only member, and their organization, in one transaction: the organization
    /// accepts no new members, its credentials stop working, and the address and the slug are free again. The
    /// organization's remaining data is left to
    /// [`DeletedOrganizations`](crate::accounts::deleted_organizations::DeletedOrganizations).
    ///
    /// # Errors
    /// There is another member; `last` was deleted; other users keep joining; or a call fails.
    pub async fn delete_with_organization(&self, last: &User, now: Timestamp) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let organization = self.organization(&last.organization).await?;
            if !self.is_alone(last, &organization).await? {
                return Err(Error::Conflict(Conflict::LastOwner));
            }
            if self.ending(last, &organization, now)?.try_commit(&self.dynamodb).await? {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// The writes that delete `organization`. They are refused if a user has joined or left since it was read.
    fn ending(&self, last: &User, organization: &Item, now: Timestamp) -> Result<Transaction> {
        let slug = Record::new("organization", organization).checked("slug", Slug::parse)?;
        let guard = Delete::builder().table_name(&self.organizations).key("pk", text(slug_key(&slug)));
        let mark = Update::builder()
            .table_name(&self.organizations)
            .key("pk", text(organization_key(&last.organization)))
            .update_expression("SET deleted_at = :now")
            .expression_attribute_values(":now", text(now));
        let mark = match organization.get("joined") {
            Some(joined) => mark
                .condition_expression(format!("{EXISTS} AND joined = :joined"))
                .expression_attribute_values(":joined", joined.clone()),
            None => mark.condition_expression(format!("{EXISTS} AND attribute_not_exists(joined)")),
        };
        let writes = self.delete(Transaction::new("deleting an organization"), last);
        Ok(writes.delete(guard).update(mark).update(note_deletion(&self.organizations, &last.organization)))
    }

    /// Whether `last` is the only member in the lagging index and in the organization's own list of new members.
    async fn is_alone(&self, last: &User, organization: &Item) -> Result<bool> {
        let joined: Option<Vec<UserId>> =
            Record::new("organization", organization).optional_set("joined", UserId::parse)?;
        let joined = joined.unwrap_or_default().into_iter().map(user_key);
        let shown = self.keys(&last.organization).await?;
        let shown = shown.iter().map(|key| Ok(Record::new("member", key).text("pk")?.to_owned()));
        let keys: BTreeSet<String> = shown.chain(joined.map(Ok)).collect::<Result<_>>()?;
        let keys = keys.into_iter().map(|key| item([("pk", text(key))]));
        let members = self.read(&last.organization, keys.collect()).await?;
        Ok(members.iter().all(|member| member.user.id == last.id))
    }

    /// The item of an organization, read consistently, unless it was deleted.
    async fn organization(&self, id: &TenantId) -> Result<Item> {
        let found = self.dynamodb.get_item().table_name(&self.organizations).key("pk", text(organization_key(id)));
        let found = found.consistent_read(true).send().await.map_err(failure("reading an organization"))?.item;
        found.filter(|item| !item.contains_key("deleted_at")).ok_or(NOT_FOUND)
    }
}
