//! Invitations into an organization.

use aws_sdk_dynamodb::{
    Client,
    types::{TransactWriteItem, Update},
};

use crate::{
    accounts::{NewUser, slug_key},
    aws::Aws,
    config::{ConfigError, Env},
    dynamo::{Record, Transaction, batch_get, item, text, transact},
    email::Email,
    error::{Conflict, Error, Result},
    id::{InvitationId, TenantId},
    name::Slug,
    user::Role,
};

/// An invitation that can still be accepted.
#[derive(Debug)]
pub struct Invitation {
    /// Which one.
    pub id: InvitationId,
    /// Who is invited.
    pub email: Email,
    /// Into which organization.
    pub organization: TenantId,
    /// As what.
    pub role: Role,
}

/// The tables that an invitation touches.
#[derive(Clone)]
pub struct Invitations {
    dynamodb: Client,
    invitations: String,
    users: String,
    organizations: String,
    tokens: String,
}

const NOT_FOUND: Error = Error::NotFound("Invitation not found");

impl Invitations {
    /// The store over the tables that `env` names.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            invitations: env.required("INVITATIONS_TABLE")?,
            users: env.required("USERS_TABLE")?,
            organizations: env.required("ORGANIZATIONS_TABLE")?,
            tokens: env.required("TOKENS_TABLE")?,
        })
    }

    /// The invitation `id`, if it is one of the organization with `slug` and can be accepted at `now`. A wrong
    /// slug and an unknown id look the same, so that nobody can find out which ids exist.
    ///
    /// # Errors
    /// There is none, it is expired or used; or the read fails.
    pub async fn pending(&self, id: InvitationId, slug: &Slug, now: jiff::Timestamp) -> Result<Invitation> {
        let [invitation, slug_guard] = batch_get(
            &self.dynamodb,
            [
                (&self.invitations, item([("invitation_id", text(id))])),
                (&self.organizations, item([("pk", text(slug_key(slug)))])),
            ],
            "reading an invitation",
        )
        .await?;
        let (Some(invitation), Some(slug_guard)) = (invitation, slug_guard) else { return Err(NOT_FOUND) };
        let record = Record::new("invitation", &invitation);
        let organization: TenantId = record.parsed("organization_id")?;
        if Record::new("slug", &slug_guard).text("organization_id")? != organization.as_str() {
            return Err(NOT_FOUND);
        }
        if record.text("status")? != "pending" {
            return Err(Error::Conflict(Conflict::InvitationUsed));
        }
        if record.number("expires_at")? <= now.as_second() {
            return Err(Error::Conflict(Conflict::InvitationExpired));
        }
        Ok(Invitation { id, email: record.checked("email", Email::parse)?, organization, role: record.parsed("role")? })
    }

    /// Creates the invited user, their guard, session and verification token, and marks the invitation as
    /// accepted: all or nothing. Of two at once, one succeeds.
    ///
    /// # Errors
    /// The invitation was used meanwhile, or its email has an account; or the write fails.
    pub async fn accept(&self, invitation: &Invitation, new: &NewUser, now: jiff::Timestamp) -> Result<()> {
        let mark = Update::builder()
            .table_name(&self.invitations)
            .key("invitation_id", text(invitation.id))
            .condition_expression("#status = :pending")
            .update_expression("SET #status = :accepted, user_id = :user, accepted_at = :now")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":pending", text("pending"))
            .expression_attribute_values(":accepted", text("accepted"))
            .expression_attribute_values(":user", text(new.user.id))
            .expression_attribute_values(":now", text(crate::dynamo::rfc3339(now)))
            .build()
            .map_err(Error::internal("accepting an invitation"))?;
        let mut writes = vec![TransactWriteItem::builder().update(mark).build()];
        writes.extend(new.writes(&self.users, &self.tokens, now));
        match transact(&self.dynamodb, writes, "accepting an invitation").await? {
            Transaction::Committed => Ok(()),
            refused if refused.refused(0) => Err(Error::Conflict(Conflict::InvitationUsed)),
            refused if refused.refused(1) => Err(Error::Conflict(Conflict::EmailTaken)),
            refused => Err(Error::Internal(format!("accepting an invitation: {refused:?}"))),
        }
    }
}
