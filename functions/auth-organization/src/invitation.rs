//! Invitations to the caller's organization.

use std::sync::Arc;

use api::{
    Call as _,
    team::{CancelInvitation, Invitation, Invitations, Invite},
};
use common::{
    accounts::{
        email::EmailAddress,
        invitations::Invited,
        permissions::Scope,
        users::{Role, parse_role},
    },
    audit::{Action, Recorder},
    error::Result,
    http::{Call, Caller, DeclaredError, Fields, KeyOrSession, Reason, Rejected, Route},
    id::{InvitationId, TenantId},
    paging::Paging,
};

use crate::{
    app::App,
    rights::{OrganizationSelector, check_may_give, check_verified_owner},
};

/// Requires an owner with a verified email: otherwise, anyone could make the service email any address.
pub(crate) fn invite() -> Route<App> {
    Route::post(Invite::PATH, KeyOrSession, CreateInput::read, send)
        .records(&[Action::InvitationCreated, Action::InvitationCanceled])
        .scope(Scope::MembersWrite)
        .summary(
            "Invites an email address, with or without an account. Owners only; inviting another owner requires a \
             session.",
        )
        .description(
            "A new invitation cancels an earlier one to the same address. An invitation stays valid even if its sender \
             is no longer an owner or has left the organization; cancel it to prevent that. The response does not \
             reveal whether the address has an account in another organization.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::OwnersOnly,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::AlreadyAMember),
            DeclaredError::Conflict(Reason::EmailSuppressed),
            DeclaredError::TooMany,
        ])
}

/// Requires an owner, or a key that may invite, because an invitation's id is enough to sign up.
pub(crate) fn list() -> Route<App> {
    Route::get(Invitations::PATH, KeyOrSession, ListInput::read, invitations)
        .scope(Scope::MembersWrite)
        .summary("Lists the invitations, newest first. A new invitation may take a moment to appear. Owners only.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::OwnersOnly, DeclaredError::NotFound])
}

pub(crate) fn cancel() -> Route<App> {
    Route::post(CancelInvitation::PATH, KeyOrSession, CancelInput::read, withdraw)
        .records(&[Action::InvitationCanceled])
        .scope(Scope::MembersWrite)
        .summary("Cancels an invitation, which can then no longer be accepted. Owners only.")
        .description("Canceling an invitation again succeeds.")
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::OwnersOnly,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::InvitationUsed),
        ])
}

struct CreateInput {
    email: EmailAddress,
    role: Role,
    organization: Option<TenantId>,
}

impl CreateInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let email = fields
            .about("The email address to invite. It must not belong to a member.")
            .text(Invite::NAMES.email, EmailAddress::parse);
        let role = fields
            .about(
                "The role of the new member. Inviting an `owner` requires a session; API keys cannot do this. A list \
                 with one role is also accepted.",
            )
            .text_or_list_of_one(Invite::NAMES.role, parse_role);
        let organization = fields
            .about("The organization's id. Only the caller's organization is accepted, and it is the default.")
            .optional_text(Invite::NAMES.organization_id, TenantId::parse);
        fields.refuse(&["teamId"])?;
        Ok(Self { email: email?, role: role?, organization: organization? })
    }
}

struct ListInput {
    organization: OrganizationSelector,
    paging: Paging,
}

impl ListInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = OrganizationSelector::read(fields);
        let paging = Paging::read(fields);
        Ok(Self { organization: organization?, paging: paging? })
    }
}

struct CancelInput {
    invitation: InvitationId,
}

impl CancelInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            invitation: fields
                .about("The id of the invitation to cancel.")
                .text(CancelInvitation::NAMES.invitation_id, InvitationId::parse)?,
        })
    }
}

async fn send(app: Arc<App>, call: Call<Caller, Recorder>, input: CreateInput) -> Result<Invitation> {
    let (inviter, CreateInput { email, role, organization }) = (call.caller.user()?, input);
    check_verified_owner(inviter, organization.as_ref())?;
    check_may_give(&call.caller, role)?;
    Ok(shown(app.inviting.invite(&call.recorder, inviter, &email, role, &call.base).await?))
}

async fn invitations(app: Arc<App>, call: Call<Caller>, input: ListInput) -> Result<Vec<Invitation>> {
    let owner = call.caller.user()?;
    input.organization.check(&app, &owner.organization).await?;
    check_verified_owner(owner, None)?;
    let invited = app.invitations.list(&owner.organization, input.paging, |one| may_see(&call.caller, one)).await?;
    Ok(invited.into_iter().map(shown).collect())
}

async fn withdraw(app: Arc<App>, call: Call<Caller, Recorder>, input: CancelInput) -> Result<Invitation> {
    let owner = call.caller.user()?;
    check_verified_owner(owner, None)?;
    Ok(shown(app.invitations.cancel(&call.recorder, owner, input.invitation).await?))
}

/// Whether a caller may see an invitation. Its id is enough to sign up, so a key sees only the invitations that it could
/// have sent.
pub(crate) fn may_see(caller: &Caller, invited: &Invited) -> bool {
    caller.is_session() || invited.invitation.role == Role::Member
}

pub(crate) fn shown(invited: Invited) -> Invitation {
    let Invited { invitation, status, expires_at, created_at } = invited;
    Invitation {
        id: invitation.id.into(),
        email: invitation.email.into(),
        role: invitation.role.into(),
        organization_id: invitation.organization.into(),
        inviter_id: invitation.inviter.into(),
        status: status.into(),
        expires_at: expires_at.into(),
        created_at: created_at.into(),
    }
}
