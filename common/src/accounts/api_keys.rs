//! API keys, which let programs act for an organization.

use std::{fmt, time::Duration};

use aws_sdk_dynamodb::Client;
use zeroize::Zeroizing;

use crate::{
    accounts::{
        permissions::{KeyKind, Permissions},
        rate_limits::ClientAddress,
        token::{EXPIRES_AT, SecretHash},
        users::{CREATED_AT, EPOCH, NAME, ORGANIZATION_ID, USER_ID, User, Users},
    },
    audit::{self, Action, Actor, ActorKind, Change, Entry, Recorder, Target, TargetKind, initial},
    aws::{
        batch::{batch_write, delete_request},
        dynamo::{Item, ItemReader, attributes, get, item, number, query_all, text},
        expression::{Update, query},
        transaction::Transaction,
    },
    error::{Conflict, Error, Result},
    id::{KeyId, TenantId, UserId},
    name::Name,
    random,
    timestamp::Timestamp,
};

/// Every key's prefix. It helps people and secret scanners recognize keys.
pub const PREFIX: &str = "ak_";
/// The number of key characters that stay visible after creation.
const START_LENGTH: usize = 9;
/// 43 base-62 digits are enough for 32 random bytes: 62^43 > 2^256.
const DIGITS: usize = 43;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The secret key: `ak_` and 43 random base-62 digits. It is shown only once, because the table stores only its hash.
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    /// Generates a key from the operating system's randomness.
    pub fn generate() -> Self {
        let mut key = Zeroizing::new(String::with_capacity(PREFIX.len() + DIGITS));
        key.push_str(PREFIX);
        while key.len() < PREFIX.len() + DIGITS {
            // 248 is the largest multiple of 62 that fits in a byte. Larger draws are discarded to make all digits
            // equally likely.
            let draws = Zeroizing::new(random::bytes::<64>());
            let digits = draws.iter().filter(|draw| **draw < 248).filter_map(|draw| BASE62.get(usize::from(draw % 62)));
            let missing = PREFIX.len() + DIGITS - key.len();
            key.extend(digits.take(missing).map(|digit| char::from(*digit)));
        }
        Self(key)
    }

    /// Accepts any well-formed string, whether or not the key exists.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let well_formed = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
        well_formed.then(|| Self(Zeroizing::new(text.to_owned())))
    }

    /// The secret, for the response to the issuer. Must not be logged or stored.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The first 9 characters, which distinguish keys in lists.
    pub fn start(&self) -> &str {
        self.0.get(..START_LENGTH).unwrap_or_default()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(redacted)")
    }
}

/// A valid API key, for authentication: its permissions, and the user and organization that it acts for.
#[derive(Clone, Debug)]
pub struct KeyHolder {
    pub key: KeyId,
    /// Its display name.
    pub name: Name,
    /// The organization that the key belongs to.
    pub tenant: TenantId,
    /// The user who issued the key. A personal key acts for this user.
    pub user: UserId,
    pub permissions: Permissions,
    /// The UTC day of the last use; `None` if the key has not been used.
    pub last_request: Option<Timestamp>,
    /// The user's epoch when the key was issued. Keys from earlier epochs no longer work.
    epoch: i64,
    hash: SecretHash,
}

impl KeyHolder {
    /// Parses a key's item. Returns `None` if the key has expired by `now`.
    pub(super) fn from_item(item: &Item, hash: &SecretHash, now: Timestamp) -> Result<Option<Self>> {
        let record = ItemReader::new("API key", item);
        if record.optional_parsed(EXPIRES_AT)?.is_some_and(|expires_at: Timestamp| expires_at <= now) {
            return Ok(None);
        }
        Ok(Some(Self {
            key: record.parsed(KEY_ID)?,
            name: Name::stored(record.text(NAME)?),
            tenant: record.parsed(ORGANIZATION_ID)?,
            user: record.parsed(USER_ID)?,
            permissions: Permissions::of_item(&record)?,
            last_request: record.optional_parsed(LAST_REQUEST)?,
            epoch: record.optional_number(EPOCH).unwrap_or(0),
            hash: hash.clone(),
        }))
    }

