//! Shows an invitation before it is accepted, for a site with its own invitation page.

use std::sync::Arc;

use common::{
    accounts::{
        email::EmailAddress,
        invitations::{InvitationStatus, Invited, links::InvitationLinks},
        rate_limits::{INVITE_DETAILS_CLIENT, RateLimits},
    },
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, DeclaredError, Function, NoCallers, Public, Route},
    id::InvitationId,
    name::{Name, Slug},
    presentation::invitation_link::{self, InvitationLink},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        rate_limits: RateLimits,
        links: InvitationLinks,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App, NoCallers> {
    Route::post("/v1/auth/inviteDetails", Public, |_, fields| invitation_link::read(fields), handle)
        .summary("Returns an invitation, for a page that asks the recipient to accept it.")
        .description(
            "The link in the invitation email contains both fields. A wrong slug is rejected like an unknown id. A user \
             with an account accepts with `auth/acceptInviteForCurrentUser`, others with `auth/acceptInviteAndSignup`.",
        )
        .errors(&[DeclaredError::NotFound, DeclaredError::TooMany])
}

/// The invitation and its organization.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// The id of the invitation.
    invitation_id: InvitationId,
    /// The invited email address.
    email: EmailAddress,
    /// The name of the organization.
    organization_name: Name,
    /// The slug of the organization.
    organization_slug: Slug,
    /// The state of the invitation. Only a `pending` one can be accepted, and only until `expiresAt`.
    status: InvitationStatus,
    /// When the invitation expires, 7 days after it was sent.
    expires_at: Timestamp,
}

async fn handle(app: Arc<App>, call: Call<()>, link: InvitationLink) -> Result<Output> {
    app.rate_limits.count(INVITE_DETAILS_CLIENT, &call.client.to_string(), Timestamp::now()).await?;
    let (invited, organization) = app.links.find(link.invitation, &link.slug).await?;
    let Invited { invitation, status, expires_at, .. } = invited;
    Ok(Output {
        invitation_id: invitation.id,
        email: invitation.email,
        organization_name: organization.name,
        organization_slug: organization.slug,
        status,
        expires_at,
    })
}
