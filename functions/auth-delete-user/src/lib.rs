//! Deletes the caller's account, and with the last account the organization.

use std::sync::Arc;

use common::{
    accounts::password::{Guess, Hasher},
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{
        Call, Fault, Fields, Function, Rejected, Route, Session, SignedIn, Wire, WithCookies, cookies::cleared_cookie,
        deletion::Deletions,
    },
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let deletions = Deletions::from_env(env, &aws, Hasher::from_env(env)?)?;
    Function::new(Wire::Plain, env, &aws, deletions, [route()])
}

fn route() -> Route<Deletions> {
    Route::post("/api/auth/delete-user", Session, Input::read, handle)
        .summary(
            "Deletes the caller's account; sessions and keys end at once. With the last member, the organization is \
             deleted with all its data.",
        )
        .description(
            "It cannot be undone. Endpoints of a deleted organization get nothing from then on, and the address and \
             the slug are free at once; the rest is deleted within minutes. Where there are other members, the only \
             owner must make one of them an owner first. Stop the jobs of an organization before it goes: an event \
             that comes later goes to no endpoint, but a callback of its own is still called. `callbackURL` and \
             `token` are ignored. A client that gets no answer calls again: a 401 then means that the account is \
             deleted.",
        )
        .faults(&[Fault::InvalidPassword, Fault::TooMany, Fault::Conflict("last_owner")])
}

/// The caller's password, which confirms the deletion.
pub struct Input {
    password: Guess,
}

impl Input {
    /// Better Auth's clients may also send a `callbackURL` or a `token`, which are ignored: the password confirms.
    fn read(_: &Deletions, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            password: fields
                .about("The current password, to confirm the deletion.")
                .text("password", |text| Ok(Guess::new(text)))?,
        })
    }
}

/// The result, in the words of Better Auth.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// Always `true`: a refusal is an error.
    success: bool,
    /// The result, for people.
    #[schemars(extend("examples" = ["User deleted"]))]
    message: &'static str,
}

async fn handle(deletions: Arc<Deletions>, call: Call<SignedIn>, input: Input) -> Result<WithCookies<Output>> {
    deletions.delete(&call.caller.user, input.password, Timestamp::now()).await?;
    let body = Output { success: true, message: "User deleted" };
    Ok(WithCookies { body, cookies: vec![cleared_cookie(&call.base)] })
}
