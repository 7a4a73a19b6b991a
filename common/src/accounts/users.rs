//! Users, their roles and their permissions.

use std::collections::{BTreeMap, BTreeSet};

pub use api::account::Role;
use aws_sdk_dynamodb::{Client, types::AttributeValue};

use crate::{
    accounts::{email::EmailAddress, password::PasswordHash, token::SecretHash},
    audit::{self, Action, Actor, ActorKind, Entry, Recorder, Target, TargetKind},
    aws::{
        batch::batch_get,
        dynamo::{Item, ItemReader, attributes, boolean, get, item, number, text},
        expression::{Condition, Update},
        transaction::Transaction,
    },
    error::{Error, ForbiddenReason, Result},
    id::{TenantId, UserId},
    issue::{Problem, parse_name},
    name::Name,
    timestamp::Timestamp,
};

/// A user, who belongs to exactly one organization.
#[derive(Clone, Debug)]
pub struct User {
    pub id: UserId,
    /// The display name, chosen by the user.
    pub name: Name,
    /// The email address for signing in.
    pub email: EmailAddress,
    /// Whether they have proved access to the mailbox.
    pub email_verified: bool,
    /// Whether they chose the address themselves at sign-up, and may therefore replace it until it is verified. An
    /// invited user's address is chosen by the inviter.
    pub chose_email: bool,
    /// The address that replaces `email` once it is verified.
    pub pending_email: Option<EmailAddress>,
    /// The hashes of the tokens that undo recent address changes, oldest first.
    pub email_undos: EmailUndos,
    pub organization: TenantId,
    /// The user's role in the organization.
    pub role: Role,
    /// The epoch of their sessions. Sessions that began in an earlier epoch have ended.
    pub session_epoch: i64,
    /// The epoch of their keys. Keys from an earlier epoch no longer work. A password reset and a move to another
    /// organization start a new epoch.
    pub key_epoch: i64,
    /// The number of times that they moved to another organization. Each move began a new epoch for their keys.
    pub moves: i64,
    /// Whether they sign in with a second factor.
    pub has_two_factor: bool,
    /// Whether their organization requires a second factor. It is a copy of the organization's setting, so the caller
    /// can be identified without reading the organization.
    pub must_have_two_factor: bool,
}

/// Parses a role from a request.
pub fn parse_role(text: &str) -> Result<Role, Vec<Problem>> {
    match text {
        // Clients written for other services offer the role `admin`, which ranks between owner and member.
        "admin" => Err(vec![Problem::format("There is no role admin. Must be owner or member")]),
        _ => parse_name(text),
    }
}

attributes! { pub(crate)
    PK = "pk", USER_ID = "user_id", NAME = "name", EMAIL = "email", EMAIL_VERIFIED = "email_verified",
    CHOSE_EMAIL = "chose_email", PENDING_EMAIL = "pending_email", EMAIL_UNDOS = "email_undos",
    // In the guard of a user's previous address: the user, and the time until which the address can be restored.
    RESERVED_FOR = "reserved_for", RESERVED_UNTIL = "reserved_until",
    ORGANIZATION_ID = "organization_id", ROLE = "role", PASSWORD_HASH = "password_hash",
    // When the user last moved to another organization.
    JOINED_AT = "joined_at",
    SESSION_EPOCH = "session_epoch", KEY_EPOCH = "key_epoch", MOVES = "moves", CREATED_AT = "created_at",
    // The user's epoch when a session, a key or an approval began.
    EPOCH = "epoch",
    // The second factor: the secret of the authenticator app, in base32; when the user confirmed it with a first code;
    // the time step of the last code that was used; the hashes of the unused backup codes.
    TOTP_SECRET = "totp_secret", TWO_FACTOR_SINCE = "two_factor_since", TOTP_STEP = "totp_step",
    BACKUP_CODES = "backup_codes",
    MUST_HAVE_TWO_FACTOR = "must_have_two_factor",
}

/// The table key of a user.
pub(crate) fn user_key(id: UserId) -> String {
    format!("user#{id}")
}

/// The table key of the guard item that makes an email unique.
pub(crate) fn email_key(email: &EmailAddress) -> String {
    format!("email#{email}")
}

/// The guard item that assigns an address to the user `id`.
pub(crate) fn email_guard(email: &EmailAddress, id: UserId) -> Item {
    item([(PK, text(email_key(email))), (USER_ID, text(id))])
}

/// The condition that an address has no guard, or that its guard has expired by `now`.
pub(crate) fn is_free(now: Timestamp) -> Condition {
    PK.is_absent().or(RESERVED_UNTIL.is_at_most(number(now.as_second())))
}

