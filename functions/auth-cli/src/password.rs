//! Resets forgotten passwords.

use std::sync::Arc;

use api::account::Status;
use common::{
    accounts::{email::EmailAddress, password::Password, token::Token},
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{Call, DeclaredError, Fields, Public, Rejected, Route},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;

pub(crate) fn request_reset() -> Route<App> {
    Route::post("/api/auth/request-password-reset", Public, EmailInput::read, request)
        .summary(
            "Sends an email with a link to reset the password. The response does not reveal whether the address has \
             an account.",
        )
        .description(
            "The link works for an hour, or until the password is reset. It leads to `/reset-password`, regardless of \
             `redirectTo`.",
        )
        .errors(&[DeclaredError::TooMany])
}

pub(crate) fn reset() -> Route<App> {
    Route::post("/api/auth/reset-password", Public, Reset::read, choose)
        .records(&[Action::PasswordReset, Action::SettingsChanged, Action::TwoFactorDisabled])
        .summary(
            "Sets a new password with the token from a reset email. The token works once. All the user's sessions end, \
             and their personal keys stop working.",
        )
        .description(
            "This also verifies the user's email. If the email was not verified before, the account's second factor is \
             removed. The user has to sign in afterward.",
        )
        .errors(&[DeclaredError::InvalidToken])
}

struct EmailInput {
    email: EmailAddress,
}

impl EmailInput {
    /// Ignores the `redirectTo` that Better Auth's clients send, because the link opens a page of this service.
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

struct Reset {
    token: Option<Token>,
    new: Password,
}

impl Reset {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let token = fields
            .about("The token from the link in the email. It works once, within an hour.")
            .example("_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs")
            .text("token", |text| Ok(text.to_owned()));
        let new = fields.about("The new password.").text("newPassword", Password::parse);
        Ok(Self { token: Token::parse(&token?), new: new? })
    }
}

/// The response, which does not reveal whether the account exists.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Requested {
    /// Always `true`; failures are returned as errors.
    status: bool,
    /// A human-readable summary of the result.
    #[schemars(extend("examples" = ["If this address has an account, we sent it an email with a link"]))]
    message: &'static str,
}

async fn request(app: Arc<App>, call: Call<()>, input: EmailInput) -> Result<Requested> {
    app.resets.request(&input.email, call.client, &call.base, Timestamp::now()).await?;
    Ok(Requested { status: true, message: "If this address has an account, we sent it an email with a link" })
}

async fn choose(app: Arc<App>, call: Call<(), Recorder>, input: Reset) -> Result<Status> {
    let token = input.token.ok_or(Error::InvalidToken)?;
    let user = app.resets.user(&token, Timestamp::now()).await?;
    let new = app.sign_ins.hasher().hash(input.new).await?;
    app.resets.reset(&call.recorder, &user, &token, &new, &app.keys, &app.organizations, &call.base).await?;
    Ok(Status::DONE)
}
