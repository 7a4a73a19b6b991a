//! Invitations into an organization.

use aws_sdk_dynamodb::{
    Client,
    types::{
        AttributeValue, Put, Update,
        builders::{PutBuilder, UpdateBuilder},
    },
};

use crate::{
    accounts::{
        email::Email,
        organizations::slug_key,
        signup::NewUser,
        users::{Role, User, email_key},
    },
    aws::{
        clients::Aws,
        dynamo::{Item, Record, batch_get, item, number, text},
        failure,
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::{Conflict, Error, Result},
    id::{InvitationId, TenantId},
    name::Slug,
    timestamp::Timestamp,
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

/// How long an invitation can be accepted: 7 days.
const HOLDS_SECONDS: i64 = 7 * 24 * 60 * 60;
/// How long it is kept after that, to say that it is expired or used: 30 days. Then it goes by the table's TTL.
const KEPT_SECONDS: i64 = 30 * 24 * 60 * 60;

/// An invitation that was just made.
#[derive(Debug)]
pub struct Invited {
    /// The invitation.
    pub invitation: Invitation,
    /// Until when it can be accepted.
    pub expires_at: Timestamp,
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

/// How often an invitation is tried against others of the same address.
const INVITE_ATTEMPTS: usize = 5;
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

    /// Invites `email` into the organization of `inviter`. A pending invitation of the same address is cancelled:
    /// at any time one of them can be accepted at the most.
    ///
    /// # Errors
    /// The email has an account; or a call fails.
    pub async fn invite(&self, inviter: &User, email: &Email, role: Role, now: Timestamp) -> Result<Invited> {
        let doing = "inviting";
        let organization = inviter.organization.clone();
        let expires_at = Timestamp::from_second(now.as_second() + HOLDS_SECONDS).map_err(Error::internal(doing))?;
        let invitation = Invitation { id: InvitationId::generate(), email: email.clone(), organization, role };
        // Whoever invites the same address at the same time comes before or after, never in between.
        for _ in 0..INVITE_ATTEMPTS {
            let previous = self.previous(&invitation).await?;
            let item = invitation.to_item(inviter, expires_at, now);
            let mut writes = Transaction::new(doing)
                .put(self.point_to(&invitation, expires_at, previous.as_ref()))
                .put_new(&self.invitations, "invitation_id", item);
            if let Some(Previous { id, pending: true }) = &previous {
                writes = writes.update(self.change_status(id, "cancelled").update_expression("SET #status = :new"));
            }
            if writes.try_commit(&self.dynamodb).await? {
                return Ok(Invited { invitation, expires_at });
            }
        }
        Err(Error::Busy)
    }

    /// The last invitation of the same address into the same organization.
    async fn previous(&self, invitation: &Invitation) -> Result<Option<Previous>> {
        let doing = "looking for an earlier invitation";
        let keys = [
            (&self.invitations, item([("invitation_id", text(pointer(invitation)))])),
            (&self.users, item([("pk", text(email_key(&invitation.email)))])),
        ];
        let [pointer, guard] = batch_get(&self.dynamodb, keys, doing).await?;
        if guard.is_some() {
            return Err(Error::Conflict(Conflict::EmailTaken));
        }
        let Some(pointer) = pointer else { return Ok(None) };
        let id = Record::new("pointer", &pointer).text("current")?.to_owned();
        let found = self.dynamodb.get_item().table_name(&self.invitations).key("invitation_id", text(&id));
        let found = found.consistent_read(true).send().await.map_err(failure(doing))?.item;
        let status = found.as_ref().and_then(|found| Record::new("invitation", found).optional_text("status"));
        Ok(Some(Previous { pending: status == Some("pending"), id }))
    }

    /// Points the organization and address to the new invitation, if they still point to `previous`.
    fn point_to(&self, invitation: &Invitation, expires_at: Timestamp, previous: Option<&Previous>) -> PutBuilder {
        let pointer = item([
            ("invitation_id", text(pointer(invitation))),
            ("current", text(invitation.id)),
            ("delete_at", delete_at(expires_at)),
        ]);
        let put = Put::builder().table_name(&self.invitations).set_item(Some(pointer));
        match previous {
            None => put.condition_expression("attribute_not_exists(invitation_id)"),
            Some(previous) => put
                .condition_expression("#current = :previous")
                .expression_attribute_names("#current", "current")
                .expression_attribute_values(":previous", text(&previous.id)),
        }
    }

    /// The invitation `id`, if it is one of the organization with `slug` and can be accepted at `now`. A wrong
    /// slug and an unknown id look the same, so that nobody can find out which ids exist.
    ///
    /// # Errors
    /// There is none, it is expired or used; or the read fails.
    pub async fn pending(&self, id: InvitationId, slug: &Slug, now: Timestamp) -> Result<Invitation> {
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
        // An account with an address that is none by today's rules could not be signed in to, and no mail would reach
        // it. The invited asks for another invitation then, and whoever sends it is told what is wrong.
        let expired = |_problems| Error::Conflict(Conflict::InvitationExpired);
        let email = Email::parse(record.text("email")?).map_err(expired)?;
        Ok(Invitation { id, email, organization, role: record.parsed("role")? })
    }

    /// Creates the invited user, their guard, session and verification token, and marks the invitation as
    /// accepted: all or nothing. Of two at once, one succeeds.
    ///
    /// # Errors
    /// The invitation was used meanwhile, or its email has an account; or the write fails.
    pub async fn accept(&self, invitation: &Invitation, new: &NewUser, now: Timestamp) -> Result<()> {
        let mark = self
            .change_status(invitation.id, "accepted")
            .update_expression("SET #status = :new, user_id = :user, accepted_at = :now")
            .expression_attribute_values(":user", text(new.user.id))
            .expression_attribute_values(":now", text(now));
        let writes =
            Transaction::new("accepting an invitation").update(mark).or(Error::Conflict(Conflict::InvitationUsed));
        new.writes(writes, &self.users, &self.tokens, now).commit(&self.dynamodb).await
    }

    /// The change of a pending invitation's status to `:new`, still without its expression.
    fn change_status(&self, id: impl ToString, to: &str) -> UpdateBuilder {
        Update::builder()
            .table_name(&self.invitations)
            .key("invitation_id", text(id))
            .condition_expression("#status = :pending")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":pending", text("pending"))
            .expression_attribute_values(":new", text(to))
    }
}

impl Invitation {
    fn to_item(&self, inviter: &User, expires_at: Timestamp, now: Timestamp) -> Item {
        item([
            ("invitation_id", text(self.id)),
            ("organization_id", text(&self.organization)),
            ("email", text(&self.email)),
            ("role", text(self.role.as_str())),
            ("status", text("pending")),
            ("expires_at", number(expires_at.as_second())),
            ("delete_at", delete_at(expires_at)),
            ("invited_by", text(inviter.id)),
            ("created_at", text(now)),
        ])
    }
}

/// An invitation that a new one replaces.
struct Previous {
    id: String,
    pending: bool,
}

/// The key of the item that knows the last invitation of an address into an organization.
fn pointer(invitation: &Invitation) -> String {
    format!("last#{}#{}", invitation.organization, invitation.email)
}

/// When the TTL deletes what belongs to an invitation.
fn delete_at(expires_at: Timestamp) -> AttributeValue {
    number(expires_at.as_second() + KEPT_SECONDS)
}
