//! Large events to many failing endpoints of one organization, beside a healthy one, while the tables accept only as many
//! writes as a new table of AWS does. The service runs in this process.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use common::webhooks::delivery::Status;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Call, Moody, Proxy, Receiver, Tenant, World, event};
use tokio::time::{sleep, sleep_until};

/// The write units a second that a new on-demand table accepts
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>).
const UNITS: f64 = 4000.0;
/// The failing endpoints, and the incompressible bytes of each of their events.
const ENDPOINTS: usize = 100;
const BYTES: usize = 240 * 1024;
/// The number of events to these endpoints, one a second, and of events to the healthy one, four a second.
const EVENTS: usize = 60;
const HEALTHY: usize = 4 * EVENTS;
/// The time within which a delivery must be in the log.
const LOGGED: Duration = Duration::from_secs(2);
/// The time limit for a delivery.
const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum p99 of the healthy organization, in addition to the control's.
const MORE: f64 = 0.5;

/// The write units that are left, and when they were last counted.
struct Bucket(Mutex<(f64, Instant)>);

impl Bucket {
    /// Takes units. Returns whether there were any: a write may exceed what is left.
    fn take(&self, units: f64) -> bool {
        let mut bucket = self.0.lock().expect("no panic");
        let left = (bucket.0 + bucket.1.elapsed().as_secs_f64() * UNITS).min(UNITS);
        let is_left = left > 0.0;
        *bucket = (if is_left { left - units } else { left }, Instant::now());
        is_left
    }
}

/// The approximate write units of an item, whose binary attributes are base64.
fn units(item: &Value) -> f64 {
    (item.to_string().len() as f64 * 0.75 / 1024.0).ceil()
}

/// Answers a write that exceeds the units with AWS's errors.
fn throttled(bucket: &Bucket, call: &Call) -> Option<(u16, Value)> {
    let lists = |name: &str| {
        let lists = call[name].as_object().into_iter().flat_map(|tables| tables.values());
        lists.filter_map(Value::as_array).flatten().map(units).sum::<f64>()
    };
    let statements = call["Statements"].as_array();
    match call.operation.as_str() {
        "BatchWriteItem" => {
            let is_taken = bucket.take(lists("RequestItems"));
            (!is_taken).then(|| (200, json!({"UnprocessedItems": call["RequestItems"]})))
        }
        "BatchExecuteStatement" => {
            let statements = statements?;
            let is_taken = bucket.take(statements.iter().map(units).sum());
            let error = json!({"Error": {"Code": "ThrottlingError", "Message": "the bucket is empty"}});
            (!is_taken).then(|| (200, json!({"Responses": vec![error; statements.len()]})))
        }
        "PutItem" | "UpdateItem" | "DeleteItem" | "TransactWriteItems" => {
            let error = "com.amazonaws.dynamodb.v20120810#ThrottlingException";
            (!bucket.take(units(&call.body))).then(|| (400, json!({"__type": error, "message": "the bucket is empty"})))
        }
        _ => None,
    }
}

/// A run's result.
struct Ran {
    /// The seconds from sending to arrival at the healthy receiver, in ascending order.
    latencies: Vec<f64>,
    missing: usize,
    /// The number of healthy deliveries that were not in the log two seconds after their arrival.
    unlogged: usize,
    /// The write calls that were throttled.
    throttled: usize,
    /// The failing organization's deliveries in the log at the end.
    bad: usize,
}

impl Ran {
    fn percentile(&self, percent: usize) -> f64 {
        self.latencies.get((self.latencies.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(f64::INFINITY)
    }

    fn row(&self, name: &str) -> String {
        let Self { missing, unlogged, throttled, bad, .. } = self;
        let [p50, p99] = [50, 99].map(|percent| self.percentile(percent));
        format!("| {name} | {p50:.2} | {p99:.2} | {missing} | {unlogged} | {throttled} | {bad} |")
    }
}

/// Prints the runs. Returns whether the healthy organization was isolated.
pub(crate) async fn fat() -> bool {
    println!("\n| run \"fat\" | p50 | p99 | missing | unlogged | throttled | logged of the bad |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let control = run(0).await;
    println!("{}", control.row("control"));
    let fat = run(ENDPOINTS).await;
    println!("{}", fat.row("fat"));
    let is_fast = fat.percentile(99) <= control.percentile(99) + MORE;
    is_fast && fat.missing + fat.unlogged == 0 && fat.bad == EVENTS * ENDPOINTS
}

async fn run(endpoints: usize) -> Ran {
    let bucket = Bucket(Mutex::new((UNITS, Instant::now())));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let proxy = Proxy::answering(move |call| {
        let answer = throttled(&bucket, call);
        counted.fetch_add(usize::from(answer.is_some()), Ordering::Relaxed);
        answer
    })
    .await;
    let limits = [("MAX_ENDPOINTS_PER_TENANT", "100"), ("AWS_ENDPOINT_URL_DYNAMODB", proxy.address())];
    let world = World::live(&limits).await;
    let _proxy = proxy.before(world.stack.dynamodb());
    let (good, bad) = (world.tenant("good").await, world.tenant("bad").await);
    let (receiver, failing) = (Receiver::start().await, Moody::start(|_| (Duration::ZERO, 500)).await);
    world.endpoint(&good, &receiver.url("/"), "s").await;
    for number in 0..endpoints {
        world.endpoint(&bad, &format!("{}{number}", failing.url()), "s").await;
    }
    let start = tokio::time::Instant::now() + Duration::from_secs(1);
    let at = |number: usize, rate: u32| start + Duration::from_secs(1) * u32::try_from(number).expect("few") / rate;
    let mut random = fastrand::Rng::with_seed(1);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(BYTES).collect();
    let heavy = (0..if endpoints > 0 { EVENTS } else { 0 }).map(async |number| {
        sleep_until(at(number, 1)).await;
        let mut event = event(&bad.id, number);
        event["result"] = noise.clone().into();
        world.enqueue("job-events", event).await;
    });
    let light = (0..HEALTHY).map(|number| healthy(&world, &good, &receiver, number, at(number, 4)));
    let (light, _) = tokio::join!(join_all(light), join_all(heavy));
    let deadline = Instant::now() + Duration::from_secs(120);
    let logged = async || world.log(&bad.id).await.into_iter().filter(|one| one.status != Status::Delivered).count();
    while Instant::now() < deadline && logged().await < EVENTS * endpoints {
        sleep(Duration::from_secs(1)).await;
    }
    let mut latencies: Vec<_> = light.iter().filter_map(|(latency, _)| *latency).map(|it| it.as_secs_f64()).collect();
    latencies.sort_by(f64::total_cmp);
    let throttled = count.load(Ordering::Relaxed);
    Ran {
        missing: HEALTHY - latencies.len(),
        latencies,
        unlogged: light.iter().filter(|(_, is_logged)| !is_logged).count(),
        throttled,
        bad: logged().await,
    }
}

/// Sends an event to the healthy receiver. Returns its latency if it arrives within a minute, and whether the log has it
/// two seconds later.
async fn healthy(
    world: &World,
    tenant: &Tenant,
    receiver: &Receiver,
    number: usize,
    at: tokio::time::Instant,
) -> (Option<Duration>, bool) {
    sleep_until(at).await;
    let (job, sent) = (format!("good-{number}"), tokio::time::Instant::now());
    world.enqueue("job-events", event(&tenant.id, &job)).await;
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
