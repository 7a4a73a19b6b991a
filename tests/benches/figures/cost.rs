//! The cost of a million events: counted requests, the capacity that they use, and measured durations at list prices,
//! for `docs/performance.md`.

use std::{
    fs::File,
    path::PathBuf,
    sync::LazyLock,
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::{Router, http::StatusCode};
use serde_json::{Value, json};
use tests::{Lambda, Manner, Proxy, Rough, World, proxy::Units};
use tokio::net::TcpListener;

use crate::{
    build::{Binaries, DELIVER},
    delivery::{batch, deliver},
    job_event::job_event_of,
    page, scaling,
    table::{Row, Table},
};

// List prices of us-east-1 in dollars per million, November 2026: aws.amazon.com/sqs/pricing and so on.
// Without the surcharge for fair queues, which docs/performance.md names.
const SQS_REQUEST: f64 = 0.40;
const INVOCATION: f64 = 0.20;
const GIGABYTE_SECOND: f64 = 13.3334;
const READ: f64 = 0.125;
const WRITE: f64 = 0.625;
const LOG_GIGABYTE: f64 = 0.50;

/// The memory, in MiB, that gives a process one full CPU
/// (<https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html>).
const MIB_OF_A_CPU: f64 = 1769.0;
/// The number of bytes that SQS counts as one request.
const SQS_CHUNK: usize = 64 * 1024;
/// The longest delay of an SQS message, in seconds. `deliveries-wake` ends a longer wait.
const MAX_DELAY: u32 = 900;
/// The attempts in a message of `deliveries-wake`, if an organization has enough that end their waits at about the same
/// time.
const TOGETHER: usize = 10;
/// Read units that `deliveries-wake` uses per wait: it reads the row for the end of the wait (200 bytes at most) in its
/// minute and again 15 minutes later, and then the state of the delivery, eventually consistent, for half a unit.
const WAKE_READS: f64 = 2.0 * 200.0 / 4096.0 + 0.5;
/// Units that `deliveries-wake` uses to add a delivery to the index of jobs: it reads the state, of a kilobyte, and
/// writes two entries of 49 bytes, in parts of about three kilobytes. For a rare workflow, it writes a third entry.
const INDEX_READS: f64 = 1.0 / 4.0;
const INDEX_WRITES: f64 = 2.0 * 49.0 / 1024.0;
/// Records per invocation: the largest batch that the template permits, and a single one.
const BATCHES: [usize; 2] = [10, 1];
/// The events, named by their size, and the number of sizes with all details.
const SIZES: [(&str, usize); 4] =
    [("1 KB", 1024), ("100 KB", 100 * 1024), ("10 KB", 10 * 1024), ("500 KB", 500 * 1024)];
const DETAILED: usize = 2;

/// The measurements of one invocation.
#[derive(Clone, Copy)]
struct Invocation {
    /// The number of events or attempts.
    records: f64,
    /// The duration with the CPU share of the deployed function.
    billed_seconds: f64,
    units: Units,
    /// SQS requests: the function's own, plus Lambda's: one to receive the batch, and one or more to delete it.
    requests: f64,
    log_bytes: f64,
}

/// The work for one event: the function's invocations, and calls made elsewhere.
pub(crate) struct Way {
    invocations: Vec<Invocation>,
    /// The producer's requests to SQS, and those of `deliveries-wake`.
    requests: f64,
    /// Read units used by `deliveries-wake`.
    reads: f64,
}

impl Way {
    /// An event's share of its invocations.
    fn sum(&self, of: impl Fn(&Invocation) -> f64) -> f64 {
        self.invocations.iter().map(|invocation| of(invocation) / invocation.records).sum()
    }

    pub(crate) fn invocations(&self) -> f64 {
        self.sum(|_| 1.0)
    }

    /// The average number of concurrent invocations at a rate of one event per second.
    pub(crate) fn busy(&self) -> f64 {
        self.sum(|invocation| invocation.billed_seconds)
    }

    /// The average number of messages in progress at a rate of one event per second.
    pub(crate) fn in_flight(&self) -> f64 {
        self.sum(|invocation| invocation.billed_seconds * invocation.records)
    }

    fn requests(&self) -> f64 {
        self.requests + self.sum(|invocation| invocation.requests)
    }

    pub(crate) fn reads(&self) -> f64 {
        self.reads + self.sum(|invocation| invocation.units.read)
    }

    pub(crate) fn writes(&self) -> f64 {
        self.sum(|invocation| invocation.units.written)
    }

    /// Dollars per million events, for each of [`PLACES`].
    fn dollars(&self) -> [f64; 6] {
        let gigabytes = *MEMORY / 1024.0;
        [
            self.requests() * SQS_REQUEST,
            self.invocations() * INVOCATION
                + self.sum(|invocation| invocation.billed_seconds) * gigabytes * GIGABYTE_SECOND,
            self.reads() * READ,
            self.writes() * WRITE,
            INDEX_READS * READ + INDEX_WRITES * WRITE,
            self.sum(|invocation| invocation.log_bytes) * 1e6 / 1e9 * LOG_GIGABYTE,
        ]
    }

    /// Dollars per million events.
    pub(crate) fn together(&self) -> f64 {
        self.dollars().iter().sum()
    }
}

/// The cost, by service.
const PLACES: [&str; 6] =
    ["SQS", "Lambda", "DynamoDB, reads", "DynamoDB, writes to the delivery log", "DynamoDB, index of jobs", "logs"];

/// A process of the delivery function whose calls are all measured.
struct Process<'a> {
    world: &'a World,
    lambda: Lambda,
    dynamodb: Proxy,
    sqs: Proxy,
    log: PathBuf,
    /// Tenants, each with one endpoint.
    endpoints: Vec<(String, String)>,
    /// The size of the events.
    bytes: usize,
    events: usize,
}

