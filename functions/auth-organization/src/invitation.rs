//! Invitations into the caller's organization.

use std::sync::Arc;

use common::{
    accounts::{
        email::Email,
        invitations::{InvitationStatus, Invited},
        users::Role,
    },
    error::Result,
    http::{Call, Caller, Fault, Fields, KeyOrSession, Rejected, Route},
    id::{InvitationId, TenantId, UserId},
    paging::Paging,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    app::App,
    rights::{Named, check_manages, check_may_give},
};

/// For owners with a verified email only: otherwise anyone could make the service send email to any address.
pub(crate) fn invite() -> Route<App> {
    Route::post("/api/auth/organization/invite-member", KeyOrSession, New::read, send)
        .summary("Invites an address without an account. Owners only; inviting another owner requires a session.")
        .description("It replaces an earlier invitation of the address, which is canceled.")
        .faults(&[
            Fault::EmailNotVerified,
            Fault::OwnersOnly,
            Fault::NotFound,
            Fault::Conflict("email_taken"),
            Fault::TooMany,
        ])
}

/// For owners only, since the id of an invitation is enough to accept it.
pub(crate) fn list() -> Route<App> {
    Route::get("/api/auth/organization/list-invitations", KeyOrSession, Listing::read, invitations)
        .summary("Lists invitations, newest first. A new one may take a moment to appear. Owners only.")
        .faults(&[Fault::EmailNotVerified, Fault::OwnersOnly, Fault::NotFound])
}

pub(crate) fn cancel() -> Route<App> {
    Route::post("/api/auth/organization/cancel-invitation", KeyOrSession, Which::read, withdraw)
        .summary("Cancels an invitation, which can no longer be accepted. Owners only.")
        .description("To cancel an invitation again succeeds.")
        .faults(&[Fault::EmailNotVerified, Fault::OwnersOnly, Fault::NotFound, Fault::Conflict("invitation_used")])
}

struct New {
    email: Email,
    role: Role,
    organization: Option<TenantId>,
}

impl New {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let email = fields.about("The address to invite. It must not have an account.").text("email", Email::parse);
        let role = fields
            .about("The role that the new member gets. Only a session, not an API key, invites an `owner`.")
            .text("role", Role::parse);
        let organization = fields
            .about("The organization, by its id. It can only be the caller's, which is the default.")
            .optional_text("organizationId", TenantId::parse);
        Ok(Self { email: email?, role: role?, organization: organization? })
    }
}

struct Listing {
    organization: Named,
    paging: Paging,
}

impl Listing {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = Named::read(fields);
        let paging = Paging::read(fields);
        Ok(Self { organization: organization?, paging: paging? })
    }
}

struct Which {
    invitation: InvitationId,
}

impl Which {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { invitation: fields.about("The invitation to cancel.").text("invitationId", InvitationId::parse)? })
    }
}

/// An invitation.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "Invitation")]
pub(crate) struct View {
    /// The id of the invitation.
    id: InvitationId,
    /// The address that was invited.
    email: Email,
    /// The role that the new member gets.
    role: Role,
    /// The organization that invites.
    organization_id: TenantId,
    /// The user who invited.
    inviter_id: UserId,
    /// Whether the invitation was accepted. One that has expired stays `pending`; one that a newer one replaced is
    /// `canceled`.
    status: InvitationStatus,
    /// Until when it can be accepted: 7 days after it was sent.
    expires_at: Timestamp,
    /// When it was sent.
    created_at: Timestamp,
}

async fn send(app: Arc<App>, call: Call<Caller>, input: New) -> Result<View> {
    let (inviter, New { email, role, organization }) = (&call.caller.user, input);
    check_manages(inviter, organization.as_ref())?;
    check_may_give(&call.caller, role)?;
    Ok(app.inviting.invite(inviter, &email, role, &call.base).await?.into())
}

async fn invitations(app: Arc<App>, call: Call<Caller>, input: Listing) -> Result<Vec<View>> {
    let owner = &call.caller.user;
    input.organization.check(&app, owner).await?;
    check_manages(owner, None)?;
    let invited = app.invitations.list(&owner.organization, input.paging).await?;
    Ok(shown_to(&call.caller, invited))
}

async fn withdraw(app: Arc<App>, call: Call<Caller>, input: Which) -> Result<View> {
    let owner = &call.caller.user;
    check_manages(owner, None)?;
    Ok(app.invitations.cancel(&owner.organization, input.invitation).await?.into())
}

/// The invitations that a caller may see. The id of an invitation is enough to accept it, so a caller with a key does
/// not see invitations of owners.
pub(crate) fn shown_to(caller: &Caller, invited: Vec<Invited>) -> Vec<View> {
    let may_see = |invited: &Invited| caller.is_session() || invited.invitation.role == Role::Member;
    invited.into_iter().filter(may_see).map(View::from).collect()
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
