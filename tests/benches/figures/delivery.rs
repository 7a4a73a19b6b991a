//! The delivery function: the cost of a delivery, the delivery rate, and how both scale.

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

use axum::{Router, extract::State, http::StatusCode};
use serde_json::{Value, json};
use tests::{Lambda, Manner, Moody, Rough, Tenant, World};
use tokio::{net::TcpListener, sync::Notify};

use crate::{
    Effort,
    build::{BARE_DELIVER, BARE_LOOP, Binaries, DELIVER},
    job_event::job_event,
    table::{Row, Table, median},
};

/// A receiver that counts requests.
pub(crate) struct Counter {
    /// Its address.
    pub(crate) url: String,
    shared: Arc<Counted>,
}

struct Counted {
    requests: AtomicUsize,
    arrived: Notify,
    answer: StatusCode,
}

impl Counter {
    pub(crate) async fn start() -> Self {
        Self::answering(StatusCode::OK).await
    }

    pub(crate) async fn answering(answer: StatusCode) -> Self {
        let shared = Arc::new(Counted { requests: AtomicUsize::new(0), arrived: Notify::new(), answer });
        let app = Router::new().fallback(count).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
        Self { url, shared }
    }

    /// Waits until `more` requests have arrived since the count was `before`.
    pub(crate) async fn wait(&self, before: usize, more: usize) {
        while self.count() < before + more {
            self.shared.arrived.notified().await;
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

async fn count(State(shared): State<Arc<Counted>>, _body: axum::body::Bytes) -> StatusCode {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    shared.arrived.notify_one();
    shared.answer
}

/// A Lambda event with these messages from a queue, sent just now and received for the first time.
pub(crate) fn batch(queue: &str, messages: impl IntoIterator<Item = Value>) -> String {
    let now = common::timestamp::Timestamp::now().as_millisecond().to_string();
    let records: Vec<Value> = messages
        .into_iter()
        .enumerate()
        .map(|(number, message)| {
            json!({
                "messageId": number.to_string(), "receiptHandle": "r", "body": message.to_string(),
                "attributes": {"SentTimestamp": now, "ApproximateReceiveCount": "1"},
                "messageAttributes": {}, "eventSource": "aws:sqs",
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
    assert!(output.status.success(), "the loop exits with success");
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

/// The function, and the baseline that makes the same AWS calls.
async fn both(world: &World, binaries: &Binaries) -> [Lambda; 2] {
    let environment = environment(world);
    let start = async |binary| Lambda::start(&binaries.path(binary), &environment, Stdio::null()).await;
    [start(DELIVER).await, start(BARE_DELIVER).await]
}

/// A thousand deliveries to one endpoint, in batches of ten.
pub(crate) async fn thousand(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let counter = Counter::start().await;
    let tenant = tenant_with_endpoints(world, "thousand", &counter.url, 1).await;
    let [mut own, mut least] = both(world, binaries).await;
    let (mut own_runs, mut least_runs, mut loop_runs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.runs(20) {
        own_runs.push(round(&mut own, &tenant, 10, 1000).await.1);
        least_runs.push(round(&mut least, &tenant, 10, 1000).await.1);
        loop_runs.push(bare_loop(binaries, 1000, 10, &counter.url).await.1);
    }
    let own = median(own_runs);
    let row = Row::ratio("1,000 deliveries of 1 KB in batches of 10, CPU", "s", own, median(least_runs));
    table.push(row.at_most(1.15, 1.05));
    table.push(Row::ratio("the same, against the client loop", "s", own, median(loop_runs)));
}

/// Wall time and CPU time for this many deliveries in waves of `in_flight`, after a wave that opens the connections.
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
    let [mut own, mut least] = both(world, binaries).await;
    for lambda in [&mut own, &mut least] {
        deliver(lambda, [batch("job-events", [job_event(&tenant.id, 0)])]).await;
    }
    let (mut own_runs, mut least_runs, mut loop_runs) = (Vec::new(), Vec::new(), Vec::new());
    for job in 0..effort.runs(40) {
        for (lambda, runs) in [(&mut own, &mut own_runs), (&mut least, &mut least_runs)] {
            let event = batch("job-events", [job_event(&tenant.id, job)]);
            let (before, started) = (counter.count(), Instant::now());
            let arrived = async {
                counter.wait(before, 100).await;
                started.elapsed().as_secs_f64() * 1e3
            };
            let (elapsed, ()) = tokio::join!(arrived, deliver(lambda, [event]));
            runs.push(elapsed);
        }
        loop_runs.push(bare_loop(binaries, 100, 100, &counter.url).await.0 * 1e3);
    }
    let own = median(own_runs);
    let row = Row::ratio("one event to 100 endpoints, wall time to the last", "ms", own, median(least_runs));
    table.push(row.at_most(1.25, 1.1));
    table.push(Row::ratio("the same, against the client loop", "ms", own, median(loop_runs)));
}

/// The number of events in a burst, and how many of them are in flight at a time.
const BURST: usize = 50_000;
const AT_ONCE: usize = 1_000;

/// A burst of one tenant's events to one good endpoint: the delivery rate, and the memory of the process.
pub(crate) async fn burst(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let counter = Counter::start().await;
    let tenant = tenant_with_endpoints(world, "burst", &counter.url, 1).await;
    let [mut own, mut least] = both(world, binaries).await;
    let events = if effort.quick { BURST / 10 } else { BURST };
    let (mut wall, mut least_wall) = (0.0, 0.0);
    // Ten parts alternate, so both are measured under the same conditions.
    for _ in 0..10 {
        wall += round(&mut own, &tenant, AT_ONCE.min(events / 10), events / 10).await.0;
        least_wall += round(&mut least, &tenant, AT_ONCE.min(events / 10), events / 10).await.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts and KiB of a process are far below 2^52")]
    let (events, kib) = (events as f64, own.memory("VmHWM") as f64);
    let what = "50,000 events of one tenant to one endpoint, 1,000 in flight";
    table.push(Row::ratio(what, "per s", events / wall, events / least_wall).at_least(0.9, 1.0));
    table.push(Row::alone("the same, memory of the process", "MiB", kib / 1024.0).at_most(120.0, 80.0));
}

/// One process's performance with this many events in flight.
pub(crate) struct Point {
    /// The number of events in flight.
    pub(crate) in_flight: usize,
    /// Deliveries per second: the function's, and the baseline's.
    pub(crate) rate: (f64, f64),
    /// CPU time of a delivery in microseconds: the function's, and the baseline's.
    pub(crate) cpu: (f64, f64),
}

/// Throughput and the cost of a delivery, by the number of events in flight.
pub(crate) async fn in_flight(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) -> Vec<Point> {
    let counter = Counter::start().await;
    let tenant = tenant_with_endpoints(world, "in-flight", &counter.url, 1).await;
    let [mut own, mut least] = both(world, binaries).await;
    let mut points = Vec::new();
    for in_flight in [10, 30, 100, 300, 1000] {
        // 20,000 deliveries by each process, in 20 alternating rounds.
        let deliveries = 1000 / in_flight * in_flight;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let number = deliveries as f64;
        let (mut rates, mut costs) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for _ in 0..effort.runs(20) {
            let (wall, cpu) = round(&mut own, &tenant, in_flight, deliveries).await;
            let (least_wall, least_cpu) = round(&mut least, &tenant, in_flight, deliveries).await;
            rates.0.push(number / wall);
            rates.1.push(number / least_wall);
            costs.0.push(cpu / number * 1e6);
            costs.1.push(least_cpu / number * 1e6);
        }
        let (rate, cpu) = ((median(rates.0), median(rates.1)), (median(costs.0), median(costs.1)));
        points.push(Point { in_flight, rate, cpu });
    }
    for point in points.iter().filter(|point| point.in_flight >= 100) {
        let what = format!("deliveries by one process, {} in flight", point.in_flight);
        table.push(Row::ratio(&what, "per s", point.rate.0, point.rate.1).at_least(0.75, 0.9));
    }
    for point in points.iter().filter(|point| matches!(point.in_flight, 100 | 1000)) {
        let what = format!("CPU per delivery with {} in flight, against 10", point.in_flight);
        table.push(Row::ratio(&what, "µs", point.cpu.0, points[0].cpu.0).at_most(1.2, 1.05));
    }
    points
}

/// As many deliveries as a process makes at once, to receivers that were quick and hang.
pub(crate) async fn hanging(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let (hanging, deliveries) = (Rough::start(Manner::Hangs).await, if effort.quick { 200 } else { 800 });
    let mut environment = environment(world);
    environment.insert("DELIVERY_TIMEOUT".to_owned(), "5".to_owned());
    let mut lambda = Lambda::start(&binaries.path(DELIVER), &environment, Stdio::null()).await;
    let tenants = ["t1", "t2", "t3", "t4"];
    for tenant in tenants {
        world.make_origin_quick(tenant, hanging.url()).await;
    }
    let event = |job: usize| {
        let mut event = job_event(tenants[job % tenants.len()], job);
        event["callback_url"] = json!(hanging.url());
        event["callback_secret"] = json!("a secret of some length");
        event
    };
    let mut warm = event(0);
    warm["skip_callbacks"] = json!(true);
    deliver(&mut lambda, [batch("job-events", [warm])]).await;
    let idle = lambda.memory("VmRSS");
    let hang = deliver(&mut lambda, [batch("job-events", (0..deliveries).map(event))]);
    tokio::time::timeout(Duration::from_mins(2), hang).await.expect("hanging ends");
    #[expect(clippy::cast_precision_loss, reason = "KiB of a process are far below 2^52")]
    let mib = |kib: u64| kib as f64 / 1024.0;
    let row = Row::above("memory while 800 deliveries hang, above idle", "MiB", mib(lambda.memory("VmHWM")), mib(idle));
    table.push(row.at_most(64.0, 32.0));
}

/// Ten of the largest events in an invocation, for ten failing endpoints. Lambda passes on at most six, but the
/// function must not depend on it.
pub(crate) async fn large(world: &World, binaries: &Binaries, table: &mut Table) {
    let failing = Moody::start(|_| (Duration::ZERO, 500)).await;
    let tenant = world.tenant("large").await;
    for number in 0..10 {
        let endpoint = world.endpoint(&tenant, &format!("{}{number}", failing.url()), "a secret of some length").await;
        // Attempts at a new receiver would only be parked.
        world.make_quick(&tenant, &endpoint).await;
    }
    let mut lambda = Lambda::start(&binaries.path(DELIVER), &environment(world), Stdio::null()).await;
    let mut random = fastrand::Rng::with_seed(1);
    let mut event = |job: usize, bytes: usize| {
        let mut event = job_event(&tenant.id, job);
        event["result"] = std::iter::repeat_with(|| random.alphanumeric()).take(bytes).collect::<String>().into();
        event
    };
    let events: Vec<_> =
        [10; 10].into_iter().chain([1_048_000; 10]).enumerate().map(|(job, bytes)| event(job, bytes)).collect();
    let (warm, large) = events.split_at(10);
    deliver(&mut lambda, [batch("job-events", warm.iter().cloned())]).await;
    let idle = lambda.memory("VmRSS");
    deliver(&mut lambda, [batch("job-events", large.iter().cloned())]).await;
    assert_eq!(failing.requests(), 2 * 10 * 10, "each event is attempted at each endpoint");
    #[expect(clippy::cast_precision_loss, reason = "KiB of a process are far below 2^52")]
    let mib = |kib: u64| kib as f64 / 1024.0;
    let row = Row::above(
        "memory for ten events of 1 MiB that fail at ten endpoints, above idle",
        "MiB",
        mib(lambda.memory("VmHWM")),
        mib(idle),
    );
    table.push(row.at_most(256.0, 128.0));
}