impl<'a> Process<'a> {
    /// Starts and warms up a process. Its events go to `url` and belong to different tenants, so each event needs its
    /// own read of the endpoints.
    async fn start(world: &'a World, binaries: &Binaries, url: &str, bytes: usize) -> Self {
        let (dynamodb, sqs) =
            (Proxy::metering().await.before(world.stack.dynamodb()), Proxy::faithful(world.stack.sqs()).await);
        let mut environment = world.stack.environment(DELIVER).expect("a function").clone();
        environment.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), dynamodb.address().to_owned());
        environment.insert("AWS_ENDPOINT_URL_SQS".to_owned(), sqs.address().to_owned());
        let log = std::env::temp_dir().join(format!("deliver-{}.log", uuid::Uuid::now_v7()));
        let writer = File::create(&log).expect("a file");
        let lambda = Lambda::start(&binaries.path(DELIVER), &environment, writer.into()).await;
        let mut endpoints = Vec::new();
        for _ in 0..BATCHES[0] {
            let tenant = world.tenant(&format!("t{}", uuid::Uuid::now_v7().simple())).await;
            let endpoint = world.endpoint(&tenant, url, "a secret of some length").await;
            endpoints.push((tenant.id, endpoint));
        }
        let mut process = Self { world, lambda, dynamodb, sqs, log, endpoints, bytes, events: 0 };
        process.first(BATCHES[0]).await;
        process
    }

    /// Invokes the function with new events.
    async fn first(&mut self, records: usize) -> Invocation {
        let mut events = Vec::new();
        for (tenant, _) in self.endpoints.iter().take(records) {
            events.push(job_event_of(self.bytes, tenant, self.events));
            self.events += 1;
        }
        self.invoke("job-events", events).await
    }

    /// Invokes the function with the next attempts of each tenant's [`TOGETHER`] newest deliveries after a wait of this
    /// many seconds. Returns one of the invocations, which are all alike.
    async fn next(&mut self, wait: u32, records: usize) -> Invocation {
        let mut due = Vec::new();
        for (tenant, endpoint) in self.endpoints.iter().take(records) {
            due.push(due_now(self.world, tenant, endpoint).await);
        }
        if wait > MAX_DELAY {
            let messages = self.endpoints.iter().zip(due);
            let messages = messages.map(|((tenant, _), due)| json!({"tenant_id": tenant, "attempts": due}));
            return self.invoke("deliveries", messages.collect()).await;
        }
        let mut invocation = None;
        for number in 0..TOGETHER {
            let messages = self.endpoints.iter().zip(&mut due).map(|((tenant, _), due)| {
                let mut message = due[number].take();
                message["tenant_id"] = json!(tenant);
                message
            });
            let messages = messages.collect();
            invocation = Some(self.invoke("deliveries", messages).await);
        }
        invocation.expect("an invocation")
    }

    /// Invokes the function with the drain of each tenant, whose newest delivery has become too old.
    async fn expire(&mut self, records: usize) -> Invocation {
        let now = common::timestamp::Timestamp::now().as_millisecond();
        let at = |seconds: i64| now - 1000 * seconds;
        let ago = |seconds| AttributeValue::N(at(seconds).to_string());
        let mut messages = Vec::new();
        for (tenant, endpoint) in self.endpoints.iter().take(records) {
            let (delivery, ..) = newest(self.world, tenant, endpoint, 1).await.remove(0);
            let destination = format!("{tenant}/{endpoint}.0");
            set(
                self.world,
                "deliveries",
                [("destination", &destination), ("delivery", &delivery)],
                ("fails_at", ago(1)),
            )
            .await;
            let keys = |id| [("tenant_id", tenant.as_str()), ("webhook_endpoint_id", id)];
            let gate = AttributeValue::S(format!("silent.{}.{}", at(7200), at(3600)));
            set(self.world, "webhook-endpoints", keys(endpoint), ("gate", gate)).await;
            let at = at(1);
            set(self.world, "webhook-endpoints", keys("#drain#silent"), ("expected_at", ago(1))).await;
            messages.push(json!({"tenant_id": tenant, "drain": "silent", "at": at}));
        }
        self.invoke("hanging-deliveries", messages).await
    }

    async fn invoke(&mut self, queue: &str, messages: Vec<Value>) -> Invocation {
        let seen = |process: &Self| {
            let log = std::fs::metadata(&process.log).expect("a file").len();
            (process.dynamodb.units(), process.sqs.calls(), log)
        };
        let attempts = |message: &Value| message["attempts"].as_array().map_or(1, Vec::len);
        let records: usize = messages.iter().map(attempts).sum();
        let received = messages.iter().map(|message| message.to_string().len()).sum();
        let event = batch(queue, messages);
        let (before, cpu, started) = (seen(self), self.lambda.cpu(), Instant::now());
        deliver(&mut self.lambda, [event]).await;
        let (wall, cpu) = (started.elapsed(), self.lambda.cpu() - cpu);
        let after = seen(self);
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let [records, sends, log_bytes] = [records as f64, (after.1 - before.1) as f64, (after.2 - before.2) as f64];
        let cpu_there = cpu.as_secs_f64() / (*MEMORY / MIB_OF_A_CPU).min(1.0);
        let billed_seconds = wall.saturating_sub(cpu).as_secs_f64() + cpu_there;
        Invocation { records, billed_seconds, units: after.0, requests: sends + requests(received) + 1.0, log_bytes }
    }
}