/// Whether the guard of an address keeps other users from taking it at `now`.
pub(crate) fn is_kept(guard: &Item, now: Timestamp) -> bool {
    ItemReader::new("email", guard).optional_number(RESERVED_UNTIL).is_none_or(|until| until > now.as_second())
}

pub(crate) fn pk(key: String) -> Item {
    item([(PK, AttributeValue::S(key))])
}

impl User {
    /// Checks that the user has verified their email address.
    ///
    /// # Errors
    /// The address is not verified ([`ForbiddenReason::EmailNotVerified`]).
    pub fn check_verified(&self) -> Result<()> {
        if self.email_verified { Ok(()) } else { Err(Error::Forbidden(ForbiddenReason::EmailNotVerified)) }
    }

    /// Checks that the user has a second factor, if their organization requires one.
    ///
    /// # Errors
    /// The user lacks a required second factor ([`ForbiddenReason::TwoFactorRequired`]).
    pub fn check_two_factor(&self) -> Result<()> {
        if self.has_two_factor || !self.must_have_two_factor {
            Ok(())
        } else {
            Err(Error::Forbidden(ForbiddenReason::TwoFactorRequired))
        }
    }

    /// The address that a link in an email verifies: the pending address if there is one, otherwise the current
    /// address.
    pub fn email_to_verify(&self) -> &EmailAddress {
        self.pending_email.as_ref().filter(|_| !self.email_verified).unwrap_or(&self.email)
    }

    /// The member whose keys the user manages; `None` for an owner, who manages all keys of the organization.
    pub fn manages_keys_of(&self) -> Option<UserId> {
        (self.role != Role::Owner).then_some(self.id)
    }

    /// Checks that the user may manage their organization's members: they are an owner with a verified email.
    ///
    /// # Errors
    /// The user is not an owner ([`ForbiddenReason::OwnersOnly`]), or not verified.
    pub fn check_verified_owner(&self) -> Result<()> {
        self.check_owner()?;
        self.check_verified()
    }

    /// Checks that the user is an owner of their organization.
    ///
    /// # Errors
    /// The user is not an owner ([`ForbiddenReason::OwnersOnly`]).
    pub fn check_owner(&self) -> Result<()> {
        if self.role == Role::Owner { Ok(()) } else { Err(Error::Forbidden(ForbiddenReason::OwnersOnly)) }
    }

    /// The condition that the user still exists and is in the same organization. Every transaction that writes to the
    /// organization's audit log needs this condition: after a move, the change belongs in the other organization's log.
    pub(super) fn is_in_organization(&self) -> Condition {
        ORGANIZATION_ID.equals(text(&self.organization))
    }

    /// The condition that the user's sessions have not ended since the user was read.
    pub(super) fn is_in_session_epoch(&self) -> Condition {
        let is_equal = SESSION_EPOCH.equals(number(self.session_epoch));
        if self.session_epoch == 0 { SESSION_EPOCH.is_absent().or(is_equal) } else { is_equal }
    }

    /// The user as an audit log actor.
    pub fn actor(&self) -> Actor {
        let name = Some(self.name.as_str().to_owned());
        Actor { kind: ActorKind::User.into(), id: self.id.to_string(), name, email: Some(self.email.to_string()) }
    }

    /// Adds the audit log entry for the address that the user entered, unless the user had already entered the same
    /// one.
    pub(super) fn request_email(
        &self,
        recorder: &Recorder,
        writes: Transaction,
        email: Option<&EmailAddress>,
    ) -> Result<Transaction> {
        if email == self.pending_email.as_ref() {
            return Ok(writes);
        }
        let [old, new] = [self.pending_email.as_ref(), email].map(|email| email.map(ToString::to_string));
        let entry = Entry::new(Action::EmailRequested, &self.organization, self.target());
        writes.record(recorder, entry.with([audit::change("pending_email", old, new)]))
    }

    /// The user as an audit log target.
    pub(crate) fn target(&self) -> Target {
        audit::target(TargetKind::User, self.id, self.email.to_string())
    }

