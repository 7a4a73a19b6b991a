//! Users, their roles, and their rights.

pub use api::account::Role;
use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{email::Email, password::PasswordHash},
    aws::{
        clients::Aws,
        dynamo::{Item, Record, boolean, is_refused, item, number, text},
        failure,
    },
    config::{ConfigError, Env},
    error::{Error, Refusal, Result},
    id::{TenantId, UserId},
    issue::{Problem, parse_name},
    name::Name,
    timestamp::Timestamp,
};

/// A user, who belongs to exactly one organization.
#[derive(Clone, Debug)]
pub struct User {
    /// The user's id.
    pub id: UserId,
    /// The display name, chosen by the user.
    pub name: Name,
    /// The email address, with which they sign in.
    pub email: Email,
    /// Whether they have proved access to the mailbox of that address.
    pub email_verified: bool,
    /// Their organization.
    pub organization: TenantId,
    /// Their role in that organization.
    pub role: Role,
    /// The epoch of their sessions. Sessions that began in an earlier epoch have ended.
    pub session_epoch: i64,
    /// The epoch of their keys, likewise. Only a password reset starts a new one.
    pub key_epoch: i64,
}

/// Parses a role from a request.
///
/// # Errors
/// The text is not a role.
pub fn parse_role(text: &str) -> Result<Role, Vec<Problem>> {
    match text {
        // Other services have a role `admin` between the two, so clients written for them offer it.
        "admin" => Err(vec![Problem::format("There is no role admin. Must be owner or member")]),
        _ => parse_name(text),
    }
}

/// The table key of a user.
pub(crate) fn user_key(id: UserId) -> String {
    format!("user#{id}")
}

/// The table key of the guard that makes an email unique.
pub(crate) fn email_key(email: &Email) -> String {
    format!("email#{email}")
}

impl User {
    /// Checks that the user has verified their email address.
    ///
    /// # Errors
    /// The address is not verified: [`Refusal::EmailNotVerified`].
    pub fn check_verified(&self) -> Result<()> {
        if self.email_verified { Ok(()) } else { Err(Error::Forbidden(Refusal::EmailNotVerified)) }
    }

    /// Checks that the user may manage the members of their organization: they are an owner with a verified email.
    ///
    /// # Errors
    /// The user is not an owner ([`Refusal::OwnersOnly`]), or not verified.
    pub fn check_manages(&self) -> Result<()> {
        if self.role != Role::Owner {
            return Err(Error::Forbidden(Refusal::OwnersOnly));
        }
        self.check_verified()
    }

    pub(crate) fn to_item(&self, password: &PasswordHash, now: Timestamp) -> Item {
        item([
            ("pk", text(user_key(self.id))),
            ("user_id", text(self.id)),
            ("name", text(self.name.as_str())),
            ("email", text(&self.email)),
            ("email_verified", boolean(self.email_verified)),
            ("organization_id", text(&self.organization)),
            ("role", text(self.role.as_str())),
            ("password_hash", text(password.as_str())),
            ("session_epoch", number(self.session_epoch)),
            ("key_epoch", number(self.key_epoch)),
            ("created_at", text(now)),
        ])
    }

    pub(crate) fn from_item(item: &Item) -> Result<Self> {
        let record = Record::new("user", item);
        Ok(Self {
            id: record.parsed("user_id")?,
            name: Name::stored(record.text("name")?),
            email: Email::stored(record.text("email")?),
            email_verified: record.boolean("email_verified")?,
            organization: record.parsed("organization_id")?,
            role: record.parsed("role")?,
            session_epoch: record.optional_number("session_epoch").unwrap_or(0),
            key_epoch: record.optional_number("key_epoch").unwrap_or(0),
        })
    }
}

/// The store of users.
#[derive(Clone)]
pub struct Users {
    dynamodb: Client,
    table: String,
}

impl Users {
    /// The store over the table that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { dynamodb: aws.dynamodb(), table: env.required("USERS_TABLE")? })
    }

    /// Finds the user `id`, read consistently. `None` if the account was deleted.
    pub async fn find(&self, id: UserId) -> Result<Option<User>> {
        self.read(user_key(id)).await?.as_ref().map(User::from_item).transpose()
    }

    /// The table and the item key of the user `id`.
    pub(super) fn item(&self, id: UserId) -> (&String, Item) {
        (&self.table, item([("pk", text(user_key(id)))]))
    }

    pub(super) fn dynamodb(&self) -> &Client {
        &self.dynamodb
    }

    /// Finds the user with this email, and their password hash. It makes two reads whether the user exists or not, so
    /// that the timing reveals nothing. For the same reason it accepts `None`, for a text that is not an email.
    pub async fn credentials(&self, email: Option<&Email>) -> Result<Option<(User, PasswordHash)>> {
        let guard = self.read(email.map_or_else(|| "email#".to_owned(), email_key)).await?;
        let id = guard.as_ref().and_then(|guard| Record::new("email", guard).optional_text("user_id"));
        let Some(item) = self.read(format!("user#{}", id.unwrap_or_default())).await? else { return Ok(None) };
        let password = PasswordHash::stored(Record::new("user", &item).text("password_hash")?);
        Ok(Some((User::from_item(&item)?, password)))
    }

    /// Replaces the password hash `old` with `new`, unless it was changed in the meantime.
    pub async fn rehash(&self, id: UserId, old: &PasswordHash, new: &PasswordHash) -> Result<()> {
        let update = self.dynamodb.update_item().table_name(&self.table).key("pk", text(user_key(id)));
        let update = update
            .condition_expression("password_hash = :old")
            .update_expression("SET password_hash = :new")
            .expression_attribute_values(":old", text(old.as_str()))
            .expression_attribute_values(":new", text(new.as_str()));
        match update.send().await {
            Ok(_) => Ok(()),
            Err(error) if is_refused(&error) => Ok(()),
            Err(error) => Err(failure("replacing a password hash")(error)),
        }
    }

    async fn read(&self, key: String) -> Result<Option<Item>> {
        let found = self.dynamodb.get_item().table_name(&self.table).key("pk", text(key));
        Ok(found.consistent_read(true).send().await.map_err(failure("reading a user"))?.item)
    }
}
