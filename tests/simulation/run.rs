//! A run: the functions process a script until no work is left.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use common::webhooks::{delivery::MAX_AGE, log::due_rows::SWEEPERS};
use dynoxide::actions::scan::ScanRequest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    check::{self, Violation},
    processes::{Client, Fleet, sweep},
    queue::Sent,
    receivers::{callback_url, url},
    script::{Action, Audience, Call, Script, Time},
    world::{BEGINNING, World, stamp},
};

/// A finished run.
pub(crate) struct Run {
    pub(crate) violations: Vec<Violation>,
    pub(crate) history: Vec<String>,
    /// Its duration.
    pub(crate) span: Time,
    pub(crate) posts: usize,
    pub(crate) crashes: usize,
    pub(crate) faults: usize,
    pub(crate) calls: usize,
    /// The number of calls to each operation.
    pub(crate) calls_of: BTreeMap<String, usize>,
}

/// The tenants' view of the service: their endpoints, and the responses to their calls.
pub(crate) struct Known {
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) resends: Vec<Resend>,
    pub(crate) recoveries: Vec<Recovery>,
    pub(crate) tests: Vec<Test>,
}

impl Known {
    /// The tenants' ids.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.tenants.iter().map(|tenant| tenant.id.clone()).collect()
    }
}

pub(crate) struct Tenant {
    pub(crate) id: String,
    pub(crate) client: Client,
    pub(crate) endpoints: Vec<Endpoint>,
}

/// The period in which a call took effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    pub(crate) from: Time,
    pub(crate) to: Time,
}

pub(crate) struct Endpoint {
    pub(crate) id: String,
    /// The endpoint's secrets, and when each became current.
    pub(crate) secrets: Vec<(String, Within)>,
    /// When the endpoint became active or inactive.
    pub(crate) switches: Vec<(bool, Within)>,
    pub(crate) deleted: Option<Within>,
}

pub(crate) struct Resend {
    pub(crate) tenant: usize,
    pub(crate) delivery: String,
    pub(crate) when: Within,
    pub(crate) is_done: bool,
}

pub(crate) struct Recovery {
    pub(crate) tenant: usize,
    pub(crate) endpoint: usize,
    /// The deliveries that had failed or were held before the call.
    pub(crate) missed: Vec<String>,
    pub(crate) when: Within,
}

pub(crate) struct Test {
    pub(crate) to: (usize, usize),
    pub(crate) delivery: String,
    pub(crate) when: Within,
}

/// The secret for a tenant's callbacks.
pub(crate) fn callback_secret(tenant: usize) -> String {
    secret(tenant, 9, 0)
}

/// A secret that is not valid base64, so its own bytes are the only key.
fn secret(tenant: usize, endpoint: usize, number: usize) -> String {
    format!("**********{tenant}*{endpoint}*{number:03}*")
}

/// Runs a script on a separate clock, in this thread.
pub(crate) fn run(script: &Script) -> Run {
    in_virtual_time(script.seed, run_to_its_end(script.clone()))
}

/// Runs a world on a separate clock, in this thread.
pub(crate) fn in_virtual_time<F: Future>(seed: u64, run: F) -> F::Output {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(run)
}

/// Starts polling the queues and sweeping.
pub(crate) fn start(world: &Arc<World>, fleet: &Arc<Fleet>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for queue in fleet.queues() {
        tasks.spawn(Arc::clone(fleet).poll(queue));
    }
    tasks.spawn(sweep(Arc::clone(world)));
    tasks
}

async fn run_to_its_end(script: Script) -> Run {
    let world = World::new(script);
    let mut known = begin(&world).await;
    let fleet = Fleet::new(&world);
    let mut tasks = start(&world, &fleet);
    let events = tokio::spawn(produce(Arc::clone(&world), known.ids()));
    act(&world, &mut known).await;
    events.await.expect("events are sent");
    let is_over = finish(&world).await;
    tasks.abort_all();
    let mut violations = Vec::new();
    if let Err(left) = is_over {
        violations.push(Violation::new("no delivery stays pending", left));
    }
    violations.extend(check::all(&world, &known).await);
    let state = world.state();
    Run {
        violations,
        history: state.history.clone(),
        span: world.now(),
        posts: state.posts.len(),
        crashes: state.crashes,
        faults: state.faults,
        calls: state.calls,
        calls_of: state.calls_of.clone(),
    }
}

