//! `fanfare`, the command-line client for organizations.

mod address;
mod approval;
mod args;
mod audit;
mod browser;
mod calls;
mod clock;
mod config;
mod deliveries;
mod doctor;
mod endpoints;
mod event_line;
mod failure;
mod http;
mod identity;
mod ids;
mod input;
mod keys;
mod listen;
mod login;
mod mcp;
mod profiles;
mod program;
mod replay;
mod secret;
mod send;
mod settings;
mod table;
mod targets;
mod team;
mod terminal;
mod trigger;
mod verify;
mod wait;

use std::{io::Write, process::ExitCode, sync::LazyLock, time::Duration};

use clap::{CommandFactory, FromArgMatches, builder::Resettable, error::ErrorKind};
use url::Url;

use crate::{
    args::{Arguments, Command, Keys, Team},
    calls::{Api, Caller},
    config::Config,
    failure::Failure,
    http::NetworkSettings,
};

/// The lifetime of an idle connection to the service. `cargo local` closes them after 30 seconds, possibly just as the
/// next request is sent: `wait` pauses for as long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The address of `cargo local`.
static LOCAL: LazyLock<Option<Url>> = LazyLock::new(|| "http://127.0.0.1:9000".parse().ok());

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let is_json = arguments.json;
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(is_json);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Parses the command line. An empty variable counts as unset, as in scripts that pass on an optional one.
fn parse() -> Result<Arguments, clap::Error> {
    fn without_empty(command: clap::Command) -> clap::Command {
        let command = command.mut_args(|argument| {
            let is_empty = argument.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
            if is_empty { argument.env(Resettable::Reset) } else { argument }
        });
        command.mut_subcommands(without_empty)
    }
    let mut command = without_empty(Arguments::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Prints the help, the version, or the error for invalid arguments.
fn misused(error: &clap::Error) -> ExitCode {
    let is_json = std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    if !error.use_stderr() || !is_json {
        let _gone = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let text = error.render().to_string();
    let message = match error.kind() {
        // The text is the help.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".to_owned(),
        // The first lines name the arguments or the possible values. Tips and the usage follow an empty line.
        _ => text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect::<Vec<_>>().join(" "),
    };
    let failure = Failure::usage(message.trim_start_matches("error: ")).hint("Run `fanfare help`.");
    failure.print(true);
    ExitCode::from(failure.exit_code())
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { api, profile, cacert, json, command } = arguments;
    if let Command::Completions { shell } = command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "fanfare", &mut script);
        return Ok(std::io::stdout().write_all(&script)?);
    }
    if let Command::Man { folder } = command {
        return Ok(clap_mangen::generate_to(Arguments::command(), folder)?);
    }
    let key = std::env::var("FANFARE_API_KEY").ok().filter(|key| !key.trim().is_empty());
    // The variables contain all that most commands need, for instance in a container whose user cannot open `HOME`.
    let is_file_needed = api.is_none() || key.is_none() || profile.is_some();
    let mut config = Config::load(profile, is_file_needed)?;
    if matches!(command, Command::Profiles) {
        return profiles::list(&config, json);
    }
    if let (Some(name), false) = (config.lacks_profile(), matches!(command, Command::Login(_))) {
        let failure = Failure::local(format!("The profile {name} does not exist."));
        return Err(failure.hint(format!("Create it with `fanfare --profile {name} --api URL login`.")));
    }
    let base = api.or_else(|| config.latest()).or_else(|| LOCAL.clone());
    let base = base.ok_or_else(|| Failure::local("The address of the service is missing.").hint("Add --api."))?;
    let kept = config.service(&base.origin().ascii_serialization()).key;
    let caller = match key {
        Some(key) => Caller::KeyOfEnvironment(login::key_of(&key, "FANFARE_API_KEY")?),
        None => kept.map_or(Caller::Anonymous, Caller::Key),
    };
    let network = NetworkSettings::load(cacert.as_deref())?;
    let http = network.client(&base, IDLE_TIMEOUT)?;
    let api = Api::new(base, caller, http);
    let needs_no_key = match &command {
        Command::Login(_) | Command::Logout | Command::Doctor => true,
        // Operators have the queue's address and AWS credentials, but not necessarily an account.
        Command::Send(send) => send.tenant.is_some(),
        Command::Trigger(trigger) => trigger.to.is_some(),
        // These commands are approved in the browser.
        Command::Keys(Keys::Create { .. }) => true,
        Command::Team(Team::Invitations { .. } | Team::Accept { .. } | Team::Decline { .. }) => true,
        Command::Open { what, .. } => what.as_deref().is_none_or(browser::is_page),
        _ => false,
    };
    if !api.is_signed_in() && !needs_no_key {
        let failure = Failure::not_signed_in(format!("Not signed in to {}.", api.origin()));
        return Err(if matches!(command, Command::Mcp { .. }) { failure.hint(mcp::SIGN_IN) } else { failure });
    }
    match command {
        Command::Login(login) => login::login(&api, &mut config, &login, json).await,
        Command::Logout => login::logout(&api, &mut config, json).await,
        Command::Whoami => login::whoami(&api, json).await,
        Command::Endpoints(command) => endpoints::run(&api, &mut config, command, json).await,
        Command::Deliveries(command) => deliveries::run(&api, command, json).await,
        Command::Send(send) => send::run(&api, &network, send, json).await,
        Command::Trigger(trigger) => trigger::run(&api, &network, &config, trigger, json).await,
        Command::Verify(verify) => verify::run(&api, *verify, json).await,
        Command::Listen(listen) => listen::run(&api, &network, &mut config, listen, json).await,
        Command::Replay(replay) => replay::run(&api, &network, replay, json).await,
        Command::Wait(wait) => wait::run(&api, wait, json).await,
        Command::Keys(command) => keys::run(&api, command, json).await,
        Command::Team(command) => team::run(&api, &mut config, command, json).await,
        Command::Audit(list) => audit::run(&api, list, json).await,
        Command::Settings(settings) => settings::run(&api, settings, json).await,
        Command::Open { what, no_browser } => browser::run(&api, what.as_deref(), !no_browser, json).await,
        Command::Mcp { allow_writes } => mcp::run(api, allow_writes).await,
        Command::Doctor => doctor::run(&api, &config, json).await,
        Command::Completions { .. } | Command::Man { .. } | Command::Profiles => Ok(()),
    }
}
