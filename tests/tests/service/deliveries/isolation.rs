//! A slow or hanging receiver does not delay other receivers, whether of the same tenant or of another. Attempts at it
//! in the shared queues are cut off, and its deliveries then wait in a separate queue.

use std::time::Duration;

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Destination, MAX_AGE, Payload, Status},
        endpoints::News,
        event::JobEvent,
    },
};
use futures::future::join_all;
use serde_json::json;
use tests::{
    Manner, Moody, Receiver, Rough, Switch, Tenant, World, callback, event,
    moody::{AT_ONCE, FOREVER, TOO_LATE},
    world::log::due_message,
};
use tokio::{net::TcpListener, time::Instant};

/// A world with a tenant that has an endpoint at this URL.
pub(super) async fn world_with(settings: &[(&str, &str)], url: &str) -> (World, Tenant, String) {
    let world = World::with(settings).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, url, "s").await;
    (world, tenant, id)
}

/// Like [`world_with`], but with a receiver that has been hanging for two hours according to the endpoint's item.
pub(super) async fn silent(settings: &[(&str, &str)]) -> (World, Tenant, String, Rough) {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, id) = world_with(settings, receiver.url()).await;
    let (owner, endpoint) = (tenant.id.parse().expect("a tenant"), id.parse().expect("an id"));
    let since = minutes_ago(120);
    world
        .stored_endpoints()
        .note(&owner, endpoint, News::Unanswered { hangs: true }, since)
        .await
        .expect("the write succeeds");
    (world, tenant, id, receiver)
}

pub(super) fn minutes_ago(minutes: u64) -> Timestamp {
    Timestamp::now().before(Duration::from_secs(minutes * 60))
}

/// Stores a delivery that has been waiting since `at`, and sends its message to the queue for hanging receivers.
async fn wait_since(world: &World, tenant: &Tenant, endpoint: &str, job: impl ToString, at: Timestamp) -> Delivery {
    let told = JobEvent::parse(&event(&tenant.id, job).to_string(), at).expect("an event");
    let destination = Destination::Endpoint(endpoint.parse().expect("an id"));
    let delivery = Delivery { next_attempt_at: Some(at), ..Delivery::first(&told, &destination, 1) };
    let payload = Payload { destination, body: told.body, trace: None };
    let owner = tenant.id.parse().expect("a tenant");
    let log = world.delivery_log();
    let first = log.first_row(&owner, &delivery, Some(&payload), Timestamp::now());
    assert!(matches!(log.begin(vec![first]).await[..], [Ok(())]));
    world.enqueue("hanging-deliveries", due_message(&tenant.id, &delivery)).await;
    delivery
}

/// Repeats until the condition holds.
async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < deadline, "the condition is not met in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The number of messages in each queue, including delayed ones: events, deliveries, slow receivers and hanging
/// receivers.
pub(super) async fn waiting(world: &World) -> [usize; 4] {
    let mut waiting = [0; 4];
    for (number, queue) in ["job-events", "deliveries", "slow-deliveries", "hanging-deliveries"].into_iter().enumerate()
    {
        let [due, _, delayed] = world.counts(queue).await;
        waiting[number] = due + delayed;
    }
    waiting
}

/// Handles this many of a queue's messages, once they are due.
pub(super) async fn poll(world: &World, queue: &str, messages: usize) {
    let (mut handled, deadline) = (0, Instant::now() + Duration::from_secs(20));
    while handled < messages && Instant::now() < deadline {
        handled += world.poll(queue).await;
    }
    assert_eq!(handled, messages, "{queue}");
}

/// Handles this many messages from the queue for receivers that respond late or with errors.
pub(super) async fn poll_slow(world: &World, messages: usize) {
    poll(world, "slow-deliveries", messages).await;
}

/// Handles this many messages from the queue for hanging receivers.
pub(super) async fn poll_hanging(world: &World, messages: usize) {
    poll(world, "hanging-deliveries", messages).await;
}

/// Handles the attempts at hanging receivers until none is left. On a busy machine, the attempts of a crowd yield for a
/// moment.
pub(super) async fn drain_hanging(world: &World) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while world.left().await > 0 && Instant::now() < deadline {
        world.poll("hanging-deliveries").await;
    }
}

