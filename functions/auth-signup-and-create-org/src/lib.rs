//! Sign-up: creates a user and an organization that they own, in one call.

use std::sync::Arc;

use common::{
    accounts::{
        mail::Mailer,
        password::Hasher,
        rate_limits::RateLimits,
        signup::{Accounts, Founder},
    },
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
        accounts: Accounts,
        hasher: Hasher = Hasher::from_env,
        mailer: Mailer,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App, NoCallers> {
    Route::post("/v1/auth/signupAndCreateOrg", Public, |_, fields| sign_up::founder(fields), handle)
        .records(&[Action::OrganizationCreated, Action::SessionCreated])
        .summary("Creates a user and an organization that they own.")
        .description(
            "The user becomes an owner and gets a verification email. The response contains the session and sets its \
             cookie.",
        )
        .errors(&[DeclaredError::Conflict(Reason::SlugTaken), DeclaredError::Conflict(Reason::EmailTaken)])
}

async fn handle(app: Arc<App>, call: Call<(), Recorder>, founder: Founder) -> Result<WithCookies<SignedUp>> {
    let slug = founder.organization_slug.clone();
    let new = app.accounts.found(&call.recorder, founder, call.device(), &app.hasher).await?;
    new.welcome(&app.rate_limits, &app.mailer, &call.base, Timestamp::now()).await;
    Ok(SignedUp::of(new, slug, &call.base))
}
