//! Sessions, which keep users signed in.

use std::cmp::Reverse;

use aws_sdk_dynamodb::{
    Client,
    types::{Update, builders::UpdateBuilder},
};

use crate::{
    accounts::{
        attempts::ClientAddress,
        password::PasswordHash,
        token::{SecretHash, Token},
        users::{User, user_key},
    },
    aws::{
        clients::Aws,
        dynamo::{Item, Record, batch_get_all, is_refused, item, number, query_all, text},
        failure,
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    id::{SessionId, UserId},
    issue::Problem,
    timestamp::Timestamp,
};

/// Distinguishes sessions from the other tokens in the table.
const KIND: &str = "session";
/// A session lasts 30 days.
pub const SESSION_SECONDS: i64 = 30 * 24 * 60 * 60;
/// The index of sessions by user. It has only keys and is eventually consistent.
const BY_USER: &str = "by-user";
/// The maximum number of listed sessions. A user who signs in from a program may have very many.
const MOST_LISTED: usize = 100;
/// The number of newest keys in the index that are read to find listed sessions.
const MOST_READ: usize = 1000;
/// The number of characters that are kept of a client's description.
const AGENT_LENGTH: usize = 200;
const NOT_FOUND: Error = Error::NotFound("Session not found");
/// The condition that a user exists, and that their sessions have not been ended since the user was read.
const IN_EPOCH: &str = "attribute_exists(pk) AND (session_epoch = :epoch OR attribute_not_exists(session_epoch))";

/// The client that signs in: its address and its description of itself.
#[derive(Clone, Debug)]
pub struct Device {
    /// The client's address.
    pub address: ClientAddress,
    /// The client's description of itself (`User-Agent`), at most 200 characters. It is untrusted text.
    pub agent: Option<String>,
}

impl Device {
    /// A device at `address` that calls itself `agent`. A longer `agent` is cut to 200 characters.
    #[must_use]
    pub fn new(address: ClientAddress, agent: Option<&str>) -> Self {
        Self { address, agent: agent.map(|agent| agent.chars().take(AGENT_LENGTH).collect()) }
    }
}

/// A stored session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The session's id, which is not secret.
    pub id: SessionId,
    /// The signed-in user.
    pub user: UserId,
    /// The time from which it is refused.
    pub expires_at: Timestamp,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The UTC day on which it was last used.
    pub seen_on: Timestamp,
    /// The address of the client that signed in. Older sessions do not have it.
    pub address: Option<String>,
    /// The client's description of itself.
    pub agent: Option<String>,
    /// The user's session epoch in which it began. Sessions of earlier epochs have ended.
    epoch: i64,
    hash: SecretHash,
}

impl Session {
    /// Builds a session of `user` on `device` that starts at `now`, and its secret. It is not stored yet.
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

    /// Whether the session still belongs to `user`, whose sessions have not been ended since it began.
    #[must_use]
    pub fn is_of(&self, user: &User) -> bool {
        self.user == user.id && self.epoch == user.session_epoch
    }

    pub(crate) fn to_item(&self) -> Item {
        let mut item = item([
            ("token_hash", text(self.hash.as_str())),
            ("kind", text(KIND)),
            ("session_id", text(self.id)),
            ("user_id", text(self.user)),
            ("expires_at", number(self.expires_at.as_second())),
            ("created_at", text(self.created_at)),
            ("seen_on", text(self.seen_on)),
            ("epoch", number(self.epoch)),
        ]);
        item.extend(self.address.as_ref().map(|address| ("address".to_owned(), text(address))));
        item.extend(self.agent.as_ref().map(|agent| ("agent".to_owned(), text(agent))));
        item
    }

    /// The session in `item`. `None` if the item is of another kind or has expired by `now`: the table's TTL may delete
    /// items hours late, so it only cleans up.
    fn from_item(item: &Item, now: Timestamp) -> Result<Option<Self>> {
        let record = Record::new("session", item);
        if record.text("kind")? != KIND || record.number("expires_at")? <= now.as_second() {
            return Ok(None);
        }
        let created_at: Timestamp = record.parsed("created_at")?;
        let seen_on = record.optional_parsed("seen_on")?.unwrap_or(created_at.day());
        let expires_at = Timestamp::from_second(record.number("expires_at")?);
        Ok(Some(Self {
            id: record.parsed("session_id")?,
            user: record.parsed("user_id")?,
            expires_at: expires_at.map_err(Error::internal("reading a session"))?,
            created_at,
            seen_on,
            address: record.optional_text("address").map(str::to_owned),
            agent: record.optional_text("agent").map(str::to_owned),
            epoch: record.optional_number("epoch").unwrap_or(0),
            hash: SecretHash::stored(record.text("token_hash")?),
        }))
    }
}

