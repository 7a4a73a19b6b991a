//! A process for tests to kill. It reads its settings from the environment.
//!
//! Given the addresses of tables and queues, the process polls the queues and runs the delivery function, and logs to
//! standard output. Given a directory, it runs the whole service like `cargo local`, and prints the addresses as one
//! line of JSON.

use std::{collections::HashMap, path::PathBuf};

use anyhow::{Result, bail};
use local::{Data, Options, Stack, Worker};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main]
async fn main() -> Result<()> {
    let (arguments, env): (Vec<_>, HashMap<_, _>) = (std::env::args().skip(1).collect(), std::env::vars().collect());
    match arguments.as_slice() {
        [dynamodb, sqs] => {
            common::telemetry::log::subscriber(LevelFilter::INFO, std::io::stdout).init();
            Worker::new(dynamodb, sqs, &env)?.run().await;
        }
        [directory] => {
            let data = Data::Directory(PathBuf::from(directory));
            let stack = Stack::start(Options { data, env, ..Options::default() }).await?;
            ready(&stack);
            std::future::pending::<()>().await;
        }
        _ => bail!("neither addresses nor a directory: {arguments:?}"),
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the test reads the addresses there")]
fn ready(stack: &Stack) {
    println!("{}", stack.ready_line());
}
