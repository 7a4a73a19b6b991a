//! A receiver that does not answer hurts nobody else: no other tenant, and no other endpoint of its own.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use axum::{Router, body::Bytes, extract::State};
use common::{
    timestamp::Timestamp,
    webhooks::{delivery::Status, event::JobEvent},
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tests::{Manner, Received, Receiver, Rough, Tenant, World, callback, event};
use tokio::{net::TcpListener, time::Instant};

/// A tenant with receivers that hang and one that does not, and another whose receiver is well.
struct Neighbours {
    world: World,
    noisy: Tenant,
    quiet: Tenant,
    hanging: Vec<Rough>,
    healthy: Receiver,
    other: Receiver,
}

impl Neighbours {
    async fn start(hanging: usize, timeout: &str) -> Self {
        let world = World::live(&[("DELIVERY_TIMEOUT", timeout)]).await;
        let (noisy, quiet) = (world.tenant("noisy").await, world.tenant("quiet").await);
        let mut rough = Vec::new();
        for _ in 0..hanging {
            let receiver = Rough::start(Manner::Hangs).await;
            world.endpoint(&noisy, receiver.url(), "s").await;
            rough.push(receiver);
        }
        let (healthy, other) = (Receiver::start().await, Receiver::start().await);
        world.endpoint(&noisy, &healthy.url("/"), "s").await;
        world.endpoint(&quiet, &other.url("/"), "s").await;
        Self { world, noisy, quiet, hanging: rough, healthy, other }
    }

    /// Sends this many events of the noisy tenant, and after each `every` of them one of the other. Returns when each entered
    /// the queue, by its job.
    async fn send(&self, jobs: std::ops::Range<usize>, every: usize) -> HashMap<String, Instant> {
        let events = jobs.flat_map(|job| {
            let noisy = (job, event(&self.noisy.id, job).to_string());
            [Some(noisy), (job % every == 0).then(|| (job, event(&self.quiet.id, job).to_string()))]
        });
        let events: Vec<_> = events.flatten().collect();
        let batches: Vec<Vec<(usize, String)>> = events.chunks(10).map(<[_]>::to_vec).collect();
        let sent = stream::iter(batches).map(async |batch| {
            let entries = batch.iter().enumerate().map(|(place, (_, body))| {
                SendMessageBatchRequestEntry::builder()
                    .id(place.to_string())
                    .message_body(body)
                    .build()
                    .expect("an entry")
            });
            let url = &self.world.stack.queues()["job-events"];
            let call = self.world.stack.sqs_client().send_message_batch().queue_url(url);
            let at = Instant::now();
            call.set_entries(Some(entries.collect())).send().await.expect("they are sent");
            batch.into_iter().map(|(job, _)| (job.to_string(), at)).collect::<Vec<_>>()
        });
        sent.buffered(4).collect::<Vec<_>>().await.into_iter().flatten().collect()
    }
}

/// How long each took from its queue to its receiver, in order.
fn latencies(received: &[Received], sent: &HashMap<String, Instant>) -> Vec<Duration> {
    let mut latencies: Vec<_> = received
        .iter()
        .filter_map(|received| Some(received.at - *sent.get(received.json()["job_id"].as_str()?)?))
        .collect();
    latencies.sort();
    latencies
}

fn percentile(latencies: &[Duration], percent: usize) -> Duration {
    latencies[(latencies.len() - 1) * percent / 100]
}

/// Handles the deliveries queue until this holds.
async fn until<F: Future<Output = bool>>(world: &World, holds: impl Fn() -> F) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < deadline, "it does not come");
        world.poll("deliveries").await;
    }
}

/// A tenant whose only endpoint has not answered its first event.
async fn silent(settings: &[(&str, &str)]) -> (World, Tenant, String, Rough) {
    let settings: Vec<_> = settings.iter().copied().chain([("DELIVERY_TIMEOUT", "1")]).collect();
    let world = World::with(&settings).await;
    let tenant = world.tenant("acme").await;
    let receiver = Rough::start(Manner::Hangs).await;
    let id = world.endpoint(&tenant, receiver.url(), "s").await;
    world.deliver(event(&tenant.id, 1)).await;
    assert_eq!(receiver.arrivals().await.len(), 1);
    (world, tenant, id, receiver)
}

