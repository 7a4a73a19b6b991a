//! The cost of a million events: counted requests and measured durations at list prices, for `docs/benchmarks.md`.

use std::{
    fs::File,
    path::PathBuf,
    sync::LazyLock,
    time::{Duration, Instant},
};

use axum::{Router, http::StatusCode};
use serde_json::{Value, json};
use tests::{Lambda, Manner, Proxy, Rough, World};
use tokio::net::TcpListener;

use crate::{
    build::{Binaries, DELIVER},
    delivery::{batch, deliver, job_event},
    readme,
};

// List prices of us-east-1 in dollars per million, November 2026: aws.amazon.com/sqs/pricing and so on.
const SQS_REQUEST: f64 = 0.40;
const INVOCATION: f64 = 0.20;
const GIGABYTE_SECOND: f64 = 13.3334;
const READ: f64 = 0.125;
const LOG_GIGABYTE: f64 = 0.50;

/// The memory, in MiB, with which a process gets one full CPU
/// (<https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html>).
const MIB_OF_A_CPU: f64 = 1769.0;
/// The longest delay of an SQS message; a longer wait takes several messages.
const MAX_DELAY: f64 = 900.0;
/// The average factor by which jitter lengthens a delay.
const JITTER: f64 = 1.1;
/// Records per invocation: as many as the template lets Lambda batch, and as few.
const BATCHES: [usize; 2] = [10, 1];

/// What was observed of one invocation.
#[derive(Clone, Copy)]
struct Invocation {
    records: f64,
    /// On a CPU of the size that the function has.
    billed_seconds: f64,
    reads: f64,
    sends: f64,
    log_bytes: f64,
}

/// The invocations that an event causes, each with how often it happens.
struct Way(Vec<(f64, Invocation)>);

impl Way {
    /// An event's share of its invocations.
    fn sum(&self, of: impl Fn(&Invocation) -> f64) -> f64 {
        self.0.iter().map(|(times, invocation)| times * of(invocation) / invocation.records).sum()
    }

    fn invocations(&self) -> f64 {
        self.sum(|_| 1.0)
    }

    /// Every message is sent, the first one by a producer. Those that are processed are received and deleted a batch at
    /// a time.
    fn sqs_requests(&self) -> f64 {
        1.0 + self.sum(|invocation| invocation.sends) + 2.0 * self.invocations()
    }

    /// Dollars per million events: for SQS, Lambda, DynamoDB and the logs.
    fn dollars(&self) -> [f64; 4] {
        let gigabytes = *MEMORY / 1024.0;
        [
            self.sqs_requests() * SQS_REQUEST,
            self.invocations() * INVOCATION
                + self.sum(|invocation| invocation.billed_seconds) * gigabytes * GIGABYTE_SECOND,
            self.sum(|invocation| invocation.reads) * READ,
            self.sum(|invocation| invocation.log_bytes) * 1e6 / 1e9 * LOG_GIGABYTE,
        ]
    }
}

/// A process of the delivery function, with everything it uses being measured.
struct Process {
    lambda: Lambda,
    dynamodb: Proxy,
    sqs: Proxy,
    log: PathBuf,
    tenants: Vec<String>,
}

impl Process {
    /// Starts and warms up a process. Its events belong to different tenants, so that no two share the read of their
    /// endpoints, and go to `url`. Failed attempts are due again at once.
    async fn start(world: &World, binaries: &Binaries, url: &str) -> Self {
        let (dynamodb, sqs) = (Proxy::faithful(world.stack.dynamodb()).await, Proxy::faithful(world.stack.sqs()).await);
        let mut environment = world.stack.environment(DELIVER).expect("a function").clone();
        environment.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), dynamodb.address().to_owned());
        environment.insert("AWS_ENDPOINT_URL_SQS".to_owned(), sqs.address().to_owned());
        environment.insert("RETRY_SCHEDULE".to_owned(), "0,0".to_owned());
        let log = std::env::temp_dir().join(format!("deliver-{}.log", uuid::Uuid::now_v7()));
        let writer = File::create(&log).expect("a file");
        let lambda = Lambda::start(&binaries.path(DELIVER), &environment, writer.into()).await;
        let mut tenants = Vec::new();
        for _ in 0..BATCHES[0] {
            let tenant = world.tenant(&format!("t{}", uuid::Uuid::now_v7().simple())).await;
            world.endpoint(&tenant, url, "a secret of some length").await;
            tenants.push(tenant.id);
        }
        let mut process = Self { lambda, dynamodb, sqs, log, tenants };
        process.first(BATCHES[0]).await;
        world.drain("deliveries").await;
        process
    }

    /// Invokes it with new events.
    async fn first(&mut self, records: usize) -> Invocation {
        let events: Vec<_> = self.tenants.iter().take(records).map(|tenant| job_event(tenant, 0)).collect();
        self.invoke("job-events", events).await
    }

    async fn invoke(&mut self, queue: &str, messages: Vec<Value>) -> Invocation {
        let seen = |process: &Self| {
            let log = std::fs::metadata(&process.log).expect("a file").len();
            [process.dynamodb.calls(), process.sqs.calls(), log]
        };
        let (records, event) = (messages.len(), batch(queue, messages));
        let (before, cpu, started) = (seen(self), self.lambda.cpu(), Instant::now());
        deliver(&mut self.lambda, [event]).await;
        let (wall, cpu) = (started.elapsed(), self.lambda.cpu() - cpu);
        let after = seen(self);
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let [reads, sends, log_bytes] = [0, 1, 2].map(|which| (after[which] - before[which]) as f64);
        #[expect(clippy::cast_precision_loss, reason = "ten at the most")]
        let records = records as f64;
        let cpu_there = cpu.as_secs_f64() / (*MEMORY / MIB_OF_A_CPU).min(1.0);
        let billed_seconds = wall.saturating_sub(cpu).as_secs_f64() + cpu_there;
        Invocation { records, billed_seconds, reads, sends, log_bytes }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A leftover file in the folder for temporary files does no harm.
        std::fs::remove_file(&self.log).ok();
    }
}

