//! The commands and their options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use url::Url;

use self::values::profile;
pub(crate) use self::{
    deliveries::{Deliveries, DeliverySelector, Erasure, List, Recovery},
    endpoints::{EndpointQuery, Endpoints, State},
    events::{Listen, Replay, Send, Trigger, Wait},
    keys::Keys,
    team::{Audit, Settings, Team},
    values::{Ceiling, since},
    verify::Verify,
};
use crate::address::service;

mod deliveries;
mod endpoints;
mod events;
mod keys;
mod team;
mod values;
mod verify;

/// The heading for options that all commands share, in the help.
const GLOBAL: &str = "Global options";

/// Manage webhooks from a terminal, and forward their events to a local program
#[derive(Parser)]
#[command(
    name = "fanfare",
    version,
    after_help = "\
Exit codes: 0 success, 1 rejected or failed, 2 incorrect usage, 3 not signed in, 4 not found, 5 service unreachable, 6 a job failed, 7 timed out, 130 interrupted.

Examples:
  fanfare login
  fanfare listen --to 3000/hook
  fanfare deliveries list --status failed
  fanfare --json endpoints list | jq ."
)]
pub(crate) struct Arguments {
    /// Address of the service [default: the service of the latest login, or http://127.0.0.1:9000]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL", value_parser = service)]
    #[arg(env = "FANFARE_API", hide_env_values = true)]
    pub(crate) api: Option<Url>,
    /// Name of a stored login, to use several services or organizations
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAME", value_parser = profile)]
    #[arg(env = "FANFARE_PROFILE", hide_env_values = true)]
    pub(crate) profile: Option<String>,
    /// PEM file of certificates to trust in addition to the system's
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Sign in through the browser, and store an API key on this machine
    #[command(after_help = "\
Examples:
  fanfare login
  fanfare --api https://api.example.com login
  echo $KEY | fanfare login --key    # without a browser
  fanfare --json login --no-wait     # prints the address for a person
  fanfare login --complete           # once the person has approved it")]
    Login(Login),
    /// Delete this machine's API key, on this machine and at the service
    #[command(after_help = "Example:\n  fanfare logout")]
    Logout,
    /// Show the signed-in user, the organization and the service
    #[command(after_help = "Examples:\n  fanfare whoami\n  FANFARE_API_KEY=$KEY fanfare --json whoami")]
    Whoami,
    /// Manage webhook endpoints
    #[command(subcommand)]
    Endpoints(Endpoints),
    /// Show, resend and count deliveries
    #[command(subcommand)]
    Deliveries(Deliveries),
    /// Send a job event to the queue of a local service or, with AWS credentials, of a deployment
    #[command(after_help = "\
Examples:
  fanfare send --job job-1    # to `cargo local`
  fanfare send --job job-2 --event job.failed --error '{\"code\": 7}'
  fanfare send --job job-3 --tenant ID --queue-url QUEUE")]
    Send(Send),
    /// Send a sample of an event to an endpoint, or post it to a local program without the service
    #[command(after_help = "\
The sample has the job id test, and the delivery log lists it as webhook.test. With --to, it is signed with the secret that `fanfare listen` stored on this machine.

Examples:
  fanfare trigger job.failed --endpoint ID
  fanfare trigger job.completed --to 3000/hook
  echo $SECRET | fanfare trigger job.failed --to 3000/hook --secret")]
    Trigger(Trigger),
    /// Find out why a request that a receiver got does not verify
    #[command(after_help = "\
The service compares the request with what it sent, and stores nothing of it. Exit code 0 means verified, 1 not verified.

Examples:
  fanfare verify < request.txt
  fanfare verify --headers headers.json --body body.bin
  fanfare verify --headers headers.json --body body.bin --computed \"$SIGNATURE\" --received-at 2026-01-31T12:00:00Z
  fanfare --json verify request.txt --endpoint ID | jq .causes")]
    Verify(Box<Verify>),
    /// Forward events to a local program
    #[command(after_help = "\
Events that arrive while `fanfare listen` is stopped are kept for three days. The endpoint and its signing secret stay the same from one run to the next.

Examples:
  fanfare listen --to 3000/hook
  fanfare listen --to https://localhost:8443 --insecure
  fanfare listen --to job.failed=3000/failed --to 'nightly-*=4000' --to 3000/hook
  fanfare listen --to 3000 --events job.failed --since 1h
  fanfare listen --to 3000/hook --print-secret --print-body")]
    Listen(Listen),
    /// Post logged deliveries to a local program, with their headers and signatures
    #[command(override_usage = "\
fanfare replay [OPTIONS] --to <URL> <DELIVERY>
       fanfare replay [OPTIONS] --to <URL> --job <JOB>
       fanfare replay [OPTIONS] --to <URL> --since <SINCE>
       fanfare replay [OPTIONS] --to <URL> --failed")]
    #[command(after_help = "\
Your program gets the same requests as the receiver, oldest first, signed with the endpoint's secret at the current time. The secret stays in the service, and the log does not change. A delivery is skipped if its payload is no longer kept, or if its endpoint was deleted.

Exit codes: 0 if your program accepted every delivery, 1 if not, 130 after Ctrl-C.

Examples:
  fanfare replay ID --to 3000/hook
  fanfare replay ID --to 3000/hook --as-sent
  fanfare replay --job job-1 --to 3000/hook
  fanfare replay --failed --since 2h --endpoint ID --to 3000/hook")]
    Replay(Replay),
    /// Wait until jobs have finished, and print their results
    #[command(after_help = "\
A job is found by its event in the delivery log, even if the event came earlier. Jobs whose events no endpoint and no callback gets are not in the log, so the command waits for them until the time-out.

Each search reads the index of the log. The first search, and the last one after a time-out, cover all kept deliveries; the searches in between cover the last hour. The pause between them grows from 1 s to 30 s.

Exit codes: 0 if all jobs completed, 6 if one failed, 7 after the time-out.

Examples:
  fanfare wait job-1
  fanfare wait job-1 job-2 --timeout 10m
  fanfare --json wait job-1 | jq .result")]
    Wait(Wait),
    /// Print the address of a console page, and open it
    #[command(after_help = "\
Examples:
  fanfare open
  fanfare open a6250e60    # a delivery or an endpoint
  fanfare open keys")]
    Open {
        /// Id of a delivery or endpoint, or its first characters; or one of deliveries, keys, team, audit, settings and
        /// account
        what: Option<String>,
        /// Print the address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// List, create and delete API keys
    #[command(subcommand)]
    Keys(Keys),
    /// List, invite and remove members, and join another organization
    #[command(subcommand)]
    Team(Team),
    /// List the changes in the last year, newest first: who changed what, and from where
    #[command(after_help = "\
The log lists changes to endpoints, keys, members, settings and sessions. Only owners, their keys and organization keys can read it.

Examples:
  fanfare audit --since 7d
  fanfare audit --actor bo@example.com
  fanfare --json audit --action key.created --limit 1000")]
    Audit(Audit),
    /// Show and change the organization's settings
    #[command(after_help = "\
To change your own name, address, password or second factor, run `fanfare open account`.

Examples:
  fanfare settings
  fanfare settings --email ops@example.com
  fanfare settings --require-two-factor true    # opens a browser")]
    Settings(Settings),
    /// List the stored logins
    #[command(after_help = "\
Examples:
  fanfare --profile staging --api https://staging.example.com login
  fanfare --profile staging endpoints list
  fanfare profiles")]
    Profiles,
    /// Serve the client's commands as tools for language models, by the Model Context Protocol
    #[command(after_help = "\
The protocol uses standard input and output, so a program that runs a language model starts this command. The tools use the credentials of this machine or FANFARE_API_KEY. A key with the scopes webhooks:read and deliveries:read is enough without --allow-writes.

Examples:
  fanfare mcp
  fanfare --profile staging mcp --allow-writes
  claude mcp add webhooks -- fanfare mcp")]
    Mcp {
        /// Also offer tools that resend deliveries, and that test, enable and disable endpoints
        #[arg(long)]
        allow_writes: bool,
    },
    /// Check the connection to the service, the clock and the API key
    #[command(after_help = "Example:\n  fanfare doctor")]
    Doctor,
    /// Print shell completions
    #[command(after_help = "Example:\n  fanfare completions bash > ~/.local/share/bash-completion/completions/fanfare")]
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Write the manual pages, for packaging the client
    #[command(hide = true)]
    Man {
        /// Existing folder for the pages
        folder: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Login {
    /// Read an API key from standard input instead of opening a browser
    #[arg(long, conflicts_with_all = ["no_browser", "no_wait", "complete"])]
    pub(crate) key: bool,
    /// Print the sign-in address without opening a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Print the sign-in address and exit without waiting for approval
    #[arg(long, conflicts_with = "complete")]
    pub(crate) no_wait: bool,
    /// Complete a login that began with --no-wait
    #[arg(long)]
    pub(crate) complete: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        Arguments::command().debug_assert();
    }
}
