//! Runs the whole service on this machine until Ctrl-C or SIGTERM, or runs a demo of it (`demo`).

mod demo;

use std::{io::IsTerminal, path::PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};
use local::{Data, DemoTenant, Limits, Options, Ports, Stack};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// The service and everything below it allocate in one process, from several threads: a sixth of its CPU time is in the
/// system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// fanfare, the whole service on this machine, on loopback only. Port 0 picks a free port.
///
/// Environment variables override the values of the same name in template.yaml.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Port of the HTTP API.
    #[arg(long, default_value_t = 9000)]
    api: u16,
    /// Port of DynamoDB, for the AWS CLI and other tools.
    #[arg(long, default_value_t = 8000)]
    dynamodb: u16,
    /// Port of SQS.
    #[arg(long, default_value_t = 9324)]
    sqs: u16,
    /// Port of the sent mail: a page at /, JSON at /messages.
    #[arg(long, default_value_t = 8025)]
    mail: u16,
    /// Port of the inbox: a receiver for webhooks that shows what comes, at /.
    #[arg(long, default_value_t = 9110)]
    inbox: u16,
    /// Make a demo tenant with some days of deliveries, and print a link that signs a browser in to it.
    #[arg(long)]
    demo_data: bool,
    /// Print all addresses as one line of JSON, and at the end what was done: AWS requests, and invocations of each
    /// function.
    #[arg(long)]
    json: bool,
    /// Keep tables and queues in memory instead of in .local/.
    #[arg(long)]
    memory: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Start in memory, go from sign-up to a signed delivery, show what goes over the wire, and exit.
    Demo,
    /// Print the OpenAPI 3.1 description of the API.
    Openapi,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::Demo) => {
            announce("The service in use over HTTP, from sign-up to two signed deliveries, one of them sent again:");
            log("warn");
            demo::run().await
        }
        Some(Command::Openapi) => {
            say(&format!("{:#}", local::openapi()?));
            Ok(())
        }
        None => {
            log("info,emf=off,rustack_sqs_core=warn,rustack_ses_core=warn");
            serve(arguments).await
        }
    }
}

async fn serve(arguments: Arguments) -> Result<()> {
    let Arguments { api, dynamodb, sqs, mail, inbox, demo_data, json, memory, .. } = arguments;
    announce(match memory {
        true => "Starting fanfare on this machine, with its data in memory.",
        false => "Starting fanfare on this machine, with its data in .local/.",
    });
    let data = if memory { Data::Memory } else { Data::Directory(PathBuf::from(".local")) };
    let ports = Ports { api, dynamodb, sqs, mail, inbox };
    let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    // The caller's AWS variables are dropped: a developer's credentials and endpoints must never reach these services.
    let env = std::env::vars_os().filter_map(texts).filter(|(name, _)| !name.starts_with("AWS_")).collect();
    // Installed before anything answers, so that an early signal is not lost.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);

    let options = Options { data, ports, env, poll: true, limits: Limits::default(), demo_data };
    let stack = Stack::start(options).await?;
    if json {
        say(&stack.ready_line().to_string());
    } else {
        say(&banner(&stack));
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // Not after the stop, which waits for work: whoever asks wants to know how it was now.
    if json {
        say(&stack.work_line().to_string());
    }
    stack.stop().await;
    Ok(())
}

fn banner(stack: &Stack) -> String {
    let mut lines = vec![
        format!("API       {}", stack.api()),
        format!("mail      {}", stack.mail()),
        format!("inbox     {}", stack.inbox()),
        format!("DynamoDB  {}", stack.dynamodb()),
        format!("SQS       {}", stack.sqs()),
    ];
    lines.extend(stack.queues().iter().map(|(name, url)| format!("  {name:<16} {url}")));
    if let Some(DemoTenant { link, email, password, is_new }) = stack.demo_tenant() {
        let made = if *is_new { "" } else { ", which was there already" };
        lines.push(format!("Open {link} to be signed in to the demo tenant{made}."));
        lines.push(format!("Its owner, on this machine only: {email} with the password {password}"));
    }
    lines.push("Press Ctrl-C to stop.".to_owned());
    lines.join("\n")
}

/// Says what comes up, after the compiler's last line and before anything that may take a moment.
#[expect(clippy::print_stderr, reason = "standard output is for the addresses and the demo's story")]
fn announce(text: &str) {
    eprintln!("{text}");
}

#[expect(clippy::print_stdout, reason = "standard output is for the addresses; the log goes to standard error")]
fn say(text: &str) {
    println!("{text}");
}

fn log(default_level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .compact()
        .init();
}
