//! Pull endpoints: clients lease deliveries, post them, settle them, and die at any point.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    check::Violation,
    processes::{Client, Fleet},
    run::{Known, begin, in_virtual_time, produce, start, time},
    script::{Audience, Manner, Receiver, Script, Tenant, Time},
    world::World,
};

/// The number of seeds in `cargo test`.
const SEEDS: u64 = 30;
/// The duration of a lease: the template's `LeaseTime`.
const LEASE: Time = Duration::from_mins(1);

/// The state of the clients.
#[derive(Default)]
struct Book {
    taken: Vec<Taken>,
    /// The delivery and the job of each post.
    posts: Vec<(String, String)>,
    settled: Vec<Settled>,
    /// The number of leases that clients did not settle after posting, by delivery. Each may cause a repetition.
    cut: BTreeMap<String, usize>,
    resent: Vec<(String, Time)>,
}

/// A leased delivery.
struct Taken {
    delivery: String,
    lease: String,
    /// The time of the response.
    at: Time,
    /// The end of the lease, according to the response.
    ends: Time,
}

/// A settlement that got a response.
struct Settled {
    delivery: String,
    lease: String,
    /// `None` for a release of the lease.
    status: Option<u16>,
    result: String,
    /// When the call began.
    from: Time,
}

/// A client's action on a delivery.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Settles,
    SettlesTwice,
    SettlesLate,
    Releases,
    DiesBeforeThePost,
    DiesAfterThePost,
}

