//! Requests an email with a link to reset a forgotten password. The link opens a page of `console`.

use std::sync::Arc;

use common::{
    accounts::{email::EmailAddress, password_reset::PasswordResets},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, DeclaredError, Fields, Function, NoCallers, Public, Rejected, Route},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        resets: PasswordResets,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App, NoCallers> {
    Route::post("/v1/auth/requestPasswordReset", Public, Input::read, handle)
        .summary(
            "Sends an email with a link to reset the password. The response does not reveal whether the address has \
             an account.",
        )
        .description(
            "The link leads to `/reset-password`. Its token works once, within an hour, and stops working when the \
             user uses another reset token.",
        )
        .errors(&[DeclaredError::TooMany])
}

/// The address of the account.
pub struct Input {
    email: EmailAddress,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            email: fields
                .about(
                    "The address of the account. If it has no account, the response is the same, and no email is sent.",
                )
                .text("email", EmailAddress::parse)?,
        })
    }
}

/// The result, which is the same for every address.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// Always `sent`, even if the address has no account.
    status: Status,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Status {
    Sent,
}

async fn handle(app: Arc<App>, call: Call<()>, input: Input) -> Result<Output> {
    app.resets.request(&input.email, call.client, &call.base, Timestamp::now()).await?;
    Ok(Output { status: Status::Sent })
}
