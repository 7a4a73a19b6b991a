//! Sessions, which keep users signed in.

use std::cmp::Reverse;

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        password::PasswordHash,
        rate_limits::ClientAddress,
        token::{EXPIRES_AT, KIND, SecretHash, TOKEN_HASH, Token, token_key},
        users::{CREATED_AT, EPOCH, PASSWORD_HASH, PK, SESSION_EPOCH, USER_ID, User, pk, user_key},
    },
    audit::{self, Action, Entry, Recorder, Target, TargetKind, hidden},
    aws::{
        batch::batch_get,
        dynamo::{Attribute, Item, ItemReader, get, item, number, query_all, text},
        expression::{Condition, Update, query},
        transaction::Transaction,
    },
    error::{Error, Result},
    id::{SessionId, UserId},
    issue::Problem,
    timestamp::Timestamp,
};

/// The kind of sessions in the tokens table.
const SESSION: &str = "session";
pub(super) const SESSION_ID: Attribute = Attribute("session_id");
const SEEN_ON: Attribute = Attribute("seen_on");
pub(super) const ADDRESS: Attribute = Attribute("address");
pub(super) const AGENT: Attribute = Attribute("agent");
/// A session lasts 30 days.
pub const SESSION_SECONDS: i64 = 30 * 24 * 60 * 60;
/// The index of sessions by user. It contains only keys and is eventually consistent.
pub(super) const BY_USER: &str = "by-user";
/// The maximum number of listed sessions. A user whose program signs in may have many more.
const MAX_LISTED: usize = 100;
/// The maximum number of keys that a list reads from the index, newest first.
const MAX_KEYS_READ: usize = 1000;
/// The maximum stored length of a client's description, in characters.
const AGENT_LENGTH: usize = 200;
const NOT_FOUND: Error = Error::NotFound("Session not found");
/// The maximum number of tries to sign out while other calls change the session or its user.
const MAX_TRIES: usize = 5;

/// The client that signs in: its address and its description of itself.
#[derive(Clone, Debug)]
pub struct Device {
    pub address: ClientAddress,
    /// The client's `User-Agent`, at most 200 characters. It is untrusted.
    pub agent: Option<String>,
}

impl Device {
    /// A device at `address` that describes itself as `agent`. Only 200 characters of `agent` are kept.
    pub fn new(address: ClientAddress, agent: Option<&str>) -> Self {
        Self { address, agent: agent.map(|agent| agent.chars().take(AGENT_LENGTH).collect()) }
    }
}

#[derive(Clone, Debug)]
pub struct Session {
    /// The session's id, which is not secret.
    pub id: SessionId,
    pub user: UserId,
    /// When the session expires.
    pub expires_at: Timestamp,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The UTC day of the last use.
    pub seen_on: Timestamp,
    /// The address of the client that signed in, if it is known.
    pub address: Option<String>,
    /// The client's description of itself.
    pub agent: Option<String>,
    /// The user's session epoch when the session began. Sessions of earlier epochs have ended.
    epoch: i64,
    hash: SecretHash,
}

impl Session {
    /// Builds a session of `user` on `device` that starts at `now`, and its secret. Does not store the session.
    ///
    /// # Errors
    /// The session would end beyond the representable time.
    pub fn start(user: &User, device: &Device, now: Timestamp) -> Result<(Self, Token)> {
        let expires_at =
            Timestamp::from_second(now.as_second() + SESSION_SECONDS).map_err(Error::internal("adding 30 days"))?;
        let token = Token::generate();
        let session = Self {
            id: SessionId::generate(),
            user: user.id,
            expires_at,
            created_at: now,
            seen_on: now.day(),
            address: Some(device.address.to_string()),
            agent: device.agent.clone(),
            epoch: user.session_epoch,
            hash: token.hash(),
        };
        Ok((session, token))
    }

    /// The audit log entry for this new session of `user`.
    pub(super) fn created(&self, user: &User) -> Entry {
        Entry::new(Action::SessionCreated, &user.organization, target(self.id)).by(user.actor())
    }

