//! Invitations into the caller's organization.

use std::sync::Arc;

use common::{
    accounts::{
        email::Email,
        invitations::{InvitationStatus, Invited},
        mail::invitation_mail,
        users::Role,
    },
    error::{Error, Result},
    http::{self, Call, Caller, Fault, Fields, KeyOrSession, Public, Rejected, Route},
    id::{InvitationId, TenantId, UserId},
    name::Slug,
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

/// Mail programs open links on their own, so the page only explains how to accept.
pub(crate) fn show() -> Route<App> {
    Route::get("/api/auth/organization/invitation", Public, Link::read, explain)
        .summary("The link in the invitation mail: a page that says how to accept; it changes nothing.")
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

/// The parameters of a link. Any text is accepted here, because a bad link should get a page and not a list of issues.
struct Link {
    id: Option<String>,
    slug: Option<String>,
}

impl Link {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields.optional_text("id", |text| Ok(text.to_owned()));
        let slug = fields.optional_text("slug", |text| Ok(text.to_owned()));
        Ok(Self { id: id?, slug: slug? })
    }

    fn parse(&self) -> Option<(InvitationId, Slug)> {
        Some((InvitationId::parse(self.id.as_deref()?).ok()?, Slug::parse(self.slug.as_deref()?).ok()?))
    }
}

async fn explain(app: Arc<App>, _: Call<()>, link: Link) -> Result<http::Page> {
    let Some((id, slug)) = link.parse() else { return Ok(NO_INVITATION) };
    match app.invitations.pending(id, &slug, Timestamp::now()).await {
        Ok(_) => Ok(http::Page {
            good: true,
            title: "You are invited",
            text:
                "Accept with the command-line client. It asks for your name and a password, and creates your account:"
                    .into(),
            command: Some(format!("auth accept-invite {slug} {id}")),
            form: None,
        }),
        Err(Error::NotFound(_) | Error::Conflict(_)) => Ok(NO_INVITATION),
        Err(error) => Err(error),
    }
}

const NO_INVITATION: http::Page = http::Page {
    good: false,
    title: "This invitation does not work",
    text: std::borrow::Cow::Borrowed(
        "It may have expired, been accepted or cancelled, or been replaced by a newer one. Ask for another.",
    ),
    command: None,
    form: None,
};

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
