//! Sessions: who is signed in, and the cookie that says so.

use aws_sdk_dynamodb::{Client, operation::delete_item::DeleteItemError};

use crate::{
    aws::Aws,
    base_url::BaseUrl,
    config::{ConfigError, Env},
    dynamo::{Item, Record, item, number, text},
    error::{Error, Result},
    id::{SessionId, UserId},
    timestamp::Timestamp,
    token::{SecretHash, Token},
};

/// What tells a session from the other tokens in the table.
const KIND: &str = "session";
/// How long a session lasts: 30 days.
pub const SESSION_SECONDS: i64 = 30 * 24 * 60 * 60;

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Which one.
    pub id: SessionId,
    /// Whose.
    pub user: UserId,
    /// When it ends.
    pub expires_at: Timestamp,
}

impl Session {
    /// A session of `user` that starts `now`.
    ///
    /// # Errors
    /// It would end after the end of time.
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

/// The name of the session cookie. With the prefix, browsers take it over https only, and from nobody but this very host:
/// not from another one of its domain (RFC 6265bis, 4.1.3.2).
fn cookie_name(base: &BaseUrl) -> &'static str {
    if base.is_https() { "__Host-session_token" } else { "session_token" }
}

/// The `Set-Cookie` value that signs in.
#[must_use]
pub fn session_cookie(base: &BaseUrl, token: &Token) -> String {
    set_cookie(base, token.reveal(), SESSION_SECONDS)
}

fn set_cookie(base: &BaseUrl, value: &str, max_age: i64) -> String {
    let secure = if base.is_https() { "; Secure" } else { "" };
    format!("{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}", cookie_name(base))
}

/// The session token in the cookies of a request: the values of its `cookie` headers.
pub fn token_in_cookies<'a>(base: &BaseUrl, headers: impl IntoIterator<Item = &'a str>) -> Option<Token> {
    let pairs = headers.into_iter().flat_map(|header| header.split(';'));
    let mut values = pairs.filter_map(|pair| pair.trim().strip_prefix(cookie_name(base))?.strip_prefix('='));
    values.find_map(Token::parse)
}

/// The `Set-Cookie` value that signs out.
#[must_use]
pub fn cleared_cookie(base: &BaseUrl) -> String {
    set_cookie(base, "", 0)
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
        put.send().await.map_err(Error::aws("storing a session"))?;
        Ok(())
    }

    /// The session of `token`, unless it ended before `now`.
    ///
    /// # Errors
    /// The read fails.
    pub async fn find(&self, token: &Token, now: Timestamp) -> Result<Option<Session>> {
        let doing = "reading a session";
        let found = self.dynamodb.get_item().table_name(&self.tokens).key("token_hash", text(token.hash().as_str()));
        let found = found.consistent_read(true).send().await.map_err(Error::aws(doing))?;
        let Some(found) = found.item else { return Ok(None) };
        let record = Record::new("session", &found);
        // TTL deletes hours late, so it is only for cleaning up.
        if record.text("kind")? != KIND || record.number("expires_at")? <= now.as_second() {
            return Ok(None);
        }
        Ok(Some(Session {
            id: record.parsed("session_id")?,
            user: record.parsed("user_id")?,
            expires_at: Timestamp::from_second(record.number("expires_at")?).map_err(Error::internal(doing))?,
        }))
    }

    /// Ends the session of `token`, if there is one. It holds at once, in every function.
    ///
    /// # Errors
    /// The write fails.
    pub async fn end(&self, token: &Token) -> Result<()> {
        let delete =
            self.dynamodb.delete_item().table_name(&self.tokens).key("token_hash", text(token.hash().as_str()));
        let delete = delete.condition_expression("kind = :session").expression_attribute_values(":session", text(KIND));
        match delete.send().await {
            Ok(_) => Ok(()),
            Err(error)
                if error.as_service_error().is_some_and(DeleteItemError::is_conditional_check_failed_exception) =>
            {
                Ok(())
            }
            Err(error) => Err(Error::aws("ending a session")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(url: &str) -> BaseUrl {
        url.parse().expect("a base URL")
    }

    #[test]
    fn the_cookie_is_secure_where_the_base_url_is_https() {
        let token = Token::generate();
        let secret = token.reveal();
        assert_eq!(
            session_cookie(&base("https://api.example.com"), &token),
            format!("__Host-session_token={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000; Secure")
        );
        assert_eq!(
            session_cookie(&base("http://127.0.0.1:9000"), &token),
            format!("session_token={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000")
        );
    }

    #[test]
    fn the_token_is_found_among_other_cookies() {
        let (local, token) = (base("http://127.0.0.1:9000"), Token::generate());
        let own = format!("session_token={}", token.reveal());
        let find = |headers: &[&str]| token_in_cookies(&local, headers.iter().copied()).map(|token| token.hash());
        assert_eq!(find(&[&format!("a=b; {own}; c=d")]), Some(token.hash()));
        assert_eq!(find(&["a=b", &own]), Some(token.hash()));
        assert_eq!(find(&[&format!("session_token=; {own}")]), Some(token.hash()));
        for other in ["", "session_token", "session_token=", "session_token=x", &format!("x{own}"), &own[1..]] {
            assert_eq!(find(&[other]), None, "{other}");
        }
    }

    #[test]
    fn an_https_deployment_ignores_the_cookie_without_prefix() {
        let token = Token::generate();
        let find = |name: &str| {
            let cookie = format!("{name}={}", token.reveal());
            token_in_cookies(&base("https://api.example.com"), [cookie.as_str()]).map(|found| found.hash())
        };
        assert_eq!(find("__Host-session_token"), Some(token.hash()));
        // Another host of the domain can set these.
        assert_eq!((find("session_token"), find("__Secure-session_token")), (None, None));
    }
}