/// Stores the tenants, with their keys and endpoints.
pub(crate) async fn begin(world: &Arc<World>) -> Known {
    // The cursors are set as if the sweep had run before.
    let minute = BEGINNING.as_secs() / 60;
    for sweeper in 0..SWEEPERS {
        let cursor = json!({
            "destination": {"S": "due"}, "delivery": {"S": format!("cursor.{sweeper}")},
            "woken": {"N": (minute - 1).to_string()}, "checked": {"N": (minute - 16).to_string()},
        });
        put(world, "deliveries", cursor);
    }
    let (mut tenants, observed) = (Vec::new(), Arc::default());
    for (number, tenant) in world.script.tenants.iter().enumerate() {
        let (id, key) = store_tenant(world, number);
        let client = Client { world: Arc::clone(world), key, is_observer: false, observed: Arc::clone(&observed) };
        let mut endpoints = Vec::new();
        for (index, receiver) in tenant.endpoints.iter().enumerate() {
            let secret = secret(number, index, 0);
            let mut fields = json!({"url": url((number, Some(index))), "signing_secret": secret});
            if receiver.only_failures {
                fields["events"] = json!(["job.failed"]);
            }
            let (status, created) = client.observer().call("webhooks-create", &fields, None).await;
            assert_eq!(status, 200, "{created}");
            let id = created["webhook_endpoint_id"].as_str().expect("an id").to_owned();
            let start = Within { from: Time::ZERO, to: Time::ZERO };
            endpoints.push(Endpoint { id, secrets: vec![(secret, start)], switches: Vec::new(), deleted: None });
        }
        tenants.push(Tenant { id, client, endpoints });
    }
    Known { tenants, resends: Vec::new(), recoveries: Vec::new(), tests: Vec::new() }
}

/// The id of a tenant.
pub(crate) fn tenant_id(number: usize) -> String {
    format!("00000000-0000-7000-8000-{number:012}")
}

/// Stores a tenant with its user and key, and returns its id and the key.
fn store_tenant(world: &World, number: usize) -> (String, String) {
    let id = tenant_id(number);
    let key = format!("ak_{number:043}");
    let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&key));
    put(
        world,
        "api-keys",
        json!({
            "key_hash": {"S": hash}, "key_id": {"S": id}, "name": {"S": "k"}, "start": {"S": "ak_"},
            "organization_id": {"S": id}, "user_id": {"S": id}, "created_at": {"S": "2026-01-01T00:00:00.000Z"},
            // The key is marked as used on the day of the run.
            "last_request": {"S": "2026-01-31T00:00:00.000Z"},
        }),
    );
    put(
        world,
        "users",
        json!({
            "pk": {"S": format!("user#{id}")}, "user_id": {"S": id}, "name": {"S": "Ada"},
            "email": {"S": format!("ada{number}@example.com")}, "email_verified": {"BOOL": true},
            "organization_id": {"S": id}, "role": {"S": "owner"}, "created_at": {"S": "2026-01-01T00:00:00.000Z"},
        }),
    );
    put(
        world,
        "organizations",
        json!({
            "pk": {"S": format!("org#{id}")}, "organization_id": {"S": id}, "name": {"S": format!("Tenant {number}")},
            "slug": {"S": format!("tenant-{number}")}, "debug_notification_email": {"S": format!("t{number}@example.com")},
            "created_at": {"S": "2026-01-01T00:00:00.000Z"},
        }),
    );
    (id, key)
}

pub(crate) fn put(world: &World, table: &str, item: Value) {
    let request = serde_json::from_value(json!({"TableName": table, "Item": item})).expect("a request");
    world.database.put_item(request).expect("the write succeeds");
    world.state().stored = None;
}

pub(crate) async fn produce(world: Arc<World>, tenants: Vec<String>) {
    let mut events = world.script.events.clone();
    events.sort_by_key(|event| event.at);
    for event in events {
        sleep_until(world.instant(event.at)).await;
        let name = if event.failed { "job.failed" } else { "job.completed" };
        let tenant = &tenants[event.tenant];
        let job = event.job();
        let mut body = json!({"event": name, "tenant_id": tenant, "job_id": job, "result": {"n": event.number}});
        let bytes = world.script.tenants[event.tenant].bytes;
        if bytes > 0 {
            let mut random = fastrand::Rng::with_seed(event.number as u64);
            let noise = std::iter::repeat_with(|| random.alphanumeric()).take(bytes);
            body["result"]["noise"] = noise.collect::<String>().into();
        }
        match event.audience {
            Audience::Endpoints => {}
            Audience::None | Audience::Callback => {
                body["skip_callbacks"] = json!(event.audience == Audience::None);
                body["callback_url"] = json!(url((event.tenant, None)));
                body["callback_secret"] = json!(callback_secret(event.tenant));
            }
            Audience::OwnCallback => {
                body["callback_url"] = json!(callback_url(event.tenant, event.number));
                body["callback_secret"] = json!(callback_secret(event.tenant));
            }
        }
        let message = Sent { body: body.to_string(), delay: 0, group: Some(tenant.clone()) };
        let id = world.send("job-events", message).expect("the send succeeds");
        world.note("producer", format_args!("sends {id}: {name} of {job} to {:?}", event.audience));
    }
}

