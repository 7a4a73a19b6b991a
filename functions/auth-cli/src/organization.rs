//! The caller's organization, and inviting into it.

use common::{
    email::Email,
    error::{Error, Refusal, Result},
    http::{Call, Page, Reply},
    id::{InvitationId, TenantId},
    mail::invitation_mail,
    name::Slug,
    timestamp::Timestamp,
    users::Role,
};
use serde_json::json;

use crate::{App, user};

/// `GET /api/auth/organization/list`: the caller's organization; a user has exactly one.
pub(crate) async fn list(app: &App, call: &Call) -> Result<Reply> {
    let user = user(app, call).await?;
    let organization = app.organizations.get(&user.organization).await?;
    Ok(Reply::Json(json!([{
        "id": organization.id,
        "name": organization.name,
        "slug": organization.slug,
        "createdAt": organization.created_at.to_string(),
    }])))
}

/// `POST /api/auth/organization/invite-member`: invites an address that has no account yet. Only for owners, and
/// only with a verified email: else anyone could have us send mail to anyone.
pub(crate) async fn invite(app: &App, call: &Call) -> Result<Reply> {
    let inviter = user(app, call).await?;
    let (email, role, organization) = call.input(|fields| {
        let email = fields.text("email", Email::parse);
        let role = fields.text("role", Role::parse);
        let organization = fields.text("organizationId", TenantId::parse);
        Ok((email?, role?, organization?))
    })?;
    if organization != inviter.organization {
        return Err(Error::NotFound("Organization not found"));
    }
    if inviter.role != Role::Owner {
        return Err(Error::Forbidden(Refusal::OwnersOnly));
    }
    if !inviter.email_verified {
        return Err(Error::Forbidden(Refusal::EmailNotVerified));
    }
    let invited = app.invitations.invite(&inviter, &email, role, Timestamp::now()).await?;
    let organization = app.organizations.get(&inviter.organization).await?;
    let mail = invitation_mail(&call.base, &inviter.name, &organization, &invited.invitation);
    app.mailer.send(&email, mail, invited.invitation.id).await;
    Ok(Reply::Json(json!({
        "id": invited.invitation.id,
        "email": email,
        "role": role.as_str(),
        "organizationId": organization.id,
        "status": "pending",
        "expiresAt": invited.expires_at.to_string(),
    })))
}

/// `GET /api/auth/organization/invitation`: the link in the mail. A page that says how to accept; opening it
/// changes nothing, since mail programs open links on their own.
pub(crate) async fn show_invitation(app: &App, call: &Call) -> Result<Reply> {
    let id = call.query("id").and_then(|text| InvitationId::parse(&text).ok());
    let slug = call.query("slug").and_then(|text| Slug::parse(&text).ok());
    let pending = match (id, slug) {
        (Some(id), Some(slug)) => match app.invitations.pending(id, &slug, Timestamp::now()).await {
            Ok(invitation) => Some((invitation.id, slug)),
            Err(Error::NotFound(_) | Error::Conflict(_)) => None,
            Err(error) => return Err(error),
        },
        _ => None,
    };
    Ok(Reply::Page(match pending {
        Some((id, slug)) => Page {
            good: true,
            title: "You are invited",
            text:
                "Accept with the command-line client. It asks for your name and a password, and creates your account:"
                    .into(),
            command: Some(format!("auth accept-invite {slug} {id}")),
            form: None,
        },
        None => Page {
            good: false,
            title: "This invitation does not work",
            text: "It may have expired, been accepted, or been replaced by a newer one. Ask for another.".into(),
            command: None,
            form: None,
        },
    }))
}
