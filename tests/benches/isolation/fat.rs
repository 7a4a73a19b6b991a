//! Large events to many failing endpoints of one organization, beside a healthy one, while the tables accept only as many
//! writes as a new table of AWS does. The functions and the queues run in a process of their own, once with the whole
//! machine and once with half a core. The tables are in this process, because DynamoDB does not share the functions' CPU.

use std::{
    collections::HashMap,
    env, fmt, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use common::telemetry;
use futures::future::join_all;
use local::{Options, Stack};
use serde_json::{Value, json};
use tests::{Call, Moody, Proxy, Receiver, Tenant, World, event};
use tokio::time::{sleep, sleep_until};
use tracing_subscriber::{filter::LevelFilter, util::SubscriberInitExt};

use crate::{half_core::HalfCore, service::Service};

/// The variable with the address of the tables. With it, this program runs the service for a run, and nothing else.
pub(crate) const TABLES: &str = "FAT_TABLES";

/// The write units a second that a new on-demand table accepts
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>).
const NEW_TABLE: f64 = 4000.0;
/// Fewer than this load uses, so the table is overloaded for a minute.
const FEW: f64 = 620.0;
/// The failing endpoints, and the incompressible bytes of each of their events.
const ENDPOINTS: usize = 100;
const BYTES: usize = 240 * 1024;
/// The number of events to these endpoints, one a second, and of events to the healthy one, four a second.
const EVENTS: usize = 60;
const HEALTHY: usize = 4 * EVENTS;
/// The time within which a delivery must be in the log.
const LOGGED: Duration = Duration::from_secs(2);
/// The time limit for a delivery.
const PATIENCE: Duration = Duration::from_mins(1);
/// The maximum p99 of the healthy organization, in addition to the control's.
const MORE: f64 = 0.5;

/// A run: whether the service has half a core instead of all cores, and the write units a second of the tables.
#[derive(Clone, Copy)]
pub(crate) struct Fat {
    is_half: bool,
    units: f64,
}

/// The runs.
pub(crate) const ALL: [Fat; 3] = [
    Fat { is_half: false, units: NEW_TABLE },
    Fat { is_half: true, units: NEW_TABLE },
    Fat { is_half: true, units: FEW },
];

impl fmt::Display for Fat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fat, {}, {} units", if self.is_half { "half a core" } else { "all cores" }, self.units)
    }
}

/// The write units that are left, and when they were last counted.
struct Bucket {
    units: f64,
    left: Mutex<(f64, Instant)>,
}

impl Bucket {
    fn new(units: f64) -> Self {
        Self { units, left: Mutex::new((units, Instant::now())) }
    }

    /// Takes units. Returns whether there were any: a write may exceed what is left.
    fn take(&self, units: f64) -> bool {
        let mut bucket = self.left.lock().expect("no panic");
        let left = (bucket.0 + bucket.1.elapsed().as_secs_f64() * self.units).min(self.units);
        let is_left = left > 0.0;
        *bucket = (if is_left { left - units } else { left }, Instant::now());
        is_left
    }
}

/// The approximate write units of an item, whose binary attributes are base64.
fn units(item: &Value) -> f64 {
    (item.to_string().len() as f64 * 0.75 / 1024.0).ceil()
}

/// Answers a write for which no units are left with AWS's errors.
fn throttled(bucket: &Bucket, call: &Call) -> Option<(u16, Value)> {
    let statements = call["Statements"].as_array();
    let needed = match call.operation.as_str() {
        "BatchWriteItem" => {
            let tables = call["RequestItems"].as_object()?.values();
            tables.filter_map(Value::as_array).flatten().map(units).sum()
        }
        "BatchExecuteStatement" => statements?.iter().map(units).sum(),
        "PutItem" | "UpdateItem" | "DeleteItem" | "TransactWriteItems" => units(&call.body),
        _ => return None,
    };
    if bucket.take(needed) {
        return None;
    }
    Some(match statements {
        Some(statements) => {
            let error = json!({"Error": {"Code": "ThrottlingError", "Message": "the bucket is empty"}});
            (200, json!({"Responses": vec![error; statements.len()]}))
        }
        None => {
            let error = "com.amazonaws.dynamodb.v20120810#ThrottlingException";
            (400, json!({"__type": error, "message": "the bucket is empty"}))
        }
    })
}

