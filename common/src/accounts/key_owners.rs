//! Reads an API key together with its user or organization.

use std::{collections::HashMap, sync::Mutex};

use crate::{
    accounts::{
        api_keys::{ApiKey, ApiKeys, KeyHolder},
        permissions::KeyKind,
        rate_limits::ClientAddress,
        token::SecretHash,
        users::{User, Users},
    },
    aws::{batch::get_both, clients::Aws, dynamo::Item, from_env::FromEnv},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::{TenantId, UserId},
    lock::lock,
    timestamp::Timestamp,
};

/// The maximum number of keys that a process remembers.
const MAX_CACHED_KEYS: usize = 1000;

/// The user or organization that a key depends on. A call with the key also reads that user or organization.
#[derive(Clone)]
enum Second {
    /// The user whom a personal key acts for.
    User(UserId),
    /// The organization that an organization key acts for.
    Organization(TenantId),
}

/// API keys with their users or organizations. A key always belongs to the same user or organization, so a process
/// caches this link, and can read both items in one call. Nothing else is cached, so a key stops working in every
/// process as soon as the key is revoked or its user or organization is deleted.
pub struct KeyOwners {
    keys: ApiKeys,
    users: Users,
    seen: Mutex<HashMap<SecretHash, Second>>,
}

/// The holder of a key, and the user that a personal key acts for.
type FoundKey = (KeyHolder, Option<User>);

impl FromEnv for KeyOwners {
    fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { keys: ApiKeys::from_env(env, aws)?, users: Users::from_env(env, aws)?, seen: Mutex::default() })
    }
}

impl KeyOwners {
    /// Finds the holder of `key` and, for a personal key, the user that it acts for. Returns `None` if the key was
    /// never issued, has expired by `now`, or was revoked, or if its user or organization was deleted. The reads are
    /// strongly consistent.
    pub async fn find(&self, key: &ApiKey, now: Timestamp) -> Result<Option<FoundKey>> {
        let hash = SecretHash::of(key.reveal());
        let seen = lock(&self.seen).get(&hash).cloned();
        let is_known = seen.is_some();
        let found = match seen {
            Some(second) => match self.read_both(&hash, &second, now).await {
                // One of the tables is throttled. The SDK retries single reads, but not the unprocessed keys in a
                // batch.
                Err(Error::Busy) => self.read_in_turn(&hash, now).await?,
                found => found?,
            },
            None => self.read_in_turn(&hash, now).await?,
        };
        let found = found.filter(|(holder, user)| user.as_ref().is_none_or(|user| holder.is_of(user)));
        match &found {
            Some((holder, _)) if !is_known => self.remember(hash, Second::of(holder)),
            None if is_known => drop(lock(&self.seen).remove(&hash)),
            _ => {}
        }
        Ok(found)
    }

    /// Records that a key was used from `address` on the day of `now`, at most once per key per day.
    pub async fn note_use(&self, holder: &KeyHolder, address: ClientAddress, now: Timestamp) -> Result<()> {
        self.keys.note_use(holder, address, now).await
    }

    async fn read_in_turn(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<FoundKey>> {
        let Some(holder) = self.keys.holder(hash, now).await? else { return Ok(None) };
        Ok(match Second::of(&holder) {
            Second::User(user) => self.users.find(user).await?.map(|user| (holder, Some(user))),
            Second::Organization(id) => self.keys.organization_exists(&id).await?.then_some((holder, None)),
        })
    }

    async fn read_both(&self, hash: &SecretHash, second: &Second, now: Timestamp) -> Result<Option<FoundKey>> {
        let second = match second {
            Second::User(user) => self.users.item(*user),
            Second::Organization(id) => self.keys.organization_item(id),
        };
        let wanted = [self.keys.holder_item(hash), second];
        let [key, second]: [Option<Item>; 2] = get_both(self.users.dynamodb(), wanted, "reading an API key").await?;
        let Some((key, second)) = key.zip(second) else { return Ok(None) };
        let Some(holder) = KeyHolder::from_item(&key, hash, now)? else { return Ok(None) };
        let user = match Second::of(&holder) {
            Second::User(_) => Some(User::from_item(&second)?),
            Second::Organization(_) => None,
        };
        Ok(Some((holder, user)))
    }

    fn remember(&self, hash: SecretHash, second: Second) {
        let mut seen = lock(&self.seen);
        if seen.len() >= MAX_CACHED_KEYS {
            seen.clear();
        }
        seen.insert(hash, second);
    }
}

impl Second {
    fn of(holder: &KeyHolder) -> Self {
        match holder.permissions.kind() {
            KeyKind::Personal => Self::User(holder.user),
            KeyKind::Organization => Self::Organization(holder.tenant.clone()),
        }
    }
}
