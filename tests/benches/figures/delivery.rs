//! The delivery function: what a delivery costs, how fast it is, and how that scales.

use std::{
    collections::HashMap,
    io::Write,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, extract::State};
use serde_json::{Value, json};
use tests::{Lambda, Manner, Rough, Tenant, World};
use tokio::{net::TcpListener, sync::Notify};

use crate::{
    Effort,
    account::{call, event},
    build::{BARE_LOOP, BASELINE, Binaries, DELIVER},
    table::{Row, Table, median},
};

/// A receiver that counts requests.
struct Counter {
    url: String,
    shared: Arc<(AtomicUsize, Notify)>,
}

impl Counter {
    async fn start() -> Self {
        let shared = Arc::new((AtomicUsize::new(0), Notify::new()));
        let app = Router::new().fallback(count).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
        Self { url, shared }
    }

    /// Waits until `more` requests have arrived since the count was `before`.
    async fn wait(&self, before: usize, more: usize) {
        while self.shared.0.load(Ordering::Relaxed) < before + more {
            self.shared.1.notified().await;
        }
    }

    fn count(&self) -> usize {
        self.shared.0.load(Ordering::Relaxed)
    }
}

async fn count(State(shared): State<Arc<(AtomicUsize, Notify)>>, _body: axum::body::Bytes) {
    shared.0.fetch_add(1, Ordering::Relaxed);
    shared.1.notify_one();
}

/// A job event with a kilobyte of result.
pub(crate) fn job_event(tenant: &str, job: usize) -> Value {
    json!({
        "event": "job.completed", "tenant_id": tenant, "job_id": format!("job-{job}"), "workflow": "import",
        "status": "completed", "result": {"text": "x".repeat(850)},
    })
}

/// A Lambda event with these messages from a queue.
pub(crate) fn batch(queue: &str, messages: impl IntoIterator<Item = Value>) -> String {
    let records: Vec<Value> = messages
        .into_iter()
        .enumerate()
        .map(|(number, message)| {
            json!({
                "messageId": number.to_string(), "receiptHandle": "r", "body": message.to_string(),
                "attributes": {"SentTimestamp": "1700000000000"}, "messageAttributes": {}, "eventSource": "aws:sqs",
                "eventSourceARN": format!("arn:aws:sqs:eu-central-1:123456789012:{queue}"), "awsRegion": "eu-central-1",
            })
        })
        .collect();
    json!({ "Records": records }).to_string()
}

fn environment(world: &World) -> HashMap<String, String> {
    let mut environment = world.stack.environment(DELIVER).expect("a function").clone();
    environment.insert("MAX_CONCURRENT_ATTEMPTS".to_owned(), "1000".to_owned());
    environment
}

pub(crate) async fn deliver(lambda: &mut Lambda, events: impl Into<Vec<String>>) {
    for answer in lambda.invoke_all(events.into()).await {
        assert!(answer.contains("\"batchItemFailures\":[]"), "{answer}");
    }
}

