//! The commands of `fanfare deliveries`.

use api::{
    Cursor, Timestamp,
    deliveries::{Missed, Status},
};
use clap::{ArgGroup, Args, Subcommand};

use super::values::{one_of, since};

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
    Get(DeliverySelector),
    /// Resend a delivery
    #[command(after_help = "Examples:\n  fanfare deliveries resend ID\n  fanfare deliveries resend --job job-1")]
    Resend(DeliverySelector),
    /// Erase the payload and responses of one delivery, of a job's deliveries, or of the ended ones of a period
    #[command(after_help = "\
Examples:
  fanfare deliveries erase ID
  fanfare deliveries erase --job job-1 --yes
  fanfare deliveries erase --until 7d --endpoint ENDPOINT")]
    Erase(Erasure),
    /// Resend the missed or pending deliveries of an endpoint or of all active ones, and show the progress
    #[command(after_help = "\
Examples:
  fanfare deliveries recover ENDPOINT --since 1d
  fanfare deliveries recover --since 2h --status failed --outcome status_5xx")]
    Recover(Recovery),
    /// Count the deliveries of a day by status, and failures by reason
    #[command(after_help = "Example:\n  fanfare deliveries stats --since 2d")]
    Stats {
        /// Only this endpoint
        #[arg(long)]
        endpoint: Option<String>,
        /// Only deliveries created since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
        /// [default: 24h]
        #[arg(long, value_parser = since)]
        since: Option<Timestamp>,
    },
}

/// A delivery, by its id or its job.
#[derive(Args)]
pub(crate) struct DeliverySelector {
    /// Id of the delivery, the first characters of its short id, or its `webhook-id`
    #[arg(required_unless_present = "job", conflicts_with_all = ["job", "endpoint"])]
    pub(crate) id: Option<String>,
    /// Job whose delivery to use, instead of an id
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// Endpoint whose delivery to use, if the job has several deliveries
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
    /// Only deliveries created before this time
    #[arg(long, value_parser = since, conflicts_with = "watch")]
    pub(crate) until: Option<Timestamp>,
    /// Maximum number of deliveries
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Cursor of the page: `next_cursor` from the previous page
    #[arg(long, conflicts_with = "watch")]
    pub(crate) cursor: Option<Cursor>,
    /// Keep printing new and changed deliveries
    #[arg(long)]
    pub(crate) watch: bool,
}

/// The deliveries to recover.
#[derive(Args)]
pub(crate) struct Recovery {
    /// Id of the endpoint, or its first characters. By default, all active endpoints and job callbacks
    pub(crate) endpoint: Option<String>,
    /// Only deliveries created since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
    #[arg(long, value_parser = since)]
    pub(crate) since: Timestamp,
    /// Only deliveries created before this time
    #[arg(long, value_parser = since)]
    pub(crate) until: Option<Timestamp>,
    /// Status of the deliveries to resend
    #[arg(long, default_value = "both", value_parser = one_of::<Missed>())]
    pub(crate) status: Missed,
    /// Only this outcome of the last attempt, such as status_5xx
    #[arg(long)]
    pub(crate) outcome: Option<String>,
    /// Only jobs of this workflow, by its exact name
    #[arg(long)]
    pub(crate) workflow: Option<String>,
    /// Exit without waiting for the recovery to finish
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// The deliveries to erase.
#[derive(Args)]
#[group(skip)]
#[command(group(ArgGroup::new("which").required(true).multiple(true)))]
pub(crate) struct Erasure {
    /// Id of the delivery, the first characters of its short id, or its `webhook-id`
    #[arg(group = "which", conflicts_with_all = ["job", "since", "until", "endpoint"])]
    pub(crate) id: Option<String>,
    /// Job whose deliveries to erase
    #[arg(long, group = "which", conflicts_with_all = ["since", "until", "endpoint"])]
    pub(crate) job: Option<String>,
    /// Only delivered, failed and ended deliveries created since this time: an age such as 90s, 15m, 2h or 3d, or a time
    /// in RFC 3339
    #[arg(long, group = "which", value_parser = since)]
    pub(crate) since: Option<Timestamp>,
    /// Only delivered, failed and ended deliveries created before this time
    #[arg(long, group = "which", value_parser = since)]
    pub(crate) until: Option<Timestamp>,
    /// Only deliveries of this endpoint: its id, or the first characters
    #[arg(long)]
    pub(crate) endpoint: Option<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}
