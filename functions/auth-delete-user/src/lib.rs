//! Deleting one's account, and with the last one the organization.

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
            "Deletes the caller's account; sessions and keys end at once. The last member takes the organization along, \
             with all that it has.",
        )
        .faults(&[Fault::InvalidPassword, Fault::TooMany, Fault::Conflict("last_owner")])
}

/// The password, once more.
pub struct Input {
    password: Guess,
}

impl Input {
    /// Better Auth's clients may also send a `callbackURL` or a `token`, which are ignored: the password is what confirms.
    fn read(_: &Deletions, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            password: fields
                .about("The current password, to confirm the deletion.")
                .text("password", |text| Ok(Guess::new(text)))?,
        })
    }
}

/// What was done, as Better Auth says it.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// Always `true`: a refusal is an error.
    success: bool,
    /// What was done, for people.
    #[schemars(extend("examples" = ["User deleted"]))]
    message: &'static str,
}

async fn handle(deletions: Arc<Deletions>, call: Call<SignedIn>, input: Input) -> Result<WithCookies<Output>> {
    deletions.delete(&call.caller.user, input.password, Timestamp::now()).await?;
    let body = Output { success: true, message: "User deleted" };
    Ok(WithCookies { body, cookies: vec![cleared_cookie(&call.base)] })
}