/// The `webhook-id` of each delivery whose first state a call writes. Its key is a time in milliseconds, a dot, and the
/// hexadecimal id.
fn new_states(call: &Call) -> impl Iterator<Item = String> {
    let puts = call["RequestItems"].as_object().into_iter().flat_map(|tables| tables.values());
    let puts = puts.filter_map(Value::as_array).flatten().map(|write| &write["PutRequest"]["Item"]["delivery"]);
    let statements = call["Statements"].as_array().into_iter().flatten();
    let inserted = statements.filter_map(|statement| statement["Parameters"].as_array()).flatten();
    puts.chain(inserted).chain([&call["Item"]["delivery"]]).filter_map(|value| {
        let (time, id) = value["S"].as_str()?.split_once('.')?;
        (time.len() == 13 && id.len() == 32).then(|| format!("msg_{id}"))
    })
}

/// A run's result.
struct Ran {
    /// The seconds from sending to arrival at the healthy receiver, in ascending order.
    latencies: Vec<f64>,
    missing: usize,
    /// The number of healthy deliveries that were not in the log two seconds after their arrival.
    unlogged: usize,
    /// The seconds from arrival at the failing receiver to the log, in ascending order.
    lags: Vec<f64>,
    /// The write calls that were throttled.
    throttled: usize,
    /// The failing organization's deliveries in the log at the end.
    bad: usize,
    /// The average number of cores that the service used while events were sent.
    cores: f64,
}

impl Ran {
    fn row(&self, name: &str) -> String {
        let Self { missing, unlogged, lags, throttled, bad, cores, .. } = self;
        let [p50, p99] = [50, 99].map(|percent| percentile(&self.latencies, percent));
        let late = self.late();
        let slowest = lags.last().copied().unwrap_or_default();
        format!(
            "| {name} | {p50:.2} | {p99:.2} | {missing} | {unlogged} | {bad} | {late} | {slowest:.2} | {throttled} | {cores:.2} |"
        )
    }

    /// The number of failing deliveries that were not in the log two seconds after their arrival.
    fn late(&self) -> usize {
        self.lags.iter().filter(|lag| **lag > LOGGED.as_secs_f64()).count()
    }
}