/// A tenant's deliveries that are waiting for their first attempt.
pub(super) async fn untried(world: &World, tenant: &str) -> Vec<Delivery> {
    let mut waits = world.log_of(tenant, Status::Pending).await;
    waits.retain(|delivery| delivery.attempts == 0 && delivery.next_attempt_at.is_some());
    waits
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_takes_too_long_is_cut_off_and_repeated() {
    let late = Moody::start(|_| TOO_LATE).await;
    let (world, tenant, _) = world_with(&[], late.url()).await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!((late.requests(), waiting(&world).await), (1, [0, 0, 1, 0]));
    let waits = world.only_logged(&tenant.id).await;
    assert_eq!((waits.status, waits.attempts), (Status::Pending, 0), "a cut-off attempt does not count");
    assert!(
        waits.next_attempt_at.is_some_and(|at| at <= Timestamp::now()) && waits.last_attempt.is_none(),
        "{waits:?}"
    );
    poll_slow(&world, 1).await;
    let delivery = world.only_logged(&tenant.id).await;
    assert_eq!((delivery.status, delivery.attempts, world.left().await), (Status::Delivered, 1, 0));
    assert_eq!(late.ids(), [delivery.webhook_id.to_string(), delivery.webhook_id.to_string()]);
    // The receiver responded within a second and a half, so it counts as slow.
    world.deliver(event(&tenant.id, "next")).await;
    assert_eq!((late.requests(), waiting(&world).await), (2, [0, 0, 1, 0]));
    poll_slow(&world, 1).await;
    assert_eq!((world.log_of(&tenant.id, Status::Delivered).await.len(), world.left().await), (2, 0));
}

/// In the queue for hanging receivers, the deliveries would wait for a long time.
#[tokio::test(flavor = "multi_thread")]
async fn deliveries_to_a_receiver_that_slows_wait_for_its_trial() {
    let receiver = Moody::start(|before| if before < 5 { AT_ONCE } else { TOO_LATE }).await;
    let (world, tenant, _) = world_with(&[], receiver.url()).await;
    let other = world.worker(&[]);
    for job in 0..5 {
        world.deliver(event(&tenant.id, job)).await;
    }
    for job in 5..8 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    assert_eq!(world.poll("job-events").await, 3);
    world.enqueue("job-events", event(&tenant.id, 8)).await;
    other.poll("job-events").await.expect("a step");
    let [_, _, slow, hanging] = waiting(&world).await;
    assert_eq!((slow, hanging, world.counts("slow-deliveries").await[0]), (4, 0, 1), "one attempt is the trial");
    poll_slow(&world, 4).await;
    let delivered = world.log_of(&tenant.id, Status::Delivered).await;
    assert!(delivered.len() == 9 && delivered.iter().all(|delivery| delivery.attempts == 1), "{delivered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_its_trial_hangs() {
    let receiver = Moody::start(|before| if before == 0 { AT_ONCE } else { FOREVER }).await;
    let (world, tenant, _) = world_with(&[], receiver.url()).await;
    world.deliver(event(&tenant.id, 0)).await;
    world.deliver(event(&tenant.id, 1)).await;
    for job in 2..30 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    poll(&world, "job-events", 28).await;
    assert_eq!(receiver.requests(), 2, "one attempt was cut off");
    let [_, _, slow, hanging] = waiting(&world).await;
    assert!(slow <= 21 && slow + hanging == 29, "the trial, and 20 deliveries that wait for it: {slow}");
    poll_slow(&world, slow).await;
    assert_eq!((receiver.requests(), waiting(&world).await), (3, [0, 0, 0, 29]), "the trial was cut off");
}

/// Invocations for slow receivers end within seconds.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_at_a_slow_receiver_is_cut_off_after_1500_ms() {
    let receiver = Moody::start(|before| (Duration::from_secs(if before == 0 { 600 } else { 2 }), 200)).await;
    let (world, tenant, id) = world_with(&[], receiver.url()).await;
    world.make_slow(&tenant, &id).await;
    world.deliver(event(&tenant.id, 1)).await;
    assert_eq!((receiver.requests(), waiting(&world).await), (0, [0, 0, 1, 0]));
    let started = Instant::now();
    poll_slow(&world, 1).await;
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(1500) && took < Duration::from_secs(10), "{took:?}");
    assert_eq!((untried(&world, &tenant.id).await.len(), waiting(&world).await), (1, [0, 0, 0, 1]));
    // In the queue for hanging receivers, the receiver gets the two seconds that it needs. It remains there, because
    // two seconds are too long for the queue of slow receivers.
    poll_hanging(&world, 1).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Delivered);
    world.deliver(event(&tenant.id, 2)).await;
    assert_eq!(waiting(&world).await, [0, 0, 0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_receiver_gets_one_attempt_until_it_succeeds() {
    for (answer, requests, waits) in [(AT_ONCE, 10, 0), (FOREVER, 1, 10)] {
        let receiver = Moody::start(move |_| answer).await;
        let (world, tenant, _) = world_with(&[], receiver.url()).await;
        for job in 0..10 {
            world.enqueue("job-events", event(&tenant.id, job)).await;
        }
        assert_eq!(world.poll("job-events").await, 10);
        // A delivery may stop waiting for the first attempt just before the receiver is known to hang.
        let [_, due, slow, hangs] = waiting(&world).await;
        assert_eq!((receiver.requests(), due + slow + hangs, world.left().await), (requests, waits, waits));
        assert!(receiver.seen()[1..].iter().all(|(_, taken)| *taken > 0), "only the first attempt was made");
        assert_eq!((world.log(&tenant.id).await.len(), untried(&world, &tenant.id).await.len()), (10, waits));
    }
}

/// While the first attempt is in progress, the attempts of other batches wait in a different queue.
#[tokio::test(flavor = "multi_thread")]
async fn one_attempt_is_made_regardless_of_the_queue_of_the_others() {
    let receiver = Moody::start(|_| FOREVER).await;
    let (world, tenant, _) = world_with(&[("DELIVERY_TIMEOUT", "20")], receiver.url()).await;
    world.enqueue("job-events", event(&tenant.id, "first")).await;
    let others = async {
        until(async || receiver.requests() == 1).await;
        for job in 0..9 {
            world.enqueue("job-events", event(&tenant.id, job)).await;
        }
        poll(&world, "job-events", 9).await;
        // The other attempts wait in their invocation or in a queue.
        tokio::time::timeout(Duration::from_millis(200), world.poll_due()).await.ok();
        assert_eq!(receiver.requests(), 1, "the first one is in progress");
    };
    tokio::join!(world.poll("job-events"), others);
}

/// Another process learns the standing only from the endpoint's item.
#[tokio::test(flavor = "multi_thread")]
async fn all_processes_know_that_a_receiver_hangs_until_activation() {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, id) = world_with(&[], receiver.url()).await;
    let other = world.worker(&[]);
    for (job, attempts) in [(1, 1), (3, 2)] {
        world.deliver(event(&tenant.id, job)).await;
        assert_eq!(receiver.arrivals().await.len(), attempts, "the receiver is unknown again");
        world.enqueue("job-events", event(&tenant.id, job + 1)).await;
        other.poll("job-events").await.expect("a step");
        assert_eq!(receiver.arrivals().await.len(), attempts, "the other process does not wait for the receiver");
        world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": true})).await.ok();
    }
    let [_, _, slow, hanging] = waiting(&world).await;
    assert_eq!((slow + hanging, untried(&world, &tenant.id).await.len()), (4, 4));
}

/// A standing applies only to the receiver at the endpoint's current URL.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_url_is_a_fresh_start_for_an_endpoint_that_hangs() {
    let (world, tenant, id, _hanging) = silent(&[]).await;
    let receiver = Receiver::start().await;
    world.deliver(event(&tenant.id, 1)).await;
    assert_eq!(waiting(&world).await, [0, 0, 0, 1]);
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "url": receiver.url("/")})).await.ok();
    world.deliver(event(&tenant.id, 2)).await;
    assert_eq!((receiver.count().await, waiting(&world).await), (1, [0, 0, 0, 1]));
}

