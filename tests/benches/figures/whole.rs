//! The whole service in one process, as `cargo local` runs it: from the embedded queue through the function and the
//! embedded tables to a receiver.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use aws_sdk_sqs::types::QueueAttributeName;
use axum::http::StatusCode;
use futures::{StreamExt, stream};
use serde_json::json;

use crate::{
    Effort,
    delivery::{Counter, job_event},
    service::{self, Service},
    table::{Row, Table, median},
};

/// The number of batches in flight to the queue.
const SENDERS: usize = 8;
/// The time limit for a run.
const PATIENCE: Duration = Duration::from_secs(300);

/// Measures a process with 20,000 events of 1 KB for one endpoint, which answers with 200 or with 500.
pub(crate) async fn process(effort: Effort, table: &mut Table) {
    let (runs, events) = if effort.quick { (1, 2_000) } else { (3, 20_000) };
    let local = service::build();
    let (mut rates, mut costs, mut failing, mut of_failures) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let (rate, cpu) = run(&local, "job.completed", events, StatusCode::OK).await;
        rates.push(rate);
        costs.push(cpu);
        of_failures.push(run(&local, "job.failed", events, StatusCode::OK).await.0);
        failing.push(run(&local, "job.completed", events, StatusCode::INTERNAL_SERVER_ERROR).await.1);
    }
    let what = "deliveries of job.failed, of one workflow, against those of job.completed";
    table.push(Row::ratio(what, "per s", median(of_failures), median(rates.clone())).at_least(0.8, 0.95));
    let what = "whole local process, deliveries of 1 KB to one endpoint";
    let rate = Row::alone(what, "per s", median(rates));
    let cost = Row::alone("the same, CPU per 1,000", "s", median(costs));
    let what = "the same, CPU per 1,000 first attempts that get a 500";
    let failing = Row::alone(what, "s", median(failing));
    // In a quick run, neither the process nor the harness is optimized.
    let rows = if effort.quick {
        [rate, cost.at_most(2.5, 2.5), failing.at_most(10.0, 10.0)]
    } else {
        [rate.at_least(6000.0, 9000.0), cost.at_most(0.22, 0.16), failing.at_most(0.4, 0.3)]
    };
    rows.into_iter().for_each(|row| table.push(row));
}

/// Sends `events` with this name to a new process. Returns the rate at which the receiver got them, measured from the
/// first send, and the CPU time that the process used per thousand events until its queue was empty.
async fn run(local: &Path, event: &str, events: usize, answer: StatusCode) -> (f64, f64) {
    let receiver = Counter::answering(answer).await;
    // Retries wait for five minutes, so only first attempts are counted.
    let retries = [("RETRY_SCHEDULE", "300,300,1800,7200,18000,36000,50400,72000,72000")];
    let (service, _output) = Service::start(local, &retries).await;
    let tenant = service.tenant("whole").await;
    service.endpoint(&tenant, &receiver.url).await;
    let message = |job| {
        let mut message = job_event(&tenant.id, job);
        message["event"] = json!(event);
        message.to_string()
    };
    let messages: Vec<_> = (0..events + 100).map(message).collect();
    let (warm, messages) = messages.split_at(100);
    deliver(&service, warm, &receiver).await;
    let (started, cpu) = (Instant::now(), service.cpu());
    let arrived = deliver(&service, messages, &receiver).await;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let events = events as f64;
    (events / (arrived - started).as_secs_f64(), (service.cpu() - cpu) / events * 1e3)
}

/// Sends these messages, and waits until they have been handled. Returns when the last one was received.
async fn deliver(service: &Service, messages: &[String], receiver: &Counter) -> Instant {
    let before = receiver.count();
    let send = stream::iter(messages.chunks(10)).for_each_concurrent(SENDERS, |messages| service.send(messages));
    let arrive = async {
        receiver.wait(before, messages.len()).await;
        Instant::now()
    };
    let all = async { tokio::join!(arrive, send).0 };
    let arrived = tokio::time::timeout(PATIENCE, all).await.expect("all arrive");
    tokio::time::timeout(PATIENCE, empty(service)).await.expect("all are handled");
    arrived
}

/// Waits until the event queue is empty.
async fn empty(service: &Service) {
    let names =
        [QueueAttributeName::ApproximateNumberOfMessages, QueueAttributeName::ApproximateNumberOfMessagesNotVisible];
    loop {
        let attributes = service.sqs.get_queue_attributes().queue_url(service.job_events());
        let attributes = attributes.set_attribute_names(Some(names.to_vec())).send().await.expect("attributes");
        if attributes.attributes.expect("attributes").values().all(|number| number == "0") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
