//! Reads an API key together with its user.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    accounts::{
        api_keys::{ApiKey, ApiKeys, KeyHolder},
        token::SecretHash,
        users::{User, Users},
    },
    aws::{batch::get_both, clients::Aws, dynamo::Item},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::UserId,
    timestamp::Timestamp,
};

/// The number of keys that a process remembers.
const MOST: usize = 1000;

/// The keys and their users. A key belongs to the same user for its lifetime, so a process remembers the user's id per
/// key and reads both items in one call. It remembers nothing else, so a key that was revoked, or whose user was
/// deleted, stops working at once in every process.
pub struct KeyOwners {
    keys: ApiKeys,
    users: Users,
    seen: Mutex<HashMap<SecretHash, UserId>>,
}

impl KeyOwners {
    /// The stores over the tables that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { keys: ApiKeys::from_env(env, aws)?, users: Users::from_env(env, aws)?, seen: Mutex::default() })
    }

    /// Finds the holder of `key` and the user that it acts for. Returns `None` if the key was never issued, has been
    /// revoked, has expired by `now`, or if its user was deleted or has ended it. The reads are strongly consistent.
    pub async fn find(&self, key: &ApiKey, now: Timestamp) -> Result<Option<(KeyHolder, User)>> {
        let hash = SecretHash::of(key.reveal());
        let seen = self.seen().get(&hash).copied();
        let found = match seen {
            Some(user) => match self.read_both(&hash, user, now).await {
                // One of the tables is throttled. The SDK retries single reads.
                Err(Error::Busy) => self.read_in_turn(&hash, now).await?,
                found => found?,
            },
            None => self.read_in_turn(&hash, now).await?,
        };
        let found = found.filter(|(holder, user)| holder.is_of(user));
        match &found {
            Some((_, user)) if seen.is_none() => self.remember(hash, user.id),
            None if seen.is_some() => drop(self.seen().remove(&hash)),
            _ => {}
        }
        Ok(found)
    }

    /// Records that a key was used on the day of `now`, unless that is recorded already.
    pub async fn note_use(&self, holder: &KeyHolder, now: Timestamp) -> Result<()> {
        self.keys.note_use(holder, now).await
    }

    async fn read_in_turn(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<(KeyHolder, User)>> {
        let Some(holder) = self.keys.holder(hash, now).await? else { return Ok(None) };
        Ok(self.users.find(holder.user).await?.map(|user| (holder, user)))
    }

    async fn read_both(&self, hash: &SecretHash, user: UserId, now: Timestamp) -> Result<Option<(KeyHolder, User)>> {
        let wanted = [self.keys.holder_item(hash), self.users.item(user)];
        let [key, user]: [Option<Item>; 2] = get_both(self.users.dynamodb(), wanted, "reading an API key").await?;
        let Some((key, user)) = key.zip(user) else { return Ok(None) };
        Ok(KeyHolder::from_item(&key, hash, now)?.zip(Some(User::from_item(&user)?)))
    }

    fn remember(&self, hash: SecretHash, user: UserId) {
        let mut seen = self.seen();
        if seen.len() >= MOST {
            seen.clear();
        }
        seen.insert(hash, user);
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<SecretHash, UserId>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
