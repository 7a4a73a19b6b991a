//! The poller and the delivery function in a process of their own, for tests that kill it. Its arguments are the
//! addresses of the tables and the queues; its settings come from the environment. It logs to standard output.

use anyhow::{Context, Result};
use local::Worker;
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main]
async fn main() -> Result<()> {
    common::telemetry::log::subscriber(tracing::level_filters::LevelFilter::INFO, std::io::stdout).init();
    let mut arguments = std::env::args().skip(1);
    let (dynamodb, sqs) = (arguments.next().context("no tables")?, arguments.next().context("no queues")?);
    Worker::new(&dynamodb, &sqs, &std::env::vars().collect())?.run().await;
    Ok(())
}