    /// Whether this session belongs to `user`, who has not ended all sessions since it began.
    pub fn is_of(&self, user: &User) -> bool {
        self.user == user.id && self.epoch == user.session_epoch
    }

    /// The hash that is the key of the stored session.
    pub(super) fn hash(&self) -> &SecretHash {
        &self.hash
    }

    pub(crate) fn to_item(&self) -> Item {
        let mut item = item([
            (TOKEN_HASH, text(self.hash.as_str())),
            (KIND, text(SESSION)),
            (SESSION_ID, text(self.id)),
            (USER_ID, text(self.user)),
            (EXPIRES_AT, number(self.expires_at.as_second())),
            (CREATED_AT, text(self.created_at)),
            (SEEN_ON, text(self.seen_on)),
            (EPOCH, number(self.epoch)),
        ]);
        item.extend(self.address.as_ref().map(|address| ADDRESS.with(text(address))));
        item.extend(self.agent.as_ref().map(|agent| AGENT.with(text(agent))));
        item
    }

    /// Parses `item`. Returns `None` if the item is of another kind or has expired by `now`. (The table's TTL may
    /// delete an expired item hours late.)
    fn from_item(item: &Item, now: Timestamp) -> Result<Option<Self>> {
        let record = ItemReader::new("session", item);
        if record.text(KIND)? != SESSION || record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(None);
        }
        let created_at: Timestamp = record.parsed(CREATED_AT)?;
        let seen_on = record.optional_parsed(SEEN_ON)?.unwrap_or(created_at.day());
        let expires_at = Timestamp::from_second(record.number(EXPIRES_AT)?);
        Ok(Some(Self {
            id: record.parsed(SESSION_ID)?,
            user: record.parsed(USER_ID)?,
            expires_at: expires_at.map_err(Error::internal("reading a session"))?,
            created_at,
            seen_on,
            address: record.optional_text(ADDRESS).map(str::to_owned),
            agent: record.optional_text(AGENT).map(str::to_owned),
            epoch: record.optional_number(EPOCH).unwrap_or(0),
            hash: SecretHash::stored(record.text(TOKEN_HASH)?),
        }))
    }
}

/// A reference to a session in a request: its id, or its secret.
#[derive(Debug)]
pub enum IdOrToken {
    Id(SessionId),
    /// The session's secret.
    Token(Token),
}

impl IdOrToken {
    /// Parses the id or the secret of a session.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let token = || Token::parse(text).ok_or_else(|| vec![Problem::format("Must be the token of a session")]);
        SessionId::parse(text).map(Self::Id).or_else(|_not_an_id| token().map(Self::Token))
    }
}

crate::from_env! {
    /// The store of sessions, in the tokens table.
    #[derive(Clone)]
    pub struct Sessions {
        dynamodb: Client,
        tokens: String = "TOKENS_TABLE",
        users: String = "USERS_TABLE",
    }
}

impl Sessions {
    /// Stores `session` of `user`, which is valid from then on.
    ///
    /// # Errors
    /// The user has joined another organization in the meantime ([`Error::Busy`]).
    pub async fn store(&self, recorder: &Recorder, user: &User, session: &Session) -> Result<()> {
        self.check_organization(user, Transaction::new("storing a session").put(&self.tokens, session.to_item()))
            .record(recorder, session.created(user))?
            .commit(&self.dynamodb)
            .await
    }

    /// Finds the session with this token, unless the session has expired by `now`. The caller must check with
    /// [`Session::is_of`] that the user has not ended the session.
    pub async fn find(&self, token: &Token, now: Timestamp) -> Result<Option<Session>> {
        self.stored(&token.hash(), now).await
    }

