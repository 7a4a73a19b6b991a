//! Lambda: processes that run the functions, the mappings that pass messages to the functions, the schedule, and the
//! API's clients.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Poll, Waker},
    time::{Duration, SystemTime},
};

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use common::{
    config::Env,
    runtime_sources::RuntimeSources,
    webhooks::log::due_rows::{CHECK_DELAY, PARTITIONS},
};
use lambda_runtime::{Context, LambdaEvent};
use local::{Handler, Polled};
use rustls::crypto::ring;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{sleep, sleep_until, timeout, timeout_at},
};
use webhooks_deliver::Deliver;

use crate::{
    aws,
    queue::Received,
    receivers,
    run::{Within, put, tenant_id},
    script::{DeclaredError, Processes, Who},
    world::{BEGINNING, World},
};

const DELIVER: &str = "webhooks-deliver";
const WAKE: &str = "deliveries-wake";
/// The queue for slow receivers.
const SLOW: &str = "slow-deliveries";
/// A sweep wakes a due delivery after this many milliseconds.
const OVERDUE_MS: i64 = 10 * 60 * 1000;

/// The index of every tenant is requested every five minutes, in the first hour.
const INDEX_EVERY: u64 = 5;
const INDEXED: u64 = 60;

/// The kinds of processes: delivery, sweep, and the API for tenants.
const PROCESS: &str = "process";
const SWEEPER: &str = "sweeper";
const API: &str = "api";

fn kind(what: &str) -> &'static str {
    match what {
        PROCESS => PROCESS,
        SWEEPER => SWEEPER,
        _ => API,
    }
}

