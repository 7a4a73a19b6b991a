//! Verifies email addresses: a link in an email proves that the user reads the mailbox.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        mail::{Mail, Mailer, Part},
        token::{EXPIRES_AT, KIND, TOKEN_HASH, Token, token_key},
        users::{CREATED_AT, EMAIL_VERIFIED, PK, USER_ID, User, pk, user_key},
    },
    aws::{
        clients::Aws,
        dynamo::{Item, Record, boolean, get, item, number, put, text},
        expression::Update,
        transaction::Transaction,
    },
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::Result,
    id::UserId,
    timestamp::Timestamp,
};

/// The link in a verification email works for 24 hours.
const HOLDS_SECONDS: i64 = 24 * 60 * 60;
/// The kind of verifications among the tokens in the table.
const EMAIL_VERIFICATION: &str = "email_verification";

pub(crate) fn verification_item(token: &Token, user: &User, now: Timestamp) -> Item {
    item([
        (TOKEN_HASH, text(token.hash().as_str())),
        (KIND, text(EMAIL_VERIFICATION)),
        (USER_ID, text(user.id)),
        (EXPIRES_AT, number(now.as_second() + HOLDS_SECONDS)),
        (CREATED_AT, text(now)),
    ])
}

/// The store of verification tokens, and the table of users.
#[derive(Clone)]
pub struct Verifications {
    dynamodb: Client,
    tokens: String,
    users: String,
}

impl Verifications {
    /// The store over the tables that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            tokens: env.required("TOKENS_TABLE")?,
            users: env.required("USERS_TABLE")?,
        })
    }

    /// Sends `user` another email with a link, unless they are verified. The caller counts the request before.
    pub async fn send_again(&self, user: &User, mailer: &Mailer, base: &BaseUrl, now: Timestamp) -> Result<()> {
        if user.email_verified {
            return Ok(());
        }
        let token = self.issue(user, now).await?;
        mailer.send(&user.email, verification_mail(base, &token), user.id).await;
        Ok(())
    }

    /// Issues a token that verifies the email of `user`. Earlier tokens stay valid.
    pub async fn issue(&self, user: &User, now: Timestamp) -> Result<Token> {
        let token = Token::generate();
        put(&self.dynamodb, &self.tokens, verification_item(&token, user, now), "storing a verification").await?;
        Ok(token)
    }

    /// Whether [`Verifications::verify`] would accept `token`.
    pub async fn holds(&self, token: &Token, now: Timestamp) -> Result<bool> {
        Ok(self.user(token, now).await?.is_some())
    }

    /// Marks the email of the token's user as verified and consumes the token, in one transaction, so of two concurrent
    /// calls one succeeds. Returns `false` if the token is unknown, used or expired.
    ///
    /// # Errors
    /// A read or the write fails.
    pub async fn verify(&self, token: &Token, now: Timestamp) -> Result<bool> {
        let Some(user) = self.user(token, now).await? else { return Ok(false) };
        let is_current = EXPIRES_AT.is_above(number(now.as_second()));
        let mark = Update::of(&self.users, pk(user_key(user))).set(EMAIL_VERIFIED, boolean(true)).only_if(PK.exists());
        Transaction::new("verifying an email")
            .delete_if(&self.tokens, token_key(&token.hash()), is_current)
            .update(mark)
            .try_commit(&self.dynamodb)
            .await
    }

    /// The user whose email `token` verifies, unless it has expired by `now`.
    async fn user(&self, token: &Token, now: Timestamp) -> Result<Option<UserId>> {
        let found = get(&self.dynamodb, &self.tokens, token_key(&token.hash()), "reading a verification").await?;
        let Some(found) = found else { return Ok(None) };
        let record = Record::new("verification", &found);
        if record.text(KIND)? != EMAIL_VERIFICATION || record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(None);
        }
        record.parsed(USER_ID).map(Some)
    }
}

/// The email with the link that verifies an address. It contains no name: a sign-up with a stranger's address would
/// otherwise put the caller's words into an email to them.
#[must_use]
pub fn verification_mail(base: &BaseUrl, token: &Token) -> Mail {
    Mail::new(
        "Confirm your email address",
        &[
            Part::text("Hello,"),
            Part::text("Confirm your email address by opening this link. It works once and expires in 24 hours:"),
            Part::Link(format!("{base}/verify-email?token={}", token.reveal())),
            Part::text("If you did not create an account, you can ignore this email."),
        ],
    )
}