async fn send_to(world: &World, tenant: &Tenant, id: &str, url: &str) {
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "url": url})).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_does_not_answer_gets_first_attempts_from_the_deliveries_queue_until_one_succeeds() {
    let (world, tenant, id, receiver) = silent(&[("RETRY_SCHEDULE", "600")]).await;
    for job in 2..=3 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    world.poll("job-events").await;
    assert_eq!(receiver.arrivals().await.len(), 1, "the queue of events does not wait for it");
    let well = Receiver::start().await;
    send_to(&world, &tenant, &id, &well.url("/")).await;
    until(&world, async || well.count().await == 2).await;
    let jobs: HashSet<Value> = well.received().await.iter().map(|received| received.json()["job_id"].clone()).collect();
    assert_eq!(jobs, HashSet::from([json!("2"), json!("3")]));
    world.deliver(event(&tenant.id, 4)).await;
    assert_eq!(well.count().await, 3, "one success is enough");
    let attempts: Vec<_> =
        world.log_of(&tenant.id, Status::Delivered).await.iter().map(|delivery| delivery.attempts).collect();
    assert_eq!(attempts, [1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_event_is_a_key_in_the_queue_and_nothing_else() {
    let (world, tenant, ..) = silent(&[("RETRY_SCHEDULE", "")]).await;
    world.deliver(event(&tenant.id, 2)).await;
    let mut messages = Vec::new();
    while messages.is_empty() {
        messages = world.drain("deliveries").await;
    }
    let members: Vec<_> = messages[0].as_object().expect("an object").keys().cloned().collect();
    assert_eq!((messages.len(), members), (1, vec!["parked".to_owned(), "tenant_id".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_counts_as_no_answer_and_an_error_as_an_answer() {
    for (is_refused, expected) in [(true, 0), (false, 1)] {
        let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
        let tenant = world.tenant("acme").await;
        let receiver = Receiver::scripted(&[(500, &[])]).await;
        let url = if is_refused { "http://127.0.0.1:1/".to_owned() } else { receiver.url("/") };
        world.endpoint(&tenant, &url, "s").await;
        world.deliver(event(&tenant.id, 1)).await;
        world.deliver(event(&tenant.id, 2)).await;
        assert_eq!(world.log(&tenant.id).await.len(), 1 + expected, "the second is attempted at once, or parked");
    }
}

/// Another process has it from the record alone.
#[tokio::test(flavor = "multi_thread")]
async fn all_processes_know_of_an_endpoint_that_does_not_answer() {
    let (world, tenant, _, receiver) = silent(&[("RETRY_SCHEDULE", "")]).await;
    let other = world.worker(&[("DELIVERY_TIMEOUT", "1")]);
    world.enqueue("job-events", event(&tenant.id, 2)).await;
    other.poll("job-events").await.expect("a step");
    assert_eq!(receiver.arrivals().await.len(), 1);
    until(&world, async || receiver.arrivals().await.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_again_after_it_was_activated_again_is_known_to_all_processes() {
    let (world, tenant, id, receiver) = silent(&[("RETRY_SCHEDULE", "")]).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": true})).await.ok();
    world.deliver(event(&tenant.id, 2)).await;
    assert_eq!(receiver.arrivals().await.len(), 2, "it starts afresh");
    let other = world.worker(&[("DELIVERY_TIMEOUT", "1")]);
    world.enqueue("job-events", event(&tenant.id, 3)).await;
    other.poll("job-events").await.expect("a step");
    assert_eq!(receiver.arrivals().await.len(), 2, "the queue of events does not wait for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_to_an_origin_that_does_not_answer_are_parked_too() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Rough::start(Manner::Hangs).await;
    for job in 1..=2 {
        world.deliver(callback(&tenant.id, job, format!("{}{job}", receiver.url()))).await;
        assert_eq!(receiver.arrivals().await.len(), 1);
    }
    until(&world, async || world.log_of(&tenant.id, Status::Failed).await.len() == 2).await;
    assert_eq!(receiver.arrivals().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_of_one_job_are_parked_each_for_itself() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Rough::start(Manner::Hangs).await;
    for (job, path) in [(1, "first"), (2, "second"), (2, "third")] {
        world.deliver(callback(&tenant.id, job, format!("{}{path}", receiver.url()))).await;
    }
    until(&world, async || world.log_of(&tenant.id, Status::Failed).await.len() == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_event_ends_in_the_log_if_its_endpoint_is_gone() {
    for (route, fields) in [("delete", json!({})), ("update", json!({"active": false}))] {
        let (world, tenant, id, _receiver) = silent(&[("RETRY_SCHEDULE", "")]).await;
        for job in 2..6 {
            world.enqueue("job-events", event(&tenant.id, job)).await;
        }
        world.poll("job-events").await;
        let mut fields = fields;
        fields["id"] = json!(id);
        world.rpc(&tenant.key, &format!("webhooks/{route}"), fields).await.ok();
        until(&world, async || world.log_of(&tenant.id, Status::Ended).await.len() == 4).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_tries_a_receiver_that_hangs() {
    let (world, tenant, id, receiver) = silent(&[("RETRY_SCHEDULE", "")]).await;
    let other = world.worker(&[("DELIVERY_TIMEOUT", "1")]);
    park(&world, &tenant, &id, 2, 1).await;
    let first = world.poll("deliveries");
    let second = async {
        while receiver.arrivals().await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        park(&world, &tenant, &id, 3, 1).await;
        let handled = other.poll("deliveries").await.expect("a step");
        (handled, receiver.arrivals().await.len())
    };
    assert_eq!(tokio::join!(first, second), (1, (1, 2)), "the other process leaves it alone meanwhile");
    until(&world, async || receiver.arrivals().await.len() == 3).await;
}

/// Puts a parked event of this age into the queue.
async fn park(world: &World, tenant: &Tenant, id: &str, job: usize, minutes_ago: u64) {
    let now = Timestamp::now();
    let at = now.before(Duration::from_secs(minutes_ago * 60));
    let event = JobEvent::parse(&event(&tenant.id, job).to_string(), at).expect("an event");
    let (message, row) = world.delivery_log().park(&event, &[id.parse().expect("an id")], now);
    assert!(world.delivery_log().put(vec![((), row)]).await.is_empty());
    world.enqueue("deliveries", json!({"tenant_id": tenant.id, "parked": message.parked})).await;
}

/// A parked event cannot be seen, so it does not stay parked for long.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_parked_for_long_waits_in_the_log() {
    let (world, tenant, id, _receiver) = silent(&[("RETRY_SCHEDULE", "")]).await;
    for (minutes_ago, expected) in [(14, 0), (16, 1)] {
        let now = Timestamp::now();
        // Four of them get the attempts that such a receiver may have at once. The fifth has to wait.
        for number in 0..5 {
            park(&world, &tenant, &id, 100 * expected + number, minutes_ago).await;
        }
        assert_eq!(world.poll("deliveries").await, 5);
        let waiting = world.log_of(&tenant.id, Status::Pending).await;
        assert_eq!(waiting.len(), expected);
        assert!(waiting.iter().all(|delivery| delivery.attempts == 0 && delivery.next_attempt_at > Some(now)));
        assert_eq!(world.counts("deliveries").await[2], 1, "it comes back");
        until(&world, async || world.log_of(&tenant.id, Status::Failed).await.len() == 6 + 5 * expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_has_waited_three_days_for_a_receiver_that_does_not_answer_fails() {
    let (world, tenant, id, receiver) = silent(&[("RETRY_SCHEDULE", "900")]).await;
    for number in 0..4 {
        park(&world, &tenant, &id, 100 + number, 1).await;
    }
    let busy = world.poll("deliveries");
    let late = async {
        while receiver.arrivals().await.len() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        park(&world, &tenant, &id, 200, 3 * 24 * 60).await;
        world.poll("deliveries").await
    };
    assert_eq!(tokio::join!(busy, late), (4, 1));
    let failed = world.log_of(&tenant.id, Status::Failed).await;
    assert_eq!((failed.len(), failed[0].attempts, failed[0].job_id.as_str()), (1, 0, "200"));
}

/// While the first attempts hang, and none has timed out yet.
#[tokio::test(flavor = "multi_thread")]
async fn receivers_that_hang_hold_up_nobody() {
    let neighbours = Neighbours::start(5, "20").await;
    let sent = neighbours.send(0..100, 10).await;
    neighbours.other.wait_for(10).await;
    neighbours.healthy.wait_for(100).await;
    let last = sent.values().max().expect("events");
    assert!(last.elapsed() < Duration::from_secs(20), "no attempt has timed out");
    for receiver in &neighbours.hanging {
        assert!(receiver.arrivals().await.len() <= 10, "a receiver that is not known gets so many at once");
    }
}

/// A receiver that can hang, and counts what it has at once.
#[derive(Clone, Default)]
struct Moody(Arc<Mutex<Mood>>);

#[derive(Default)]
struct Mood {
    hangs: bool,
    at_once: usize,
    taken: Vec<Value>,
    /// How many it had at once when a request came, and how many it had taken by then.
    seen: Vec<(usize, usize)>,
}

impl Moody {
    async fn start() -> (Self, String) {
        let moody = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let app = Router::new().fallback(Self::receive).with_state(moody.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (moody, url)
    }

    async fn receive(State(moody): State<Self>, body: Bytes) {
        if moody.mood().hangs {
            std::future::pending::<()>().await;
        }
        {
            let mut mood = moody.mood();
            mood.at_once += 1;
            let seen = (mood.at_once, mood.taken.len());
            mood.seen.push(seen);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut mood = moody.mood();
        mood.at_once -= 1;
        mood.taken.push(serde_json::from_slice::<Value>(&body).expect("JSON")["job_id"].clone());
    }

    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.0.lock().expect("no panic")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_comes_back_gets_what_has_waited_and_is_not_flooded() {
    let world = World::live(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "1,1,1,1,1,1")]).await;
    let tenant = world.tenant("acme").await;
    let (moody, url) = Moody::start().await;
    moody.mood().hangs = true;
    world.endpoint(&tenant, &url, "s").await;
    for job in 0..150 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    moody.mood().hangs = false;
    let deadline = Instant::now() + Duration::from_secs(30);
    let all: HashSet<Value> = (0..150).map(|job| json!(job.to_string())).collect();
    while moody.mood().taken.iter().cloned().collect::<HashSet<_>>() != all {
        assert!(Instant::now() < deadline, "{} came", moody.mood().taken.len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (at_once, taken) in &moody.mood().seen {
        assert!(*at_once <= 4 + taken, "{at_once} at once, though it had taken {taken}");
    }
}

/// The figures of the issue, from a cold start and then with receivers that are known to hang. Run it by itself.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute, and measures"]
async fn figures_of_two_neighbours() {
    let neighbours = Neighbours::start(10, "2").await;
    for (name, jobs) in [("cold", 0..2000), ("known to hang", 2000..4000)] {
        let (from, sent) = (jobs.start, neighbours.send(jobs, 10).await);
        let (healthy, other) = (&neighbours.healthy, &neighbours.other);
        let deadline = Instant::now() + Duration::from_secs(200);
        while healthy.count().await < from + 2000 || other.count().await < (from + 2000) / 10 {
            assert!(Instant::now() < deadline, "{} and {} came", healthy.count().await, other.count().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for (whose, received) in
            [("other tenant", other.received().await), ("healthy endpoint", healthy.received().await)]
        {
            let latencies = latencies(&received, &sent);
            eprintln!(
                "{name}, {whose}: {} deliveries, p50 {:?}, p99 {:?}, max {:?}",
                latencies.len(),
                percentile(&latencies, 50),
                percentile(&latencies, 99),
                percentile(&latencies, 100)
            );
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_receivers_have_their_time_and_delay_nobody() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1")]).await;
    let tenant = world.tenant("acme").await;
    let hanging = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    // More than are signed at a time: none of them may hold up another.
    for number in 0..12 {
        let url = format!("http://{}/{number}", hanging.local_addr().expect("an address"));
        world.endpoint(&tenant, &url, "s").await;
    }
    let healthy = Receiver::start().await;
    world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant.id, "j")).await;
    let started = tokio::time::Instant::now();
    world.poll("job-events").await;
    assert!(started.elapsed() >= Duration::from_secs(1), "the hanging receivers had their second");
    assert_eq!(world.counts("deliveries").await[2], 12, "and get another attempt");
    assert!(
        healthy.received().await[0].at - started < Duration::from_millis(900),
        "the healthy one did not wait for them"
    );
}