/// A process that dies after a number of wake-ups. All its work then stops at await points.
pub(crate) struct Process {
    pub(crate) name: String,
    sources: RuntimeSources,
    /// The offset of its clock.
    off: i64,
    /// The number of wake-ups before the process dies.
    left: AtomicU32,
    is_dead: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Process {
    pub(crate) fn begin(world: &Arc<World>, what: &str) -> Arc<Self> {
        let (number, number_of_its_kind) = {
            let mut state = world.state();
            state.processes += 1;
            let number = state.processes - 1;
            let of_its_kind = state.processes_of.entry(kind(what)).or_default();
            *of_its_kind += 1;
            (number, *of_its_kind - 1)
        };
        let skew = world.script.skew;
        let off = if skew == 0 { 0 } else { i64::try_from(world.draw(2 * skew.unsigned_abs())).unwrap_or(0) - skew };
        let deaths = world.script.faults.iter().filter_map(|fault| match fault {
            DeclaredError::Crash(who, polls) => {
                let is_it = match *who {
                    Who::Any(it) => it == number,
                    Who::Sweeper(it) => kind(what) == SWEEPER && it == number_of_its_kind,
                    Who::Api(it) => kind(what) == API && it == number_of_its_kind,
                };
                is_it.then_some(*polls)
            }
            _ => None,
        });
        Arc::new(Self {
            name: format!("{what} {number}"),
            sources: world.sources(off),
            off,
            left: AtomicU32::new(deaths.min().unwrap_or(u32::MAX)),
            is_dead: AtomicBool::new(false),
            wakers: Mutex::default(),
        })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    fn die(&self, world: &World, why: &str) {
        if !self.is_dead.swap(true, Ordering::Relaxed) {
            world.note(&self.name, format_args!("dies: {why}"));
            let mut state = world.state();
            state.crashes += 1;
            state.faults += 1;
        }
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(Waker::wake);
    }

    /// Runs a future in this process. `None` if it dies first.
    async fn run<F: Future>(&self, world: &World, future: F) -> Option<F::Output> {
        let mut future = pin!(self.sources.clone().within(future));
        poll_fn(|context| {
            if self.is_dead() {
                return Poll::Ready(None);
            }
            let left = self.left.load(Ordering::Relaxed);
            if left == 0 {
                self.die(world, "it is killed");
                return Poll::Ready(None);
            }
            if left != u32::MAX {
                self.left.store(left - 1, Ordering::Relaxed);
            }
            let polled = future.as_mut().poll(context).map(Some);
            if polled.is_pending() && world.state().dying.contains(&self.name) {
                self.die(world, "of a call");
                return Poll::Ready(None);
            }
            if polled.is_pending() {
                let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
                wakers.retain(|waker| !waker.will_wake(context.waker()));
                wakers.push(context.waker().clone());
            }
            polled
        })
        .await
    }

    /// Starts a function in this process.
    fn start(&self, world: &Arc<World>, function: &str) -> Handler {
        let env = env(world, function, Some(self.name.clone()));
        let started = self.sources.clone().within(async { Handler::start(function, &env) });
        futures::executor::block_on(started).expect("settings")
    }

    /// The context of an invocation that begins now, with the time limit `limit`.
    fn context(&self, world: &World, limit: Duration) -> Context {
        let mut context = Context::default();
        let now = i64::try_from((BEGINNING + world.now()).as_millis()).unwrap_or(0) + self.off;
        context.deadline = u64::try_from(now).unwrap_or(0) + u64::try_from(limit.as_millis()).unwrap_or(0);
        context
    }
}

/// The settings of a function in a process.
fn env(world: &Arc<World>, function: &str, who: Option<String>) -> Env {
    let mut variables: HashMap<String, String> = world.plan.functions[function].variables.clone();
    let script = &world.script;
    let schedule: Vec<_> = script.schedule.iter().map(u64::to_string).collect();
    for (name, value) in [
        ("RETRY_SCHEDULE", schedule.join(",")),
        ("MAX_CONCURRENT_ATTEMPTS", script.slots.to_string()),
        ("DISABLE_AFTER", script.disable_after.to_string()),
        ("HOLD_FOR", script.hold_for.to_string()),
        ("ROTATION_OVERLAP", script.overlap.to_string()),
    ] {
        variables.entry(name.to_owned()).and_modify(|known| *known = value);
    }
    Env::new(move |name| variables.get(name).cloned()).over(aws::client(world, who))
}

fn tls() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// The instances of the delivery function.
pub(crate) struct Fleet {
    world: Arc<World>,
    instances: Mutex<Vec<Instance>>,
}

/// Starts a new process if the previous one has died.
#[derive(Default)]
struct Instance {
    process: Option<(Arc<Process>, Deliver)>,
    busy: usize,
}

impl Fleet {
    pub(crate) fn new(world: &Arc<World>) -> Arc<Self> {
        let first = match world.script.processes {
            Processes::Few(all, _) => all,
            Processes::Lambda => 0,
        };
        let instances = Mutex::new((0..first).map(|_| Instance::default()).collect());
        Arc::new(Self { world: Arc::clone(world), instances })
    }

    /// The queues that the template maps to the function.
    pub(crate) fn queues(&self) -> Vec<String> {
        self.world.plan.functions[DELIVER].queues.keys().cloned().collect()
    }

    /// An instance with capacity for another invocation.
    fn free(&self, instances: &mut Vec<Instance>) -> Option<usize> {
        let room = match self.world.script.processes {
            Processes::Few(_, each) => each,
            Processes::Lambda => {
                let idle = instances.iter().position(|instance| instance.busy == 0);
                return Some(idle.unwrap_or_else(|| {
                    instances.push(Instance::default());
                    instances.len() - 1
                }));
            }
        };
        let free: Vec<_> = (0..instances.len()).filter(|at| instances[*at].busy < room).collect();
        (!free.is_empty()).then(|| free[usize::try_from(self.world.draw(free.len() as u64)).unwrap_or(0)])
    }

    /// Waits for a process with capacity for another invocation.
    async fn take(&self) -> (usize, Arc<Process>, Deliver) {
        loop {
            {
                let mut instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(at) = self.free(&mut instances) {
                    let instance = &mut instances[at];
                    if instance.process.as_ref().is_none_or(|(process, _)| process.is_dead()) {
                        instance.process = Some(self.begin());
                    }
                    instance.busy += 1;
                    let (process, deliver) = instance.process.as_ref().expect("a process");
                    return (at, Arc::clone(process), deliver.clone());
                }
            }
            self.world.changed.notified().await;
        }
    }

    /// Ends all processes, as Lambda does after a period of inactivity. No invocation is in progress.
    pub(crate) fn end(&self) {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn begin(&self) -> (Arc<Process>, Deliver) {
        let process = Process::begin(&self.world, PROCESS);
        let env = env(&self.world, DELIVER, Some(process.name.clone()));
        let network = receivers::network(&self.world);
        let made = process.sources.clone().within(async { webhooks_deliver::function_over(&env, network, tls()) });
        let deliver = futures::executor::block_on(made).expect("settings");
        (process, deliver)
    }

    fn give_back(&self, at: usize) {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)[at].busy -= 1;
        self.world.changed.notify_waiters();
    }

    /// Passes a queue's messages to processes, until the run ends.
    pub(crate) async fn poll(self: Arc<Self>, queue: String) {
        let world = &self.world;
        let Polled { batch_size, maximum_concurrency } = world.plan.functions[DELIVER].queues[&queue];
        let most = if queue == SLOW { world.script.slow_invocations } else { usize::MAX };
        let permits = Arc::new(Semaphore::new(maximum_concurrency.min(most)));
        loop {
            let permit = Arc::clone(&permits).acquire_owned().await.expect("it stays open");
            let next = world.state().queues[&queue].next();
            let is_due = next.is_some_and(|at| at <= tokio::time::Instant::now());
            if !is_due {
                let until = next.unwrap_or_else(|| world.instant(Duration::from_secs(1_000_000)));
                // Either there is a message now, or the state has changed.
                drop(timeout_at(until, world.changed.notified()).await);
                continue;
            }
            if world.script.processes == Processes::Lambda {
                // A receive takes time, and more messages arrive in the meantime.
                sleep(Duration::from_millis(world.draw(8))).await;
            }
            let (at, process, deliver) = self.take().await;
            let received = {
                let mut state = world.state();
                let crate::world::State { queues, rng, sqs_requests, .. } = &mut *state;
                *sqs_requests += 1;
                queues.get_mut(&queue).expect("a queue").receive(batch_size, tokio::time::Instant::now(), rng)
            };
            if received.is_empty() {
                self.give_back(at);
                continue;
            }
            world.state().busy += 1;
            let (fleet, queue) = (Arc::clone(&self), queue.clone());
            tokio::spawn(async move {
                let (from, jobs) = (fleet.world.now(), jobs(&received));
                fleet.invoke(&queue, &process, &deliver, received).await;
                let to = fleet.world.now();
                let mut state = fleet.world.state();
                for job in jobs {
                    state.handled.entry(job).or_insert(Within { from, to }).to = to;
                }
                state.busy -= 1;
                state.billed += to - from;
                drop(state);
                drop(permit);
                fleet.give_back(at);
            });
        }
    }

    async fn invoke(&self, queue: &str, process: &Process, deliver: &Deliver, received: Vec<Received>) {
        let world = &self.world;
        let number = {
            let mut state = world.state();
            state.invocations += 1;
            state.invocations - 1
        };
        let names: Vec<_> = received.iter().map(|message| format!("{} ({})", message.id, message.receives)).collect();
        world.note(&process.name, format_args!("invocation {number} gets {} from {queue}", names.join(", ")));
        let limit = world.plan.functions[DELIVER].timeout;
        let records = received.iter().map(|message| record(queue, message));
        let mut event = SqsEvent::default();
        event.records = records.collect();
        let event = LambdaEvent::new(event, process.context(world, limit));
        let Some(ended) = process.run(world, timeout(limit, deliver.handle(event))).await else { return };
        let failed = match ended {
            Ok(Ok(response)) => response.batch_item_failures,
            Ok(Err(error)) => return world.fail(&process.name, format_args!("invocation {number} fails: {error}")),
            Err(_elapsed) => {
                world.fail(&process.name, format_args!("invocation {number} takes too long"));
                return process.die(world, "an invocation takes too long");
            }
        };
        let failed: Vec<_> = failed.into_iter().map(|failure| failure.item_identifier).collect();
        let done = format!("invocation {number} is done, except for {failed:?}");
        if failed.is_empty() {
            world.note(&process.name, done);
        } else {
            world.fail(&process.name, done);
        }
        if world.script.faults.iter().any(|fault| matches!(fault, DeclaredError::Undeleted(at) if *at == number)) {
            let mut state = world.state();
            state.faults += 1;
            state.harmless += 1;
            drop(state);
            return world.note(&process.name, format_args!("invocation {number}: its messages are not deleted"));
        }
        let done: Vec<_> =
            received.iter().filter(|message| !failed.contains(&message.id)).map(|message| message.receipt).collect();
        let mut state = world.state();
        state.sqs_requests += 1;
        state.queues.get_mut(queue).expect("a queue").delete(&done);
    }
}

/// The jobs in these messages.
fn jobs(received: &[Received]) -> Vec<String> {
    let body = |message: &Received| serde_json::from_str::<Value>(&message.body).unwrap_or_default();
    received.iter().filter_map(|message| Some(body(message)["job_id"].as_str()?.to_owned())).collect()
}

fn record(queue: &str, message: &Received) -> SqsMessage {
    let mut record = SqsMessage::default();
    record.message_id = Some(message.id.clone());
    record.receipt_handle = Some(message.receipt.to_string());
    record.body = Some(message.body.clone());
    record.event_source_arn = Some(format!("arn:aws:sqs:eu-central-1:123456789012:{queue}"));
    let attributes =
        [("SentTimestamp", message.sent_ms.to_string()), ("ApproximateReceiveCount", message.receives.to_string())];
    record.attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    record
}

/// Calls the sweep on its schedule, as EventBridge does, until the run ends.
pub(crate) async fn sweep(world: Arc<World>) {
    let mut last: Option<(Arc<Process>, Handler)> = None;
    let every = usize::try_from(world.script.sweep_every).expect("a number");
    for minute in (0..).step_by(every) {
        sleep_until(world.instant(Duration::from_secs(60 * minute))).await;
        let faults = &world.script.faults;
        if faults.is_empty() {
            note_overdue(&world);
        }
        if faults.iter().any(|fault| matches!(fault, DeclaredError::NoSweep(at) if *at == minute)) {
            world.note("schedule", "there is no sweep this minute");
            continue;
        }
        if minute < INDEXED && minute.is_multiple_of(INDEX_EVERY) {
            request_indexes(&world);
        }
        if !world.script.sweeps_idly && has_nothing_to_sweep(&world) {
            continue;
        }
        let twice = faults.iter().any(|fault| matches!(fault, DeclaredError::TwoSweeps(at) if *at == minute));
        for time in 0..=usize::from(twice) {
            let (process, wake) = match &last {
                Some((process, wake)) if time == 0 && !process.is_dead() => (Arc::clone(process), wake.clone()),
                _ => {
                    let process = Process::begin(&world, SWEEPER);
                    let wake = process.start(&world, WAKE);
                    last = Some((Arc::clone(&process), wake.clone()));
                    (process, wake)
                }
            };
            let world = Arc::clone(&world);
            world.state().busy += 1;
            tokio::spawn(async move {
                let limit = world.plan.functions[WAKE].timeout;
                let now = SystemTime::UNIX_EPOCH + BEGINNING + world.now();
                let tick = json!({"time": humantime(now)});
                let ended = process.run(&world, timeout(limit, wake.call(tick, process.context(&world, limit)))).await;
                match ended {
                    None | Some(Ok(Ok(_))) => {}
                    Some(Ok(Err(error))) => world.fail(&process.name, format_args!("a sweep fails: {error:#}")),
                    Some(Err(_elapsed)) => {
                        world.fail(&process.name, "a sweep takes too long");
                        process.die(&world, "a sweep takes too long");
                    }
                }
                world.state().busy -= 1;
            });
        }
    }
}

/// Requests the index of every tenant in this minute, because a run has too few deliveries for one of the sample.
fn request_indexes(world: &World) {
    let minute = world.ms() / 60_000;
    for tenant in (0..world.script.tenants.len()).map(tenant_id) {
        let partition = tenant.bytes().fold(0_u8, u8::wrapping_add) % PARTITIONS;
        put(
            world,
            "deliveries",
            json!({
                "destination": {"S": format!("due/{minute}.{partition}")}, "delivery": {"S": format!("index/{tenant}")},
            }),
        );
    }
}

/// Records deliveries that have been due for so long that a sweep considers their messages lost.
fn note_overdue(world: &World) {
    let stored = world.stored();
    let is_overdue = |item: &&Value| {
        let due = item["next_attempt_at"]["N"].as_str().and_then(|at| at.parse::<i64>().ok());
        // A parked delivery waits for its receiver, not for a message.
        item["status"]["S"] == "pending"
            && item.get("parked").is_none()
            && due.is_some_and(|due| due + OVERDUE_MS < world.ms())
    };
    let overdue = stored.deliveries.iter().filter(is_overdue).map(Value::to_string);
    world.state().overdue.extend(overdue);
}

/// Whether a sweep would have nothing to do now. If a sweep has work, its cursors are first moved past the minutes
/// without due rows, because reading these minutes would take most of a run's time.
fn has_nothing_to_sweep(world: &World) -> bool {
    let stored = world.stored();
    let text = |row: &Value, name: &str| row[name]["S"].as_str().unwrap_or_default().to_owned();
    let number = |row: &Value, name: &str| row[name]["N"].as_str().and_then(|number| number.parse::<i64>().ok());
    let cursors: Vec<_> = stored.deliveries.iter().filter(|row| row["destination"]["S"] == "due").collect();
    if cursors.iter().any(|cursor| number(cursor, "taken_until").is_some_and(|until| until > 0)) {
        return false;
    }
    let least = |name: &str| cursors.iter().filter_map(|cursor| number(cursor, name)).min();
    let (Some(woken), Some(checked)) = (least("woken"), least("checked")) else { return false };
    let due = |row: &Value| {
        let minute = text(row, "destination").strip_prefix("due/")?.split('.').next()?.parse::<i64>().ok()?;
        let key = text(row, "delivery");
        Some((minute, key.starts_with("wake") || key.starts_with("index/")))
    };
    let due: Vec<_> = stored.deliveries.iter().filter_map(due).collect();
    let first_wait =
        due.iter().filter(|(minute, is_wait)| *is_wait && *minute > woken).map(|(minute, _)| *minute).min();
    let first = due.iter().map(|(minute, _)| *minute).filter(|minute| *minute > checked).min();
    let last = world.ms() / 60_000;
    let last_checked = last - i64::try_from(CHECK_DELAY.as_secs() / 60).unwrap_or(0);
    let is_due = first_wait.is_some_and(|minute| minute <= last) || first.is_some_and(|minute| minute <= last_checked);
    let is_recovery = |row: &Value| text(row, "destination").starts_with("recovery/") && row.get("open").is_some();
    let is_ending = |row: &Value| {
        let looked_at = row["look_at"]["N"].as_str().and_then(|at| at.parse::<i64>().ok());
        row.get("open").is_some() && looked_at.is_some_and(|at| at <= world.ms())
    };
    // A repeated failure is reported no sooner than an hour after the last email.
    let waits = |row: &Value| {
        let mailed_at = row["mailed_at"]["N"].as_str().and_then(|at| at.parse::<i64>().ok());
        row["notice"]["S"] == "failures" && mailed_at.is_some_and(|at| world.ms() < at + 3_600_000)
    };
    let has_notice = stored.endpoints.iter().any(|row| row.get("notice").is_some() && !waits(row));
    if !is_due && !has_notice && !stored.deliveries.iter().any(|row| is_recovery(row) || is_ending(row)) {
        return true;
    }
    let (woken_to, checked_to) =
        (first_wait.map_or(last, |it| last.min(it - 1)), first.map_or(last_checked, |it| last_checked.min(it - 1)));
    for mut cursor in cursors.into_iter().cloned() {
        cursor["woken"]["N"] = json!(woken_to.max(woken).to_string());
        cursor["checked"]["N"] = json!(checked_to.max(checked).to_string());
        put(world, "deliveries", cursor);
    }
    false
}

fn humantime(time: SystemTime) -> String {
    let ms = time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
    common::timestamp::Timestamp::from_millisecond(i64::try_from(ms).expect("soon")).to_string()
}

/// An API client, acting for a tenant.
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) key: String,
    /// Whether the client's calls never fail and take no time.
    pub(crate) is_observer: bool,
    /// The functions that observers have called.
    pub(crate) observed: Arc<Mutex<HashMap<String, Handler>>>,
}

