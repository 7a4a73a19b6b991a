//! Sign-up: the fields and the response that the routes and the pages share.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    accounts::{
        email::EmailAddress,
        password::Password,
        signup::{Founder, Invitee, NewUser},
        token::Token,
    },
    base_url::BaseUrl,
    http::{Fields, Rejected, WithCookies, cookies::session_cookie},
    id::{TenantId, UserId},
    name::{Name, Slug},
    presentation::invitation_link::{self, InvitationLink},
};

/// Reads the founder of an organization.
pub fn founder(fields: &mut Fields) -> Result<Founder, Rejected> {
    let name = fields.about("Your name, shown to members of the organization and in emails.").text("name", Name::parse);
    let email = fields
        .about("The email address for signing in. The service sends a verification email to this address.")
        .text("email", EmailAddress::parse);
    let password = fields.about("The password for signing in.").text("password", Password::parse);
    let organization_name = fields
        .about("The name of the organization, shown to its members and in emails.")
        .example("Analytical Engines")
        .text("organizationName", Name::parse);
    let organization_slug = fields
        .about("A short unique name for the organization, for use in links.")
        .text("organizationSlug", Slug::parse);
    let debug_notification_email = fields
        .about(
            "The address for emails about failing endpoints and failed jobs. You can change it with `tenant/settings`. \
             Unless it is your own, its owner has to agree before emails contain details of jobs.",
        )
        .text("debugNotificationEmail", EmailAddress::parse);
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
pub fn invitee(fields: &mut Fields) -> Result<Invitee, Rejected> {
    let link = invitation_link::read(fields);
    let name = fields.about("Your name, shown to members of the organization and in emails.").text("name", Name::parse);
    let password = fields.about("The password for signing in.").text("password", Password::parse);
    let token = fields
        .about(
            "The token from the same link, which verifies your email address. Without a valid token, you get a \
             verification email.",
        )
        .example("_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs")
        .optional_text("token", |text| Ok(text.to_owned()));
    let token = token?.and_then(|text| Token::parse(&text));
    let InvitationLink { invitation, slug } = link?;
    Ok(Invitee { invitation, slug, name: name?, password: password?, token })
}

/// The response to a sign-up.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedUp {
    /// The id of the new user.
    user_id: UserId,
    /// The user's email address.
    email: EmailAddress,
    /// The id of the organization. Producers put it into job events as `tenant_id`.
    organization_id: TenantId,
    /// The slug of the organization.
    organization_slug: Slug,
    /// The secret token of the new session.
    #[schemars(extend("examples" = ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"]))]
    session_token: String,
    /// The `Set-Cookie` values of the session, which are also sent as response headers.
    #[schemars(extend("examples" = [["__Host-session_token=_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000; Secure"]]))]
    set_cookie: Vec<String>,
    /// Whether the email address is verified, which it is after a sign-up with an invitation's `token`.
    email_verified: bool,
}

impl SignedUp {
    /// The response for the new account, with its session cookie.
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