/// An attempt at this receiver would occupy an invocation that other events are waiting for.
#[tokio::test(flavor = "multi_thread")]
async fn a_barely_quick_receiver_yields_while_other_events_wait() {
    for (takes, waits) in [(Duration::ZERO, 0), (Duration::from_millis(150), 1)] {
        let receiver = Moody::start(move |_| (takes, 200)).await;
        let (world, tenant, _) = world_with(&[], receiver.url()).await;
        // Most responses are quick, even if the first one waits for CPU.
        for job in 0..12 {
            world.deliver(event(&tenant.id, job)).await;
        }
        world.enqueue("job-events", event(&tenant.id, 12)).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(world.poll("job-events").await, 1);
        assert_eq!((receiver.requests(), waiting(&world).await), (13 - waits, [0, 0, waits, 0]));
        assert_eq!((world.log(&tenant.id).await.len(), untried(&world, &tenant.id).await.len()), (13, waits));
        poll_slow(&world, waits).await;
        assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 13);
    }
}

/// In the queue for slow receivers, most of these attempts would not get slots either.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_without_slots_waits_longer_than_a_few_deliveries() {
    let cases = [("job-events", 10), ("job-events", 4), ("deliveries", 10), ("deliveries", 4)];
    let check = async |(queue, others)| {
        for _ in 0..5 {
            if let Some(world) = without_slots(queue, others).await {
                assert_eq!(waiting(&world).await, [0, 0, others, 0], "{queue}");
                let few = if others < 5 { others } else { 0 };
                assert_eq!(world.poll("slow-deliveries").await, few, "{queue}: the messages of a crowd are delayed");
                return;
            }
        }
        panic!("{queue}, {others}: there were always slots");
    };
    join_all(cases.map(check)).await;
}

