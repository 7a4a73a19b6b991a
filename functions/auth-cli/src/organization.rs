//! The caller's organization, and invitations into it.

use std::sync::Arc;

use common::{
    accounts::{
        email::Email,
        mail::invitation_mail,
        users::{Role, User},
    },
    error::{Error, Refusal, Result},
    http::{Call, Caller, Fault, Fields, KeyOrSession, Page, Public, Rejected, Route},
    id::{InvitationId, TenantId},
    name::{Name, Slug},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::App;

pub(crate) fn list() -> Route<App> {
    Route::get("/api/auth/organization/list", KeyOrSession, |_, _| Ok(()), own)
        .summary("Returns the caller's organization; a user has exactly one.")
}

/// For owners with a verified email only: otherwise anybody could make us send mail to anybody.
pub(crate) fn invite() -> Route<App> {
    Route::post("/api/auth/organization/invite-member", KeyOrSession, Invite::read, send)
        .summary("Invites an address that has no account yet. Owners only.")
        .faults(&[
            Fault::EmailNotVerified,
            Fault::OwnersOnly,
            Fault::NotFound,
            Fault::Conflict("email_taken"),
            Fault::TooMany,
        ])
}

/// Mail programs open links on their own, so the page only explains how to accept.
pub(crate) fn show_invitation() -> Route<App> {
    Route::get("/api/auth/organization/invitation", Public, Link::read, show)
        .summary("The link in the invitation mail: a page that says how to accept; it changes nothing.")
}

/// An organization, as its members see it.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "Organization")]
struct View {
    id: TenantId,
    name: Name,
    slug: Slug,
    created_at: Timestamp,
}

async fn own(app: Arc<App>, call: Call<Caller>, (): ()) -> Result<[View; 1]> {
    let organization = app.organizations.get(&call.caller.user.organization).await?;
    Ok([View {
        id: organization.id,
        name: organization.name,
        slug: organization.slug,
        created_at: organization.created_at,
    }])
}

/// Checks that `organization` is that of `user`, if a request names one.
pub(crate) fn check(user: &User, organization: Option<&TenantId>) -> Result<()> {
    if organization.is_none_or(|organization| *organization == user.organization) {
        return Ok(());
    }
    Err(Error::NotFound("Organization not found"))
}

/// Checks that `user` may manage who belongs to `organization`: as an owner of it, with a verified email.
pub(crate) fn check_manages(user: &User, organization: Option<&TenantId>) -> Result<()> {
    check(user, organization)?;
    if user.role != Role::Owner {
        return Err(Error::Forbidden(Refusal::OwnersOnly));
    }
    if user.email_verified { Ok(()) } else { Err(Error::Forbidden(Refusal::EmailNotVerified)) }
}

struct Invite {
    email: Email,
    role: Role,
    organization: TenantId,
}

impl Invite {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let email = fields.text("email", Email::parse);
        let role = fields.text("role", Role::parse);
        let organization = fields.text("organizationId", TenantId::parse);
        Ok(Self { email: email?, role: role?, organization: organization? })
    }
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "Invitation")]
struct Invited {
    id: InvitationId,
    email: Email,
    role: Role,
    organization_id: TenantId,
    status: &'static str,
    expires_at: Timestamp,
}

async fn send(app: Arc<App>, call: Call<Caller>, input: Invite) -> Result<Invited> {
    let (inviter, Invite { email, role, organization }) = (&call.caller.user, input);
    check_manages(inviter, Some(&organization))?;
    let now = Timestamp::now();
    app.attempts.count_invitation(inviter.id, &email, now).await?;
    let invited = app.invitations.invite(inviter, &email, role, now).await?;
    let organization = app.organizations.get(&inviter.organization).await?;
    let mail = invitation_mail(&call.base, &inviter.name, &organization, &invited.invitation);
    app.mailer.send(&email, mail, invited.invitation.id).await;
    Ok(Invited {
        id: invited.invitation.id,
        email,
        role,
        organization_id: organization.id,
        status: "pending",
        expires_at: invited.expires_at,
    })
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

async fn show(app: Arc<App>, _: Call<()>, link: Link) -> Result<Page> {
    let Some((id, slug)) = link.parse() else { return Ok(NO_INVITATION) };
    match app.invitations.pending(id, &slug, Timestamp::now()).await {
        Ok(_) => Ok(Page {
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

const NO_INVITATION: Page = Page {
    good: false,
    title: "This invitation does not work",
    text: std::borrow::Cow::Borrowed(
        "It may have expired, been accepted, or been replaced by a newer one. Ask for another.",
    ),
    command: None,
    form: None,
};
