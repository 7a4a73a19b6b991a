//! Runs the whole service on this machine until Ctrl-C or SIGTERM, or runs a demo of it (`demo`).

mod demo;

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use local::{Data, DemoTenant, Limits, Options, Ports, Stack};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// The service and the embedded AWS services allocate memory on several threads of one process. With the system's
/// allocator, this would take a sixth of their CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The default log level: errors only, so that the link stays the last line on the terminal.
const DEFAULT: &str = "error";
/// The levels of parts that log too much at the level of the functions. The embedded services log each call, and log
/// unmet write conditions as warnings. Metrics are only for CloudWatch. `RUST_LOG` can name them, too.
const QUIET: &str = "emf=off,dynoxide=error,rustack_sqs_core=warn";

/// Run fanfare, the whole service, on this machine. It listens on loopback only; port 0 picks a free port.
///
/// Environment variables override the variables of the same name in template.yaml.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Port of the HTTP API.
    #[arg(long, default_value_t = 9000)]
    api: u16,
    /// DynamoDB port, for tools such as the AWS CLI.
    #[arg(long, default_value_t = 8000)]
    dynamodb: u16,
    /// Port of SQS.
    #[arg(long, default_value_t = 9324)]
    sqs: u16,
    /// Port for sent emails: a page at /, JSON at /messages.
    #[arg(long, default_value_t = 8025)]
    mail: u16,
    /// Port of the inbox: a receiver for webhooks that shows its requests at /.
    #[arg(long, default_value_t = 9110)]
    inbox: u16,
    /// Create a demo organization with several days of deliveries, and print a link that signs a browser in to it.
    #[arg(long)]
    demo_data: bool,
    /// Print all addresses as one line of JSON and, when stopped, a line with the number of AWS requests and of each
    /// function's invocations.
    #[arg(long)]
    json: bool,
    /// Keep tables and queues in memory instead of in .local/.
    #[arg(long)]
    memory: bool,
    /// Write the functions' calls to DynamoDB to this new file: operation, request, status and response, as lines of JSON
    /// in the order of their effects. They include the secrets that the tables contain.
    #[arg(long, value_name = "FILE", requires = "memory")]
    record: Option<PathBuf>,
    /// Also print the addresses of the tables and queues.
    #[arg(long)]
    verbose: bool,
}

/// The file that `cargo local template` changes.
const TEMPLATE: &str = "template.yaml";

#[derive(Subcommand)]
enum Command {
    /// Show the service in use, from sign-up to a signed webhook and a resent one, and exit.
    Demo,
    /// Print the OpenAPI 3.1 description of the API.
    Openapi,
    /// Write the parts of template.yaml that follow from the code and from the rows in template/, and sample events.
    #[command(hide = true)]
    Template,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::Demo) => {
            log("warn");
            demo::run(has_colors(&std::io::stdout())).await
        }
        Some(Command::Openapi) => {
            say(&format!("{:#}", local::openapi()?));
            Ok(())
        }
        Some(Command::Template) => write_template(),
        None => {
            log(DEFAULT);
            serve(arguments).await
        }
    }
}

/// Writes the generated parts of the template, and the sample events. The current folder has to be the root of the
/// repository.
fn write_template() -> Result<()> {
    let source = std::fs::read_to_string(TEMPLATE).context("template.yaml cannot be read in this folder")?;
    std::fs::write(TEMPLATE, local::generated_template(&source)?)?;
    for (function, event) in local::generated_events()? {
        std::fs::write(format!("events/{function}.json"), event)?;
    }
    Ok(())
}

/// Runs the service until a signal.
async fn serve(arguments: Arguments) -> Result<()> {
    let Arguments { api, dynamodb, sqs, mail, inbox, demo_data, json, memory, record, verbose, .. } = arguments;
    announce(match memory {
        true => "Starting fanfare on this machine, with its data in memory.",
        false => "Starting fanfare on this machine, with its data in .local/.",
    });
    let data = if memory { Data::Memory } else { Data::Directory(PathBuf::from(".local")) };
    let ports = Ports { api, dynamodb, sqs, mail, inbox };
    let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    // AWS environment variables are dropped, so that a developer's credentials and endpoints never reach the functions.
    let env = std::env::vars_os().filter_map(texts).filter(|(name, _)| !name.starts_with("AWS_")).collect();
    // Installed before the service starts, so that an early signal is not lost.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);

    let options = Options { data, ports, env, poll: true, limits: Limits::default(), demo_data, record };
    let stack = Stack::start(options).await?;
    if json {
        say(&stack.ready_line().to_string());
    } else {
        say(&banner(&stack, verbose));
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // Printed before `stop`, which waits for running work, so the line shows the numbers at the time of the signal.
    if json {
        say(&stack.work_line().to_string());
    }
    stack.stop().await;
    Ok(())
}

/// The addresses. The last line is the link to open first.
fn banner(stack: &Stack, verbose: bool) -> String {
    let mut lines = vec![
        format!("console   {}/console", stack.api()),
        format!("API       {}", stack.api()),
        format!("emails    {}", stack.mail()),
        format!("inbox     {}", stack.inbox()),
    ];
    if verbose {
        lines.push(format!("DynamoDB  {}", stack.dynamodb()));
        lines.extend(stack.tables().values().map(|name| format!("  {name}")));
        lines.push(format!("SQS       {}", stack.sqs()));
        lines.extend(stack.queues().iter().map(|(name, url)| format!("  {name:<24} {url}")));
    }
    if std::env::var_os("RUST_LOG").is_none() {
        lines.push("Only errors are logged. RUST_LOG=info also logs each request and each attempt.".to_owned());
    }
    let first_step = match stack.demo_tenant() {
        Some(DemoTenant { link, email, password, is_new }) => {
            lines.push(format!("Owner of the demo organization: {email} with the password {password}"));
            let kept = if *is_new { "" } else { ", kept from an earlier run" };
            format!("Open {link} to sign in to the demo organization{kept}.")
        }
        None => format!("Open {}/signin?mode=signup to sign up.", stack.api()),
    };
    lines.extend(["Press Ctrl-C to stop.".to_owned(), first_step]);
    lines.join("\n")
}

/// Prints the first line immediately, before any slow step.
fn announce(text: &str) {
    // Unlike `eprintln!`, does not panic if the output is a closed pipe or a full disk.
    writeln!(std::io::stderr(), "{text}").ok();
}

/// Prints to standard output, which is for the addresses. The log goes to standard error.
fn say(text: &str) {
    writeln!(std::io::stdout(), "{text}").ok();
}

/// Logs to standard error at this level, or at the levels in `RUST_LOG`.
fn log(level: &str) {
    let chosen = std::env::var("RUST_LOG").unwrap_or_else(|_| level.to_owned());
    // Unlike `EnvFilter`, selects only by target, and needs no regular expressions, which take seconds to compile.
    let parsed = |levels: &str| format!("{QUIET},{levels}").parse::<Targets>();
    let filter = parsed(&chosen).or_else(|_malformed| parsed(level)).unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // Reporting that a line could not be written would itself fail, and panic in the middle of a request.
        .log_internal_errors(false)
        .with_ansi(has_colors(&std::io::stderr()))
        .compact();
    tracing_subscriber::registry().with(filter).with(lines).init();
}

/// Whether to color text written to `stream` (<https://no-color.org>).
fn has_colors(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
