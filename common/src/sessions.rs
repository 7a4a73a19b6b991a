//! Sessions: who is signed in, and the cookie that says so.

use aws_sdk_dynamodb::Client;

use crate::{
    aws::Aws,
    base_url::BaseUrl,
    config::{ConfigError, Env},
    dynamo::{Item, Record, item, number, rfc3339, text},
    error::{Error, Result},
    id::{SessionId, UserId},
    token::{SecretHash, Token},
    user::{User, user_key},
};

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
    pub expires_at: jiff::Timestamp,
}

impl Session {
    /// A session of `user` that starts `now`.
    ///
    /// # Errors
    /// It would end after the end of time.
    pub fn start(user: UserId, now: jiff::Timestamp) -> Result<Self> {
        let expires_at = jiff::Timestamp::from_second(now.as_second() + SESSION_SECONDS)
            .map_err(Error::internal("adding 30 days"))?;
        Ok(Self { id: SessionId::generate(), user, expires_at })
    }

    pub(crate) fn to_item(&self, hash: &SecretHash, now: jiff::Timestamp) -> Item {
        item([
            ("token_hash", text(hash.as_str())),
            ("kind", text("session")),
            ("session_id", text(self.id)),
            ("user_id", text(self.user)),
            ("expires_at", number(self.expires_at.as_second())),
            ("created_at", text(rfc3339(now))),
        ])
    }
}

/// The name of the session cookie. The prefix makes browsers refuse it over plain http (RFC 6265bis, 4.1.3.1).
fn cookie_name(base: &BaseUrl) -> &'static str {
    if base.is_https() { "__Secure-session_token" } else { "session_token" }
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

/// The tables of sessions.
#[derive(Clone)]
pub struct Sessions {
    dynamodb: Client,
    tokens: String,
    users: String,
}

impl Sessions {
    /// The store over the tables that `env` names.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            tokens: env.required("TOKENS_TABLE")?,
            users: env.required("USERS_TABLE")?,
        })
    }

    /// The session of `token` and its user, unless it ended before `now`.
    ///
    /// # Errors
    /// A read fails.
    pub async fn find(&self, token: &Token, now: jiff::Timestamp) -> Result<Option<(Session, User)>> {
        let doing = "reading a session";
        let found = self.dynamodb.get_item().table_name(&self.tokens).key("token_hash", text(token.hash().as_str()));
        let found = found.consistent_read(true).send().await.map_err(Error::aws(doing))?;
        let Some(found) = found.item else { return Ok(None) };
        let record = Record::new("session", &found);
        // TTL deletes hours late, so it is only for cleaning up.
        if record.text("kind")? != "session" || record.number("expires_at")? <= now.as_second() {
            return Ok(None);
        }
        let session = Session {
            id: record.parsed("session_id")?,
            user: record.parsed("user_id")?,
            expires_at: jiff::Timestamp::from_second(record.number("expires_at")?).map_err(Error::internal(doing))?,
        };
        Ok(self.user(session.user).await?.map(|user| (session, user)))
    }

    async fn user(&self, id: UserId) -> Result<Option<User>> {
        let found = self.dynamodb.get_item().table_name(&self.users).key("pk", text(user_key(id)));
        let found = found.consistent_read(true).send().await.map_err(Error::aws("reading a user"))?;
        found.item.as_ref().map(User::from_item).transpose()
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
            format!("__Secure-session_token={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000; Secure")
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
        let own = format!("session_token={}", Token::generate().reveal());
        assert!(token_in_cookies(&base("https://api.example.com"), [own.as_str()]).is_none());
    }
}
