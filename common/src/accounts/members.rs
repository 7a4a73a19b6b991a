//! An organization's members. A user belongs to exactly one organization, so the account of a member who is removed or
//! leaves is deleted, unless they move to another organization. Sessions and keys end with the account, because every
//! call reads the user that its credential belongs to.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        api_keys::ApiKeys,
        email::EmailAddress,
        organizations::part,
        users::{
            CREATED_AT, EMAIL, JOINED_AT, ORGANIZATION_ID, PK, ROLE, Role, USER_ID, User, email_key, pk, user_key,
        },
    },
    audit::{self, Action, Entry, Recorder, change as change_of},
    aws::{
        batch::batch_get,
        dynamo::{Item, ItemReader, get, query_all, text},
        expression::{Condition, Update, query},
        transaction::Transaction,
    },
    error::{Conflict, Error, ForbiddenReason, Result},
    id::{TenantId, UserId},
    issue::Problem,
    paging::{Order, Paging},
    timestamp::Timestamp,
};

mod last_member;

/// A user as a member of an organization.
#[derive(Clone, Debug)]
pub struct Member {
    pub user: User,
    /// When they signed up or, if later, moved to this organization.
    pub joined_at: Timestamp,
}

/// A reference to a member in a request: an id or an email.
#[derive(Debug)]
pub enum MemberIdOrEmail {
    Id(UserId),
    Email(EmailAddress),
}

