//! Approves a browser login, as a signed-in user.

use std::sync::Arc;

use common::{
    accounts::{
        cli_logins::{CliLogins, parse_secret},
        email::EmailAddress,
        token::Token,
    },
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, DeclaredError, Fields, Function, Rejected, Route, Session, SignedIn},
    id::CliLoginId,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<CliLogins> {
    Route::post("/v1/auth/cliLoginApprove", Session, Input::read, handle)
        .summary("Approves a browser login. The client that requested it gets a session for the caller.")
        .description(
            "The page `/signin` calls this route; your own page can, too. Approving a request again as the same user \
             returns the same response. Other users get a 404, and so do all callers once the request has expired or \
             its session has been fetched. If the response is `pending_verification`, offer to send another \
             verification email: this route does not send one, and the link in the previous email may have expired.",
        )
        .errors(&[DeclaredError::NotFound])
}

/// The request's id and secret.
pub struct Input {
    id: CliLoginId,
    secret: Token,
}

impl Input {
    fn read(_: &CliLogins, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields.about("The `requestId` that `cliLoginCreate` returned.").text("requestId", CliLoginId::parse);
        let secret = fields.about("The `secret` that `cliLoginCreate` returned.").text("secret", parse_secret);
        Ok(Self { id: id?, secret: secret? })
    }
}

/// The user who approved the request, and whether their email is verified.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// `approved`: the client gets its session. `pending_verification`: the client gets its session once your email is
    /// verified.
    status: Status,
    /// The email address of the user who approved the request.
    email: EmailAddress,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Status {
    Approved,
    PendingVerification,
}

async fn handle(logins: Arc<CliLogins>, call: Call<SignedIn>, input: Input) -> Result<Output> {
    let user = call.caller.user;
    logins.approve(input.id, &input.secret, &user, Timestamp::now()).await?;
    let status = if user.email_verified { Status::Approved } else { Status::PendingVerification };
    Ok(Output { status, email: user.email })
}