    /// The key as an audit log actor. A personal key acts for `user`.
    pub fn actor(&self, user: Option<&User>) -> Actor {
        let (name, email) = (Some(self.name.as_str().to_owned()), user.map(|user| user.email.to_string()));
        Actor { kind: ActorKind::Key.into(), id: self.key.to_string(), name, email }
    }

    /// Whether the personal key still works for `user`, who may have left its organization or reset their password.
    pub fn is_of(&self, user: &User) -> bool {
        self.user == user.id && self.tenant == user.organization && self.epoch == user.key_epoch
    }
}

#[derive(Debug)]
pub struct NewKey {
    pub name: Name,
    pub permissions: Permissions,
    /// The time until the key expires; `None` if it does not expire.
    pub lifetime: Option<Duration>,
}

/// A new key, with its secret.
#[derive(Debug)]
pub struct IssuedKey {
    pub id: KeyId,
    /// The secret, which is shown only once.
    pub key: ApiKey,
    /// When the key was issued.
    pub created_at: Timestamp,
    pub new: NewKey,
}

impl IssuedKey {
    /// When the key expires; `None` if it does not.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.new.lifetime.map(|lifetime| self.created_at.after(lifetime))
    }
}

/// A key in a list, without its secret.
#[derive(Debug)]
pub struct KeyRecord {
    pub id: KeyId,
    /// The display name, chosen by the issuer.
    pub name: Name,
    /// The first 9 characters of the key.
    pub start: String,
    /// The user who issued the key. A personal key acts for this user.
    pub user: UserId,
    pub permissions: Permissions,
    /// When the key was issued.
    pub created_at: Timestamp,
    /// When the key expires; `None` if it does not.
    pub expires_at: Option<Timestamp>,
    /// The UTC day of the last use; `None` if the key has not been used.
    pub last_request: Option<Timestamp>,
    /// The address of the first call on that day, if it is known.
    pub last_address: Option<String>,
    organization: TenantId,
    epoch: i64,
    hash: String,
}

/// The index of keys by organization. It is eventually consistent.
const BY_ORGANIZATION: &str = "by-organization";
/// The key does not exist or belongs to another organization.
const NOT_FOUND: Error = Error::NotFound("API key not found");
attributes! {
    // The table's primary key: the hash of an API key, or the key of a pointer or a counter.
    KEY_HASH = "key_hash",
    // The pointer attribute that holds the hash of the API key.
    HASH = "hash",
    // The counter's attribute.
    KEYS = "keys",
    KEY_ID = "key_id", START = "start", LAST_REQUEST = "last_request", LAST_ADDRESS = "last_address",
}

/// The maximum number of keys per organization, so that a list fits into one response and people can read it.
pub const MAX_KEYS: u32 = 100;

crate::from_env! {
    /// The table of API keys. Each key has a second item, a pointer, for consistent reads by id. The pointer lacks the
    /// index's attributes, so it is not in the index.
    ///
    /// The counter of an organization's keys also shows whether the organization exists, because the transaction that
    /// deletes an organization also deletes the counter. A call with an organization key therefore reads two items, the
    /// key and the counter, and a call with a personal key reads the key and its user.
    #[derive(Clone)]
    pub struct ApiKeys {
        dynamodb: Client,
        table: String = "API_KEYS_TABLE",
    }
}