fn percentile(ascending: &[f64], percent: usize) -> f64 {
    ascending.get((ascending.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(f64::INFINITY)
}

/// Prints a run and its control. Returns whether the healthy organization was isolated. An overloaded table does not
/// delay its deliveries, but rows are missing from the log, as `LogWriteFailed` counts.
pub(crate) async fn fat(fat: Fat) -> bool {
    println!("\n| run \"{fat}\" | p50 | p99 | missing | unlogged | bad: logged | late | slowest | throttled | cores |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let control = run(0, fat).await;
    println!("{}", control.row("control"));
    let ran = run(ENDPOINTS, fat).await;
    println!("{}", ran.row("fat"));
    let is_fast = percentile(&ran.latencies, 99) <= percentile(&control.latencies, 99) + MORE;
    let is_logged = ran.unlogged + ran.late() == 0 && ran.bad == EVENTS * ENDPOINTS;
    is_fast && ran.missing == 0 && (is_logged || fat.units == FEW)
}

/// Runs the service with these tables, until the process is killed.
pub(crate) async fn serve(tables: String) {
    // The lines cost as much as in a function, but are not needed.
    telemetry::log::subscriber(LevelFilter::INFO, io::sink).init();
    let env = HashMap::from([("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), tables)]);
    let stack = Stack::start(Options { env, poll: true, ..Options::default() }).await.expect("the service starts");
    println!("{}", stack.ready_line());
    std::future::pending::<()>().await;
}

async fn run(endpoints: usize, Fat { is_half, units }: Fat) -> Ran {
    let bucket = Bucket::new(units);
    let count = Arc::new(AtomicUsize::new(0));
    let states = Arc::new(Mutex::new(HashMap::new()));
    let (counted, noted) = (Arc::clone(&count), Arc::clone(&states));
    let proxy = Proxy::answering(move |call| {
        let answer = throttled(&bucket, call);
        counted.fetch_add(usize::from(answer.is_some()), Ordering::Relaxed);
        if answer.is_none() {
            let (mut states, now) = (noted.lock().expect("no panic"), Instant::now());
            for id in new_states(call) {
                states.entry(id).or_insert(now);
            }
        }
        answer
    })
    .await;
    // This world has the tables and the accounts. Its queues are not polled.
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "100")]).await;
    let proxy = proxy.before(world.stack.dynamodb());
    let program = env::current_exe().expect("a path");
    let (service, _output) = Service::start(&program, &[(TABLES, proxy.address())], None).await;
    let (good, bad) = (world.tenant("good").await, world.tenant("bad").await);
    let (receiver, failing) = (Receiver::start().await, Moody::start(|_| (Duration::ZERO, 500)).await);
    world.endpoint(&good, &receiver.url("/"), "s").await;
    for number in 0..endpoints {
        world.endpoint(&bad, &format!("{}{number}", failing.url()), "s").await;
    }
    let _half = is_half.then(|| HalfCore::of(service.id()));
    let start = tokio::time::Instant::now() + Duration::from_secs(1);
    let at = |number: usize, rate: u32| start + Duration::from_secs(1) * u32::try_from(number).expect("few") / rate;
    let mut random = fastrand::Rng::with_seed(1);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(BYTES).collect();
    let events = if endpoints > 0 { EVENTS } else { 0 };
    let heavy = (0..events).map(async |number| {
        sleep_until(at(number, 1)).await;
        let mut event = event(&bad.id, number);
        event["result"] = noise.clone().into();
        service.send(&[event.to_string()]).await;
    });
    let light = join_all((0..HEALTHY).map(|number| healthy(&world, &service, &good, &receiver, number, at(number, 4))));
    let (cpu, began) = (service.cpu(), Instant::now());
    let sent = async {
        let light = tokio::join!(light, join_all(heavy)).0;
        (light, (service.cpu() - cpu) / began.elapsed().as_secs_f64())
    };
    let (light, cores) = sent.await;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && world.log(&bad.id).await.len() < events * endpoints {
        sleep(Duration::from_secs(1)).await;
    }
    let bad = world.log(&bad.id).await;
    let (mut arrived, logged) = (HashMap::new(), states.lock().expect("no panic").clone());
    for (id, at) in failing.arrivals() {
        arrived.entry(id).or_insert(at);
    }
    // A parked delivery is in the log before it arrives, or has not arrived yet.
    let lags = bad.iter().map(|delivery| {
        let id = delivery.id.webhook_id.to_string();
        let (arrived, logged) = (arrived.get(&id).copied(), logged.get(&id).copied());
        let lag = |logged: Instant| arrived.map_or(Duration::ZERO, |arrived| logged.saturating_duration_since(arrived));
        logged.map_or(f64::INFINITY, |logged| lag(logged).as_secs_f64())
    });
    let latencies = light.iter().filter_map(|(latency, _)| *latency).map(|it| it.as_secs_f64());
    let [latencies, lags] = [latencies.collect(), lags.collect()].map(|mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all
    });
    let unlogged = light.iter().filter(|(_, is_logged)| !is_logged).count();
    let throttled = count.load(Ordering::Relaxed);
    Ran { missing: HEALTHY - latencies.len(), latencies, unlogged, lags, throttled, bad: bad.len(), cores }
}

/// Sends an event to the healthy receiver. Returns its latency if it arrives within a minute, and whether the log has it
/// two seconds later.
async fn healthy(
    world: &World,
    service: &Service,
    tenant: &Tenant,
    receiver: &Receiver,
    number: usize,
    at: tokio::time::Instant,
) -> (Option<Duration>, bool) {
    sleep_until(at).await;
    let (job, sent) = (format!("good-{number}"), tokio::time::Instant::now());
    service.send(&[event(&tenant.id, &job).to_string()]).await;
    let arrived_at = loop {
        let received = receiver.received().await;
        if let Some(one) = received.iter().find(|one| one.json()["job_id"] == job.as_str()) {
            break one.at;
        }
        if sent.elapsed() > PATIENCE {
            return (None, false);
        }
        sleep(Duration::from_millis(100)).await;
    };
    sleep_until(arrived_at + LOGGED).await;
    let is_logged = world.log(&tenant.id).await.iter().any(|one| one.job_id == job);
    (Some(arrived_at - sent), is_logged)
}
