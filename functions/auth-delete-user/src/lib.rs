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
        .faults(&[Fault::InvalidPassword, Fault::TooMany, Fault::Conflict("last_owner")])
}

/// The caller's password, which confirms the deletion.
pub struct Input {
    password: Guess,
}

impl Input {
    /// Better Auth's clients may also send a `callbackURL` or a `token`, which are ignored: the password confirms.
    fn read(_: &Deletions, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { password: fields.text("password", |text| Ok(Guess::new(text)))? })
    }
}

/// What was done, as Better Auth says it.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    success: bool,
    message: &'static str,
}

async fn handle(deletions: Arc<Deletions>, call: Call<SignedIn>, input: Input) -> Result<WithCookies<Output>> {
    deletions.delete(&call.caller.user, input.password, Timestamp::now()).await?;
    let body = Output { success: true, message: "User deleted" };
    Ok(WithCookies { body, cookies: vec![cleared_cookie(&call.base)] })
}
