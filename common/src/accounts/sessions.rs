//! Sessions, which keep users signed in.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::token::{SecretHash, Token},
    aws::{
        clients::Aws,
        dynamo::{Item, Record, is_refused, item, number, text},
        failure,
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    id::{SessionId, UserId},
    timestamp::Timestamp,
};

/// Distinguishes sessions from the other tokens in the table.
const KIND: &str = "session";
/// How long a session lasts: 30 days.
pub const SESSION_SECONDS: i64 = 30 * 24 * 60 * 60;

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The session's id, which is not secret.
    pub id: SessionId,
    /// The user who is signed in.
    pub user: UserId,
    /// When it expires.
    pub expires_at: Timestamp,
}

impl Session {
    /// A session of `user` that starts `now`.
    ///
    /// # Errors
    /// The session would end beyond the representable time.
    pub fn start(user: UserId, now: Timestamp) -> Result<Self> {
        let expires_at =
            Timestamp::from_second(now.as_second() + SESSION_SECONDS).map_err(Error::internal("adding 30 days"))?;
        Ok(Self { id: SessionId::generate(), user, expires_at })
    }

    pub(crate) fn to_item(&self, hash: &SecretHash, now: Timestamp) -> Item {
        item([
            ("token_hash", text(hash.as_str())),
            ("kind", text(KIND)),
            ("session_id", text(self.id)),
            ("user_id", text(self.user)),
            ("expires_at", number(self.expires_at.as_second())),
            ("created_at", text(now)),
        ])
    }
}

/// The table of sessions.
#[derive(Clone)]
pub struct Sessions {
    dynamodb: Client,
    tokens: String,
}

impl Sessions {
    /// The store over the table that `env` names.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { dynamodb: aws.dynamodb(), tokens: env.required("TOKENS_TABLE")? })
    }

    /// Stores `session`, whose secret is `token`.
    ///
    /// # Errors
    /// The write fails.
    pub async fn store(&self, session: &Session, token: &Token, now: Timestamp) -> Result<()> {
        let put = self.dynamodb.put_item().table_name(&self.tokens).set_item(Some(session.to_item(&token.hash(), now)));
        put.send().await.map_err(failure("storing a session"))?;
        Ok(())
    }

    /// Finds the session of `token`, unless it has expired by `now`.
    ///
    /// # Errors
    /// The read fails.
    pub async fn find(&self, token: &Token, now: Timestamp) -> Result<Option<Session>> {
        let doing = "reading a session";
        let found = self.dynamodb.get_item().table_name(&self.tokens).key("token_hash", text(token.hash().as_str()));
        let found = found.consistent_read(true).send().await.map_err(failure(doing))?;
        let Some(found) = found.item else { return Ok(None) };
        let record = Record::new("session", &found);
        // TTL may delete items hours late, so it only cleans up.
        if record.text("kind")? != KIND || record.number("expires_at")? <= now.as_second() {
            return Ok(None);
        }
        Ok(Some(Session {
            id: record.parsed("session_id")?,
            user: record.parsed("user_id")?,
            expires_at: Timestamp::from_second(record.number("expires_at")?).map_err(Error::internal(doing))?,
        }))
    }

    /// Ends the session of `token`, if there is one, at once in every function.
    ///
    /// # Errors
    /// The write fails.
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
}