    pub(crate) fn to_item(&self, password: &PasswordHash, now: Timestamp) -> Item {
        let mut item = item([
            (PK, text(user_key(self.id))),
            (USER_ID, text(self.id)),
            (NAME, text(self.name.as_str())),
            (EMAIL, text(&self.email)),
            (EMAIL_VERIFIED, boolean(self.email_verified)),
            (CHOSE_EMAIL, boolean(self.chose_email)),
            (ORGANIZATION_ID, text(&self.organization)),
            (ROLE, text(self.role.as_str())),
            (PASSWORD_HASH, text(password.as_str())),
            (SESSION_EPOCH, number(self.session_epoch)),
            (KEY_EPOCH, number(self.key_epoch)),
            (CREATED_AT, text(now)),
        ]);
        item.extend(self.must_have_two_factor.then(|| MUST_HAVE_TWO_FACTOR.with(boolean(true))));
        item
    }

    pub(crate) fn from_item(item: &Item) -> Result<Self> {
        let record = ItemReader::new("user", item);
        Ok(Self {
            id: record.parsed(USER_ID)?,
            name: Name::stored(record.text(NAME)?),
            email: EmailAddress::stored(record.text(EMAIL)?),
            email_verified: record.boolean(EMAIL_VERIFIED)?,
            chose_email: record.optional_boolean(CHOSE_EMAIL).unwrap_or_default(),
            pending_email: record.optional_text(PENDING_EMAIL).map(EmailAddress::stored),
            email_undos: EmailUndos::stored(record.optional_text(EMAIL_UNDOS).unwrap_or_default()),
            organization: record.parsed(ORGANIZATION_ID)?,
            role: record.parsed(ROLE)?,
            session_epoch: record.optional_number(SESSION_EPOCH).unwrap_or(0),
            key_epoch: record.optional_number(KEY_EPOCH).unwrap_or(0),
            moves: record.optional_number(MOVES).unwrap_or(0),
            has_two_factor: record.optional_text(TWO_FACTOR_SINCE).is_some(),
            must_have_two_factor: record.optional_boolean(MUST_HAVE_TWO_FACTOR).unwrap_or_default(),
        })
    }
}

/// The address changes that can be undone. For each, the list contains the hash of its token and the Unix time when the
/// token stops working. The user's item stores the list as one string, so an update can require it to be unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmailUndos(Vec<(String, i64)>);

impl EmailUndos {
    fn stored(text: &str) -> Self {
        let parsed = text.split(' ').filter_map(|undo| {
            let (hash, until) = undo.split_once('@')?;
            Some((hash.to_owned(), until.parse().ok()?))
        });
        Self(parsed.collect())
    }

    /// The list in its stored form.
    pub(crate) fn text(&self) -> AttributeValue {
        let undos = self.0.iter().map(|(hash, until)| format!("{hash}@{until}"));
        text(undos.collect::<Vec<_>>().join(" "))
    }

    /// Returns these changes and a new one, without those that have expired by `now`.
    pub(crate) fn with(&self, hash: &SecretHash, until: i64, now: Timestamp) -> Self {
        let recent = self.0.iter().filter(|(_, until)| *until > now.as_second()).cloned();
        Self(recent.chain([(hash.as_str().to_owned(), until)]).collect())
    }

    /// Returns the changes before the one with `hash`. Only these remain after it is undone, because an undo reverts
    /// all later changes. Returns `None` if it was already undone.
    pub(crate) fn before(&self, hash: &SecretHash) -> Option<Self> {
        let index = self.0.iter().position(|(undo, _)| undo == hash.as_str())?;
        Some(Self(self.0.iter().take(index).cloned().collect()))
    }

    /// The condition that the stored list has not changed.
    pub(crate) fn are_unchanged(&self) -> Condition {
        let are_equal = EMAIL_UNDOS.equals(self.text());
        if self.0.is_empty() { EMAIL_UNDOS.is_absent().or(are_equal) } else { are_equal }
    }
}

/// The maximum number of tries to rename a user while other calls change them.
const MAX_TRIES: usize = 5;

crate::from_env! {
    #[derive(Clone)]
    pub struct Users {
        dynamodb: Client,
        table: String = "USERS_TABLE",
    }
}

impl Users {
    /// Finds the user `id` with a consistent read. Returns `None` if the account was deleted.
    pub async fn find(&self, id: UserId) -> Result<Option<User>> {
        self.read(user_key(id)).await?.as_ref().map(User::from_item).transpose()
    }

    /// When the user `id` enabled their second factor, if they have one. `None` if the account was deleted.
    pub(super) async fn two_factor_since(&self, id: UserId) -> Result<Option<Option<Timestamp>>> {
        let item = self.find_item(id).await?;
        item.map(|item| ItemReader::new("user", &item).optional_parsed(TWO_FACTOR_SINCE)).transpose()
    }

    /// The item of the user `id`, read consistently.
    pub(super) async fn find_item(&self, id: UserId) -> Result<Option<Item>> {
        self.read(user_key(id)).await
    }

