//! Accepts an invitation with the account of the signed-in user, for a site with its own invitation page.

use std::sync::Arc;

use common::{
    accounts::invitations::links::InvitationLinks,
    application::moves::Moving,
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Fields, Function, Rejected, Route, Session, SignedIn},
    id::TenantId,
    name::{Name, Slug},
    presentation::invitation_link::{self, InvitationLink},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        links: InvitationLinks,
        moving: Moving,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post("/v1/auth/acceptInviteForCurrentUser", Session, Input::read, handle)
        .records(&[Action::MemberJoined, Action::MemberLeft, Action::OrganizationDeleted])
        .summary("Accepts an invitation to the caller's address, with the same effect as `organization/accept-invitation`.")
        .description(
            "A user belongs to exactly one organization, so accepting means leaving the current one. The user's sessions \
             stay valid, but their personal API keys stop working. A last member's organization is deleted, which requires \
             `deleteOrganization`. Accepting the same invitation again succeeds without further effect.",
        )
        .errors(&invitation_link::ACCEPTING)
}

/// The invitation, and whether the caller's organization may be deleted.
pub struct Input {
    link: InvitationLink,
    may_end: bool,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let link = invitation_link::read(fields);
        let may_end = invitation_link::may_end(fields);
        Ok(Self { link: link?, may_end: may_end? })
    }
}

/// The caller's new organization.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// The id of the organization. Producers put it into job events as `tenant_id`.
    organization_id: TenantId,
    /// The name of the organization.
    organization_name: Name,
    /// The slug of the organization.
    organization_slug: Slug,
}

async fn handle(app: Arc<App>, call: Call<SignedIn, Recorder>, Input { link, may_end }: Input) -> Result<Output> {
    let user = &call.caller.user;
    user.check_verified()?;
    // The organization is read before the move: a failure afterwards would look as if the user had not moved.
    let (_, organization) = app.links.find(link.invitation, &link.slug).await?;
    app.moving
        .accept(&call.recorder, user, link.invitation, may_end, &call.device(), &call.base, Timestamp::now())
        .await?;
    Ok(Output {
        organization_id: organization.id,
        organization_name: organization.name,
        organization_slug: organization.slug,
    })
}