/// The requests that SQS counts for a call with this many bytes.
fn requests(bytes: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let chunks = bytes.div_ceil(SQS_CHUNK) as f64;
    chunks
}

/// Makes the newest deliveries to an endpoint due, and returns the message for the next attempt of each, without the
/// tenant.
async fn due_now(world: &World, tenant: &str, endpoint: &str) -> Vec<Value> {
    let now = common::timestamp::Timestamp::now().as_millisecond();
    let mut due = Vec::new();
    for (delivery, status, attempts) in newest(world, tenant, endpoint, TOGETHER).await {
        assert_eq!(status, "pending");
        let destination = format!("{tenant}/{endpoint}.0");
        let key = [("destination", destination.as_str()), ("delivery", &delivery)];
        set(world, "deliveries", key, ("next_attempt_at", AttributeValue::N(now.to_string()))).await;
        due.push(json!({"delivery_id": format!("{endpoint}.0.{delivery}"), "attempt": attempts + 1}));
    }
    due
}

/// Sets an attribute of the item with this key.
async fn set(world: &World, table: &str, key: [(&str, &str); 2], (name, value): (&str, AttributeValue)) {
    let update = world.stack.dynamodb_client().update_item().table_name(table);
    let update =
        key.into_iter().fold(update, |update, (name, text)| update.key(name, AttributeValue::S(text.to_owned())));
    let update = update.update_expression("SET #name = :value").expression_attribute_names("#name", name);
    update.expression_attribute_values(":value", value).send().await.expect("it is set");
}