/// Performs the tenants' actions, one after another.
async fn act(world: &Arc<World>, known: &mut Known) {
    let mut actions = world.script.actions.clone();
    actions.sort_by_key(|action| action.at);
    for (number, action) in actions.into_iter().enumerate() {
        sleep_until(world.instant(action.at)).await;
        let result = do_one(world, known, number, action).await;
        world.note("tenant", format_args!("{action:?}: {result}"));
    }
}

async fn do_one(world: &Arc<World>, known: &mut Known, number: usize, action: Action) -> u16 {
    let Action { tenant: at, endpoint: index, call, .. } = action;
    let Tenant { client, endpoints, .. } = &mut known.tenants[at];
    let endpoint = &mut endpoints[index];
    let id = endpoint.id.clone();
    let from = world.now();
    let key = format!("action-{number}");
    let within = || Within { from, to: world.now() };
    match call {
        Call::Rotate => {
            let secret = secret(at, index, endpoint.secrets.len());
            let (status, _) = client.call("webhooks-update", &json!({"id": id, "signing_secret": secret}), None).await;
            if status == 200 {
                endpoint.secrets.push((secret, within()));
            }
            status
        }
        Call::Activate | Call::Deactivate => {
            let active = call == Call::Activate;
            let (status, _) = client.call("webhooks-update", &json!({"id": id, "active": active}), None).await;
            if status == 200 {
                endpoint.switches.push((active, within()));
            }
            status
        }
        Call::Delete => {
            let (status, _) = client.call("webhooks-delete", &json!({"id": id}), None).await;
            // The first try may have deleted the endpoint.
            endpoint.deleted.get_or_insert(within());
            status
        }
        Call::Resend(which) => {
            let deliveries = client.deliveries(&json!({"limit": 100})).await;
            let Some(delivery) = deliveries.get(which % deliveries.len().max(1)) else { return 0 };
            let delivery = delivery["delivery_id"].as_str().expect("an id").to_owned();
            let (status, _) = client.call("deliveries-resend", &json!({"delivery_id": delivery}), Some(&key)).await;
            known.resends.push(Resend { tenant: at, delivery, when: within(), is_done: status == 200 });
            status
        }
        Call::Recover => {
            let mut missed = Vec::new();
            for status in ["failed", "held"] {
                missed.extend(client.deliveries(&json!({"webhook_endpoint_id": id, "status": status})).await);
            }
            let fields = json!({"webhook_endpoint_id": id, "since": "2026-01-31T11:00:00Z"});
            let (status, _) = client.call("deliveries-recover", &fields, Some(&key)).await;
            if status == 200 {
                // A recovery omits tests.
                let missed = missed.iter().filter(|delivery| delivery["event"] != "webhook.test");
                let missed = missed.filter_map(|delivery| Some(delivery["delivery_id"].as_str()?.to_owned()));
                let missed = missed.collect();
                known.recoveries.push(Recovery { tenant: at, endpoint: index, missed, when: within() });
            }
            status
        }
        Call::Test => {
            let (status, answer) = client.call("webhooks-test", &json!({"id": id}), Some(&key)).await;
            if let Some(delivery) = answer["delivery_id"].as_str() {
                known.tests.push(Test { to: (at, index), delivery: delivery.to_owned(), when: within() });
            }
            status
        }
    }
}

impl Client {
    /// A client for the same tenant, with calls that take no time and do not fail.
    pub(crate) fn observer(&self) -> Self {
        let (world, observed) = (Arc::clone(&self.world), Arc::clone(&self.observed));
        Self { world, key: self.key.clone(), is_observer: true, observed }
    }

