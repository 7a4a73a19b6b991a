//! Invitations to the caller's organization.

use std::sync::Arc;

use common::{
    accounts::{
        email::Email,
        invitations::{InvitationStatus, Invited},
        users::{Role, parse_role},
    },
    error::Result,
    http::{Call, Caller, Fault, Fields, KeyOrSession, Reason, Rejected, Route},
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
        .summary(
            "Invites an email address that has no account. Owners only; inviting another owner requires a session.",
        )
        .description("A new invitation replaces an earlier one to the same address, which is canceled.")
        .faults(&[
            Fault::EmailNotVerified,
            Fault::OwnersOnly,
            Fault::NotFound,
            Fault::Conflict(Reason::EmailTaken),
            Fault::TooMany,
        ])
}

/// For owners only, since the id of an invitation is enough to accept it.
pub(crate) fn list() -> Route<App> {
    Route::get("/api/auth/organization/list-invitations", KeyOrSession, Listing::read, invitations)
        .summary("Lists the invitations, newest first. A new invitation may take a moment to appear. Owners only.")
        .faults(&[Fault::EmailNotVerified, Fault::OwnersOnly, Fault::NotFound])
}

pub(crate) fn cancel() -> Route<App> {
    Route::post("/api/auth/organization/cancel-invitation", KeyOrSession, Which::read, withdraw)
        .summary("Cancels an invitation, which can then no longer be accepted. Owners only.")
        .description("Canceling an invitation again succeeds.")
        .faults(&[Fault::EmailNotVerified, Fault::OwnersOnly, Fault::NotFound, Fault::Conflict(Reason::InvitationUsed)])
}

struct New {
    email: Email,
    role: Role,
    organization: Option<TenantId>,
}

impl New {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let email =
            fields.about("The email address to invite. It must not have an account.").text("email", Email::parse);
        let role = fields
            .about(
                "The role that the new member gets. Inviting an `owner` requires a session; an API key cannot do so. A list \
                 with one role is also accepted.",
            )
            .text_or_list_of_one("role", parse_role);
        let organization = fields
            .about("The id of the organization, which must be the caller's. The default is the caller's organization.")
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
        Ok(Self {
            invitation: fields
                .about("The id of the invitation to cancel.")
                .text("invitationId", InvitationId::parse)?,
        })
    }
}

/// An invitation.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "Invitation")]
pub(crate) struct View {
    /// The id of the invitation.
    id: InvitationId,
    /// The invited email address.
    email: Email,
    /// The role that the new member gets.
    role: Role,
    /// The id of the organization.
    organization_id: TenantId,
    /// The id of the user who sent the invitation.
    inviter_id: UserId,
    /// The state of the invitation. An expired invitation stays `pending`; an invitation that was replaced by a newer
    /// one is `canceled`.
    status: InvitationStatus,
    /// When the invitation expires, 7 days after it was sent.
    expires_at: Timestamp,
    /// When the invitation was sent.
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
