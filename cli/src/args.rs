//! The commands and their options.

use std::{path::PathBuf, str::FromStr};

use api::{
    ClosedSet, Cursor, NotAName, Secret, TenantId, Timestamp,
    account::{Role, Scope},
    audit::Action,
    deliveries::{Missed, Status},
    webhooks::EventName,
};
use clap::{
    ArgGroup, Args, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;
use serde_json::value::RawValue;
use url::Url;

use crate::address::{program, service, url};

/// The heading of the options that all commands have, in their help.
const GLOBAL: &str = "Global options";

/// Manage webhooks from a terminal, and forward their events to a local program
#[derive(Parser)]
#[command(
    name = "fanfare",
    version,
    after_help = "\
Exit codes: 0 success, 1 rejected or failed, 2 incorrect usage, 3 not signed in, 4 not found, 5 service unreachable, 130 stopped immediately by a second Ctrl-C.

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
    /// Forward events to a local program
    #[command(after_help = "\
Events that arrive while `fanfare listen` is stopped are kept for three days. The endpoint and its signing secret stay the same from one run to the next.

Examples:
  fanfare listen --to 3000/hook
  fanfare listen --to https://localhost:8443 --insecure
  fanfare listen --to 3000 --events job.failed --since 1h
  fanfare listen --to 3000/hook --print-secret --print-body")]
    Listen(Listen),
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

#[derive(Subcommand)]
pub(crate) enum Endpoints {
    /// List all endpoints
    #[command(after_help = "Example:\n  fanfare endpoints list")]
    List,
    /// Show an endpoint
    #[command(after_help = "Example:\n  fanfare endpoints get ID")]
    Get {
        /// Id of the endpoint, or its first characters
        id: String,
    },
    /// Create an endpoint, and print its signing secret once
    #[command(after_help = "\
Examples:
  fanfare endpoints create https://example.com/hook --events job.failed
  fanfare endpoints create https://example.com/hook --header 'x-team: jobs'
  echo $SECRET | fanfare endpoints create https://example.com/hook --secret
  fanfare endpoints create --pull --description 'the laptop'")]
    Create {
        /// URL that deliveries are posted to
        #[arg(required_unless_present = "pull", conflicts_with = "pull")]
        url: Option<String>,
        /// Create a pull endpoint, which has no URL
        #[arg(long)]
        pull: bool,
        /// Description of the endpoint
        #[arg(long)]
        description: Option<String>,
        /// Events to deliver, separated by commas [default: all]
        #[arg(long, value_delimiter = ',')]
        events: Vec<String>,
        /// Exact name of a workflow whose events to deliver; can be repeated up to 20 times [default: all]
        #[arg(long = "workflow", value_name = "NAME")]
        workflows: Vec<String>,
        /// Header to send with each attempt, as 'name: value'
        #[arg(long = "header", value_name = "HEADER", value_parser = header)]
        headers: Vec<(String, Secret)>,
        /// Read the signing secret from FANFARE_SIGNING_SECRET or standard input instead of generating one
        #[arg(long)]
        secret: bool,
    },
    /// Change an endpoint
    #[command(after_help = "\
Examples:
  fanfare endpoints update ID --url https://example.com/new
  fanfare endpoints update ID --active false
  fanfare endpoints update ID --events all")]
    #[command(group(ArgGroup::new("change").required(true).multiple(true)))]
    Update {
        /// Id of the endpoint, or its first characters
        id: String,
        /// New URL
        #[arg(long, group = "change")]
        url: Option<String>,
        /// New description; an empty string removes it
        #[arg(long, group = "change")]
        description: Option<String>,
        /// Whether the endpoint is active
        #[arg(long, group = "change")]
        active: Option<bool>,
        /// Events to deliver, separated by commas, or `all`
        #[arg(long, group = "change", value_delimiter = ',')]
        events: Vec<String>,
        /// Exact name of a workflow whose events to deliver; can be repeated. Replaces all workflows
        #[arg(long = "workflow", group = "change", value_name = "NAME")]
        workflows: Vec<String>,
        /// Deliver the events of all workflows
        #[arg(long, group = "change", conflicts_with = "workflows")]
        all_workflows: bool,
        /// Header to send with each attempt, as 'name: value'. Replaces all headers
        #[arg(long = "header", group = "change", value_name = "HEADER", value_parser = header)]
        headers: Vec<(String, Secret)>,
        /// Remove all headers
        #[arg(long, group = "change", conflicts_with = "headers")]
        no_headers: bool,
    },
    /// Replace the signing secret, and print the new one once. Events are signed with both until the previous secret
    /// expires
    #[command(after_help = "Example:\n  fanfare endpoints rotate ID")]
    Rotate {
        /// Id of the endpoint, or its first characters
        id: String,
        /// Read the new secret from FANFARE_SIGNING_SECRET or standard input
        #[arg(long)]
        secret: bool,
    },
    /// Send a test event to an endpoint, and show the result
    #[command(after_help = "Examples:\n  fanfare endpoints test ID\n  fanfare endpoints test ID --event job.failed")]
    Test {
        /// Id of the endpoint, or its first characters
        id: String,
        /// Send a sample of this event instead of webhook.test
        #[arg(long, value_parser = event_of_a_job())]
        event: Option<EventName>,
    },
    /// Delete an endpoint
    #[command(after_help = "Example:\n  fanfare endpoints delete ID")]
    Delete {
        /// Id of the endpoint, or its first characters
        id: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum Keys {
    /// List the API keys that you manage
    #[command(after_help = "Example:\n  fanfare keys list")]
    List,
    /// Create an API key, and print it once. Opens a browser, because a key cannot create keys
    #[command(after_help = "\
Examples:
  fanfare keys create laptop --expires 90d
  fanfare keys create ci --organization --scope webhooks:read,deliveries:read
  fanfare --json keys create ci --organization --no-browser | jq -r .key")]
    Create {
        /// Name of the key
        name: String,
        /// Create an organization key, which keeps working after its creator leaves. Owners only
        #[arg(long)]
        organization: bool,
        /// Parts of the API that the key may use, separated by commas [default: all that its kind allows]
        #[arg(long = "scope", value_delimiter = ',', value_name = "SCOPE", value_parser = one_of::<Scope>())]
        scopes: Vec<Scope>,
        /// Lifetime, such as 12h or 90d [default: the key does not expire]
        #[arg(long, value_name = "LIFETIME", value_parser = lifetime)]
        expires: Option<u32>,
        /// Print the sign-in address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Delete an API key, which stops working immediately
    #[command(after_help = "Example:\n  fanfare keys delete ID")]
    Delete {
        /// Id of the key, or its first characters
        id: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum Team {
    /// List members and open invitations
    #[command(after_help = "Example:\n  fanfare team list")]
    List,
    /// List your invitations from other organizations. Opens a browser
    #[command(after_help = "Example:\n  fanfare team invitations")]
    Invitations {
        /// Print the sign-in address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Move your account to an organization that has invited you. Opens a browser
    #[command(after_help = "\
A user belongs to one organization, so you leave the current one, and your API keys stop working. A new key is stored on this machine.

Examples:
  fanfare team accept
  fanfare team accept analytical-engines
  fanfare team accept analytical-engines --delete-organization    # as the last member of yours")]
    Accept {
        /// Slug of the organization, or id of the invitation [default: the only invitation]
        invitation: Option<String>,
        /// Delete your current organization with all its data if you are its last member
        #[arg(long)]
        delete_organization: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        /// Print the sign-in address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Decline an invitation from another organization. Opens a browser
    #[command(after_help = "Example:\n  fanfare team decline analytical-engines")]
    Decline {
        /// Slug of the organization, or id of the invitation [default: the only invitation]
        invitation: Option<String>,
        /// Print the sign-in address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Invite a person by email, with or without an account
    #[command(after_help = "Example:\n  fanfare team invite bo@example.com")]
    Invite {
        /// Email address of the person
        email: String,
        /// Role of the new member
        #[arg(long, default_value = "member", value_parser = one_of::<Role>())]
        role: Role,
    },
    /// Cancel an invitation
    #[command(after_help = "Example:\n  fanfare team cancel bo@example.com")]
    Cancel {
        /// Email address that was invited
        email: String,
    },
    /// Change the role of a member
    #[command(after_help = "Example:\n  fanfare team role bo@example.com owner")]
    Role {
        /// Email address or id of the member
        member: String,
        /// New role
        #[arg(value_parser = one_of::<Role>())]
        role: Role,
    },
    /// Remove a member, and delete their account
    #[command(after_help = "Example:\n  fanfare team remove bo@example.com")]
    Remove {
        /// Email address or id of the member
        member: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
pub(crate) struct Settings {
    /// New address for emails about failing endpoints and failed jobs
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// Whether emails about failed jobs are sent
    #[arg(long)]
    pub(crate) job_failures: Option<bool>,
    /// New name of the organization
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Whether members need a second factor. Opens a browser; owners with a second factor only
    #[arg(long)]
    pub(crate) require_two_factor: Option<bool>,
    /// Print the sign-in address without opening a browser
    #[arg(long, requires = "require_two_factor")]
    pub(crate) no_browser: bool,
}

#[derive(Args)]
pub(crate) struct Audit {
    /// Only changes since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
    #[arg(long, value_parser = since)]
    pub(crate) since: Option<Timestamp>,
    /// Only changes before this time: an age or a time in RFC 3339
    #[arg(long, value_parser = since)]
    pub(crate) until: Option<Timestamp>,
    /// Only changes by this user or key: the id or, for a member, the email address; or `system`
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Only changes of this kind, such as key.created
    #[arg(long, value_parser = one_of::<Action>(), hide_possible_values = true)]
    pub(crate) action: Option<Action>,
    /// Maximum number of entries
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Cursor of the page: `next_cursor` from the previous page
    #[arg(long)]
    pub(crate) cursor: Option<Cursor>,
}

#[derive(Subcommand)]
pub(crate) enum Deliveries {
    /// List deliveries, newest first
    #[command(after_help = "\
Examples:
  fanfare deliveries list --status failed --since 1d
  fanfare deliveries list --watch")]
    List(List),
    /// Show a delivery with its payload and all its attempts
    #[command(after_help = "Examples:\n  fanfare deliveries get ID\n  fanfare deliveries get --job job-1")]
    Get(Named),
    /// Resend a delivery
    #[command(after_help = "Examples:\n  fanfare deliveries resend ID\n  fanfare deliveries resend --job job-1")]
    Resend(Named),
    /// Erase the payload and responses of one delivery or of all of a job's deliveries
    #[command(after_help = "Examples:\n  fanfare deliveries erase ID\n  fanfare deliveries erase --job job-1 --yes")]
    Erase {
        /// Id of the delivery, the first characters of its short id, or its `webhook-id`
        #[arg(required_unless_present = "job", conflicts_with = "job")]
        id: Option<String>,
        /// Job whose deliveries to erase
        #[arg(long)]
        job: Option<String>,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Resend an endpoint's missed or pending deliveries, and show the progress
    #[command(after_help = "Example:\n  fanfare deliveries recover ENDPOINT --since 1d")]
    Recover {
        /// Id of the endpoint, or its first characters
        endpoint: String,
        /// Only deliveries created since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
        #[arg(long, value_parser = since)]
        since: Timestamp,
        /// Status of the deliveries to resend
        #[arg(long, default_value = "both", value_parser = one_of::<Missed>())]
        status: Missed,
        /// Exit without waiting for the recovery to finish
        #[arg(long)]
        no_wait: bool,
    },
    /// Count deliveries by status, and failures by reason
    #[command(after_help = "Example:\n  fanfare deliveries stats --since 2d")]
    Stats {
        /// Only this endpoint
        #[arg(long)]
        endpoint: Option<String>,
        /// Only deliveries created since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
        #[arg(long, value_parser = since)]
        since: Option<Timestamp>,
    },
}

/// A delivery, by its id or its job.
#[derive(Args)]
pub(crate) struct Named {
    /// Id of the delivery, the first characters of its short id, or its `webhook-id`
    #[arg(required_unless_present = "job", conflicts_with_all = ["job", "endpoint"])]
    pub(crate) id: Option<String>,
    /// Job of the delivery, instead of its id
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// Endpoint of the delivery, if the job has several deliveries
    #[arg(long)]
    pub(crate) endpoint: Option<String>,
}

#[derive(Args)]
pub(crate) struct List {
    /// Only this endpoint
    #[arg(long)]
    pub(crate) endpoint: Option<String>,
    /// Only this status
    #[arg(long, value_parser = one_of::<Status>())]
    pub(crate) status: Option<Status>,
    /// Only this event, such as job.failed
    #[arg(long)]
    pub(crate) event: Option<String>,
    /// Only this job
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// Only jobs of this workflow, by its exact name
    #[arg(long)]
    pub(crate) workflow: Option<String>,
    /// Only this outcome of the last attempt, such as status_5xx
    #[arg(long)]
    pub(crate) outcome: Option<String>,
    /// Only deliveries created since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
    #[arg(long, value_parser = since)]
    pub(crate) since: Option<Timestamp>,
    /// Maximum number of deliveries
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Keep printing new and changed deliveries
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Args)]
pub(crate) struct Send {
    /// Id of the job
    #[arg(long)]
    pub(crate) job: String,
    /// Event
    #[arg(long, default_value = "job.completed", value_parser = event_of_a_job())]
    pub(crate) event: EventName,
    /// Id of the organization [default: the signed-in user's]
    #[arg(long)]
    pub(crate) tenant: Option<TenantId>,
    /// Workflow of the job
    #[arg(long)]
    pub(crate) workflow: Option<String>,
    /// Result of the job, as JSON
    #[arg(long, value_parser = json)]
    pub(crate) result: Option<Box<RawValue>>,
    /// Error of the job, as JSON
    #[arg(long, value_parser = json)]
    pub(crate) error: Option<Box<RawValue>>,
    /// Queue of job events [default: the queue of `cargo local`]. A queue in AWS needs AWS_ACCESS_KEY_ID,
    /// AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN
    #[arg(long, env = "FANFARE_QUEUE_URL", hide_env_values = true, value_name = "URL", value_parser = url)]
    pub(crate) queue_url: Option<Url>,
}

#[derive(Args)]
pub(crate) struct Trigger {
    /// Event
    #[arg(value_parser = event_of_a_job())]
    pub(crate) event: EventName,
    /// Local program instead of an endpoint: a port, as in 3000/hook, or a URL
    #[arg(long, value_name = "URL", value_parser = program)]
    pub(crate) to: Option<Url>,
    /// Id of the endpoint, or its first characters [default: the only endpoint]. With --to, its stored secret signs the
    /// event
    #[arg(long, value_name = "ID")]
    pub(crate) endpoint: Option<String>,
    /// Read the signing secret from FANFARE_SIGNING_SECRET or standard input
    #[arg(long, requires = "to", conflicts_with = "endpoint")]
    pub(crate) secret: bool,
    /// Accept any certificate from the local program
    #[arg(long, requires = "to")]
    pub(crate) insecure: bool,
}

#[derive(Args)]
pub(crate) struct Listen {
    /// Local program: a port with an optional path, such as 3000/hook, or a URL
    #[arg(long, value_name = "URL", value_parser = program)]
    pub(crate) to: Url,
    /// Accept any certificate from the local program
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Resend deliveries that failed since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
    #[arg(long, value_parser = since)]
    pub(crate) since: Option<Timestamp>,
    /// Events to receive, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    pub(crate) events: Vec<String>,
    /// Id of an existing pull endpoint to receive from
    #[arg(long, conflicts_with_all = ["name", "events"])]
    pub(crate) endpoint: Option<String>,
    /// Name of the endpoint [default: the name of this machine]. Processes with the same name share its events
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Print the signing secret, if it is stored on this machine
    #[arg(long)]
    pub(crate) print_secret: bool,
    /// Print the body of each event
    #[arg(short = 'v', long)]
    pub(crate) print_body: bool,
}

/// Parses a member of a closed set. The help lists all members.
fn one_of<T: ClosedSet + FromStr<Err = NotAName> + std::marker::Send + Sync>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::ALL.iter().map(|name| name.as_str())).try_map(|text| text.parse::<T>())
}

/// Parses the name of an event that producers send.
fn event_of_a_job() -> impl TypedValueParser<Value = EventName> {
    PossibleValuesParser::new(EventName::OF_JOBS.map(EventName::as_str)).try_map(|text| text.parse::<EventName>())
}

/// Parses JSON and keeps its exact text, except for white space between tokens.
fn json(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    let (mut is_text, mut is_escaped) = (false, false);
    let kept = text.chars().filter(|character| {
        let is_kept = is_text || !matches!(character, ' ' | '\t' | '\r' | '\n');
        if is_escaped {
            is_escaped = false;
        } else if *character == '"' {
            is_text = !is_text;
        } else {
            is_escaped = is_text && *character == '\\';
        }
        is_kept
    });
    let kept: String = kept.collect();
    // Validates the original text: without white space, `1 2` would be a number.
    serde_json::from_str::<&RawValue>(text)?;
    RawValue::from_string(kept)
}

/// Parses `name: value`.
fn header(text: &str) -> Result<(String, Secret), String> {
    let (name, value) = text.split_once(':').ok_or("must be a name and a value, as in 'authorization: Bearer abc'")?;
    Ok((name.trim().to_owned(), value.trim().into()))
}

/// Parses the name of a profile.
fn profile(text: &str) -> Result<String, String> {
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    match (1..=60).contains(&text.len()) && is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("must be at most 60 letters, digits, dots, dashes and underscores".to_owned()),
    }
}

/// Parses the lifetime of a key, in seconds.
fn lifetime(text: &str) -> Result<u32, String> {
    let lifetime = humantime::parse_duration(text).ok().and_then(|lifetime| lifetime.as_secs().try_into().ok());
    lifetime.ok_or_else(|| "must be a duration such as 12h or 90d".to_owned())
}

/// Parses a time in RFC 3339, or an age.
fn since(text: &str) -> Result<Timestamp, String> {
    let time = match humantime::parse_duration(text) {
        Ok(age) => crate::clock::ago(age),
        Err(_) => text.contains('T').then(|| text.into()),
    };
    time.ok_or_else(|| "must be an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn json_keeps_digits_duplicates_and_escapes() {
        for (text, kept) in [
            ("12345678901234567890123", "12345678901234567890123"),
            ("0.10000000000000000555", "0.10000000000000000555"),
            ("1e400", "1e400"),
            (
                r#" {"b": 1, "a": "x \" y\\" , "b" : [2,\t3]}\n"#.replace("\\n", "\n").replace("\\t", "\t").as_str(),
                r#"{"b":1,"a":"x \" y\\","b":[2,3]}"#,
            ),
            (r#""\ud800 \u0041""#, r#""\ud800 \u0041""#),
        ] {
            assert_eq!(json(text).expect(text).get(), kept);
        }
        for wrong in ["", "1 2", "tr ue", "{", "[1,]", "1 // one", "'a'"] {
            assert!(json(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn since_is_a_time_or_an_age() {
        for wrong in
            ["", "h", "-1h", "1x", "é", "99999999999999999999d", "18446744073709551615d", "300000d0000d", "300000d"]
        {
            assert!(since(wrong).is_err(), "{wrong}");
        }
        for right in ["90s", "15m", "2h", "3d", "1h 30m", "0s", "2026-01-31T12:00:00Z"] {
            assert!(since(right).expect(right).as_str().ends_with('Z'), "{right}");
        }
    }
}
