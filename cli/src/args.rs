//! The commands and their flags.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use url::Url;

/// Manages webhooks from a terminal, and brings their events to a program on this machine.
#[derive(Parser)]
#[command(
    name = "fanfare",
    version,
    after_help = "\
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 not signed in, 4 not found, 5 the service cannot be reached.

Examples:
  fanfare login
  fanfare listen --to http://localhost:3000/hook
  fanfare deliveries list --status failed
  fanfare --json endpoints list | jq ."
)]
pub(crate) struct Arguments {
    /// The service's address. By default the one of the latest login, or http://127.0.0.1:9000.
    #[arg(long, global = true, env = "FANFARE_API", value_name = "URL", value_parser = address)]
    pub(crate) api: Option<Url>,
    /// Print JSON for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Sign in by the browser, and keep an API key for this machine.
    #[command(after_help = "\
Examples:
  fanfare login
  fanfare --api https://api.example.com login
  echo $KEY | fanfare login --key        # where there is no browser")]
    Login(Login),
    /// Delete the API key of this machine, here and at the service.
    #[command(after_help = "Example:\n  fanfare logout")]
    Logout,
    /// Show who is signed in, and where.
    #[command(after_help = "Examples:\n  fanfare whoami\n  FANFARE_API_KEY=$KEY fanfare --json whoami")]
    Whoami,
    /// Webhook endpoints.
    #[command(subcommand)]
    Endpoints(Endpoints),
    /// What was sent, and what came of it.
    #[command(subcommand)]
    Deliveries(Deliveries),
    /// Send a job event, as the service that runs the jobs does. For a local service, or operators with AWS credentials.
    #[command(after_help = "\
Examples:
  fanfare send --job job-1                                     # to cargo local
  fanfare send --event job.failed --job job-2 --error '{\"message\": \"out of paper\"}'
  fanfare send --tenant ID --job job-3 --queue-url https://sqs.eu-central-1.amazonaws.com/123456789012/job-events")]
    Send(Send),
    /// Post events to a program on this machine as they come. None is lost while it does not run.
    #[command(after_help = "\
What comes while nothing listens waits for three days. The endpoint and its secret stay the same from one run to the next.

Examples:
  fanfare listen --to http://localhost:3000/hook
  fanfare listen --to http://localhost:3000/hook --events job.failed --since 1h
  fanfare listen --to http://localhost:3000/hook --print-secret")]
    Listen(Listen),
    /// Print completions for a shell.
    #[command(after_help = "Example:\n  fanfare completions bash > ~/.local/share/bash-completion/completions/fanfare")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

#[derive(Args)]
pub(crate) struct Login {
    /// Read an API key from standard input instead.
    #[arg(long)]
    pub(crate) key: bool,
    /// Only print the address to open.
    #[arg(long)]
    pub(crate) no_browser: bool,
}

#[derive(Subcommand)]
pub(crate) enum Endpoints {
    /// List all endpoints.
    #[command(after_help = "Example:\n  fanfare endpoints list")]
    List,
    /// Add an endpoint. Its secret is shown this once.
    #[command(after_help = "\
Examples:
  fanfare endpoints create https://example.com/hook --events job.failed
  fanfare endpoints create --pull --description 'the laptop'")]
    Create {
        /// Where deliveries are posted.
        #[arg(required_unless_present = "pull", conflicts_with = "pull")]
        url: Option<String>,
        /// Make a pull endpoint, which has no URL.
        #[arg(long)]
        pull: bool,
        /// A note.
        #[arg(long)]
        description: Option<String>,
        /// The events that it wants, all by default.
        #[arg(long, value_delimiter = ',')]
        events: Vec<String>,
    },
    /// Change an endpoint.
    #[command(after_help = "\
Examples:
  fanfare endpoints update ID --url https://example.com/new
  fanfare endpoints update ID --active false
  fanfare endpoints update ID --events all")]
    Update {
        /// The endpoint.
        id: String,
        /// Another URL.
        #[arg(long)]
        url: Option<String>,
        /// Another note; an empty text removes it.
        #[arg(long)]
        description: Option<String>,
        /// Whether deliveries are sent to it.
        #[arg(long)]
        active: Option<bool>,
        /// The events that it wants, or all.
        #[arg(long, value_delimiter = ',')]
        events: Vec<String>,
    },
    /// Change the signing secret to a new one, which is shown this once. For a while, both sign.
    #[command(after_help = "Example:\n  fanfare endpoints rotate ID")]
    Rotate {
        /// The endpoint.
        id: String,
    },
    /// Send a test event.
    #[command(after_help = "Example:\n  fanfare endpoints test ID")]
    Test {
        /// The endpoint.
        id: String,
    },
    /// Delete an endpoint.
    #[command(after_help = "Example:\n  fanfare endpoints delete ID")]
    Delete {
        /// The endpoint.
        id: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Status {
    Pending,
    Delivered,
    Failed,
    Held,
    Ended,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Missed {
    Failed,
    Held,
    Both,
}

#[derive(Subcommand)]
pub(crate) enum Deliveries {
    /// List deliveries, newest first.
    #[command(after_help = "\
Examples:
  fanfare deliveries list --status failed --since 1d
  fanfare deliveries list --watch")]
    List(List),
    /// Show a delivery, its payload and all its attempts.
    #[command(after_help = "Examples:\n  fanfare deliveries get ID\n  fanfare deliveries get --job job-1")]
    Get(Named),
    /// Send a delivery again.
    #[command(after_help = "Examples:\n  fanfare deliveries resend ID\n  fanfare deliveries resend --job job-1")]
    Resend(Named),
    /// Send again what an endpoint missed, and show how far that is.
    #[command(after_help = "Example:\n  fanfare deliveries recover ENDPOINT --since 1d")]
    Recover {
        /// The endpoint.
        endpoint: String,
        /// Created this long ago or later: 90s, 15m, 2h or 3d, or a time in RFC 3339.
        #[arg(long, value_parser = since)]
        since: String,
        /// Which deliveries.
        #[arg(long, default_value = "both")]
        status: Missed,
        /// Do not wait for the end.
        #[arg(long)]
        no_wait: bool,
    },
    /// Count deliveries by status, and failures by reason.
    #[command(after_help = "Example:\n  fanfare deliveries stats --since 2d")]
    Stats {
        /// Of this endpoint alone.
        #[arg(long)]
        endpoint: Option<String>,
        /// Created this long ago or later.
        #[arg(long, value_parser = since)]
        since: Option<String>,
    },
}

/// A delivery.
#[derive(Args)]
pub(crate) struct Named {
    /// The delivery's id.
    #[arg(required_unless_present = "job", conflicts_with_all = ["job", "endpoint"])]
    pub(crate) id: Option<String>,
    /// The job whose delivery is meant.
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// The endpoint, if the job has deliveries to several.
    #[arg(long)]
    pub(crate) endpoint: Option<String>,
}

#[derive(Args)]
pub(crate) struct List {
    /// Of this endpoint alone.
    #[arg(long)]
    pub(crate) endpoint: Option<String>,
    /// With this status alone.
    #[arg(long)]
    pub(crate) status: Option<Status>,
    /// Of this event alone, such as job.failed.
    #[arg(long)]
    pub(crate) event: Option<String>,
    /// Of this job alone.
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// Created this long ago or later: 90s, 15m, 2h or 3d, or a time in RFC 3339.
    #[arg(long, value_parser = since)]
    pub(crate) since: Option<String>,
    /// How many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Go on, and show new deliveries as they come.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Args)]
pub(crate) struct Send {
    /// The producer's id of the job.
    #[arg(long)]
    pub(crate) job: String,
    /// The event.
    #[arg(long, default_value = "job.completed")]
    pub(crate) event: String,
    /// The organization's id. By default that of who is signed in.
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// The workflow.
    #[arg(long)]
    pub(crate) workflow: Option<String>,
    /// The result, as JSON.
    #[arg(long, value_parser = json)]
    pub(crate) result: Option<serde_json::Value>,
    /// The error, as JSON.
    #[arg(long, value_parser = json)]
    pub(crate) error: Option<serde_json::Value>,
    /// The queue of job events, by default that of cargo local. One of AWS needs AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY
    /// and perhaps AWS_SESSION_TOKEN.
    #[arg(long, env = "FANFARE_QUEUE_URL", value_name = "URL", value_parser = address)]
    pub(crate) queue_url: Option<Url>,
}

#[derive(Args)]
pub(crate) struct Listen {
    /// Where to post. Without a scheme, it is http.
    #[arg(long, value_name = "URL", value_parser = program)]
    pub(crate) to: Url,
    /// Bring back what failed since then: 90s, 15m, 2h or 3d, or a time in RFC 3339. What waits comes anyway.
    #[arg(long, value_parser = since)]
    pub(crate) since: Option<String>,
    /// The events to get, all by default.
    #[arg(long, value_delimiter = ',')]
    pub(crate) events: Vec<String>,
    /// Take from this pull endpoint instead of one of its own.
    #[arg(long, conflicts_with_all = ["name", "events"])]
    pub(crate) endpoint: Option<String>,
    /// The name of its endpoint: this machine's by default. Several with one name share the work.
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Print the signing secret, as far as this machine has it.
    #[arg(long)]
    pub(crate) print_secret: bool,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Ended => "ended",
        }
    }
}

impl Missed {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Both => "both",
        }
    }
}

/// An address of HTTP.
fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or("must be an http or https address")?;
    match url.username().is_empty() && url.password().is_none() {
        true => Ok(url),
        false => Err("must not have a user or a password".to_owned()),
    }
}

