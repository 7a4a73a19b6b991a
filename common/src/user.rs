//! Users.

use std::{fmt, str::FromStr};

use crate::{
    dynamo::{Item, Record, boolean, item, text},
    email::Email,
    error::Result,
    id::{TenantId, UserId},
    name::Name,
    password::PasswordHash,
};

/// A user. Belongs to exactly one organization.
#[derive(Clone, Debug)]
pub struct User {
    /// Which one.
    pub id: UserId,
    /// What to call them.
    pub name: Name,
    /// Where to reach them, and what they sign in with.
    pub email: Email,
    /// Whether they have shown that they read mail there.
    pub email_verified: bool,
    /// Their organization.
    pub organization: TenantId,
    /// What they may do in it.
    pub role: Role,
}

/// What a user may do in their organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Owner,
    /// Everything but inviting and managing others' keys.
    Member,
}

impl Role {
    /// As it is stored and answered.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Member => "member",
        }
    }
}

impl FromStr for Role {
    type Err = NotARole;

    fn from_str(text: &str) -> Result<Self, NotARole> {
        match text {
            "owner" => Ok(Self::Owner),
            "member" => Ok(Self::Member),
            _ => Err(NotARole),
        }
    }
}

/// A text that names no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARole;

impl fmt::Display for NotARole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Must be owner or member")
    }
}

/// The key of a user's item.
pub(crate) fn user_key(id: UserId) -> String {
    format!("user#{id}")
}

/// The key of the guard that makes an email unique.
pub(crate) fn email_key(email: &Email) -> String {
    format!("email#{email}")
}

impl User {
    pub(crate) fn to_item(&self, password: &PasswordHash, now: jiff::Timestamp) -> Item {
        item([
            ("pk", text(user_key(self.id))),
            ("user_id", text(self.id)),
            ("name", text(self.name.as_str())),
            ("email", text(&self.email)),
            ("email_verified", boolean(self.email_verified)),
            ("organization_id", text(&self.organization)),
            ("role", text(self.role.as_str())),
            ("password_hash", text(password.as_str())),
            ("created_at", text(crate::dynamo::rfc3339(now))),
        ])
    }

    pub(crate) fn from_item(item: &Item) -> Result<Self> {
        let record = Record::new("user", item);
        Ok(Self {
            id: record.parsed("user_id")?,
            name: record.checked("name", Name::parse)?,
            email: record.checked("email", Email::parse)?,
            email_verified: record.boolean("email_verified")?,
            organization: record.parsed("organization_id")?,
            role: record.parsed("role")?,
        })
    }
}
