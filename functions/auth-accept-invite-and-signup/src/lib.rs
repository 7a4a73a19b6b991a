//! Sign-up by accepting an invitation to an organization.

use std::sync::Arc;

use common::{
    accounts::{invitations::Invitations, mail::Mailer, password::Hasher, rate_limits::RateLimits, signup::Invitee},
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, DeclaredError, Function, NoCallers, Public, Reason, Route, WithCookies},
    presentation::sign_up::{self, SignedUp},
    timestamp::Timestamp,
};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        rate_limits: RateLimits,
        invitations: Invitations,
        hasher: Hasher = Hasher::from_env,
        mailer: Mailer,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App, NoCallers> {
    Route::post("/v1/auth/acceptInviteAndSignup", Public, |_, fields| sign_up::invitee(fields), handle)
        .records(&[Action::MemberJoined, Action::SessionCreated])
        .summary("Creates a user in the organization that invited them.")
        .description(
            "An invitation can be accepted once, within 7 days. The response contains the session and sets its cookie.",
        )
        .errors(&[
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::InvitationExpired),
            DeclaredError::Conflict(Reason::InvitationUsed),
            DeclaredError::Conflict(Reason::EmailTaken),
        ])
}

async fn handle(app: Arc<App>, call: Call<(), Recorder>, invitee: Invitee) -> Result<WithCookies<SignedUp>> {
    let slug = invitee.slug.clone();
    let new = app.invitations.join(&call.recorder, invitee, call.device(), &app.hasher).await?;
    new.welcome(&app.rate_limits, &app.mailer, &call.base, Timestamp::now()).await;
    Ok(SignedUp::of(new, slug, &call.base))
}