/// The address of a program, which people often write without its scheme.
fn program(text: &str) -> Result<Url, String> {
    match text.contains("://") || text.starts_with('/') {
        true => address(text),
        false => address(&format!("http://{text}")),
    }
}

fn json(text: &str) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::from_str(text)
}

/// A time in RFC 3339, from a text that is one or says how long ago.
fn since(text: &str) -> Result<String, String> {
    let help = "must be like 90s, 15m, 2h or 3d, or a time in RFC 3339";
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(help)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return if text.contains('T') { Ok(text.to_owned()) } else { Err(help.to_owned()) },
    };
    let number: u64 = number.parse().map_err(|_not_a_number| help)?;
    let ago = Duration::from_secs(number.checked_mul(seconds).ok_or(help)?);
    crate::clock::ago(ago).ok_or_else(|| help.to_owned())
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
    fn an_address_is_one_of_http() {
        for (text, url) in [
            ("http://localhost:3000/hook", "http://localhost:3000/hook"),
            ("localhost:3000/hook", "http://localhost:3000/hook"),
            ("[::1]:3000", "http://[::1]:3000/"),
            ("https://example.com?a=b", "https://example.com/?a=b"),
        ] {
            assert_eq!(program(text).expect(text).as_str(), url);
        }
        for wrong in ["", "/hook", "ftp://localhost/", "http://", "http://jo:secret@localhost/"] {
            assert!(program(wrong).is_err(), "{wrong}");
        }
        assert!(address("localhost:3000").is_err());
    }

    #[test]
    fn since_is_a_time_or_how_long_ago() {
        for wrong in
            ["", "h", "-1h", "1.5h", "1w", "é", "99999999999999999999d", "18446744073709551615d", "300000d0000d"]
        {
            assert!(since(wrong).is_err(), "{wrong}");
        }
        for right in ["90s", "15m", "2h", "3d", "0s", "2026-01-31T12:00:00Z"] {
            assert!(since(right).expect(right).ends_with('Z'), "{right}");
        }
    }
}
