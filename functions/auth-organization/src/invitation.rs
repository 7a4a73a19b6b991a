//! Invitations into the caller's organization.

use std::sync::Arc;

use common::{
    accounts::{
        email::Email,
        invitations::{InvitationStatus, Invited},
        mail::invitation_mail,
        users::Role,
    },
    error::Result,
    http::{Call, Caller, Fault, Fields, KeyOrSession, Rejected, Route},
    id::{InvitationId, TenantId, UserId},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    App,
    organization::{Page, check_manages},
};

/// For owners with a verified email only: otherwise anybody could make us send mail to anybody.
pub(crate) fn invite() -> Route<App> {
    Route::post("/api/auth/organization/invite-member", KeyOrSession, New::read, send)
        .summary("Invites an address that has no account yet. Owners only.")
        .faults(&[
            Fault::EmailNotVerified,
            Fault::OwnersOnly,
            Fault::NotFound,
            Fault::Conflict("email_taken"),
            Fault::TooMany,
        ])
}

/// For owners only, since whoever knows an invitation's id can accept it.
pub(crate) fn list() -> Route<App> {
    Route::get("/api/auth/organization/list-invitations", KeyOrSession, Page::read, invitations)
        .summary("Lists invitations, newest first. A new one may take a moment to appear. Owners only.")
        .faults(&[Fault::EmailNotVerified, Fault::OwnersOnly, Fault::NotFound])
}

pub(crate) fn cancel() -> Route<App> {
    Route::post("/api/auth/organization/cancel-invitation", KeyOrSession, Which::read, withdraw)
        .summary("Cancels an invitation, which can no longer be accepted. Owners only.")
        .faults(&[Fault::EmailNotVerified, Fault::OwnersOnly, Fault::NotFound, Fault::Conflict("invitation_used")])
}

struct New {
    email: Email,
    role: Role,
    organization: TenantId,
}

impl New {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let email = fields.text("email", Email::parse);
        let role = fields.text("role", Role::parse);
        let organization = fields.text("organizationId", TenantId::parse);
        Ok(Self { email: email?, role: role?, organization: organization? })
    }
}

struct Which {
    invitation: InvitationId,
}

impl Which {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { invitation: fields.text("invitationId", InvitationId::parse)? })
    }
}

/// An invitation.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "Invitation")]
struct View {
    id: InvitationId,
    email: Email,
    role: Role,
    organization_id: TenantId,
    inviter_id: UserId,
    status: InvitationStatus,
    expires_at: Timestamp,
    created_at: Timestamp,
}

async fn send(app: Arc<App>, call: Call<Caller>, input: New) -> Result<View> {
    let (inviter, New { email, role, organization }) = (&call.caller.user, input);
    check_manages(inviter, Some(&organization))?;
    let now = Timestamp::now();
    app.attempts.count_invitation(inviter.id, &email, now).await?;
    let invited = app.invitations.invite(inviter, &email, role, now).await?;
    let organization = app.organizations.get(&inviter.organization).await?;
    let mail = invitation_mail(&call.base, &inviter.name, &organization, &invited.invitation);
    app.mailer.send(&email, mail, invited.invitation.id).await;
    Ok(invited.into())
}

async fn invitations(app: Arc<App>, call: Call<Caller>, page: Page) -> Result<Vec<View>> {
    let owner = &call.caller.user;
    check_manages(owner, page.organization.as_ref())?;
    let invited = app.invitations.list(&owner.organization, page.offset, page.limit).await?;
    Ok(invited.into_iter().map(View::from).collect())
}

async fn withdraw(app: Arc<App>, call: Call<Caller>, input: Which) -> Result<View> {
    let owner = &call.caller.user;
    check_manages(owner, None)?;
    Ok(app.invitations.cancel(&owner.organization, input.invitation).await?.into())
}

impl From<Invited> for View {
    fn from(invited: Invited) -> Self {
        let Invited { invitation, status, inviter, expires_at, created_at } = invited;
        Self {
            id: invitation.id,
            email: invitation.email,
            role: invitation.role,
            organization_id: invitation.organization,
            inviter_id: inviter,
            status,
            expires_at,
            created_at,
        }
    }
}
