//! Invitations to the caller's own address, which move their account to another organization. All routes require a
//! session: a leaked key must not be able to move its user.

use std::sync::Arc;

use api::{
    Call as _,
    team::{AcceptInvitation, Accepted, Declined, ReceivedInvitation, ReceivedInvitations, RejectInvitation},
};
use common::{
    accounts::{
        email::EmailAddress,
        invitations::{InvitationStatus, Invited},
        members::MemberIdOrEmail,
        organizations::Organization,
        users::Role,
    },
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{Call, DeclaredError, Fields, Reason, Rejected, Route, Session, SignedIn},
    id::{InvitationId, TenantId, UserId},
    name::{Name, Slug},
    presentation::invitation_link,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{app::App, invitation::shown};

pub(crate) fn get() -> Route<App> {
    Route::get("/api/auth/organization/get-invitation", Session, |_, fields| IdInput::read(fields, "id"), read)
        .summary("Returns a pending invitation to the caller's address, with its organization and inviter.")
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::NotTheRecipient,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::InvitationExpired),
            DeclaredError::Conflict(Reason::InvitationUsed),
        ])
}

pub(crate) fn list() -> Route<App> {
    Route::get(ReceivedInvitations::PATH, Session, |_, fields| fields.refuse(&["email"]), received)
        .summary("Lists the invitations to the caller's address that can be accepted, newest first.")
        .description("A request with `email` is rejected with a 400, because the address is always the caller's.")
        .errors(&[DeclaredError::EmailNotVerified])
}

pub(crate) fn accept() -> Route<App> {
    Route::post(AcceptInvitation::PATH, Session, Acceptance::read, join)
        .records(&[Action::MemberJoined, Action::MemberLeft, Action::OrganizationDeleted])
        .summary(
            "Accepts an invitation to the caller's address, which moves their account to the inviting organization. \
             Sessions stay valid, but personal API keys stop working.",
        )
        .description(
            "A user belongs to exactly one organization, so accepting means leaving the current one. The current \
             organization keeps its endpoints, and its only owner must first make another member an owner. If the \
             caller is its last member, the organization is deleted with all its data, which requires \
             `deleteOrganization`. Accepting the same invitation again succeeds without further effect. People without \
             an account accept with `/v1/auth/acceptInviteAndSignup`.",
        )
        .errors(&invitation_link::ACCEPTING)
}

pub(crate) fn reject() -> Route<App> {
    Route::post(
        RejectInvitation::PATH,
        Session,
        |_, fields| IdInput::read(fields, RejectInvitation::NAMES.invitation_id),
        decline,
    )
    .records(&[Action::InvitationRejected])
    .summary("Declines an invitation to the caller's address, which can then no longer be accepted.")
    .description("Declining an invitation again succeeds.")
    .errors(&[
        DeclaredError::EmailNotVerified,
        DeclaredError::NotTheRecipient,
        DeclaredError::NotFound,
        DeclaredError::Conflict(Reason::InvitationUsed),
    ])
}

struct IdInput {
    invitation: InvitationId,
}

impl IdInput {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Self, Rejected> {
        Ok(Self {
            invitation: fields
                .about("The id of the invitation, from the link in the email.")
                .text(name, InvitationId::parse)?,
        })
    }
}

struct Acceptance {
    invitation: InvitationId,
    may_end: bool,
}

impl Acceptance {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let which = IdInput::read(fields, AcceptInvitation::NAMES.invitation_id);
        let may_end = invitation_link::may_end(fields);
        Ok(Self { invitation: which?.invitation, may_end: may_end? })
    }
}

/// An invitation sent to the caller's address, with its organization and inviter.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
struct Details {
    /// The id of the invitation.
    id: InvitationId,
    /// The invited email address, which is the caller's.
    email: EmailAddress,
    /// The caller's role after accepting.
    role: Role,
    /// The id of the organization.
    organization_id: TenantId,
    /// The name of the organization.
    organization_name: Name,
    /// The slug of the organization.
    organization_slug: Slug,
    /// The id of the user who sent the invitation.
    inviter_id: UserId,
    /// The address of the user who sent the invitation; `null` if that user has left the organization.
    inviter_email: Option<EmailAddress>,
    /// The state of the invitation, which is `pending`.
    status: InvitationStatus,
    /// When the invitation expires, 7 days after it was sent.
    expires_at: Timestamp,
    /// When the invitation was sent.
    created_at: Timestamp,
}

fn shown_to_recipient(invited: Invited, organization: Organization) -> ReceivedInvitation {
    let Invited { invitation, status, expires_at, created_at } = invited;
    ReceivedInvitation {
        id: invitation.id.into(),
        email: invitation.email.into(),
        role: invitation.role.into(),
        organization_id: organization.id.into(),
        organization_name: organization.name.into(),
        organization_slug: organization.slug.into(),
        inviter_id: invitation.inviter.into(),
        status: status.into(),
        expires_at: expires_at.into(),
        created_at: created_at.into(),
    }
}

async fn read(app: Arc<App>, call: Call<SignedIn>, input: IdInput) -> Result<Details> {
    let received = app.invitations.received(&call.caller.user, input.invitation).await?;
    received.check_open(Timestamp::now())?;
    let Invited { invitation, .. } = &received.invited;
    let organization = app.organizations.find(&invitation.organization).await?;
    let organization = organization.ok_or(Error::NotFound("Invitation not found"))?;
    let inviter = app.members.find(&invitation.organization, &MemberIdOrEmail::Id(invitation.inviter)).await;
    let inviter_email = match inviter {
        Ok(member) => Some(member.user.email),
        Err(Error::NotFound(_)) => None,
        Err(error) => return Err(error),
    };
    let Invited { invitation, status, expires_at, created_at } = received.invited;
    Ok(Details {
        id: invitation.id,
        email: invitation.email,
        role: invitation.role,
        organization_id: organization.id,
        organization_name: organization.name,
        organization_slug: organization.slug,
        inviter_id: invitation.inviter,
        inviter_email,
        status,
        expires_at,
        created_at,
    })
}

async fn received(app: Arc<App>, call: Call<SignedIn>, (): ()) -> Result<Vec<ReceivedInvitation>> {
    let user = &call.caller.user;
    user.check_verified()?;
    let mut received = app.invitations.received_at(&user.email, &app.organizations, Timestamp::now()).await?;
    // The user may have been invited twice, and have joined with the other invitation.
    received.retain(|(_, organization)| organization.id != user.organization);
    Ok(received.into_iter().map(|(invited, organization)| shown_to_recipient(invited, organization)).collect())
}

async fn join(app: Arc<App>, call: Call<SignedIn, Recorder>, input: Acceptance) -> Result<Accepted> {
    let (user, now) = (&call.caller.user, Timestamp::now());
    let moved = app
        .moving
        .accept(&call.recorder, user, input.invitation, input.may_end, &call.device(), &call.base, now)
        .await?;
    Ok(Accepted { invitation: shown(moved.invited), member: moved.member.into() })
}

async fn decline(app: Arc<App>, call: Call<SignedIn, Recorder>, input: IdInput) -> Result<Declined> {
    let invited = app.invitations.reject(&call.recorder, &call.caller.user, input.invitation).await?;
    Ok(Declined { invitation: shown(invited), member: None })
}
