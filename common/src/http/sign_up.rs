//! Sign-up: the fields of both routes, and their answer.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    cookies::session_cookie,
    fields::{Fields, Rejected},
    reply::WithCookies,
};
use crate::{
    accounts::{
        email::Email,
        password::Password,
        signup::{Founder, Invitee, NewUser},
    },
    base_url::BaseUrl,
    id::{InvitationId, TenantId, UserId},
    name::{Name, Slug},
};

/// Reads the founder of an organization.
///
/// # Errors
/// A field has an issue.
pub fn founder(fields: &mut Fields) -> Result<Founder, Rejected> {
    let name = fields.text("name", Name::parse);
    let email = fields.text("email", Email::parse);
    let password = fields.text("password", Password::parse);
    let organization_name = fields.text("organizationName", Name::parse);
    let organization_slug = fields.text("organizationSlug", Slug::parse);
    let debug_notification_email = fields.text("debugNotificationEmail", Email::parse);
    Ok(Founder {
        name: name?,
        email: email?,
        password: password?,
        organization_name: organization_name?,
        organization_slug: organization_slug?,
        debug_notification_email: debug_notification_email?,
    })
}

/// Reads the invitee who accepts an invitation.
///
/// # Errors
/// A field has an issue.
pub fn invitee(fields: &mut Fields) -> Result<Invitee, Rejected> {
    let invitation = fields.text("invitationId", InvitationId::parse);
    let slug = fields.text("tenantSlug", Slug::parse);
    let name = fields.text("name", Name::parse);
    let password = fields.text("password", Password::parse);
    Ok(Invitee { invitation: invitation?, slug: slug?, name: name?, password: password? })
}

/// The answer to a sign-up.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedUp {
    user_id: UserId,
    email: Email,
    organization_id: TenantId,
    organization_slug: Slug,
    session_token: String,
    set_cookie: Vec<String>,
    email_verified: bool,
}

impl SignedUp {
    /// The answer for the account of `new`, with their session cookie.
    #[must_use]
    pub fn of(new: NewUser, organization_slug: Slug, base: &BaseUrl) -> WithCookies<Self> {
        let NewUser { user, session_token, .. } = new;
        let cookies = vec![session_cookie(base, &session_token)];
        let body = Self {
            set_cookie: cookies.clone(),
            session_token: session_token.reveal().to_owned(),
            user_id: user.id,
            email: user.email,
            organization_id: user.organization,
            organization_slug,
            email_verified: user.email_verified,
        };
        WithCookies { body, cookies }
    }
}