impl MemberIdOrEmail {
    /// Parses an id or an email. Only an email contains an `@`.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        if text.contains('@') { EmailAddress::parse(text).map(Self::Email) } else { UserId::parse(text).map(Self::Id) }
    }

    /// Whether this refers to `user`.
    pub fn is(&self, user: &User) -> bool {
        match self {
            Self::Id(id) => *id == user.id,
            Self::Email(email) => *email == user.email,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberChange {
    Role(Role),
    Removal,
}

crate::from_env! {
    /// The users table with its index, and the organizations table, which lists the users who have joined.
    #[derive(Clone)]
    pub struct Members {
        dynamodb: Client,
        users: String = "USERS_TABLE",
        organizations: String = "ORGANIZATIONS_TABLE",
    }
}

/// The eventually consistent index of users by organization. The index only suggests members; the table is
/// authoritative.
const BY_ORGANIZATION: &str = "by-organization";
/// The maximum number of tries while other calls change the same member.
const MAX_TRIES: usize = 5;
/// The number of members that a search reads at a time, in sign-up order.
const SEARCH_PAGE_SIZE: usize = 20;
const NOT_FOUND: Error = Error::NotFound("Member not found");

impl Members {
    /// Lists the members in sign-up order or its reverse, with the total count. A user who has
    /// just joined may be missing.
    pub async fn list(&self, organization: &TenantId, paging: Paging, order: Order) -> Result<(Vec<Member>, usize)> {
        let mut keys = self.keys(organization).await?;
        let total = keys.len();
        order.apply(&mut keys);
        let mut members = self.read(organization, paging.of(keys)).await?;
        order.apply(&mut members);
        Ok((members, total))
    }

    /// All members that the index shows. Their items are read consistently.
    pub(super) async fn all(&self, organization: &TenantId) -> Result<Vec<Member>> {
        self.read(organization, self.keys(organization).await?).await
    }

    /// Whether an owner of `organization` has verified their email address. An owner who has just joined may be missed.
    pub async fn has_verified_owner(&self, organization: &TenantId) -> Result<bool> {
        let keys = self.keys(organization).await?;
        for keys in keys.chunks(SEARCH_PAGE_SIZE) {
            let members = self.read(organization, keys.to_vec()).await?;
            if members.iter().any(|member| member.user.role == Role::Owner && member.user.email_verified) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds a member of `organization`.
    ///
    /// # Errors
    /// There is no such member.
    pub async fn find(&self, organization: &TenantId, named: &MemberIdOrEmail) -> Result<Member> {
        let key = match named {
            MemberIdOrEmail::Id(id) => user_key(*id),
            MemberIdOrEmail::Email(email) => {
                let guard = self.get(email_key(email)).await?.ok_or(NOT_FOUND)?;
                // The address may be reserved for a user who no longer has it.
                user_key(ItemReader::new("email", &guard).optional_parsed(USER_ID)?.ok_or(NOT_FOUND)?)
            }
        };
        let member = Member::from_item(&self.get(key).await?.ok_or(NOT_FOUND)?)?;
        if member.user.organization == *organization { Ok(member) } else { Err(NOT_FOUND) }
    }

    /// Finds a member whom `by` changes. Rejects `by` if this is the member whose sessions have ended in the meantime.
    async fn find_for(&self, by: &User, named: &MemberIdOrEmail) -> Result<Member> {
        let member = self.find(&by.organization, named).await?;
        let is_ended = member.user.id == by.id && member.user.session_epoch != by.session_epoch;
        if is_ended { Err(Error::Unauthorized) } else { Ok(member) }
    }

    /// Changes a member's role in the organization of `by`, who must be an owner.
    ///
    /// # Errors
    /// There is no such member, `by` is no longer an owner, or the organization would be left without an owner.
    pub async fn change_role(
        &self,
        recorder: &Recorder,
        by: &User,
        named: &MemberIdOrEmail,
        role: Role,
    ) -> Result<Member> {
        let mut member = self.change(recorder, by, named, MemberChange::Role(role), None).await?;
        member.user.role = role;
        Ok(member)
    }

    /// Removes a member of the organization of `by`, who must be an owner or that member. Frees the member's address.
    ///
    /// # Errors
    /// There is no such member, `by` is neither that member nor an owner, or the organization would be left without an
    /// owner.
    pub async fn remove(
        &self,
        recorder: &Recorder,
        by: &User,
        named: &MemberIdOrEmail,
        keys: &ApiKeys,
    ) -> Result<Member> {
        self.change(recorder, by, named, MemberChange::Removal, Some(keys)).await
    }

    /// Changes a member on condition that an owner remains: the caller or, if the caller is the member, any other
    /// owner. Every transaction that changes an owner checks that another member is still an owner. Concurrent changes
    /// therefore cannot remove the last owner. A counter of owners is not needed, and could become wrong. A removal
    /// ends the member's `keys`.
    async fn change(
        &self,
        recorder: &Recorder,
        by: &User,
        named: &MemberIdOrEmail,
        change: MemberChange,
        keys: Option<&ApiKeys>,
    ) -> Result<Member> {
        for _ in 0..MAX_TRIES {
            let member = self.find_for(by, named).await?;
            let ended = match keys {
                Some(keys) => keys.ended_with(&member.user, Timestamp::now()).await?,
                None => Vec::new(),
            };
            let writes = || self.writes(recorder, by, &member.user, change, &ended);
            if member.user.id != by.id {
                let writes = self.only_if_owner(writes()?, by);
                match writes.first_refused(&self.dynamodb).await? {
                    None => return Ok(member),
                    Some(0) => continue,
                    Some(_) => return Err(Error::Forbidden(ForbiddenReason::OwnersOnly)),
                }
            }
            let is_owner = member.user.role == Role::Owner;
            if !is_owner && change != MemberChange::Removal {
                return Err(Error::Forbidden(ForbiddenReason::OwnersOnly));
            }
            if change == MemberChange::Role(member.user.role) {
                return Ok(member);
            }
            if !is_owner && writes()?.try_commit(&self.dynamodb).await? {
                return Ok(member);
            }
            if is_owner && self.commit_beside_an_owner(&member.user, writes()?).await? {
                return Ok(member);
            }
        }
        Err(Error::Busy)
    }

    /// Commits the `writes` that change an owner, on condition that another owner remains. Returns `false` if either of
    /// the two owners was changed in the meantime.
    async fn commit_beside_an_owner(&self, user: &User, writes: Transaction) -> Result<bool> {
        let other = self.other_owner(user).await?.ok_or(Error::Conflict(Conflict::LastOwner))?;
        self.only_if_owner(writes, &other).try_commit(&self.dynamodb).await
    }

    /// Finds another owner in the organization of `user`. An owner who has just joined may be missed.
    async fn other_owner(&self, user: &User) -> Result<Option<User>> {
        let members = self.read(&user.organization, self.keys(&user.organization).await?).await?;
        let mut users = members.into_iter().map(|member| member.user);
        Ok(users.find(|other| other.role == Role::Owner && other.id != user.id))
    }

    /// The writes for a change to `user` by `by`. The change ends the keys in `ended`. The first write fails if the
    /// user's role has changed or the user was deleted.
    fn writes(
        &self,
        recorder: &Recorder,
        by: &User,
        user: &User,
        change: MemberChange,
        ended: &[audit::Change],
    ) -> Result<Transaction> {
        let action = match change {
            MemberChange::Role(_) => Action::MemberRoleChanged,
            MemberChange::Removal if by.id == user.id => Action::MemberLeft,
            MemberChange::Removal => Action::MemberRemoved,
        };
        let entry = Entry::new(action, &user.organization, user.target());
        match change {
            MemberChange::Role(role) if role == user.role => {
                let is_unchanged = is_still(user, user.role);
                Ok(Transaction::new("changing a role").check(&self.users, pk(user_key(user.id)), is_unchanged))
            }
            MemberChange::Role(role) => {
                let update = Update::of(&self.users, pk(user_key(user.id))).set(ROLE, text(role.as_str()));
                let [old, new] = [user.role, role].map(|role| Some(role.to_string()));
                Transaction::new("changing a role")
                    .update(update.only_if(is_still(user, user.role)))
                    .record(recorder, entry.with([change_of("role", old, new)]))
            }
            MemberChange::Removal => {
                let leaves = part(&self.organizations, &user.organization, user.id);
                self.delete(Transaction::new("removing a member"), by, user)
                    .update(leaves)
                    .record(recorder, entry.with(ended.iter().cloned()))
            }
        }
    }

    /// Adds the deletion of `user`'s account by `by`, on condition that it still exists with the same role and address.
    /// If the caller is the user, the session must not have ended, for example by a password reset.
    fn delete(&self, writes: Transaction, by: &User, user: &User) -> Transaction {
        let is_unchanged = is_still(user, user.role).and(EMAIL.equals(text(&user.email)));
        let may_be_deleted = if by.id == user.id { is_unchanged.and(by.is_in_session_epoch()) } else { is_unchanged };
        writes
            .delete_if(&self.users, pk(user_key(user.id)), may_be_deleted)
            .delete(&self.users, pk(email_key(&user.email)))
    }

    /// Adds the check that `user` is an owner of their organization.
    fn only_if_owner(&self, writes: Transaction, user: &User) -> Transaction {
        writes.check(&self.users, pk(user_key(user.id)), is_still(user, Role::Owner))
    }

    /// The keys of all possible members, from the index, in sign-up order.
    async fn keys(&self, organization: &TenantId) -> Result<Vec<Item>> {
        let query = query(&self.dynamodb, &self.users, ORGANIZATION_ID.equals(text(organization)));
        let found = query_all(query.index_name(BY_ORGANIZATION), "listing members").await?;
        found.iter().map(|found| Ok(pk(ItemReader::new("member", found).text(PK)?.to_owned()))).collect()
    }

    /// Reads the members among `keys`, in sign-up order.
    async fn read(&self, organization: &TenantId, keys: Vec<Item>) -> Result<Vec<Member>> {
        let found = batch_get(&self.dynamodb, &self.users, keys, "reading members").await?;
        let mut members = found.iter().map(Member::from_item).collect::<Result<Vec<_>>>()?;
        members.retain(|member| member.user.organization == *organization);
        members.sort_by_key(|member| member.user.id);
        Ok(members)
    }

    async fn get(&self, key: String) -> Result<Option<Item>> {
        get(&self.dynamodb, &self.users, pk(key), "reading a member").await
    }
}

/// The condition that `user` is still in the same organization, with this role.
pub(super) fn is_still(user: &User, role: Role) -> Condition {
    ORGANIZATION_ID.equals(text(&user.organization)).and(ROLE.equals(text(role.as_str())))
}

impl Member {
    fn from_item(item: &Item) -> Result<Self> {
        let record = ItemReader::new("user", item);
        let joined_at = record.optional_parsed(JOINED_AT)?.map_or_else(|| record.parsed(CREATED_AT), Ok)?;
        Ok(Self { user: User::from_item(item)?, joined_at })
    }
}
