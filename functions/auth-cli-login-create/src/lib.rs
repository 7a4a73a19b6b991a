//! Requests a browser login, the first call by a client without a session.

use std::sync::Arc;

use api::{
    Call as _,
    auth::{CliLoginCreate, CliLoginCreated},
};
use common::{
    accounts::{
        cli_logins::CliLogins,
        rate_limits::{CLI_LOGIN_CLIENT, RateLimits},
    },
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, DeclaredError, Function, NoCallers, Public, Route},
    timestamp::Timestamp,
};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        rate_limits: RateLimits,
        logins: CliLogins,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App, NoCallers> {
    Route::post(CliLoginCreate::PATH, Public, |_, _| Ok(()), handle)
        .summary("Requests a browser login. The request has no effect until a signed-in user approves it.")
        .description(
            "Open `/signin?cliLoginId=...&cliLoginSecret=...` in a browser, with the id and the secret filled in, and \
             call `cliLoginPoll` until the user has approved the request. The page shows a code. A client can show the \
             same code for comparison: the last eight hexadecimal digits of `requestId`, each replaced by the letter at \
             that index of `BCDFGHJKMNPQRTVW`, with a hyphen after the fourth letter.",
        )
        .errors(&[DeclaredError::TooMany])
}

async fn handle(app: Arc<App>, call: Call<()>, (): ()) -> Result<CliLoginCreated> {
    let now = Timestamp::now();
    app.rate_limits.count(CLI_LOGIN_CLIENT, &call.client.to_string(), now).await?;
    let login = app.logins.create(&call.device(), now).await?;
    Ok(CliLoginCreated {
        request_id: login.id.into(),
        secret: login.secret.reveal().into(),
        expires_at: login.expires_at.into(),
    })
}