impl ApiKeys {
    /// Finds the key with this hash. Returns `None` if the key was never issued, has been revoked, or has expired by
    /// `now`. The read is strongly consistent, so a revoked key stops working at once.
    pub(super) async fn holder(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<KeyHolder>> {
        let Some(found) = self.read(hash.as_str()).await? else { return Ok(None) };
        KeyHolder::from_item(&found, hash, now)
    }

    /// The table and the item key of the API key with this hash.
    pub(super) fn holder_item(&self, hash: &SecretHash) -> (&String, Item) {
        (&self.table, key(hash.as_str()))
    }

    /// The table and the item key of `organization`'s key counter. An organization that has a key keeps its counter
    /// until the organization is deleted.
    pub(super) fn organization_item(&self, organization: &TenantId) -> (&String, Item) {
        (&self.table, key(count_key(organization)))
    }

    /// Whether `organization`, which has issued a key, still exists. The read is strongly consistent.
    pub(super) async fn organization_exists(&self, organization: &TenantId) -> Result<bool> {
        Ok(self.read(&count_key(organization)).await?.is_some())
    }

    /// Adds a write to the transaction that deletes `organization`. The write revokes all its organization keys.
    pub(super) fn end_with(&self, organization: &TenantId, writes: Transaction) -> Transaction {
        writes.delete(&self.table, key(count_key(organization)))
    }

    /// Records that a key was used from `address` on the day of `now`, at most once per key per day.
    pub async fn note_use(&self, holder: &KeyHolder, address: ClientAddress, now: Timestamp) -> Result<()> {
        if holder.last_request >= Some(now.day()) {
            return Ok(());
        }
        // The key may have been deleted since it was read.
        let update = Update::of(&self.table, key(holder.hash.as_str()))
            .set(LAST_REQUEST, text(now.day()))
            .set(LAST_ADDRESS, text(address))
            .only_if(KEY_ID.exists());
        update.send(&self.dynamodb, "noting the use of an API key").await.map(drop)
    }

    /// Issues a key for `user`'s organization.
    ///
    /// # Errors
    /// The user's email is not verified; the key is an organization key and the user is not an owner; the user was
    /// changed or deleted in the meantime ([`Error::Busy`]); or the organization already has [`MAX_KEYS`] keys.
    pub async fn issue(
        &self,
        recorder: &Recorder,
        users: &Users,
        user: &User,
        new: NewKey,
        now: Timestamp,
    ) -> Result<IssuedKey> {
        match new.permissions.kind() {
            KeyKind::Personal => user.check_verified()?,
            KeyKind::Organization => user.check_verified_owner()?,
        }
        let issued = IssuedKey { id: KeyId::generate(), key: ApiKey::generate(), created_at: now, new };
        let (hash, new) = (SecretHash::of(issued.key.reveal()), &issued.new);
        let pointer = item([(KEY_HASH, text(pointer(issued.id))), (HASH, text(hash.as_str()))]);
        let mut key = item([
            (KEY_HASH, text(hash.as_str())),
            (KEY_ID, text(issued.id)),
            (NAME, text(new.name.as_str())),
            (START, text(issued.key.start())),
            (ORGANIZATION_ID, text(&user.organization)),
            (USER_ID, text(user.id)),
            (CREATED_AT, text(now)),
            (EPOCH, number(user.key_epoch)),
        ]);
        new.permissions.add_to(&mut key);
        key.extend(issued.expires_at().map(|expires_at| EXPIRES_AT.with(text(expires_at))));
        let has_room = KEYS.is_absent().or(KEYS.is_below(number(MAX_KEYS.into())));
        let writes = Transaction::new("storing an API key")
            .update(self.counter(&user.organization, 1).only_if(has_room))
            .or(Error::Conflict(Conflict::KeyLimit(MAX_KEYS)))
            .put_new(&self.table, KEY_HASH, key)
            .put_new(&self.table, KEY_HASH, pointer);
        let scopes = new.permissions.scopes().map(|_| initial("scopes", &new.permissions));
        let expiry = issued.expires_at().map(|expires_at| initial("expires_at", expires_at));
        let fields = [initial("kind", new.permissions.kind())].into_iter().chain(scopes).chain(expiry);
        let entry = Entry::new(Action::KeyCreated, &user.organization, target(issued.id, &new.name)).with(fields);
        users.check_unchanged(user, writes).or(Error::Busy).record(recorder, entry)?.commit(&self.dynamodb).await?;
        Ok(issued)
    }

    /// Lists an organization's keys, oldest first. Very recent changes may be missing, because the index lags.
    async fn list(&self, organization: &TenantId) -> Result<Vec<KeyRecord>> {
        let query = query(&self.dynamodb, &self.table, ORGANIZATION_ID.equals(text(organization)));
        query_all(query.index_name(BY_ORGANIZATION), "listing API keys")
            .await?
            .iter()
            .map(KeyRecord::from_item)
            .collect()
    }

    /// Lists the keys of `organization`, oldest first, or, if `of` is given, only those that this member manages. Very
    /// recent changes may be missing.
    pub async fn managed(&self, organization: &TenantId, of: Option<UserId>) -> Result<Vec<KeyRecord>> {
        let mut keys = self.list(organization).await?;
        keys.retain(|key| key.is_managed_by(of));
        Ok(keys)
    }

    /// Deletes a key of `organization`. If `of` is given, the key must be one that this member manages.
    ///
    /// # Errors
    /// There is no such key, or `of` does not manage it.
    pub async fn revoke(
        &self,
        recorder: &Recorder,
        organization: &TenantId,
        of: Option<UserId>,
        id: KeyId,
    ) -> Result<()> {
        let key = self.find(organization, id).await?;
        if !key.is_managed_by(of) {
            return Err(NOT_FOUND);
        }
        let entry = Entry::new(Action::KeyDeleted, organization, target(key.id, &key.name));
        self.delete(&key, Some((recorder, entry))).await
    }

    /// Finds the organization's key `id` with a consistent read.
    ///
    /// # Errors
    /// The organization has no such key.
    async fn find(&self, organization: &TenantId, id: KeyId) -> Result<KeyRecord> {
        let Some(pointer) = self.read(&pointer(id)).await? else {
            // Keys that were issued before pointers were introduced are found through the index.
            return self.list(organization).await?.into_iter().find(|key| key.id == id).ok_or(NOT_FOUND);
        };
        let found = self.read(ItemReader::new("pointer", &pointer).text(HASH)?).await?.ok_or(NOT_FOUND)?;
        let key = KeyRecord::from_item(&found)?;
        if key.organization == *organization { Ok(key) } else { Err(NOT_FOUND) }
    }

    /// The personal keys of `user` that work at `now`, as fields of the audit log entry for the change that ends them.
    /// They all end at once, with the user's membership or epoch, so one entry names them all: an entry for each could
    /// exceed DynamoDB's limit for a transaction. A key that was issued a moment ago may be missing, because the index
    /// lags. The log still contains the entry for its creation.
    pub(super) async fn ended_with(&self, user: &User, now: Timestamp) -> Result<Vec<Change>> {
        let mut keys = self.list(&user.organization).await?;
        keys.retain(|key| key.is_of(user.id) && key.epoch == user.key_epoch);
        keys.retain(|key| key.expires_at.is_none_or(|expires_at| expires_at > now));
        let name = |key: KeyRecord| format!("{} ({})", key.name.as_str(), key.id);
        Ok(keys.into_iter().map(|key| audit::change("api_key", Some(name(key)), None)).collect())
    }

    /// The organization's keys that `user` created and that work at `now`. They outlast their creator's sessions and
    /// personal keys. A key that was created a moment ago may be missing, because the index lags.
    pub(super) async fn of_organization_by(&self, user: &User, now: Timestamp) -> Result<Vec<KeyRecord>> {
        let mut keys = self.list(&user.organization).await?;
        keys.retain(|key| key.user == user.id && key.permissions.kind() == KeyKind::Organization);
        keys.retain(|key| key.expires_at.is_none_or(|expires_at| expires_at > now));
        Ok(keys)
    }

    /// Deletes a key and records `entry`. The key stops working at once in every function.
    ///
    /// # Errors
    /// The key was deleted in the meantime.
    async fn delete(&self, key: &KeyRecord, entry: Option<(&Recorder, Entry)>) -> Result<()> {
        let writes = || {
            let writes = Transaction::new("deleting an API key")
                .delete_if(&self.table, self::key(&key.hash), KEY_HASH.exists())
                .or(NOT_FOUND)
                .delete(&self.table, self::key(pointer(key.id)));
            match &entry {
                Some((recorder, entry)) => writes.record(recorder, entry.clone()),
                None => Ok(writes),
            }
        };
        // A deleted organization has no counter. Recreating the counter would reactivate the organization's other keys.
        let counted = self.counter(&key.organization, -1).only_if(KEYS.exists());
        if writes()?.update(counted).try_commit(&self.dynamodb).await? {
            return Ok(());
        }
        writes()?.commit(&self.dynamodb).await
    }

    /// Deletes the indexed personal keys of a user whose account was deleted. This is only a cleanup, because the keys
    /// no longer work.
    pub async fn delete_all_of(&self, organization: &TenantId, user: UserId) -> Result<()> {
        self.delete_where(organization, |key| key.is_of(user)).await
    }

    /// Deletes the indexed personal keys of `user` that were issued in the epoch of `user` or earlier. All these epochs
    /// have ended.
    pub async fn delete_ended(&self, user: &User) -> Result<()> {
        self.delete_where(&user.organization, |key| key.is_of(user.id) && key.epoch <= user.key_epoch).await
    }

    /// Deletes the indexed keys of a deleted organization, which no longer work, and their counter. An interrupted call
    /// can be repeated.
    pub async fn delete_all(&self, organization: &TenantId) -> Result<()> {
        let doing = "deleting API keys";
        let found = self.list(organization).await?;
        // Pointers are deleted first, because a repeated call finds them through the keys.
        let pointers = found.iter().map(|key| pointer(key.id)).chain([count_key(organization)]);
        for keys in [pointers.collect::<Vec<_>>(), found.iter().map(|key| key.hash.clone()).collect()] {
            let keys = keys.into_iter().map(key);
            batch_write(&self.dynamodb, &self.table, keys.map(delete_request), doing).await?;
        }
        Ok(())
    }

    async fn delete_where(&self, organization: &TenantId, has_ended: impl Fn(&KeyRecord) -> bool) -> Result<()> {
        for key in self.list(organization).await?.iter().filter(|key| has_ended(key)) {
            match self.delete(key, None).await {
                Ok(()) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Changes an organization's number of keys by `by`. The number is stored in its own item, because a DynamoDB
    /// condition can check one item but cannot count items.
    fn counter(&self, organization: &TenantId, by: i64) -> Update {
        Update::of(&self.table, key(count_key(organization))).add(KEYS, number(by))
    }

    async fn read(&self, hash: &str) -> Result<Option<Item>> {
        get(&self.dynamodb, &self.table, key(hash), "reading an API key").await
    }
}

/// A key as an audit log target.
fn target(id: KeyId, name: &Name) -> Target {
    audit::target(TargetKind::Key, id, name.as_str().to_owned())
}

fn key(hash: impl ToString) -> Item {
    item([(KEY_HASH, text(hash))])
}

/// The table key of the pointer to the API key `id`. No hash starts with `id#`.
fn pointer(id: KeyId) -> String {
    format!("id#{id}")
}

/// The table key of `organization`'s key counter.
fn count_key(organization: &TenantId) -> String {
    format!("count#{organization}")
}

impl KeyRecord {
    /// Whether this is a personal key of `user`.
    pub fn is_of(&self, user: UserId) -> bool {
        self.permissions.kind() == KeyKind::Personal && self.user == user
    }

    /// Members manage their personal keys. Owners and organization keys, for which `member` is `None`, manage all keys.
    fn is_managed_by(&self, member: Option<UserId>) -> bool {
        member.is_none_or(|member| self.is_of(member))
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = ItemReader::new("API key", item);
        Ok(Self {
            id: record.parsed(KEY_ID)?,
            name: Name::stored(record.text(NAME)?),
            start: record.text(START)?.to_owned(),
            user: record.parsed(USER_ID)?,
            permissions: Permissions::of_item(&record)?,
            created_at: record.parsed(CREATED_AT)?,
            expires_at: record.optional_parsed(EXPIRES_AT)?,
            last_request: record.optional_parsed(LAST_REQUEST)?,
            last_address: record.optional_text(LAST_ADDRESS).map(str::to_owned),
            organization: record.parsed(ORGANIZATION_ID)?,
            epoch: record.optional_number(EPOCH).unwrap_or(0),
            hash: record.text(KEY_HASH)?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_well_formed_and_not_printed() {
        let key = ApiKey::generate();
        assert!(ApiKey::parse(key.reveal()).is_some());
        assert_eq!(key.reveal().len(), 46);
        assert_eq!(key.start().len(), 9);
        assert_ne!(ApiKey::generate().reveal(), key.reveal());
        assert_eq!(format!("{key:?}"), "ApiKey(redacted)");
    }

    #[test]
    fn every_digit_occurs() {
        let keys: String = (0..200).map(|_| ApiKey::generate().reveal()[3..].to_owned()).collect();
        assert!(BASE62.iter().all(|digit| keys.as_bytes().contains(digit)));
    }

    #[test]
    fn other_texts_are_not_keys() {
        let digits = "a".repeat(43);
        for text in
            ["", "ak_", &digits, &format!("ak_{digits}a"), &format!("AK_{digits}"), &format!("ak_{}é", &digits[2..])]
        {
            assert!(ApiKey::parse(text).is_none(), "{text}");
        }
    }
}