    /// Adds the check that `user` still has the same role in the same organization.
    pub(super) fn check_unchanged(&self, user: &User, writes: Transaction) -> Transaction {
        let is_member = ORGANIZATION_ID.equals(text(&user.organization));
        writes.check(&self.table, pk(user_key(user.id)), is_member.and(ROLE.equals(text(user.role.as_str()))))
    }

    /// Adds the check that `user` is still in the same organization, because the transaction writes to its audit log.
    pub(super) fn check_organization(&self, user: &User, writes: Transaction) -> Transaction {
        writes.check(&self.table, pk(user_key(user.id)), user.is_in_organization())
    }

    /// The table and the item key of the user `id`.
    pub(super) fn item(&self, id: UserId) -> (&String, Item) {
        (&self.table, pk(user_key(id)))
    }

    pub(super) fn dynamodb(&self) -> &Client {
        &self.dynamodb
    }

    /// Reads the names of the users in `ids` who are members of `organization`.
    pub async fn names(
        &self,
        organization: &TenantId,
        ids: impl IntoIterator<Item = UserId>,
    ) -> Result<BTreeMap<UserId, Name>> {
        let ids: BTreeSet<UserId> = ids.into_iter().collect();
        let keys = ids.into_iter().map(|id| pk(user_key(id))).collect();
        let found = batch_get(&self.dynamodb, &self.table, keys, "reading the names of users").await?;
        let users = found.iter().map(User::from_item).collect::<Result<Vec<_>>>()?;
        let members = users.into_iter().filter(|user| user.organization == *organization);
        Ok(members.map(|user| (user.id, user.name)).collect())
    }

    /// Whether a user has this email.
    pub async fn has_account(&self, email: &EmailAddress) -> Result<bool> {
        let guard = self.read(email_key(email)).await?;
        Ok(guard.is_some_and(|guard| guard.contains_key(USER_ID.name())))
    }

    /// Finds the user with this email, and their password hash. Always makes two reads, whether or not the user exists,
    /// so the timing reveals nothing. For the same reason, it accepts `None` for a string that is not an email.
    pub async fn credentials(&self, email: Option<&EmailAddress>) -> Result<Option<(User, PasswordHash)>> {
        let guard = self.read(email.map_or_else(|| "email#".to_owned(), email_key)).await?;
        let id = guard.as_ref().and_then(|guard| ItemReader::new("email", guard).optional_text(USER_ID));
        let Some(item) = self.read(format!("user#{}", id.unwrap_or_default())).await? else { return Ok(None) };
        let password = PasswordHash::stored(ItemReader::new("user", &item).text(PASSWORD_HASH)?);
        Ok(Some((User::from_item(&item)?, password)))
    }

    /// Changes the name of `user`, on condition that the stored name and organization still match the audit log entry.
    ///
    /// # Errors
    /// The user was deleted ([`Error::Unauthorized`]).
    pub async fn rename(&self, recorder: &Recorder, user: &User, name: &Name) -> Result<()> {
        let mut user = user.clone();
        for _ in 0..MAX_TRIES {
            if *name == user.name {
                return Ok(());
            }
            let update = Update::of(&self.table, pk(user_key(user.id))).set(NAME, text(name.as_str()));
            let update = update.only_if(user.is_in_organization().and(NAME.equals(text(user.name.as_str()))));
            let [old, new] = [&user.name, name].map(|name| Some(name.as_str().to_owned()));
            let entry = Entry::new(Action::UserRenamed, &user.organization, user.target());
            let entry = entry.with([audit::change("name", old, new)]);
            if Transaction::new("renaming a user")
                .update(update)
                .record(recorder, entry)?
                .try_commit(&self.dynamodb)
                .await?
            {
                return Ok(());
            }
            user = self.find(user.id).await?.ok_or(Error::Unauthorized)?;
        }
        Err(Error::Busy)
    }

    /// Replaces the password hash `old` with `new`, unless it was changed in the meantime.
    pub async fn rehash(&self, id: UserId, old: &PasswordHash, new: &PasswordHash) -> Result<()> {
        let update = Update::of(&self.table, pk(user_key(id))).set(PASSWORD_HASH, text(new.as_str()));
        let update = update.only_if(PASSWORD_HASH.equals(text(old.as_str())));
        update.send(&self.dynamodb, "replacing a password hash").await.map(drop)
    }

    async fn read(&self, key: String) -> Result<Option<Item>> {
        get(&self.dynamodb, &self.table, pk(key), "reading a user").await
    }
}
