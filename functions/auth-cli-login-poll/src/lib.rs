//! Polls a browser login, and fetches its session once it is approved.

use std::sync::Arc;

use api::{
    Call as _,
    auth::{CliLogin, CliLoginPoll},
};
use common::{
    accounts::{
        alerts::Alerts,
        cli_logins::{CliLogins, parse_secret},
        rate_limits::{CLI_LOGIN_POLL, RateLimits},
        token::Token,
        users::Users,
    },
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{
        BodyFormat, Call, DeclaredError, Fields, Function, NoCallers, Public, Rejected, Route, cookies::cookie_header,
    },
    id::CliLoginId,
    timestamp::Timestamp,
};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        alerts: Alerts,
        rate_limits: RateLimits,
        logins: CliLogins,
        users: Users,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App, NoCallers> {
    Route::post(CliLoginPoll::PATH, Public, Input::read, handle)
        .records(&[Action::SessionCreated])
        .summary("Returns the state of a browser login and, once it is approved, its session.")
        .description(
            "An approved request returns its session once. `pending` means that no user has approved the request yet, \
             or that the user must verify their email first. `expired` means that the client must create a new \
             request: this request is unknown, its secret is wrong, it is older than ten minutes, its session has \
             already been fetched, or the user who approved it has been deleted or has ended all sessions.",
        )
        .errors(&[DeclaredError::TooMany])
}

/// The request's id and secret.
pub struct Input {
    id: CliLoginId,
    secret: Token,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields
            .about("The `requestId` that `cliLoginCreate` returned.")
            .text(CliLoginPoll::NAMES.request_id, CliLoginId::parse);
        let secret =
            fields.about("The `secret` that `cliLoginCreate` returned.").text(CliLoginPoll::NAMES.secret, parse_secret);
        Ok(Self { id: id?, secret: secret? })
    }
}

async fn handle(app: Arc<App>, call: Call<(), Recorder>, input: Input) -> Result<CliLogin> {
    let now = Timestamp::now();
    let Some(login) = app.logins.find(input.id, &input.secret, now).await? else { return Ok(CliLogin::Expired) };
    app.rate_limits.count(CLI_LOGIN_POLL, &login.id.to_string(), now).await?;
    let Some(approval) = &login.approval else { return Ok(CliLogin::Pending) };
    let user = app.users.find(approval.user).await?.filter(|user| approval.is_of(user));
    let Some(user) = user else { return Ok(CliLogin::Expired) };
    if !user.email_verified {
        return Ok(CliLogin::Pending);
    }
    let taken = app.logins.take(&call.recorder, &login, &app.users, &user, &call.device(), now).await?;
    let Some((session, token)) = taken else { return Ok(CliLogin::Expired) };
    app.alerts.client_signed_in(&user, &login, &call.base, now).await;
    Ok(CliLogin::Approved {
        cookie_header: cookie_header(&call.base, &token).into(),
        user_id: user.id.into(),
        email: user.email.into(),
        email_verified: user.email_verified,
        session_expires_at: session.expires_at.into(),
    })
}