    /// Like [`Self::find`], for the session stored under `hash`.
    pub(super) async fn stored(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Session>> {
        let found = get(&self.dynamodb, &self.tokens, token_key(hash), "reading a session").await?;
        found.as_ref().map_or(Ok(None), |item| Session::from_item(item, now))
    }

    /// Records that `session` was used on the day of `now`, at most once per session per day.
    pub async fn note_use(&self, session: &Session, now: Timestamp) -> Result<()> {
        if session.seen_on >= now.day() {
            return Ok(());
        }
        // The session may have ended since it was read.
        let update =
            Update::of(&self.tokens, token_key(&session.hash)).set(SEEN_ON, text(now.day())).only_if(is_session());
        update.send(&self.dynamodb, "noting the use of a session").await.map(drop)
    }

    /// Lists at most 100 current sessions of `user`, newest first. A new session may take a moment to appear.
    pub async fn list(&self, user: &User, now: Timestamp) -> Result<Vec<Session>> {
        let doing = "listing sessions";
        let query = query(&self.dynamodb, &self.tokens, USER_ID.equals(text(user.id)));
        let found = query_all(query.index_name(BY_USER).scan_index_forward(false), doing).await?;
        let key = |found: &Item| Ok(token_key(&stored_hash(found)?));
        let keys = found.iter().take(MAX_KEYS_READ).map(key).collect::<Result<_>>()?;
        let found = batch_get(&self.dynamodb, &self.tokens, keys, doing).await?;
        let sessions = found.iter().map(|item| Session::from_item(item, now)).collect::<Result<Vec<_>>>()?;
        let mut sessions: Vec<_> = sessions.into_iter().flatten().filter(|session| session.is_of(user)).collect();
        sessions.sort_by_key(|session| Reverse(session.id));
        sessions.truncate(MAX_LISTED);
        Ok(sessions)
    }

    /// Ends the user's session that `named` refers to. The session stops working at once in every function.
    ///
    /// # Errors
    /// The user has no such session.
    pub async fn revoke(&self, recorder: &Recorder, user: &User, named: &IdOrToken) -> Result<()> {
        let hash = match named {
            IdOrToken::Token(token) => token.hash(),
            IdOrToken::Id(id) => self.hash_of(user.id, *id).await?,
        };
        let is_theirs = is_session().and(USER_ID.equals(text(user.id)));
        let doing = "revoking a session";
        let session = self.stored(&hash, Timestamp::now()).await?.ok_or(NOT_FOUND)?;
        let entry = Entry::new(Action::SessionEnded, &user.organization, target(session.id));
        let writes = Transaction::new(doing).delete_if(&self.tokens, token_key(&hash), is_theirs).or(NOT_FOUND);
        self.check_organization(user, writes).record(recorder, entry)?.commit(&self.dynamodb).await
    }

    /// Ends all sessions of `user` except `current`. One transaction moves the user and `current` to the next epoch.
    /// This also ends sessions that are not in the index yet.
    ///
    /// # Errors
    /// `current` has ended in the meantime ([`Error::Unauthorized`]), or the user was changed ([`Error::Busy`]).
    pub async fn revoke_others(&self, recorder: &Recorder, user: &User, current: &Session) -> Result<()> {
        Transaction::new("revoking sessions")
            .update(self.next_epoch(user))
            .or(Error::Busy)
            .update(self.keep(user, current))
            .or(Error::Unauthorized)
            .record(recorder, Entry::new(Action::SessionsEnded, &user.organization, user.target()))?
            .commit(&self.dynamodb)
            .await
    }

    /// Builds the write that moves `current` to the next session epoch of `user`. It fails if the session has ended.
    pub(super) fn keep(&self, user: &User, current: &Session) -> Update {
        Update::of(&self.tokens, token_key(&current.hash))
            .set(EPOCH, number(user.session_epoch + 1))
            .only_if(is_session().and(EPOCH.equals(number(user.session_epoch)).or(EPOCH.is_absent())))
    }

    /// Ends all the user's sessions, including those that are not in the index yet. They stop working at once in every
    /// function.
    ///
    /// # Errors
    /// The user was deleted or has joined another organization in the meantime ([`Error::Busy`]).
    pub async fn revoke_all(&self, recorder: &Recorder, user: &User) -> Result<()> {
        let update = Update::of(&self.users, pk(user_key(user.id)))
            .add(SESSION_EPOCH, number(1))
            .only_if(user.is_in_organization());
        let entry = Entry::new(Action::SessionsEnded, &user.organization, user.target());
        let writes = Transaction::new("ending all sessions").update(update).or(Error::Busy).record(recorder, entry)?;
        writes.commit(&self.dynamodb).await
    }

    /// In one transaction, replaces the password hash `old` of `user` with `new`, ends all their sessions, and starts a
    /// session on `device`. A session from a concurrent sign-in with the old password belongs to the old epoch, which
    /// has ended.
    ///
    /// # Errors
    /// The password or the sessions were changed in the meantime ([`Error::Busy`]).
    pub async fn change_password(
        &self,
        recorder: &Recorder,
        user: &User,
        old: &PasswordHash,
        new: &PasswordHash,
        device: &Device,
        now: Timestamp,
    ) -> Result<Token> {
        let next = User { session_epoch: user.session_epoch + 1, ..user.clone() };
        let (session, token) = Session::start(&next, device, now)?;
        let change = self
            .next_epoch(user)
            .set(PASSWORD_HASH, text(new.as_str()))
            .only_if(PASSWORD_HASH.equals(text(old.as_str())));
        Transaction::new("changing a password")
            .update(change)
            .or(Error::Busy)
            .put_new(&self.tokens, TOKEN_HASH, session.to_item())
            .record(
                recorder,
                Entry::new(Action::PasswordChanged, &user.organization, user.target()).with([hidden("password")]),
            )?
            .record(recorder, session.created(user))?
            .commit(&self.dynamodb)
            .await?;
        Ok(token)
    }

    /// Builds the write that moves `user` to the next session epoch. It fails if their epoch has changed, the user was
    /// deleted, or they have joined another organization, because the change would then be missing from the new
    /// organization's audit log.
    pub(super) fn next_epoch(&self, user: &User) -> Update {
        let is_current = SESSION_EPOCH.equals(number(user.session_epoch)).or(SESSION_EPOCH.is_absent());
        Update::of(&self.users, pk(user_key(user.id)))
            .set(SESSION_EPOCH, number(user.session_epoch + 1))
            .only_if(PK.exists().and(is_current))
            .only_if(user.is_in_organization())
    }

    /// Ends the session with this token, if there is one. The session stops working at once in every function.
    pub async fn end(&self, recorder: &Recorder, token: &Token, now: Timestamp) -> Result<()> {
        let doing = "ending a session";
        for _ in 0..MAX_TRIES {
            let Some(session) = self.find(token, now).await? else { return Ok(()) };
            let user = get(&self.dynamodb, &self.users, pk(user_key(session.user)), doing).await?;
            let user = user.as_ref().map(User::from_item).transpose()?.filter(|user| session.is_of(user));
            let Some(user) = user else { return Ok(()) };
            let entry = Entry::new(Action::SessionEnded, &user.organization, target(session.id)).by(user.actor());
            let writes = Transaction::new(doing).delete_if(&self.tokens, token_key(&session.hash), is_session());
            if self.check_organization(&user, writes).record(recorder, entry)?.try_commit(&self.dynamodb).await? {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// Adds the check that `user` is still in the same organization, because the transaction writes to its audit log.
    fn check_organization(&self, user: &User, writes: Transaction) -> Transaction {
        writes.check(&self.users, pk(user_key(user.id)), user.is_in_organization()).or(Error::Busy)
    }

    /// Finds the hash that `user`'s session `id` is stored under.
    async fn hash_of(&self, user: UserId, id: SessionId) -> Result<SecretHash> {
        let keys = USER_ID.equals(text(user)).and(SESSION_ID.equals(text(id)));
        let query = query(&self.dynamodb, &self.tokens, keys).index_name(BY_USER);
        stored_hash(query_all(query, "looking for a session").await?.first().ok_or(NOT_FOUND)?)
    }
}

/// A session as an audit log target.
fn target(id: SessionId) -> Target {
    audit::target(TargetKind::Session, id, None)
}

fn is_session() -> Condition {
    KIND.equals(text(SESSION))
}

fn stored_hash(item: &Item) -> Result<SecretHash> {
    ItemReader::new("session", item).text(TOKEN_HASH).map(SecretHash::stored)
}
