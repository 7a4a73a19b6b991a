//! `fanfare`, the command-line client for organizations.

mod args;
mod calls;
mod clock;
mod config;
mod deliveries;
mod endpoints;
mod failure;
mod http;
mod listen;
mod login;
mod secret;
mod send;
mod terminal;

use std::{io::Write, process::ExitCode, sync::LazyLock, time::Duration};

use api::Secret;
use clap::{CommandFactory, Parser};
use url::Url;

use crate::{
    args::{Arguments, Command},
    calls::{Api, Caller},
    config::Config,
    failure::Failure,
    http::Http,
    terminal::note,
};

/// The lifetime of an idle connection to the service.
const IDLE: Duration = Duration::from_secs(60);
/// The address of `cargo local`.
static LOCAL: LazyLock<Option<Url>> = LazyLock::new(|| "http://127.0.0.1:9000".parse().ok());

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) | Err(Failure::Gone) => ExitCode::SUCCESS,
        Err(failure) => {
            note(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { api, json, command } = arguments;
    if let Command::Completions { shell } = command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "fanfare", &mut script);
        return Ok(std::io::stdout().write_all(&script)?);
    }
    if let Command::Man { folder } = command {
        return Ok(clap_mangen::generate_to(Arguments::command(), folder)?);
    }
    let mut config = Config::load()?;
    let base = api.or_else(|| config.latest()).or_else(|| LOCAL.clone());
    let base = base.ok_or_else(|| Failure::Local("The address of the service is missing. Add --api.".to_owned()))?;
    let kept = config.service(&base.origin().ascii_serialization()).key;
    let given = std::env::var("FANFARE_API_KEY").ok().filter(|key| !key.is_empty()).map(Secret::from);
    let caller = given.or(kept).map_or(Caller::Anonymous, Caller::Key);
    let is_known = matches!(caller, Caller::Key(_));
    let http = Http::new(IDLE)?;
    let api = Api::new(base, caller, http.clone());
    let needs_no_key = match &command {
        Command::Login(_) | Command::Logout => true,
        // An operator has the queue's address and AWS credentials, and perhaps no account.
        Command::Send(send) => send.tenant.is_some(),
        _ => false,
    };
    if !is_known && !needs_no_key {
        return Err(Failure::NotSignedIn(format!("Not signed in to {}.", api.origin())));
    }
    match command {
        Command::Login(login) => login::login(&api, &mut config, &login, json).await,
        Command::Logout => login::logout(&api, &mut config).await,
        Command::Whoami => login::whoami(&api, json).await,
        Command::Endpoints(command) => endpoints::run(&api, &mut config, command, json).await,
        Command::Deliveries(command) => deliveries::run(&api, command, json).await,
        Command::Send(send) => send::run(&api, &http, send, json).await,
        Command::Listen(listen) => listen::run(&api, &mut config, listen, json).await,
        Command::Completions { .. } | Command::Man { .. } => Ok(()),
    }
}
