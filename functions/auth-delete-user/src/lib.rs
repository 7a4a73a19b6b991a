//! Deletes the caller's account and, with the last account, the organization.

use std::sync::Arc;

use common::{
    accounts::{password::Guess, sign_in::SignIns},
    application::deletion::Deletions,
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{
        BodyFormat, Call, DeclaredError, Fields, Function, Reason, Rejected, Route, Session, SignedIn, WithCookies,
        cookies::cleared_cookie,
    },
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        deletions: Deletions,
        sign_ins: SignIns,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Plain, env, [route()])
}

fn route() -> Route<App> {
    Route::post("/api/auth/delete-user", Session, Input::read, handle)
        .records(&[Action::MemberLeft, Action::OrganizationDeleted])
        .summary(
            "Deletes the caller's account and immediately ends its sessions and personal keys. If the caller is the last \
             member, their organization and all its data are deleted, too.",
        )
        .description(
            "The deletion cannot be undone. A deleted organization's endpoints no longer get events, the email address \
             and the slug can be used again immediately, and all other data is deleted within minutes. If other members \
             remain, the only owner must first make one of them an owner. Stop an organization's jobs before you delete \
             it: their events no longer reach endpoints, but are still sent to the jobs' own callbacks. `callbackURL` \
             and `token` are ignored. A client that does not get a response can retry: a 401 then means that the \
             account was deleted.",
        )
        .errors(&[DeclaredError::InvalidPassword, DeclaredError::TooMany, DeclaredError::Conflict(Reason::LastOwner)])
}

/// The caller's password, which confirms the deletion.
pub struct Input {
    password: Guess,
}

impl Input {
    /// Ignores the `callbackURL` and `token` that Better Auth's clients may send: the password confirms the deletion.
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            password: fields
                .about("The current password, to confirm the deletion.")
                .text("password", |text| Ok(Guess::new(text)))?,
        })
    }
}

/// The result, in Better Auth's format.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// Always `true`; failures are returned as errors.
    success: bool,
    /// A human-readable summary of the result.
    #[schemars(extend("examples" = ["User deleted"]))]
    message: &'static str,
}

async fn handle(app: Arc<App>, call: Call<SignedIn, Recorder>, input: Input) -> Result<WithCookies<Output>> {
    app.deletions.delete(&call.recorder, &call.caller.user, &app.sign_ins, input.password, Timestamp::now()).await?;
    let body = Output { success: true, message: "User deleted" };
    Ok(WithCookies { body, cookies: vec![cleared_cookie(&call.base)] })
}