/// A reference to a session in a request: the id from a list, or the secret.
#[derive(Debug)]
pub enum IdOrToken {
    /// Its id.
    Id(SessionId),
    /// Its secret.
    Token(Token),
}

impl IdOrToken {
    /// Parses the id or the secret of a session.
    ///
    /// # Errors
    /// The text is neither an id nor a token.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let token = || Token::parse(text).ok_or_else(|| vec![Problem::format("Must be the token of a session")]);
        SessionId::parse(text).map(Self::Id).or_else(|_not_an_id| token().map(Self::Token))
    }
}

/// The store of sessions, in the table of tokens.
#[derive(Clone)]
pub struct Sessions {
    dynamodb: Client,
    tokens: String,
    users: String,
}

impl Sessions {
    /// The store over the tables that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            tokens: env.required("TOKENS_TABLE")?,
            users: env.required("USERS_TABLE")?,
        })
    }

    /// Stores `session`, which is valid from then on.
    pub async fn store(&self, session: &Session) -> Result<()> {
        let put = self.dynamodb.put_item().table_name(&self.tokens).set_item(Some(session.to_item()));
        put.send().await.map_err(failure("storing a session"))?;
        Ok(())
    }

    /// Finds the session of `token`, unless it has expired by `now`. The caller checks with [`Session::is_of`] that it
    /// still belongs to its user.
    pub async fn find(&self, token: &Token, now: Timestamp) -> Result<Option<Session>> {
        let found = self.dynamodb.get_item().table_name(&self.tokens).key("token_hash", text(token.hash().as_str()));
        let found = found.consistent_read(true).send().await.map_err(failure("reading a session"))?;
        found.item.as_ref().map_or(Ok(None), |item| Session::from_item(item, now))
    }

    /// Records that `session` was used on the day of `now`, once per session and day.
    pub async fn note_use(&self, session: &Session, now: Timestamp) -> Result<()> {
        if session.seen_on >= now.day() {
            return Ok(());
        }
        let update = self.dynamodb.update_item().table_name(&self.tokens);
        let update = update
            .key("token_hash", text(session.hash.as_str()))
            .update_expression("SET seen_on = :today")
            .condition_expression("kind = :session")
            .expression_attribute_values(":today", text(now.day()))
            .expression_attribute_values(":session", text(KIND));
        match update.send().await {
            Ok(_) => Ok(()),
            // The session has ended in the meantime.
            Err(error) if is_refused(&error) => Ok(()),
            Err(error) => Err(failure("noting the use of a session")(error)),
        }
    }

    /// Lists at most 100 current sessions of `user`, newest first. A new one may take a moment to appear.
    pub async fn list(&self, user: &User, now: Timestamp) -> Result<Vec<Session>> {
        let doing = "listing sessions";
        let query = self
            .dynamodb
            .query()
            .table_name(&self.tokens)
            .index_name(BY_USER)
            .key_condition_expression("user_id = :user")
            .expression_attribute_values(":user", text(user.id))
            .scan_index_forward(false);
        let found = query_all(query, doing).await?;
        let key = |found: &Item| Ok(item([("token_hash", text(Record::new("session", found).text("token_hash")?))]));
        let keys = found.iter().take(MOST_READ).map(key).collect::<Result<_>>()?;
        let found = batch_get_all(&self.dynamodb, &self.tokens, keys, doing).await?;
        let sessions = found.iter().map(|item| Session::from_item(item, now)).collect::<Result<Vec<_>>>()?;
        let mut sessions: Vec<_> = sessions.into_iter().flatten().filter(|session| session.is_of(user)).collect();
        sessions.sort_by_key(|session| Reverse(session.id));
        sessions.truncate(MOST_LISTED);
        Ok(sessions)
    }

    /// Ends the session of `user` that `named` names. It stops working at once in every function.
    ///
    /// # Errors
    /// The user has no such session; or a call fails.
    pub async fn revoke(&self, user: &User, named: &IdOrToken) -> Result<()> {
        let hash = match named {
            IdOrToken::Token(token) => token.hash(),
            IdOrToken::Id(id) => self.hash_of(user.id, *id).await?,
        };
        let delete = self.dynamodb.delete_item().table_name(&self.tokens).key("token_hash", text(hash.as_str()));
        let delete = delete
            .condition_expression("kind = :session AND user_id = :user")
            .expression_attribute_values(":session", text(KIND))
            .expression_attribute_values(":user", text(user.id));
        match delete.send().await {
            Ok(_) => Ok(()),
            Err(error) if is_refused(&error) => Err(NOT_FOUND),
            Err(error) => Err(failure("revoking a session")(error)),
        }
    }

    /// Ends all sessions of `user` except `current`: one transaction moves the user and this session to the next epoch,
    /// which ends every other session, including sessions that the index does not show yet.
    ///
    /// # Errors
    /// `current` has ended in the meantime: [`Error::Unauthorized`]; or the write fails.
    pub async fn revoke_others(&self, user: &User, current: &Session) -> Result<()> {
        let (epoch, next) = (number(user.session_epoch), number(user.session_epoch + 1));
        let begin = self.next_epoch(user).update_expression("SET session_epoch = :next").condition_expression(IN_EPOCH);
        let keep = Update::builder()
            .table_name(&self.tokens)
            .key("token_hash", text(current.hash.as_str()))
            .update_expression("SET epoch = :next")
            .condition_expression("kind = :session AND (epoch = :epoch OR attribute_not_exists(epoch))")
            .expression_attribute_values(":epoch", epoch)
            .expression_attribute_values(":session", text(KIND))
            .expression_attribute_values(":next", next);
        Transaction::new("revoking sessions")
            .update(begin)
            .or(Error::Unauthorized)
            .update(keep)
            .or(Error::Unauthorized)
            .commit(&self.dynamodb)
            .await
    }

    /// Ends all sessions of `user`, including those that the index does not show yet. They stop working at once in every
    /// function.
    ///
    /// # Errors
    /// The write fails.
    pub async fn revoke_all(&self, user: &User) -> Result<()> {
        let update = self.dynamodb.update_item().table_name(&self.users).key("pk", text(user_key(user.id)));
        let update = update
            .update_expression("ADD session_epoch :one")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_values(":one", number(1));
        match update.send().await {
            Ok(_) => Ok(()),
            // A deleted user has no sessions.
            Err(error) if is_refused(&error) => Ok(()),
            Err(error) => Err(failure("ending all sessions")(error)),
        }
    }

    /// Replaces the password hash `old` of `user` with `new`, ends all their sessions, and starts another one on
    /// `device`, in one transaction. A concurrent sign-in with the old password starts in an epoch that has ended.
    ///
    /// # Errors
    /// The password or the sessions were changed in the meantime: [`Error::Busy`]; or the write fails.
    pub async fn change_password(
        &self,
        user: &User,
        (old, new): (&PasswordHash, &PasswordHash),
        device: &Device,
        now: Timestamp,
    ) -> Result<Token> {
        let next = User { session_epoch: user.session_epoch + 1, ..user.clone() };
        let (session, token) = Session::start(&next, device, now)?;
        let change = self
            .next_epoch(user)
            .update_expression("SET session_epoch = :next, password_hash = :new")
            .condition_expression(format!("password_hash = :old AND {IN_EPOCH}"))
            .expression_attribute_values(":old", text(old.as_str()))
            .expression_attribute_values(":new", text(new.as_str()));
        Transaction::new("changing a password")
            .update(change)
            .or(Error::Busy)
            .put_new(&self.tokens, "token_hash", session.to_item())
            .commit(&self.dynamodb)
            .await?;
        Ok(token)
    }

    /// Moves `user` from their session epoch to the next. The caller adds the update expression and the condition.
    fn next_epoch(&self, user: &User) -> UpdateBuilder {
        Update::builder()
            .table_name(&self.users)
            .key("pk", text(user_key(user.id)))
            .expression_attribute_values(":epoch", number(user.session_epoch))
            .expression_attribute_values(":next", number(user.session_epoch + 1))
    }

    /// Ends the session of `token`, if there is one. It stops working at once in every function.
    pub async fn end(&self, token: &Token) -> Result<()> {
        let delete =
            self.dynamodb.delete_item().table_name(&self.tokens).key("token_hash", text(token.hash().as_str()));
        let delete = delete.condition_expression("kind = :session").expression_attribute_values(":session", text(KIND));
        match delete.send().await {
            Ok(_) => Ok(()),
            Err(error) if is_refused(&error) => Ok(()),
            Err(error) => Err(failure("ending a session")(error)),
        }
    }

    /// The hash under which the session `id` of `user` is stored.
    async fn hash_of(&self, user: UserId, id: SessionId) -> Result<SecretHash> {
        let query = self
            .dynamodb
            .query()
            .table_name(&self.tokens)
            .index_name(BY_USER)
            .key_condition_expression("user_id = :user AND session_id = :session")
            .expression_attribute_values(":user", text(user))
            .expression_attribute_values(":session", text(id));
        let found = query_all(query, "looking for a session").await?;
        let found = found.first().ok_or(NOT_FOUND)?;
        Ok(SecretHash::stored(Record::new("session", found).text("token_hash")?))
    }
}
