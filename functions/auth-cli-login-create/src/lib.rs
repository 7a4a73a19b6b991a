//! Requests a browser login: the first call of a command-line client without a session.

use std::sync::Arc;

use common::{
    accounts::{
        attempts::{Attempts, CLI_LOGIN_CLIENT},
        cli_logins::CliLogins,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{Call, Fault, Function, NoCallers, Public, Route, Wire},
    id::CliLoginId,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The dependencies of the route.
pub struct App {
    attempts: Attempts,
    logins: CliLogins,
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App { attempts: Attempts::from_env(env, &aws)?, logins: CliLogins::from_env(env, &aws)? };
    Function::new(Wire::Envelope, env, &aws, app, [route()])
}

fn route() -> Route<App, NoCallers> {
    Route::post("/v1/auth/cliLoginCreate", Public, |_, _| Ok(()), handle)
        .summary("Requests a browser login. The request has no effect until a signed-in user approves it.")
        .description(
            "Open `/signin?cliLoginId=...&cliLoginSecret=...` with the id and the secret in a browser, and call \
             `cliLoginPoll` until the user has approved the request.",
        )
        .faults(&[Fault::TooMany])
}

/// The request and its secret, which only this response contains.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// The id of the request.
    request_id: CliLoginId,
    /// The secret of the request, needed to approve it and to poll it. No other response contains it.
    #[schemars(extend("examples" = ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"]))]
    secret: String,
    /// When the request expires, ten minutes from now.
    expires_at: Timestamp,
}

async fn handle(app: Arc<App>, call: Call<()>, (): ()) -> Result<Output> {
    let now = Timestamp::now();
    app.attempts.count(CLI_LOGIN_CLIENT, &call.client.to_string(), now).await?;
    let login = app.logins.create(&call.device(), now).await?;
    Ok(Output { request_id: login.id, secret: login.secret.reveal().to_owned(), expires_at: login.expires_at })
}