/// The script for a seed, without receivers.
fn script(seed: u64) -> Script {
    let script = Script::of(seed);
    let prompt =
        Receiver { phases: vec![(Duration::MAX, Manner::Prompt)], only_failures: false, has_dead_address: false };
    let events = script.events.iter().enumerate().map(|(number, event)| {
        let (tenant, audience) = (0, Audience::Endpoints);
        crate::script::Event { tenant, number, audience, ..*event }
    });
    Script {
        schedule: &[1, 20, 60],
        // The endpoint is never disabled, because no call would enable it.
        disable_after: 0,
        hold_for: 604_800,
        sweeps_idly: false,
        tenants: vec![Tenant { endpoints: Vec::new(), callbacks: prompt, bytes: 0 }],
        events: events.collect(),
        actions: Vec::new(),
        ..script
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// A separate client for the same tenant.
fn client(known: &Known) -> Client {
    let Client { world, key, observed, .. } = &known.tenants[0].client;
    Client { world: Arc::clone(world), key: key.clone(), is_observer: false, observed: Arc::clone(observed) }
}

/// Receives, posts and settles until the end of the run.
async fn take(client: Client, endpoint: String, book: Arc<Mutex<Book>>, mut rng: Rng) {
    let world = Arc::clone(&client.world);
    loop {
        let fields = json!({"webhook_endpoint_id": endpoint, "limit": rng.u32(1..5)});
        let (status, answer) = client.call("deliveries-receive", &fields, None).await;
        let is_calm = world.now() > world.script.trouble;
        if status != 200 {
            sleep(Duration::from_secs(5)).await;
            continue;
        }
        let deliveries = answer["deliveries"].as_array().cloned().unwrap_or_default();
        for delivery in &deliveries {
            let ends = time(&delivery["lease_expires_at"]);
            let (id, lease) = (text(delivery, "delivery_id"), text(delivery, "lease"));
            world.note("taker", format_args!("takes {} of {}", lease, delivery["job_id"]));
            lock(&book).taken.push(Taken { delivery: id, lease, at: world.now(), ends });
        }
        for delivery in deliveries {
            deal(&client, &book, &delivery, is_calm, &mut rng).await;
        }
        // Empty polls are skipped: they would take most of a run's time, and always behave the same.
        let pause = answer["poll_after_ms"].as_u64().unwrap_or(1_000);
        sleep(Duration::from_millis(if is_calm { 20_000 } else { pause.max(3_000) })).await;
    }
}

/// Performs a random action on a delivery; near the end of the run, always settles it as a success.
async fn deal(client: &Client, book: &Mutex<Book>, delivery: &Value, is_calm: bool, rng: &mut Rng) {
    let world = &client.world;
    let deed = match rng.u32(0..16) {
        _ if is_calm => Deed::Settles,
        0 => Deed::DiesBeforeThePost,
        1 | 2 => Deed::DiesAfterThePost,
        3 => Deed::SettlesLate,
        4 | 5 => Deed::SettlesTwice,
        6 => Deed::Releases,
        _ => Deed::Settles,
    };
    let status = if !is_calm && rng.u32(0..4) == 0 { 500 } else { 200 };
    let id = text(delivery, "delivery_id");
    if deed == Deed::DiesBeforeThePost {
        return;
    }
    let is_posted = deed != Deed::Releases;
    if is_posted {
        sleep(Duration::from_millis(rng.u64(1..3_000))).await;
        lock(book).posts.push((id.clone(), text(delivery, "job_id")));
    }
    if deed == Deed::DiesAfterThePost {
        *lock(book).cut.entry(id).or_default() += 1;
        return;
    }
    if deed == Deed::SettlesLate {
        *lock(book).cut.entry(id.clone()).or_default() += 1;
        // Another client may have leased the delivery in the meantime.
        sleep(LEASE + Duration::from_millis(rng.u64(0..8_000))).await;
    }
    let status = is_posted.then_some(status);
    let mut settlement = json!({"delivery_id": id, "lease": delivery["lease"]});
    if let Some(status) = status {
        settlement["status_code"] = json!(status);
    }
    for time in 0..if deed == Deed::SettlesTwice { 2 } else { 1 } {
        let from = world.now();
        let (_, answer) = client.call("deliveries-settle", &json!({"settlements": [settlement]}), None).await;
        let result = text(&answer["settlements"][0], "result");
        world.note("taker", format_args!("settles {} with {status:?}: {result}", delivery["lease"]));
        if time == 0 && deed != Deed::SettlesLate && is_posted && result == "lease_expired" {
            *lock(book).cut.entry(id.clone()).or_default() += 1;
        }
        let (delivery, lease) = (id.clone(), text(delivery, "lease"));
        lock(book).settled.push(Settled { delivery, lease, status, result, from });
    }
}

/// Resends some deliveries, and makes the endpoint inactive for a while.
async fn act(client: Client, endpoint: String, book: Arc<Mutex<Book>>, mut rng: Rng) {
    let world = Arc::clone(&client.world);
    for number in 0..rng.u32(0..4) {
        sleep(Duration::from_secs(rng.u64(1..60))).await;
        let deliveries = client.deliveries(&json!({"limit": 100})).await;
        let Some(delivery) = rng.choice(&deliveries) else { continue };
        let id = text(delivery, "delivery_id");
        // The call may take effect before its response arrives.
        lock(&book).resent.push((id.clone(), world.now()));
        client.call("deliveries-resend", &json!({"delivery_id": id}), Some(&format!("again-{number}"))).await;
        if rng.bool() {
            for active in [false, true] {
                client.call("webhooks-update", &json!({"id": endpoint, "active": active}), None).await;
                sleep(Duration::from_secs(rng.u64(1..40))).await;
            }
        }
    }
}

async fn pull_endpoint(known: &Known) -> String {
    let fields = json!({"kind": "pull", "signing_secret": "a secret of some length"});
    let (status, created) = known.tenants[0].client.observer().call("webhooks-create", &fields, None).await;
    assert_eq!(status, 200, "{created}");
    text(&created, "webhook_endpoint_id")
}

/// Runs the script for a seed with two clients.
fn run(seed: u64) -> (Vec<Violation>, Vec<String>) {
    in_virtual_time(seed, async {
        let world = World::new(script(seed));
        let known = begin(&world).await;
        let endpoint = pull_endpoint(&known).await;
        let fleet = Fleet::new(&world);
        let mut tasks = start(&world, &fleet);
        let book: Arc<Mutex<Book>> = Arc::default();
        for taker in 0..2 {
            let rng = Rng::with_seed(seed.wrapping_mul(3).wrapping_add(taker));
            tasks.spawn(take(client(&known), endpoint.clone(), Arc::clone(&book), rng));
        }
        let acted = tokio::spawn(act(client(&known), endpoint.clone(), Arc::clone(&book), Rng::with_seed(!seed)));
        produce(Arc::clone(&world), known.ids()).await;
        acted.await.expect("all is done");
        let mut violations: Vec<_> = finish(&world).await.err().into_iter().collect();
        tasks.abort_all();
        let book = std::mem::take(&mut *lock(&book));
        violations.extend(check(&world, &known, &book).await);
        (violations, world.state().history.clone())
    })
}

/// Waits until every delivery has been delivered or has failed.
async fn finish(world: &Arc<World>) -> Result<(), Violation> {
    let end = world.now() + world.script.trouble + Duration::from_hours(2);
    loop {
        sleep_until(Instant::now() + Duration::from_secs(10)).await;
        let open = |item: &&Value| ["held", "pending"].map(|status| json!(status)).contains(&item["status"]["S"]);
        let left: Vec<_> = world.stored().deliveries.iter().filter(open).map(Value::to_string).collect();
        let is_quiet = world.state().queues.values().all(|queue| queue.next().is_none());
        if world.now() > world.script.trouble && left.is_empty() && is_quiet {
            return Ok(());
        }
        if world.now() > end {
            return Err(Violation::new("waiting deliveries are received eventually", left.join(", ")));
        }
    }
}

async fn check(world: &World, known: &Known, book: &Book) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut fail = |invariant, detail: String| violations.push(Violation::new(invariant, detail));
    let deliveries = known.tenants[0].client.deliveries(&json!({"limit": 100})).await;
    let posted: BTreeSet<_> = book.posts.iter().map(|(_, job)| job.clone()).collect();
    for event in &world.script.events {
        if !posted.contains(&event.job()) {
            fail("nothing is lost", format!("{} was never posted", event.job()));
        }
    }
    let skew = Duration::from_millis(world.script.skew.unsigned_abs() + 1);
    for delivery in &deliveries {
        let id = text(delivery, "delivery_id");
        let settled: Vec<_> = book.settled.iter().filter(|settled| settled.delivery == id).collect();
        let is_attempt = |it: &&&Settled| it.status.is_some() && it.result == "settled";
        let attempts: BTreeSet<_> = settled.iter().filter(is_attempt).map(|it| &it.lease).collect();
        if delivery["attempts"] != attempts.len() {
            fail(
                "the log has each settlement once",
                format!("{} attempts, {} leases: {delivery}", delivery["attempts"], attempts.len()),
            );
        }
        let resends: Vec<_> = book.resent.iter().filter(|(resent, _)| *resent == id).map(|(_, at)| *at).collect();
        let taken_well = settled.iter().filter(is_attempt).filter(|it| it.status == Some(200)).map(|it| it.from).max();
        let is_resent_since = resends.iter().any(|at| taken_well.is_some_and(|well| *at + LEASE >= well));
        if taken_well.is_some() && delivery["status"] != "delivered" && !is_resent_since {
            fail("settled successes are delivered", delivery.to_string());
        }
        let repeated =
            |one: &&&Settled| settled.iter().any(|other| other.lease == one.lease && other.result != one.result);
        if resends.is_empty() && settled.iter().filter(|it| it.status == Some(200)).any(|it| repeated(&it)) {
            fail("a repeated settlement gets the same answer", delivery.to_string());
        }
        let failures = settled.iter().filter(is_attempt).filter(|it| it.status == Some(500)).map(|it| &it.lease);
        let failures = failures.collect::<BTreeSet<_>>().len();
        let posts = book.posts.iter().filter(|(posted, _)| *posted == id).count();
        let allowed = 1 + failures + book.cut.get(&id).copied().unwrap_or(0) + resends.len();
        if posts > allowed {
            fail("an unfinished lease causes one repetition", format!("{posts} posts, {allowed} allowed: {delivery}"));
        }
        let taken: Vec<_> = book.taken.iter().filter(|taken| taken.delivery == id).collect();
        for (number, second) in taken.iter().enumerate() {
            for first in &taken[..number] {
                let is_settled =
                    |it: &&Settled| it.lease == first.lease && it.result != "lease_expired" && it.from <= second.at;
                let is_over = first.ends <= second.at + skew
                    || settled.iter().copied().any(|it| is_settled(&it))
                    || resends.iter().any(|at| *at <= second.at);
                if !is_over {
                    fail("no other client has a leased delivery", format!("{} and {}", first.lease, second.lease));
                }
            }
        }
    }
    for item in &world.stored().deliveries {
        if item.get("lease_ends").is_some() || item.get("due").is_some() {
            fail("nothing stays leased", item.to_string());
        }
    }
    violations
}

/// For `mutations.rs`: the first seed that fails, and the promise that it breaks.
pub(crate) fn first() -> Option<(String, &'static str)> {
    explained().map(|(seed, violated, _)| (format!("pull, seed {seed}"), violated))
}

/// The first seed that fails, with details.
fn explained() -> Option<(u64, &'static str, Vec<String>)> {
    (0..SEEDS).find_map(|seed| {
        let run = std::panic::catch_unwind(|| run(seed));
        let Ok((violations, mut history)) = run else { return Some((seed, "nothing panics", Vec::new())) };
        let invariant = violations.first()?.invariant;
        history.extend(violations.iter().map(|it| format!("{}: {}", it.invariant, it.detail)));
        Some((seed, invariant, history))
    })
}

#[test]
fn pull_deliveries_are_received_settled_and_never_lost() {
    if let Some((seed, invariant, history)) = explained() {
        history.iter().for_each(|line| println!("{line}"));
        panic!("seed {seed} violates: {invariant}");
    }
}

/// For three days, no client receives deliveries, and processes crash. Then a client recovers everything.
#[test]
fn unreceived_deliveries_fail_in_three_days_and_are_recoverable() {
    for seed in 0..2 {
        in_virtual_time(seed, async {
            let world = World::new(script(seed));
            let known = begin(&world).await;
            let endpoint = pull_endpoint(&known).await;
            let fleet = Fleet::new(&world);
            let mut tasks = start(&world, &fleet);
            produce(Arc::clone(&world), known.ids()).await;
            sleep(Duration::from_hours(3 * 24 + 2)).await;
            let client = client(&known);
            let statuses = async || {
                let deliveries = client.deliveries(&json!({"limit": 100})).await;
                deliveries.iter().map(|delivery| text(delivery, "status")).collect::<BTreeSet<_>>()
            };
            assert_eq!(statuses().await, BTreeSet::from(["failed".to_owned()]), "seed {seed}");
            let fields = json!({"webhook_endpoint_id": endpoint, "since": "2026-01-31T11:00:00Z"});
            let (status, _) = client.call("deliveries-recover", &fields, None).await;
            assert_eq!(status, 200);
            let book: Arc<Mutex<Book>> = Arc::default();
            tasks.spawn(take(self::client(&known), endpoint, book, Rng::with_seed(seed)));
            // The recovery begins with the next sweep.
            sleep(Duration::from_mins(10)).await;
            finish(&world).await.expect("all is taken");
            assert_eq!(statuses().await, BTreeSet::from(["delivered".to_owned()]), "seed {seed}");
        });
    }
}
