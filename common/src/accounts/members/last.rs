//! Deletes the last member together with the organization.

use std::collections::BTreeSet;

use super::{ATTEMPTS, Members, NOT_FOUND};
use crate::{
    accounts::{
        api_keys::ApiKeys,
        deleted_organizations::note_deletion,
        organizations::{DELETED_AT, JOINED, SLUG, existing, exists, organization_key, slug_key},
        users::{PK, User, pk, user_key},
    },
    aws::{
        dynamo::{Item, Record, text},
        expression::Update,
        transaction::Transaction,
    },
    error::{Conflict, Error, Result},
    id::UserId,
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
    pub async fn delete_with_organization(&self, last: &User, keys: &ApiKeys, now: Timestamp) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let organization = existing(&self.dynamodb, &self.organizations, &last.organization).await?;
            let organization = organization.ok_or(NOT_FOUND)?;
            if !self.is_alone(last, &organization).await? {
                return Err(Error::Conflict(Conflict::LastOwner));
            }
            let writes = self.ending(last, &organization, now)?;
            if keys.end_with(&last.organization, writes).try_commit(&self.dynamodb).await? {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// The writes that delete `organization`. They are refused if a user has joined or left since it was read.
    fn ending(&self, last: &User, organization: &Item, now: Timestamp) -> Result<Transaction> {
        let slug = Record::new("organization", organization).checked(SLUG, Slug::parse)?;
        let joined = organization.get(JOINED.name()).cloned();
        let is_unchanged = joined.map_or_else(|| JOINED.is_absent(), |joined| JOINED.equals(joined));
        let mark = Update::of(&self.organizations, pk(organization_key(&last.organization)))
            .set(DELETED_AT, text(now))
            .only_if(exists().and(is_unchanged));
        Ok(self
            .delete(Transaction::new("deleting an organization"), last)
            .delete(&self.organizations, pk(slug_key(&slug)))
            .update(mark)
            .update(note_deletion(&self.organizations, &last.organization)))
    }

    /// Whether `last` is the only member in the lagging index and in the organization's own list of new members.
    async fn is_alone(&self, last: &User, organization: &Item) -> Result<bool> {
        let joined: Option<Vec<UserId>> =
            Record::new("organization", organization).optional_set(JOINED, UserId::parse)?;
        let joined = joined.unwrap_or_default().into_iter().map(user_key);
        let shown = self.keys(&last.organization).await?;
        let shown = shown.iter().map(|key| Ok(Record::new("member", key).text(PK)?.to_owned()));
        let keys: BTreeSet<String> = shown.chain(joined.map(Ok)).collect::<Result<_>>()?;
        let members = self.read(&last.organization, keys.into_iter().map(pk).collect()).await?;
        Ok(members.iter().all(|member| member.user.id == last.id))
    }
}
