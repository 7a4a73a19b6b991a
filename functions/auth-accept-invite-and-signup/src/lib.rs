//! Signing up by accepting an invitation into an organization.

use std::sync::Arc;

use common::{
    accounts::{
        invitations::Invitations,
        mail::Mailer,
        password::{Hasher, Password},
        signup::{Person, new_user},
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{
        Call, Fault, Fields, Function, Origins, Public, Rejected, Route, Wire, WithCookies,
        signed_up::{SignedUp, welcome},
    },
    id::InvitationId,
    name::{Name, Slug},
    timestamp::Timestamp,
};

/// The dependencies of the route.
pub struct App {
    invitations: Invitations,
    hasher: Hasher,
    mailer: Mailer,
}

/// Builds the function with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        invitations: Invitations::from_env(env, &aws)?,
        hasher: Hasher::from_env(env)?,
        mailer: Mailer::from_env(env, &aws)?,
    };
    Ok(Function::new(Wire::Envelope, app, Origins::from_env(env)?, [route()]))
}

fn route() -> Route<App> {
    Route::post("/v1/auth/acceptInviteAndSignup", Public, Input::read, handle)
        .summary("Creates a user in the organization that invited them.")
        .faults(&[
            Fault::NotFound,
            Fault::Conflict("invitation_expired"),
            Fault::Conflict("invitation_used"),
            Fault::Conflict("email_taken"),
        ])
}

/// The invitation, and the person who accepts it.
pub struct Input {
    invitation_id: InvitationId,
    tenant_slug: Slug,
    name: Name,
    password: Password,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let invitation_id = fields.text("invitationId", InvitationId::parse);
        let tenant_slug = fields.text("tenantSlug", Slug::parse);
        let name = fields.text("name", Name::parse);
        let password = fields.text("password", Password::parse);
        Ok(Self { invitation_id: invitation_id?, tenant_slug: tenant_slug?, name: name?, password: password? })
    }
}

/// Creates the user and sends a verification mail: the inviter knows the invitation's id too, so presenting it does not
/// prove access to the mailbox.
async fn handle(app: Arc<App>, call: Call<()>, input: Input) -> Result<WithCookies<SignedUp>> {
    let now = Timestamp::now();
    let invitation = app.invitations.pending(input.invitation_id, &input.tenant_slug, now).await?;
    let password = app.hasher.hash(input.password).await?;
    let person = Person { name: input.name, email: invitation.email.clone(), password, device: call.device() };
    let new = new_user(person, invitation.organization.clone(), invitation.role, now)?;
    app.invitations.accept(&invitation, &new, now).await?;
    Ok(welcome(&app.mailer, &call.base, new, input.tenant_slug).await)
}
