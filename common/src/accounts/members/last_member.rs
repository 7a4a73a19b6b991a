//! Deletes an organization with its last member, who deletes their account or moves to another organization.

use std::collections::BTreeSet;

use super::{MAX_TRIES, MemberIdOrEmail, Members, NOT_FOUND};
use crate::{
    accounts::{
        api_keys::ApiKeys,
        deleted_organizations::note_deletion,
        organizations::{DELETED_AT, JOINED, SLUG, existing, exists, organization_key, part, slug_key},
        users::{NAME, PK, Role, User, pk, user_key},
    },
    audit::{self, Action, Entry, Recorder, TargetKind},
    aws::{
        dynamo::{Item, ItemReader, text},
        expression::Update,
        transaction::Transaction,
    },
    error::{Conflict, Error, Result},
    id::{TenantId, UserId},
    name::Slug,
    timestamp::Timestamp,
};

impl Members {
    /// Deletes the account of `last`, the only member, and their organization, in one transaction. From then on, users
    /// cannot join the organization, its credentials do not work, and the address and the slug can be used again. The
    /// remaining data is deleted later, through
    /// [`DeletedOrganizations`](crate::accounts::deleted_organizations::DeletedOrganizations).
    ///
    /// # Errors
    /// There is another member, `last` was deleted, their sessions have ended ([`Error::Unauthorized`]), or other users
    /// keep joining.
    pub async fn delete_with_organization(
        &self,
        recorder: &Recorder,
        last: &User,
        keys: &ApiKeys,
        now: Timestamp,
    ) -> Result<()> {
        for _ in 0..MAX_TRIES {
            self.find_for(last, &MemberIdOrEmail::Id(last.id)).await?;
            let organization = existing(&self.dynamodb, &self.organizations, &last.organization).await?;
            let organization = organization.ok_or(NOT_FOUND)?;
            if !self.is_alone(last, &organization).await? {
                return Err(Error::Conflict(Conflict::LastOwner));
            }
            let ended = keys.ended_with(last, now).await?;
            let deletion = self.delete(Transaction::new("deleting an organization"), last, last);
            let writes = self.end(deletion, &last.organization, &organization, now)?;
            let writes = writes.record(recorder, self::ended(&last.organization, &organization).with(ended))?;
            if keys.end_with(&last.organization, writes).try_commit(&self.dynamodb).await? {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// Checks that `user` can leave their organization to join another one.
    ///
    /// # Errors
    /// The user is the last owner but not the last member ([`Conflict::LastOwner`]), or is the last member
    /// ([`Conflict::LastMember`]).
    pub async fn check_leaves(&self, user: &User) -> Result<()> {
        self.leave(Transaction::new("leaving"), user, false, Timestamp::now()).await.map(drop)
    }

    /// Adds the writes for `user` to leave their organization. If this deletes the organization, `may_end` must permit
    /// it, and the entry to record is returned. The writes fail if the members have changed since they were read. The
    /// caller adds the write that moves the user.
    ///
    /// # Errors
    /// Same as [`Self::check_leaves`], or the organization was deleted in the meantime ([`Error::Busy`]).
    pub(crate) async fn leave(
        &self,
        writes: Transaction,
        user: &User,
        may_end: bool,
        now: Timestamp,
    ) -> Result<(Transaction, Option<Entry>)> {
        let parts = part(&self.organizations, &user.organization, user.id);
        if user.role != Role::Owner {
            return Ok((writes.update(parts), None));
        }
        if let Some(other) = self.other_owner(user).await? {
            return Ok((self.only_if_owner(writes.update(parts), &other), None));
        }
        let organization = existing(&self.dynamodb, &self.organizations, &user.organization).await?;
        let organization = organization.ok_or(Error::Busy)?;
        match self.is_alone(user, &organization).await? {
            false => Err(Error::Conflict(Conflict::LastOwner)),
            true if !may_end => Err(Error::Conflict(Conflict::LastMember)),
            true => {
                let writes = self.end(writes, &user.organization, &organization, now)?;
                Ok((writes, Some(ended(&user.organization, &organization))))
            }
        }
    }

    /// Adds the writes that delete the organization `id`. The writes fail if a user has joined or left since
    /// `organization` was read.
    fn end(&self, writes: Transaction, id: &TenantId, organization: &Item, now: Timestamp) -> Result<Transaction> {
        let slug = ItemReader::new("organization", organization).checked(SLUG, Slug::parse)?;
        let joined = organization.get(JOINED.name()).cloned();
        let is_unchanged = joined.map_or_else(|| JOINED.is_absent(), |joined| JOINED.equals(joined));
        let mark = Update::of(&self.organizations, pk(organization_key(id)))
            .set(DELETED_AT, text(now))
            .only_if(exists().and(is_unchanged));
        Ok(writes
            .delete(&self.organizations, pk(slug_key(&slug)))
            .update(mark)
            .update(note_deletion(&self.organizations, id)))
    }

    /// Whether `last` is the only member, both in the lagging index and in the organization's list of users who joined.
    async fn is_alone(&self, last: &User, organization: &Item) -> Result<bool> {
        let joined: Option<Vec<UserId>> =
            ItemReader::new("organization", organization).optional_set(JOINED, UserId::parse)?;
        let joined = joined.unwrap_or_default().into_iter().map(user_key);
        let shown = self.keys(&last.organization).await?;
        let shown = shown.iter().map(|key| Ok(ItemReader::new("member", key).text(PK)?.to_owned()));
        let keys: BTreeSet<String> = shown.chain(joined.map(Ok)).collect::<Result<_>>()?;
        let members = self.read(&last.organization, keys.into_iter().map(pk).collect()).await?;
        Ok(members.iter().all(|member| member.user.id == last.id))
    }
}

/// The audit log entry for the deletion of the organization `id`. Its members can no longer read the entry, but
/// operators can.
fn ended(id: &TenantId, organization: &Item) -> Entry {
    let name = ItemReader::new("organization", organization).optional_text(NAME).map(str::to_owned);
    Entry::new(Action::OrganizationDeleted, id, audit::target(TargetKind::Organization, id, name))
}
