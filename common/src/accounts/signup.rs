//! Signing up: creating a user and, for founders, their organization.

use aws_sdk_dynamodb::{Client, types::Put};

use crate::{
    accounts::{
        attempts::known_client_item,
        email::Email,
        organizations::{Organization, slug_key},
        password::PasswordHash,
        sessions::{Device, Session},
        token::Token,
        users::{Role, User, email_key},
        verification::verification_item,
    },
    aws::{
        clients::Aws,
        dynamo::{batch_get, item, text},
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::{Conflict, Error, Result},
    id::{TenantId, UserId},
    name::{Name, Slug},
    timestamp::Timestamp,
};

/// What a sign-up creates for a user: the account, the first session, and the token that verifies the email.
pub struct NewUser {
    /// The user.
    pub user: User,
    /// The hash of their password.
    pub password: PasswordHash,
    /// Their first session.
    pub session: Session,
    /// The secret of the session.
    pub session_token: Token,
    /// The secret in the verification mail.
    pub verification_token: Token,
    /// Where they sign up from, which is where they are first signed in.
    pub device: Device,
}

/// Somebody who is signing up.
pub struct Person {
    /// Their display name.
    pub name: Name,
    /// Their email address, with which they will sign in.
    pub email: Email,
    /// The hash of their password.
    pub password: PasswordHash,
    /// Where they sign up from.
    pub device: Device,
}

/// Prepares the account of a person who signs up at `now`.
///
/// # Errors
/// The session would end beyond the representable time.
pub fn new_user(person: Person, organization: TenantId, role: Role, now: Timestamp) -> Result<NewUser> {
    let Person { name, email, password, device } = person;
    let (session_epoch, key_epoch) = (0, 0);
    let id = UserId::generate();
    let user = User { id, name, email, email_verified: false, organization, role, session_epoch, key_epoch };
    let (session, session_token) = Session::start(&user, &device, now)?;
    Ok(NewUser { user, password, session, session_token, verification_token: Token::generate(), device })
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

    /// Refuses early, before a password is hashed, with one read of both guards. Only [`Self::create`] is certain.
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
    /// The slug or the email was taken in the meantime; or the write fails.
    pub async fn create(&self, organization: &Organization, new: &NewUser, now: Timestamp) -> Result<()> {
        let writes = Transaction::new("creating an account")
            .put_new(&self.organizations, "pk", organization.slug_guard())
            .or(Error::Conflict(Conflict::SlugTaken(organization.slug.clone())))
            .put_new(&self.organizations, "pk", organization.to_item());
        new.writes(writes, &self.users, &self.tokens, now).commit(&self.dynamodb).await
    }
}

impl NewUser {
    /// Adds the writes that every sign-up needs.
    pub(crate) fn writes(&self, writes: Transaction, users: &str, tokens: &str, now: Timestamp) -> Transaction {
        let email_guard = item([("pk", text(email_key(&self.user.email))), ("user_id", text(self.user.id))]);
        let session = self.session.to_item();
        let verification = verification_item(&self.verification_token, &self.user, now);
        let known_client = known_client_item(self.user.email.as_str(), self.device.address, now);
        writes
            .put_new(users, "pk", email_guard)
            .or(Error::Conflict(Conflict::EmailTaken))
            .put_new(users, "pk", self.user.to_item(&self.password, now))
            .put_new(tokens, "token_hash", session)
            .put_new(tokens, "token_hash", verification)
            .put(Put::builder().table_name(tokens).set_item(Some(known_client)))
    }
}
