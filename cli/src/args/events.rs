//! The options of the commands that send or receive events: `send`, `trigger` and `listen`.

use api::{TenantId, Timestamp, webhooks::EventName};
use clap::Args;
use serde_json::value::RawValue;
use url::Url;

use super::values::{event_of_a_job, json, since};
use crate::address::{program, url};

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
