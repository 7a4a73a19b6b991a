//! The whole service in one process, as `cargo local` runs it: from the embedded queue through the function and the
//! embedded tables to a receiver.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use aws_sdk_sqs::types::QueueAttributeName;
use axum::http::StatusCode;
use futures::{StreamExt, stream};
use serde_json::json;

use crate::{
    Effort, artifacts,
    delivery::Counter,
    job_event::job_event,
    service::{self, Service},
    table::{Row, Table, median},
};

/// The number of batches in flight to the queue.
const SENDERS: usize = 8;
/// The time limit for a run.
const PATIENCE: Duration = Duration::from_mins(5);

/// Measures a process with 20,000 events of 1 KB for one endpoint, which answers with 200 or with 500, with the data in
/// memory and on disk. If `BASELINE` is the path of another version's local runner, both versions run alternately and are
/// compared.
pub(crate) async fn process(effort: Effort, table: &mut Table) {
    let (runs, events) = if effort.quick { (1, 2_000) } else { (3, 20_000) };
    let (local, baseline) = (service::build(), env::var_os("BASELINE").map(PathBuf::from));
    let (mut own, mut before, mut of_failures) = (Runs::default(), Runs::default(), Vec::new());
    for _ in 0..runs {
        own.add(&local, events).await;
        if let Some(baseline) = &baseline {
            before.add(baseline, events).await;
        }
        of_failures.push(run(&local, "job.failed", events, StatusCode::OK, None).await.0);
    }
    let what = "deliveries of job.failed, of one workflow, against those of job.completed";
    table.push(Row::ratio(what, "per s", median(of_failures), median(own.rates.clone())).at_least(0.8, 0.95));
    let rows = [
        ("whole local process, deliveries of 1 KB to one endpoint", "per s", own.rates, before.rates),
        ("the same, CPU per 1,000", "s", own.costs, before.costs),
        ("the same, CPU per 1,000 first attempts that get a 500", "s", own.failing, before.failing),
        ("the same, rate of first attempts that get a 500", "per s", own.failing_rates, before.failing_rates),
        ("the same on disk, CPU per 1,000", "s", own.disk_costs, before.disk_costs),
        ("the same on disk, deliveries", "per s", own.disk_rates, before.disk_rates),
    ];
    // In a quick run, neither the process nor the harness is optimized.
    let bounds = if effort.quick { [None, Some((2.5, 2.5)), Some((10.0, 10.0)), None, None, None] } else { BOUNDS };
    for ((what, unit, own, before), bounds) in rows.into_iter().zip(bounds) {
        if !before.is_empty() {
            let row = Row::ratio(&format!("{what}, against BASELINE"), unit, median(own), median(before));
            table.push(row);
            continue;
        }
        let row = Row::alone(what, unit, median(own));
        table.push(match bounds {
            Some((least, aim)) if unit == "per s" => row.at_least(least, aim),
            Some((most, aim)) => row.at_most(most, aim),
            None => row,
        });
    }
}

/// The bounds and aims of the rows of a complete run.
const BOUNDS: [Option<(f64, f64)>; 6] =
    [Some((6000.0, 9000.0)), Some((0.22, 0.16)), Some((0.4, 0.3)), None, None, None];

/// The results of runs of one version.
#[derive(Default)]
struct Runs {
    rates: Vec<f64>,
    costs: Vec<f64>,
    failing: Vec<f64>,
    failing_rates: Vec<f64>,
    disk_rates: Vec<f64>,
    disk_costs: Vec<f64>,
}

impl Runs {
    async fn add(&mut self, local: &Path, events: usize) {
        let (rate, cpu) = run(local, "job.completed", events, StatusCode::OK, None).await;
        let (failing_rate, failing) =
            run(local, "job.completed", events, StatusCode::INTERNAL_SERVER_ERROR, None).await;
        let folder = artifacts::folder().join("figures-data");
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("the process of the last run has ended");
        }
        fs::create_dir(&folder).expect("a folder");
        let (disk_rate, disk_cost) = run(local, "job.completed", events, StatusCode::OK, Some(&folder)).await;
        self.disk_rates.push(disk_rate);
        self.disk_costs.push(disk_cost);
        self.rates.push(rate);
        self.costs.push(cpu);
        self.failing.push(failing);
        self.failing_rates.push(failing_rate);
    }
}

/// Sends `events` with this name to a new process. Returns the rate at which the receiver got them, measured from the
/// first send, and the CPU time that the process used per thousand events until its queue was empty. Its data is in
/// memory unless there is a `folder`.
async fn run(local: &Path, event: &str, events: usize, answer: StatusCode, folder: Option<&Path>) -> (f64, f64) {
    let receiver = Counter::answering(answer).await;
    // Retries wait for five minutes, so only first attempts are counted.
    let retries = [("RETRY_SCHEDULE", "300,300,1800,7200,18000,36000,50400,72000,72000")];
    let (service, _output) = Service::start(local, &retries, folder).await;
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
