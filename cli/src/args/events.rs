//! The options of the commands that send, receive or replay events, or wait for them.

use std::time::Duration;

use api::{Secret, TenantId, Timestamp, webhooks::EventName};
use clap::{ArgGroup, Args};
use serde_json::value::RawValue;
use url::Url;

use super::values::{event_of_a_job, header, json, since};
use crate::{
    address::{program, url},
    targets::{Target, target},
};

#[derive(Args)]
pub(crate) struct Send {
    /// Id of the job
    #[arg(long)]
    pub(crate) job: String,
    /// Event [default: job.failed with an --error, otherwise job.completed]
    #[arg(long, value_parser = event_of_a_job())]
    pub(crate) event: Option<EventName>,
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
    /// Queue of job events [default: that of `cargo local`, http://127.0.0.1:9324/123456789012/job-events]. A queue in AWS needs AWS_ACCESS_KEY_ID,
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
    /// Local program: a port with an optional path, such as 3000/hook, or a URL. With an event or a workflow and `=`
    /// before it, it gets only those events; a name that ends in `*` stands for all with this beginning. Can be repeated:
    /// the first that matches gets an event, and the last one has no name and gets the others
    #[arg(long, required = true, value_name = "[NAME=]URL", value_parser = target)]
    pub(crate) to: Vec<Target>,
    /// Accept any certificate from the local program
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Resend deliveries that failed since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
    #[arg(long, value_parser = since)]
    pub(crate) since: Option<Timestamp>,
    /// Events to receive from now on, separated by commas, or `all` [default: those of the last run, at first all]
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

/// The deliveries to post to a local program.
#[derive(Args)]
#[group(skip)]
#[command(group(ArgGroup::new("which").required(true).multiple(true)))]
pub(crate) struct Replay {
    /// Id of the delivery, the first characters of its short id, or its `webhook-id`
    #[arg(group = "which", value_name = "DELIVERY", conflicts_with_all = ["job", "since", "failed", "endpoint"])]
    pub(crate) id: Option<String>,
    /// Local program: a port with an optional path, such as 3000/hook, or a URL
    #[arg(long, value_name = "URL", value_parser = program)]
    pub(crate) to: Url,
    /// Only deliveries of this job
    #[arg(long, group = "which")]
    pub(crate) job: Option<String>,
    /// Only deliveries created since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
    #[arg(long, group = "which", value_parser = since)]
    pub(crate) since: Option<Timestamp>,
    /// Only deliveries that have failed, or whose latest attempt has
    #[arg(long, group = "which")]
    pub(crate) failed: bool,
    /// Only deliveries to this endpoint
    #[arg(long)]
    pub(crate) endpoint: Option<String>,
    /// Sign with the time of the latest attempt, to try what your program does with an old timestamp
    #[arg(long)]
    pub(crate) as_sent: bool,
    /// Header to add, as 'name: value', such as one of the endpoint's own, whose values the service does not return
    #[arg(long = "header", value_name = "HEADER", value_parser = header)]
    pub(crate) headers: Vec<(String, Secret)>,
    /// Maximum number of deliveries, the newest ones
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Maximum number of posts a second
    #[arg(long, default_value_t = 10, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rate: u32,
    /// Accept any certificate from the local program
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// The jobs to wait for.
#[derive(Args)]
pub(crate) struct Wait {
    /// Id of the job, up to 20 of them
    #[arg(required = true, value_name = "JOB", num_args = 1..=20)]
    pub(crate) jobs: Vec<String>,
    /// Maximum time to wait, such as 90s or 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}