/// Wall time and CPU time of the bare loop.
async fn bare_loop(binaries: &Binaries, posts: usize, at_once: usize, url: &str) -> (f64, f64) {
    let mut command = Command::new(binaries.path(BARE_LOOP));
    command.args([&posts.to_string(), &at_once.to_string(), url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("the loop starts");
        let body = job_event("0192f0c1-0000-7000-8000-000000000000", 0).to_string();
        child.stdin.take().expect("a pipe").write_all(body.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends")
    });
    let output = output.await.expect("no panic");
    assert!(output.status.success(), "the loop ends well");
    let line = String::from_utf8(output.stdout).expect("a line");
    let numbers: Vec<f64> = line.split_whitespace().map(|number| number.parse().expect("nanoseconds")).collect();
    (numbers[0] / 1e9, numbers[1] / 1e9)
}

async fn tenant_with_endpoints(world: &World, slug: &str, url: &str, endpoints: usize) -> Tenant {
    let tenant = world.tenant(slug).await;
    for number in 0..endpoints {
        world.endpoint(&tenant, &format!("{url}{number}"), "a secret of some length").await;
    }
    tenant
}

/// A thousand deliveries to one endpoint, in batches of ten.
pub(crate) async fn thousand(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let counter = Counter::start().await;
    let tenant = tenant_with_endpoints(world, "thousand", &counter.url, 1).await;
    let mut lambda = Lambda::start(&binaries.path(DELIVER), &environment(world), Stdio::null()).await;
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..effort.runs(20) {
        own.push(round(&mut lambda, &tenant, 10, 1000).await.1);
        bare.push(bare_loop(binaries, 1000, 10, &counter.url).await.1);
    }
    let (own, bare) = (median(own), median(bare));
    table.push(
        Row::ratio("1,000 deliveries of 1 KB in batches of 10, CPU", "s", own, bare).at_most(2.5, 1.5).known(4.5),
    );
    // The loop is not invoked by Lambda and does not read a table. So add what the bare function takes for that, a
    // hundred times:
    let floor = bare + 100.0 * bare_call(world, binaries, effort).await / 1e3;
    table.push(Row::ratio("the same, with the bare function's call for each batch", "s", own, floor));
}

/// CPU time of a warm call of the bare function in milliseconds, without TLS, like the other measurements here.
async fn bare_call(world: &World, binaries: &Binaries, effort: Effort) -> f64 {
    let environment = world.stack.environment("webhooks-list").expect("a function");
    let mut function = Lambda::start(&binaries.path(BASELINE), environment, Stdio::null()).await;
    let event = event("webhooks-list", "", &json!({}));
    let mut runs = Vec::new();
    for _ in 0..effort.runs(400) {
        runs.push(call(&mut function, &event).await);
    }
    median(runs)
}

/// Wall time and CPU time of this many deliveries in waves of `in_flight`, after a wave that opens the connections.
async fn round(lambda: &mut Lambda, tenant: &Tenant, in_flight: usize, deliveries: usize) -> (f64, f64) {
    let waves = deliveries / in_flight + 1;
    let mut events: Vec<_> = (0..waves)
        .map(|wave| batch("job-events", (0..in_flight).map(|job| job_event(&tenant.id, wave * in_flight + job))))
        .collect();
    deliver(lambda, events.split_off(waves - 1)).await;
    let (started, cpu) = (Instant::now(), lambda.cpu());
    deliver(lambda, events).await;
    (started.elapsed().as_secs_f64(), (lambda.cpu() - cpu).as_secs_f64())
}

/// One event to a hundred endpoints, until the last one has received it.
pub(crate) async fn fan_out(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let counter = Counter::start().await;
    let tenant = tenant_with_endpoints(world, "fan-out", &counter.url, 100).await;
    let mut lambda = Lambda::start(&binaries.path(DELIVER), &environment(world), Stdio::null()).await;
    deliver(&mut lambda, [batch("job-events", [job_event(&tenant.id, 0)])]).await;
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for job in 0..effort.runs(40) {
        let event = batch("job-events", [job_event(&tenant.id, job)]);
        let (before, started) = (counter.count(), Instant::now());
        let arrived = async {
            counter.wait(before, 100).await;
            started.elapsed().as_secs_f64() * 1e3
        };
        let (elapsed, ()) = tokio::join!(arrived, deliver(&mut lambda, [event]));
        own.push(elapsed);
        bare.push(bare_loop(binaries, 100, 100, &counter.url).await.0 * 1e3);
    }
    let row = Row::ratio("one event to 100 endpoints, wall time to the last", "ms", median(own), median(bare));
    table.push(row.at_most(2.0, 1.3).known(2.7));
}

/// The performance of one process with this many events in flight.
pub(crate) struct Point {
    /// The number of events in flight.
    pub(crate) in_flight: usize,
    /// Deliveries per second: ours, and the bare loop's.
    pub(crate) rate: (f64, f64),
    /// CPU time of a delivery in microseconds: ours, and the bare loop's.
    pub(crate) cpu: (f64, f64),
}

/// Throughput, and how the cost of a delivery changes with the number of events in flight.
pub(crate) async fn in_flight(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) -> Vec<Point> {
    let counter = Counter::start().await;
    let tenant = tenant_with_endpoints(world, "in-flight", &counter.url, 1).await;
    let mut lambda = Lambda::start(&binaries.path(DELIVER), &environment(world), Stdio::null()).await;
    let mut points = Vec::new();
    for in_flight in [10, 30, 100, 300, 1000] {
        // 20,000 deliveries in 20 rounds, alternating with as many of the bare loop.
        let deliveries = 1000 / in_flight * in_flight;
        let (mut rates, mut costs) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for _ in 0..effort.runs(20) {
            let (wall, cpu) = round(&mut lambda, &tenant, in_flight, deliveries).await;
            let (bare_wall, bare_cpu) = bare_loop(binaries, deliveries, in_flight, &counter.url).await;
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            let deliveries = deliveries as f64;
            rates.0.push(deliveries / wall);
            rates.1.push(deliveries / bare_wall);
            costs.0.push(cpu / deliveries * 1e6);
            costs.1.push(bare_cpu / deliveries * 1e6);
        }
        let (rate, cpu) = ((median(rates.0), median(rates.1)), (median(costs.0), median(costs.1)));
        points.push(Point { in_flight, rate, cpu });
    }
    for point in points.iter().filter(|point| point.in_flight >= 100) {
        let what = format!("deliveries of one process, {} in flight", point.in_flight);
        let row = Row::ratio(&what, "per s", point.rate.0, point.rate.1).at_least(0.5, 0.8);
        table.push(if point.in_flight == 100 { row.known(0.35) } else { row });
    }
    for point in points.iter().filter(|point| matches!(point.in_flight, 100 | 1000)) {
        let what = format!("CPU of a delivery with {} in flight, against 10", point.in_flight);
        table.push(Row::ratio(&what, "µs", point.cpu.0, points[0].cpu.0).at_most(1.2, 1.05));
    }
    points
}

/// A thousand deliveries to a receiver that hangs.
pub(crate) async fn hanging(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let (hanging, deliveries) = (Rough::start(Manner::Hangs).await, if effort.quick { 300 } else { 1000 });
    let mut environment = environment(world);
    environment.insert("DELIVERY_TIMEOUT".to_owned(), "5".to_owned());
    let mut lambda = Lambda::start(&binaries.path(DELIVER), &environment, Stdio::null()).await;
    let event = |job: usize| {
        let mut event = job_event("t", job);
        event["callback_url"] = json!(hanging.url());
        event["callback_secret"] = json!("a secret of some length");
        event
    };
    let mut warm = event(0);
    warm["skip_callbacks"] = json!(true);
    deliver(&mut lambda, [batch("job-events", [warm])]).await;
    let idle = lambda.memory("VmRSS");
    tokio::time::timeout(
        Duration::from_secs(60),
        deliver(&mut lambda, [batch("job-events", (0..deliveries).map(event))]),
    )
    .await
    .expect("hanging ends");
    #[expect(clippy::cast_precision_loss, reason = "KiB of a process are far below 2^52")]
    let mib = |kib: u64| kib as f64 / 1024.0;
    let row =
        Row::above("memory while 1,000 deliveries hang, above idle", "MiB", mib(lambda.memory("VmHWM")), mib(idle));
    table.push(row.at_most(64.0, 32.0));
}