/// The newest deliveries to an endpoint: their keys, their status, and the number of attempts so far.
async fn newest(world: &World, tenant: &str, endpoint: &str, count: usize) -> Vec<(String, String, u32)> {
    let query = world
        .stack
        .dynamodb_client()
        .query()
        .table_name("deliveries")
        .consistent_read(true)
        .key_condition_expression("destination = :destination")
        .expression_attribute_values(":destination", AttributeValue::S(format!("{tenant}/{endpoint}.0")))
        .scan_index_forward(false)
        .limit(i32::try_from(count).expect("a small number"));
    let found = query.send().await.expect("the log is read");
    let read = found.items().iter().map(|state| {
        let text = |name: &str| state[name].as_s().expect("a string").clone();
        let attempts = state["attempts"].as_n().expect("a number").parse().expect("a small number");
        (text("delivery"), text("status"), attempts)
    });
    let read: Vec<_> = read.collect();
    assert_eq!(read.len(), count);
    read
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        // A leftover file in the temporary folder is harmless.
        std::fs::remove_file(&self.log).ok();
    }
}

/// The delivery function's memory in MiB.
static MEMORY: LazyLock<f64> = LazyLock::new(|| {
    TEMPLATE["Resources"]["WebhooksDeliverFunction"]["Properties"]["MemorySize"].as_f64().expect("MiB")
});