/// Polls ten records whose attempts take all slots of their receiver, and this many others. `None` if the machine was
/// so busy that a slot became free.
async fn without_slots(queue: &str, others: usize) -> Option<World> {
    let jobs = 10 + others;
    let errors = if queue == "deliveries" { jobs } else { 0 };
    // A quick response, one error for each retry, and then attempts that keep their slots.
    let receiver = Moody::start(move |earlier| match earlier {
        0 => (Duration::ZERO, 200),
        earlier if earlier <= errors => (Duration::ZERO, 500),
        _ => (Duration::from_millis(400), 200),
    });
    let receiver = receiver.await;
    let (world, tenant, _) = world_with(&[("RETRY_SCHEDULE", "0,1000")], receiver.url()).await;
    world.deliver(event(&tenant.id, 0)).await;
    for job in 1..=jobs {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    poll(&world, "job-events", errors).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let attempts = 11 + errors;
    let refused = async {
        until(async || receiver.requests() >= attempts).await;
        poll(&world, queue, others).await;
    };
    tokio::join!(poll(&world, queue, 10), refused);
    (receiver.requests() == attempts).then_some(world)
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_to_a_slow_receiver_have_a_separate_queue() {
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (200, &[]), (200, &[])]).await;
    let (world, tenant, id) = world_with(&[("RETRY_SCHEDULE", "0,1000")], &receiver.url("/")).await;
    world.make_slow(&tenant, &id).await;
    world.deliver(event(&tenant.id, "j")).await;
    for attempts in 0..2 {
        assert_eq!(
            (receiver.count().await, waiting(&world).await),
            (attempts, [0, 0, 1, 0]),
            "first attempt and retry"
        );
        poll_slow(&world, 1).await;
    }
    assert_eq!((receiver.count().await, world.left().await), (2, 0), "there is no message for a long wait");
    world.sweep(Timestamp::now().after(Duration::from_secs(21 * 60))).await;
    assert_eq!(waiting(&world).await, [0, 0, 1, 0], "the sweep uses the queue for slow receivers");
    world.drain("slow-deliveries").await;

    let delivery = world.only_logged(&tenant.id).await.id;
    let resend = ("deliveries/resend", json!({"delivery_id": delivery}));
    for (attempts, (route, fields)) in [(2, resend), (3, ("webhooks/test", json!({"id": id})))] {
        world.rpc(&tenant.key, route, fields).await.ok();
        // The invoked function does not know the receiver.
        assert_eq!(world.poll("deliveries").await, 1);
        assert_eq!((receiver.count().await, waiting(&world).await), (attempts, [0, 0, 1, 0]), "{route}");
        poll_slow(&world, 1).await;
        assert_eq!((receiver.count().await, world.left().await), (attempts + 1, 0), "{route}");
    }
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_errors_do_not_keep_events_waiting() {
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 6]).await;
    let (world, tenant, _) = world_with(&[("RETRY_SCHEDULE", "")], &receiver.url("/")).await;
    for job in 1..=7 {
        world.deliver(event(&tenant.id, job)).await;
        assert_eq!((receiver.count().await, waiting(&world).await), (job, [0; 4]), "none is postponed");
    }
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_makes_a_receiver_slow_at_once() {
    for (is_refused, waits) in [(true, 1), (false, 0)] {
        let receiver = Receiver::scripted(&[(500, &[])]).await;
        let url = if is_refused { "http://127.0.0.1:1/".to_owned() } else { receiver.url("/") };
        let (world, tenant, _) = world_with(&[("RETRY_SCHEDULE", "")], &url).await;
        for job in 1..=2 {
            world.deliver(event(&tenant.id, job)).await;
        }
        assert_eq!((world.log(&tenant.id).await.len(), untried(&world, &tenant.id).await.len()), (2, waits));
        assert_eq!(waiting(&world).await, [0, 0, waits, 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_sometimes_late_stays_slow() {
    let receiver = Moody::start(|before| if before.is_multiple_of(3) { TOO_LATE } else { AT_ONCE }).await;
    let (world, tenant, _) = world_with(&[], receiver.url()).await;
    for job in 0..6 {
        world.deliver(event(&tenant.id, job)).await;
        assert_eq!(receiver.requests(), 1 + job, "only the first attempt is made in the queue of events");
        poll_slow(&world, 1).await;
    }
    let delivered = world.log_of(&tenant.id, Status::Delivered).await;
    assert!(delivered.len() == 6 && delivered.iter().all(|delivery| delivery.attempts == 1), "{delivered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_to_a_hanging_origin_wait_separately() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "")]).await;
    let receiver = Rough::start(Manner::Hangs).await;
    for (job, path) in [(1, "first"), (2, "second"), (2, "third")] {
        world.deliver(callback("t", job, format!("{}{path}", receiver.url()))).await;
        assert_eq!(receiver.arrivals().await.len(), 1, "the origin is known to hang");
    }
    assert_eq!(
        (waiting(&world).await, untried(&world, "t").await.len()),
        ([0, 0, 3, 0], 3),
        "one is the trial, and the others wait for it"
    );
    poll_slow(&world, 3).await;
    poll_hanging(&world, 2).await;
    assert_eq!((receiver.arrivals().await.len(), world.log_of("t", Status::Failed).await.len()), (4, 3));
}

/// For callbacks, no item shows the other process that the origin is on trial.
#[tokio::test(flavor = "multi_thread")]
async fn another_process_makes_the_trial_of_a_new_origin() {
    let world = World::start().await;
    let other = world.worker(&[]);
    let receiver = Moody::start(|_| TOO_LATE).await;
    world.deliver(callback("t", "j", receiver.url())).await;
    assert_eq!((receiver.requests(), waiting(&world).await), (1, [0, 0, 1, 0]));
    while other.poll("slow-deliveries").await.expect("a step") == 0 {}
    assert_eq!((receiver.requests(), world.log_of("t", Status::Delivered).await.len()), (2, 1));
}

/// Otherwise, a tenant could occupy many invocations by using any number of origins, with one attempt at each.
#[tokio::test(flavor = "multi_thread")]
async fn after_three_slow_origins_of_callbacks_others_wait() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "")]).await;
    let hanging = join_all((0..3).map(|_| Rough::start(Manner::Hangs))).await;
    let arrived = async || join_all(hanging.iter().map(Rough::arrivals)).await.concat().len();
    for (job, receiver) in hanging.iter().enumerate() {
        world.enqueue("job-events", callback("noisy", job, receiver.url())).await;
    }
    assert_eq!(world.poll("job-events").await, 3);
    assert_eq!(arrived().await, 1, "one of the new origins gets an attempt, which has not succeeded yet");
    assert_eq!((waiting(&world).await, untried(&world, "noisy").await.len()), ([0, 0, 1, 2], 3));
    poll_slow(&world, 1).await;
    poll_hanging(&world, 2).await;
    assert_eq!(arrived().await, 4);
    for (tenant, waits) in [("noisy", 1), ("quiet", 0)] {
        let well = Receiver::start().await;
        world.deliver(callback(tenant, "j", well.url("/"))).await;
        assert_eq!((well.count().await, waiting(&world).await), (1 - waits, [0, 0, 0, waits]), "{tenant}");
        poll_hanging(&world, waits).await;
        assert_eq!((well.count().await, world.log_of(tenant, Status::Delivered).await.len()), (1, 1), "{tenant}");
    }
}

/// Each event may have a new origin.
#[tokio::test(flavor = "multi_thread")]
async fn new_callback_origins_are_tried_one_by_one_until_a_success() {
    let world = World::start().await;
    let well = join_all((0..10).map(|_| Receiver::start())).await;
    for (job, receiver) in well.iter().enumerate() {
        world.enqueue("job-events", callback("t", job, receiver.url("/"))).await;
    }
    assert_eq!(world.poll("job-events").await, 10);
    assert_eq!((world.log_of("t", Status::Delivered).await.len(), world.left().await), (10, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_postponed_up_to_three_days_after_its_event() {
    let (world, tenant, id, receiver) = silent(&[]).await;
    let probed = json!({"probed_at": Timestamp::now().as_millisecond()});
    world.set("webhook-endpoints", ("webhook_endpoint_id", &id), probed).await;
    let waits =
        wait_since(&world, &tenant, &id, 1, Timestamp::now().before(MAX_AGE - Duration::from_secs(10 * 60))).await;
    poll_hanging(&world, 1).await;
    let postponed = world.only_logged(&tenant.id).await;
    assert_eq!((postponed.status, receiver.arrivals().await.len()), (Status::Pending, 0));
    assert_eq!(
        postponed.next_attempt_at,
        Some(waits.created_at.after(MAX_AGE)),
        "otherwise, the postponement would last an hour or two"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_receivers_get_full_attempts_without_delaying_events() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "600")]).await;
    let tenant = world.tenant("acme").await;
    let hanging = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    // There are more deliveries than can be signed at once, and they must not delay each other.
    for number in 0..12 {
        let url = format!("http://{}/{number}", hanging.local_addr().expect("an address"));
        world.endpoint(&tenant, &url, "s").await;
    }
    let healthy = Receiver::start().await;
    world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!(
        (healthy.count().await, waiting(&world).await),
        (1, [0, 0, 4, 8]),
        "four of the other receivers have trials"
    );
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 1);
    assert_eq!(untried(&world, &tenant.id).await.len(), 12);
    poll_slow(&world, 4).await;
    let started = Instant::now();
    poll_hanging(&world, 8).await;
    assert!(started.elapsed() >= Duration::from_secs(1), "the attempts took their full second");
    let failed = world.log_of(&tenant.id, Status::Pending).await;
    assert!(failed.len() == 12 && failed.iter().all(|delivery| delivery.attempts == 1), "{failed:?}");
    assert_eq!(world.counts("hanging-deliveries").await, [0, 0, 12], "and are repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_tries_a_receiver_that_hangs() {
    let settings = [("DELIVERY_TIMEOUT", "20")];
    let (world, tenant, id, receiver) = silent(&settings).await;
    let other = world.worker(&settings);
    wait_since(&world, &tenant, &id, "1", Timestamp::now()).await;
    let others = async {
        until(async || receiver.arrivals().await.len() == 1).await;
        wait_since(&world, &tenant, &id, "2", Timestamp::now()).await;
        other.poll("hanging-deliveries").await.expect("a step")
    };
    tokio::select! {
        _ = world.poll("hanging-deliveries") => panic!("the receiver has been hanging for 20 s"),
        handled = others => assert_eq!((handled, receiver.arrivals().await.len()), (1, 1), "there is no attempt"),
    }
    assert_eq!(untried(&world, &tenant.id).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_to_a_hanging_receiver_fail_after_three_days() {
    let (world, tenant, id, receiver) = silent(&[("DELIVERY_TIMEOUT", "20")]).await;
    // The receiver gets four attempts at once.
    for job in 0..4 {
        wait_since(&world, &tenant, &id, job, Timestamp::now()).await;
    }
    let late = async {
        until(async || receiver.arrivals().await.len() == 4).await;
        for (minutes, status) in
            [(1, Status::Pending), (3 * 24 * 60 - 1, Status::Pending), (3 * 24 * 60, Status::Failed)]
        {
            let now = Timestamp::now();
            let waits = wait_since(&world, &tenant, &id, format!("{minutes} minutes"), minutes_ago(minutes)).await;
            assert_eq!(world.poll("hanging-deliveries").await, 1);
            let logged = world.log(&tenant.id).await.into_iter().find(|it| it.id == waits.id).expect("a delivery");
            assert_eq!((logged.status, logged.attempts), (status, 0), "{minutes} minutes");
            assert_eq!(logged.next_attempt_at > Some(now), status == Status::Pending, "{logged:?}");
            let outcome = logged.last_attempt.map(|last| last.outcome.into_owned());
            assert_eq!(outcome.as_deref(), (status == Status::Failed).then_some("unanswered"));
        }
        // Only short waits use a message; a wait of an hour does not.
        assert_eq!(world.counts("hanging-deliveries").await, [0, 4, 1]);
    };
    tokio::select! {
        _ = world.poll("hanging-deliveries") => panic!("the first attempts hang for 20 s"),
        () = late => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovered_receiver_gets_the_waiting_deliveries() {
    let world = World::live(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "0,0,0,0")]).await;
    let works = Switch::default();
    let is_working = works.clone();
    let receiver = Moody::start(move |_| if is_working.is_on() { AT_ONCE } else { FOREVER }).await;
    for job in 0..3 {
        world.enqueue("job-events", callback("t", job, receiver.url())).await;
    }
    // The first attempt is cut off, and all later attempts get the full time.
    until(async || receiver.requests() >= 4).await;
    works.on();
    until(async || world.log_of("t", Status::Delivered).await.len() == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_deliveries_do_not_flood_a_slow_receiver() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    // The first attempt is cut off. The next attempts are slow, so the other deliveries wait.
    let receiver = Moody::start(|before| if before < 5 { TOO_LATE } else { AT_ONCE }).await;
    world.endpoint(&tenant, receiver.url(), "s").await;
    for job in 0..60 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    until(async || world.log_of(&tenant.id, Status::Delivered).await.len() == 60).await;
    // While the receiver hangs, it gets four concurrent attempts in addition to the trial. After its first late
    // response, it gets ten more, plus one for each success.
    for (at_once, taken) in receiver.seen() {
        let most = if taken == 0 { 5 } else { 15 + taken };
        assert!(at_once <= most, "{at_once} at once, although it had accepted only {taken}");
    }
}

/// All attempts hang until the test ends.
#[tokio::test(flavor = "multi_thread")]
async fn hanging_receivers_do_not_delay_other_receivers() {
    let world = World::live(&[("DELIVERY_TIMEOUT", "20")]).await;
    let (noisy, quiet) = (world.tenant("noisy").await, world.tenant("quiet").await);
    let hanging = join_all((0..20).map(|_| Rough::start(Manner::Hangs))).await;
    for receiver in &hanging {
        world.endpoint(&noisy, receiver.url(), "s").await;
    }
    let (healthy, other) = (Receiver::start().await, Receiver::start().await);
    world.endpoint(&noisy, &healthy.url("/"), "s").await;
    world.endpoint(&quiet, &other.url("/"), "s").await;
    for job in 0..50 {
        world.enqueue("job-events", event(&noisy.id, job)).await;
        if job % 5 == 0 {
            world.enqueue("job-events", event(&quiet.id, job)).await;
        }
    }
    until(async || {
        let pending = world.log_of(&quiet.id, Status::Pending).await;
        assert!(pending.iter().all(|delivery| delivery.attempts > 0), "{pending:?}");
        world.log_of(&quiet.id, Status::Delivered).await.len() == 10
            && world.log_of(&noisy.id, Status::Delivered).await.len() == 50
    })
    .await;
    // No delivery is lost, and every delivery is listed.
    until(async || world.log(&noisy.id).await.len() == 50 * 21).await;
    assert_eq!(untried(&world, &noisy.id).await.len(), 50 * 20);
    for receiver in &hanging {
        let arrivals = receiver.arrivals().await.len();
        // These are the first attempt, the trial, and four attempts with the full time, which end before the test does
        // on a busy machine.
        assert!(arrivals <= 10, "{arrivals}");
    }
}

/// Both queues contain the same message, but a process skips any message that it is already handling.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_cut_off_reaches_the_other_queue() {
    let world = World::live(&[("RETRY_SCHEDULE", "0,0")]).await;
    // Each origin belongs to a different tenant, so no tenant has too many slow origins.
    let tenants: Vec<_> = (0..12).map(|number| format!("tenant-{number}")).collect();
    let answers = [(Duration::ZERO, 500), TOO_LATE, AT_ONCE];
    let receivers = join_all(tenants.iter().map(|_| Moody::start(move |before| answers[before.min(2)]))).await;
    for (tenant, receiver) in tenants.iter().zip(&receivers) {
        world.enqueue("job-events", callback(tenant, "j", receiver.url())).await;
    }
    for (tenant, receiver) in tenants.iter().zip(&receivers) {
        until(async || !world.log_of(tenant, Status::Delivered).await.is_empty()).await;
        assert_eq!((receiver.requests(), world.only_logged(tenant).await.attempts), (3, 2));
    }
    until(async || world.left().await == 0).await;
}