    /// All deliveries that match a filter.
    pub(crate) async fn deliveries(&self, filter: &Value) -> Vec<Value> {
        let (observer, mut filter, mut deliveries) = (self.observer(), filter.clone(), Vec::new());
        loop {
            let (status, page) = observer.call("deliveries-list", &filter, None).await;
            assert_eq!(status, 200, "{page}");
            deliveries.extend(page["deliveries"].as_array().expect("a list").iter().cloned());
            match page.get("next_cursor") {
                Some(cursor) => filter["cursor"] = cursor.clone(),
                None => return deliveries,
            }
        }
    }
}

/// Numbers of requests and invocations that no finite run reaches.
const MOST_POSTS: usize = 5_000;
const MOST_INVOCATIONS: usize = 20_000;

/// Waits until no work is left.
///
/// # Errors
/// Work remains at the end.
async fn finish(world: &Arc<World>) -> Result<(), String> {
    let retries: u64 = world.script.schedule.iter().sum();
    // A resend starts the schedule over, and a receiver may request 90 seconds each time. Deliveries to a receiver that
    // never answers are postponed for longer and longer until they fail.
    let rounds = 2 + world.script.actions.len() as u64;
    let limit = world.now() + world.script.trouble + Duration::from_secs(rounds * (retries * 5 / 4 + 600)) + MAX_AGE;
    let mut notices_since = None;
    loop {
        let (next, busy) = {
            let state = world.state();
            (state.queues.values().filter_map(crate::queue::Queue::next).min(), state.busy)
        };
        let now = world.now();
        let is_endless = {
            let state = world.state();
            state.posts.len() > MOST_POSTS || state.invocations > MOST_INVOCATIONS
        };
        if now > limit || is_endless {
            let queues: Vec<_> = world.state().queues.values().flat_map(crate::queue::Queue::describe).collect();
            return Err(format!("at {}: messages {queues:?}, pending {:?}", stamp(now), pending(world)));
        }
        if let Some(next) = next {
            sleep_until(next.max(Instant::now() + Duration::from_secs(1))).await;
            continue;
        }
        if busy > 0 || now < world.script.trouble {
            sleep(Duration::from_secs(1)).await;
            continue;
        }
        let (deliveries, notices) = pending(world);
        if deliveries.is_empty() {
            // A notice is retried after a minute, and then at growing intervals.
            let since = *notices_since.get_or_insert(now);
            if notices.is_empty() || now > since + Duration::from_mins(40) {
                return Ok(());
            }
        } else {
            notices_since = None;
        }
        sleep(Duration::from_secs(20)).await;
    }
}

/// The work that remains in the tables: deliveries and recoveries, and notices.
pub(crate) fn pending(world: &World) -> (Vec<String>, Vec<Value>) {
    let stored = world.stored();
    let deliveries = stored.deliveries.iter().filter(|item| {
        let is_open = item["destination"]["S"].as_str().is_some_and(|key| key.starts_with("recovery/"))
            && item.get("open").is_some();
        item["status"]["S"] == "pending" || is_open
    });
    let notices = stored.endpoints.iter().filter(|item| {
        // A failure that is repeated within an hour is reported after the end of the run.
        let waits = item["notice"]["S"] == "failures" && item.get("mailed_at").is_some();
        item.get("notice").is_some() && !waits
    });
    (deliveries.map(Value::to_string).collect(), notices.cloned().collect())
}

/// The tables' items.
pub(crate) struct Stored {
    pub(crate) deliveries: Vec<Value>,
    pub(crate) endpoints: Vec<Value>,
}

impl World {
    /// The tables' items, read once after each write.
    pub(crate) fn stored(&self) -> Arc<Stored> {
        if let Some(stored) = &self.state().stored {
            return Arc::clone(stored);
        }
        let stored = Stored { deliveries: scan(self, "deliveries"), endpoints: scan(self, "webhook-endpoints") };
        Arc::clone(self.state().stored.insert(Arc::new(stored)))
    }
}

fn scan(world: &World, table: &str) -> Vec<Value> {
    let request: ScanRequest = serde_json::from_value(json!({"TableName": table})).expect("a request");
    let found = serde_json::to_value(world.database.scan(request).expect("a scan")).expect("JSON");
    found["Items"].as_array().cloned().unwrap_or_default()
}

/// A time from the API, relative to the beginning of the run.
pub(crate) fn time(text: &Value) -> Time {
    let time: common::timestamp::Timestamp = text.as_str().expect("a time").parse().expect("a time");
    Duration::from_millis(u64::try_from(time.as_millisecond()).expect("after 1970")).saturating_sub(BEGINNING)
}