static TEMPLATE: LazyLock<Value> = LazyLock::new(|| {
    local::template(&[("MailFrom", "mail@example.com"), ("MailIdentity", "example.com")]).expect("the template")
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

/// Measures and computes the costs. Writes tables to `docs/performance.md`, and adds each value that has a bound to the
/// figures.
pub(crate) async fn table(world: &World, binaries: &Binaries, table: &mut Table) {
    let good = receiver(StatusCode::OK, Duration::from_millis(200)).await;
    let bad = receiver(StatusCode::INTERNAL_SERVER_ERROR, Duration::ZERO).await;
    let hanging = Rough::start(Manner::Hangs).await;
    let schedule = world.stack.environment(DELIVER).expect("a function")["RETRY_SCHEDULE"].clone();
    let delays: Vec<u32> = schedule.split(',').map(|delay| delay.parse().expect("seconds")).collect();
    let mut all = Vec::new();
    for (_, bytes) in SIZES {
        let mut well = Process::start(world, binaries, &good, bytes).await;
        let mut failing = Process::start(world, binaries, &bad, bytes).await;
        let mut hanging = Process::start(world, binaries, hanging.url(), bytes).await;
        // The first attempts have closed the gates. Their retries are not part of the figures.
        hanging.expire(BATCHES[0]).await;
        let mut ways = Vec::new();
        for records in BATCHES {
            let delivered = well.first(records).await;
            let mut attempts = vec![failing.first(records).await];
            for _ in 1..TOGETHER {
                failing.first(records).await;
            }
            for wait in &delays {
                attempts.push(failing.next(*wait, records).await);
            }
            let (tenant, endpoint) = &failing.endpoints[0];
            let ended = newest(world, tenant, endpoint, TOGETHER).await;
            assert!(ended.iter().all(|(_, status, _)| status == "failed"), "{ended:?}");
            // A delivery that waits for a silent receiver is parked, and ends three days later.
            let hung = vec![hanging.first(records).await, hanging.expire(records).await];
            ways.push([way(bytes, vec![delivered], &[]), way(bytes, attempts, &delays), way(bytes, hung, &[])]);
        }
        all.push(ways);
    }
    let [batched, single] = [0, 1].map(|batch| &all[0][batch]);
    let row = |what: &str, dollars: f64| Row::alone(what, "dollars", dollars);
    let log = batched[0].writes() * WRITE;
    table.push(row("a million events delivered at once: writes to the log", log).at_most(0.9, 0.7));
    let what = "a million attempts for events that fail every time, receivers answer at once";
    #[expect(clippy::cast_precision_loss, reason = "a schedule is short")]
    let attempts = (delays.len() + 1) as f64;
    table.push(row(&format!("{what}, full batches"), batched[1].together() / attempts).at_most(2.8, 2.0));
    table.push(row(&format!("{what}, single messages"), single[1].together() / attempts).at_most(3.5, 2.5));
    scaling::write([&batched[0], &single[0]], &batched[1], &TEMPLATE);
    page::put("performance.md", "costs", &tables(&all, delays.len() + 1));
}

/// The work for an event of this size, with these waits between its invocations.
fn way(bytes: usize, invocations: Vec<Invocation>, waits: &[u32]) -> Way {
    let after_waits = waits.iter().zip(invocations.iter().skip(1)).filter(|(wait, _)| **wait > MAX_DELAY);
    let woken: f64 = after_waits.map(|(_, invocation)| 1.0 / invocation.records).sum();
    let reads = waits.iter().map(|_| WAKE_READS).sum();
    Way { invocations, requests: requests(bytes) + woken, reads }
}

type Figure<'a> = &'a dyn Fn(&Way) -> f64;

/// The tables, with each figure for full batches and for single records.
fn tables(all: &[Vec<[Way; 3]>], attempts: usize) -> String {
    let range = |of: Figure<'_>, size: usize, which: usize| {
        let [low, high] = [0, 1].map(|batch| number(of(&all[size][batch][which])));
        if low == high { low } else { format!("{low}..{high}") }
    };
    let mut text = "| for one event with one endpoint |".to_owned();
    for (size, _) in SIZES.into_iter().take(DETAILED) {
        text += &format!(" {size}, succeeds | {size}, fails every time |");
    }
    text += "\n|---|---|---|---|---|\n";
    text += &format!("| attempts to deliver | 1 | {attempts} | 1 | {attempts} |\n");
    let rows: [(&str, Figure<'_>); 6] = [
        ("requests to SQS", &Way::requests),
        ("Lambda invocations", &Way::invocations),
        ("Lambda seconds, including waits for receivers", &|way| way.sum(|invocation| invocation.billed_seconds)),
        ("DynamoDB read units (the endpoints take one for up to 4 KB)", &Way::reads),
        ("DynamoDB write units", &Way::writes),
        ("log bytes", &|way| way.sum(|invocation| invocation.log_bytes)),
    ];
    for (what, of) in rows {
        let figures = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(size, which)| range(of, size, which));
        text += &format!("| {what} | {} |\n", figures.join(" | "));
    }
    for (size, (name, _)) in SIZES.into_iter().take(DETAILED).enumerate() {
        text += &format!(
            "\n| dollars for a million events of {name} | succeeds, receivers take 0.2 s | \
             fails, receivers answer at once | fails, receivers hang for three days |\n|---|---|---|---|\n"
        );
        for (place, what) in PLACES.into_iter().enumerate() {
            let figures = [0, 1, 2].map(|which| range(&|way| way.dollars()[place], size, which));
            text += &format!("| {what} | {} |\n", figures.join(" | "));
        }
        let together = [0, 1, 2].map(|which| format!("**{}**", range(&Way::together, size, which)));
        text += &format!("| **total** | {} |\n", together.join(" | "));
    }
    text += "\n| dollars for a million events | succeeds | fails, receivers answer at once | fails, receivers hang |\n";
    text += "|---|---|---|---|\n";
    let mut sizes: Vec<_> = SIZES.into_iter().enumerate().collect();
    sizes.sort_by_key(|(_, (_, bytes))| *bytes);
    for (size, (name, _)) in sizes {
        let together = [0, 1, 2].map(|which| range(&Way::together, size, which));
        text += &format!("| {name} | {} |\n", together.join(" | "));
    }
    text
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