impl Client {
    /// Calls a route until the status is neither 429 nor 5xx. Returns the status, and the contents of the envelope.
    pub(crate) async fn call(&self, function: &str, fields: &Value, idempotency_key: Option<&str>) -> (u16, Value) {
        let world = &self.world;
        loop {
            let who = if self.is_observer { None } else { Some(Process::begin(world, function)) };
            let handler = match &who {
                Some(process) => process.start(world, function),
                None => {
                    let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
                    let start = || Handler::start(function, &env(world, function, None)).expect("settings");
                    observed.entry(function.to_owned()).or_insert_with(start).clone()
                }
            };
            let event = self.event(function, fields, idempotency_key);
            let limit = world.plan.functions[function].timeout;
            let answer = match &who {
                None => {
                    let call = handler.call(event, Context::default());
                    Some(Ok(world.sources(0).within(call).await))
                }
                Some(process) => {
                    let context = process.context(world, limit);
                    process.run(world, timeout(limit, handler.call(event, context))).await
                }
            };
            if let Some(Ok(Ok(answer))) = answer {
                let status =
                    answer["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok()).expect("a status");
                let body: Value = serde_json::from_str(answer["body"].as_str().expect("a body")).expect("JSON");
                if status < 500 && status != 429 {
                    return (status, body["json"].clone());
                }
                assert!(who.is_some(), "{function} answers {status} without a fault: {body}");
            }
            sleep(Duration::from_millis(500 + world.draw(1000))).await;
        }
    }

    fn event(&self, function: &str, fields: &Value, idempotency_key: Option<&str>) -> Value {
        let path = format!("/v1/{}", function.replace('-', "/"));
        let mut headers = json!({"x-api-key": self.key, "host": "api.example.com", "content-type": "application/json"});
        if let Some(key) = idempotency_key {
            headers["idempotency-key"] = json!(key);
        }
        json!({
            "version": "2.0", "routeKey": format!("POST {path}"), "rawPath": path, "rawQueryString": "",
            "headers": headers, "isBase64Encoded": false, "body": json!({"json": fields}).to_string(),
            "requestContext": {
                "accountId": "1", "apiId": "a", "domainName": "api.example.com", "domainPrefix": "api",
                "http": {
                    "method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "x",
                },
                "requestId": "r", "routeKey": "$default", "stage": "$default",
                "time": "31/Jan/2026:12:00:00 +0000", "timeEpoch": 1_769_860_800_000_u64,
            },
        })
    }
}