/// The delivery function's memory in MiB.
static MEMORY: LazyLock<f64> = LazyLock::new(|| {
    let template =
        local::template(&[("MailFrom", "mail@example.com"), ("MailIdentity", "example.com")]).expect("the template");
    template["Resources"]["WebhooksDeliverFunction"]["Properties"]["MemorySize"].as_f64().expect("MiB")
});

/// A receiver that responds with `status` after a delay.
async fn receiver(status: StatusCode, after: Duration) -> String {
    let app = Router::new().fallback(move || async move {
        tokio::time::sleep(after).await;
        status
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
    url
}

/// Measures, computes, and writes two tables to `docs/benchmarks.md`.
pub(crate) async fn table(world: &World, binaries: &Binaries) {
    let good = receiver(StatusCode::OK, Duration::from_millis(200)).await;
    let bad = receiver(StatusCode::INTERNAL_SERVER_ERROR, Duration::ZERO).await;
    let hanging = Rough::start(Manner::Hangs).await;
    let mut well = Process::start(world, binaries, &good).await;
    let mut failing = Process::start(world, binaries, &bad).await;
    let mut hung = Process::start(world, binaries, hanging.url()).await;
    let hanging_seconds = hung.first(BATCHES[0]).await.billed_seconds;
    let schedule = world.stack.environment(DELIVER).expect("a function")["RETRY_SCHEDULE"].clone();
    let delays: Vec<f64> = schedule.split(',').map(|delay| delay.parse().expect("seconds")).collect();
    let retries = delays.iter().map(|_| 1.0).sum::<f64>();
    let messages: f64 = delays.iter().map(|delay| (delay * JITTER / MAX_DELAY).ceil()).sum();
    let mut ways = Vec::new();
    for records in BATCHES {
        let all_well = well.first(records).await;
        world.drain("deliveries").await;
        let first = failing.first(records).await;
        let mut waiting = world.drain("deliveries").await;
        assert_eq!(waiting.len(), records, "every delivery waits");
        let retry = failing.invoke("deliveries", waiting.clone()).await;
        for message in &mut waiting {
            message["not_before"] = json!(jiff::Timestamp::now().as_millisecond() + 3_600_000);
        }
        let hop = failing.invoke("deliveries", waiting).await;
        let hangs = |invocation| Invocation { billed_seconds: hanging_seconds, ..invocation };
        ways.push([
            Way(vec![(1.0, all_well)]),
            Way(vec![(1.0, first), (retries, retry), (messages - retries, hop)]),
            Way(vec![(1.0, hangs(first)), (retries, hangs(retry)), (messages - retries, hop)]),
        ]);
    }
    readme::put("costs", &tables(&ways, retries + 1.0));
}

type Figure<'a> = &'a dyn Fn(&Way) -> f64;

/// Two tables, with each figure for full batches and for single records.
fn tables(ways: &[[Way; 3]], attempts: f64) -> String {
    let range = |of: Figure<'_>, which: usize| {
        let [low, high] = [0, 1].map(|batch| number(of(&ways[batch][which])));
        if low == high { low } else { format!("{low}..{high}") }
    };
    let mut text = "| for one event with one endpoint | goes well | fails every time |\n|---|---|---|\n".to_owned();
    let rows: [(&str, Figure<'_>); 5] = [
        ("requests to SQS", &Way::sqs_requests),
        ("Lambda invocations", &Way::invocations),
        ("Lambda, s billed, waiting for receivers included", &|way| way.sum(|invocation| invocation.billed_seconds)),
        ("DynamoDB reads (1 unit each, for up to 4 KB of endpoints)", &|way| way.sum(|invocation| invocation.reads)),
        ("log bytes", &|way| way.sum(|invocation| invocation.log_bytes)),
    ];
    text += &format!("| attempts to deliver | 1 | {} |\n", number(attempts));
    for (what, of) in rows {
        text += &format!("| {what} | {} | {} |\n", range(of, 0), range(of, 1));
    }
    text += "\n| dollars for a million events | goes well, receivers take 0.2 s | fails, receivers answer at once | \
             fails, receivers hang 15 s |\n|---|---|---|---|\n";
    for (place, what) in ["SQS", "Lambda", "DynamoDB", "logs"].into_iter().enumerate() {
        let figures = [0, 1, 2].map(|which| range(&|way| way.dollars()[place], which));
        text += &format!("| {what} | {} |\n", figures.join(" | "));
    }
    let together = [0, 1, 2].map(|which| format!("**{}**", range(&|way| way.dollars().iter().sum(), which)));
    text + &format!("| **together** | {} |\n", together.join(" | "))
}

/// Formats a number with its significant digits only.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{:.0}", (value / 10.0).round() * 10.0),
        value if value >= 10.0 => format!("{value:.0}"),
        value if value >= 1.0 => trimmed(&format!("{value:.1}")),
        value if value >= 0.1 => trimmed(&format!("{value:.2}")),
        value => trimmed(&format!("{value:.3}")),
    }
}

fn trimmed(number: &str) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}
