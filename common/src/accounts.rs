//! Accounts: a user with the organization that they founded.

use aws_sdk_dynamodb::{Client, types::TransactWriteItem};

use crate::{
    aws::Aws,
    config::{ConfigError, Env},
    dynamo::{Transaction, batch_get, item, put_new, text, transact},
    email::Email,
    error::{Conflict, Error, Result},
    name::Slug,
    organizations::{Organization, slug_key},
    password::PasswordHash,
    sessions::Session,
    timestamp::Timestamp,
    token::Token,
    users::{User, email_key},
    verification::verification_item,
};

/// Everything that a sign-up makes of a person: the user, their first session, and the token that verifies
/// their email.
pub struct NewUser {
    /// The user.
    pub user: User,
    /// What they will sign in with.
    pub password: PasswordHash,
    /// Their first session.
    pub session: Session,
    /// The secret of the session.
    pub session_token: Token,
    /// The secret in the verification email.
    pub verification_token: Token,
}

/// The tables of accounts.
#[derive(Clone)]
pub struct Accounts {
    dynamodb: Client,
    users: String,
    organizations: String,
    tokens: String,
}

impl Accounts {
    /// The store over the tables that `env` names.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            users: env.required("USERS_TABLE")?,
            organizations: env.required("ORGANIZATIONS_TABLE")?,
            tokens: env.required("TOKENS_TABLE")?,
        })
    }

    /// The quick no, before a password is hashed: one read of both guards. Only [`Self::create`] is certain.
    ///
    /// # Errors
    /// The slug or the email is taken; or the read fails.
    pub async fn check_free(&self, slug: &Slug, email: &Email) -> Result<()> {
        let (slug_key, email_key) = (slug_key(slug), email_key(email));
        let found = batch_get(
            &self.dynamodb,
            [(&self.organizations, item([("pk", text(slug_key))])), (&self.users, item([("pk", text(email_key))]))],
            "looking up slug and email",
        )
        .await?;
        match found {
            [Some(_), _] => Err(Error::Conflict(Conflict::SlugTaken(slug.clone()))),
            [None, Some(_)] => Err(Error::Conflict(Conflict::EmailTaken)),
            [None, None] => Ok(()),
        }
    }

    /// Creates the user, the organization, their guards, the session and the verification token: all or nothing.
    ///
    /// # Errors
    /// The slug or the email was taken meanwhile; or the write fails.
    pub async fn create(&self, organization: &Organization, new: &NewUser, now: Timestamp) -> Result<()> {
        let mut writes = vec![
            put_new(&self.organizations, "pk", organization.slug_guard()),
            put_new(&self.organizations, "pk", organization.to_item()),
        ];
        let email_guard = writes.len();
        writes.extend(new.writes(&self.users, &self.tokens, now));
        match transact(&self.dynamodb, writes, "creating an account").await? {
            Transaction::Committed => Ok(()),
            refused if refused.refused(0) => Err(Error::Conflict(Conflict::SlugTaken(organization.slug.clone()))),
            refused if refused.refused(email_guard) => Err(Error::Conflict(Conflict::EmailTaken)),
            refused => Err(Error::Internal(format!("creating an account: {refused:?}"))),
        }
    }
}

impl NewUser {
    /// The writes that every sign-up has, the email's guard first.
    pub(crate) fn writes(&self, users: &str, tokens: &str, now: Timestamp) -> [TransactWriteItem; 4] {
        let email_guard = item([("pk", text(email_key(&self.user.email))), ("user_id", text(self.user.id))]);
        let session = self.session.to_item(&self.session_token.hash(), now);
        let verification = verification_item(&self.verification_token, &self.user, now);
        [
            put_new(users, "pk", email_guard),
            put_new(users, "pk", self.user.to_item(&self.password, now)),
            put_new(tokens, "token_hash", session),
            put_new(tokens, "token_hash", verification),
        ]
    }
}
