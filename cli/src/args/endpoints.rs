//! The commands of `fanfare endpoints`.

use api::{
    Secret,
    webhooks::{EventName, PayloadForm},
};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{Ceiling, ceiling, event_of_a_job, header, one_of};

/// How deliveries are sent to an endpoint.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Sending {
    /// How much of each event to send: `thin` leaves out result, error and stack [default: full]
    #[arg(long, group = "change", value_parser = one_of::<PayloadForm>())]
    pub(crate) payload: Option<PayloadForm>,
    /// Whether the log keeps payloads and responses after a success [default: true]
    #[arg(long, group = "change", value_name = "BOOL")]
    pub(crate) keep_payload: Option<bool>,
    /// Maximum number of requests in progress at the receiver, from 1 to 100, or `none` [default: none]
    #[arg(long, group = "change", value_name = "NUMBER", value_parser = ceiling)]
    pub(crate) max_concurrent: Option<Ceiling>,
}

/// The endpoints to list.
#[derive(Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointQuery {
    /// Only endpoints with this text in their URL, description or id, in any case
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Only endpoints in this state
    #[arg(long)]
    pub(crate) state: Option<State>,
}

/// The state of an endpoint, as far as the list of endpoints shows it.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Enabled,
    Failing,
    Disabled,
}

#[derive(Subcommand)]
pub(crate) enum Endpoints {
    /// List the endpoints
    #[command(after_help = "\
Examples:
  fanfare endpoints list
  fanfare endpoints list --state failing
  fanfare endpoints list --search example.com")]
    List(EndpointQuery),
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
    #[command(group(ArgGroup::new("change").multiple(true)))]
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
        #[command(flatten)]
        sending: Sending,
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
        /// Deliver events of all workflows
        #[arg(long, group = "change", conflicts_with = "workflows")]
        all_workflows: bool,
        #[command(flatten)]
        sending: Sending,
        /// Header to send with each attempt, as 'name: value'. Replaces all headers
        #[arg(long = "header", group = "change", value_name = "HEADER", value_parser = header)]
        headers: Vec<(String, Secret)>,
        /// Remove all headers
        #[arg(long, group = "change", conflicts_with = "headers")]
        no_headers: bool,
    },
    /// Enable an endpoint. Deliveries that were held stay held; `fanfare deliveries recover` sends them
    #[command(after_help = "Example:\n  fanfare endpoints enable ID")]
    Enable {
        /// Id of the endpoint, or its first characters
        id: String,
    },
    /// Disable an endpoint. Its deliveries are held for a week
    #[command(after_help = "Example:\n  fanfare endpoints disable ID")]
    Disable {
        /// Id of the endpoint, or its first characters
        id: String,
    },
    /// Replace the signing secret, and print the new one once. Events are signed with both until the previous secret
    /// expires
    #[command(after_help = "Examples:\n  fanfare endpoints rotate ID\n  fanfare endpoints rotate ID --overlap now")]
    Rotate {
        /// Id of the endpoint, or its first characters
        id: String,
        /// End of the previous secret: `now`, or in a `day` or `week` [default: the service decides]
        #[arg(long, value_parser = ["now", "day", "week"])]
        overlap: Option<String>,
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
