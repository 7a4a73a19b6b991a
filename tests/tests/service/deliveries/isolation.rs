//! A slow or silent receiver gets one request per event, and does not delay other receivers. Attempts at receivers that
//! are not known to be quick are parked, and made by drains.

use std::time::Duration;

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Status},
        endpoints::Gate,
    },
};
use futures::future::join_all;
use serde_json::json;
use tests::{
    Manner, Moody, Receiver, Rough, Tenant, World, callback, event,
    moody::{AT_ONCE, FOREVER, LATE},
    records,
};
use tokio::time::Instant;

use super::DAY;

/// A world with a tenant that has an endpoint at this URL, whose receiver is known to be quick.
pub(super) async fn world_with(settings: &[(&str, &str)], url: &str) -> (World, Tenant, String) {
    let world = World::with(settings).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, url, "s").await;
    (world, tenant, id)
}

/// Like [`world_with`], but the receiver has not answered for two hours, and its next attempt is due.
pub(super) async fn silent(settings: &[(&str, &str)], url: &str) -> (World, Tenant, String) {
    let (world, tenant, id) = world_with(settings, url).await;
    world.make_silent(&tenant, &id, Timestamp::now().before(Duration::from_hours(2))).await;
    (world, tenant, id)
}

/// Repeats until the condition holds.
pub(super) async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < deadline, "the condition is not met in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The number of messages in each queue, including delayed ones: events, due attempts, and drains of receivers that
/// answer and of silent ones.
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

/// Sends events about these jobs, and handles them, but not the attempts that they park.
pub(super) async fn send(world: &World, tenant: &Tenant, jobs: std::ops::Range<usize>) {
    for job in jobs.clone() {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    poll(world, "job-events", jobs.len()).await;
}

/// A tenant's deliveries that are waiting for their first attempt.
pub(super) async fn untried(world: &World, tenant: &str) -> Vec<Delivery> {
    let mut waits = world.log_of(tenant, Status::Pending).await;
    waits.retain(|delivery| delivery.attempts == 0 && delivery.next_attempt_at.is_some());
    waits
}

/// Asserts that this many of a tenant's deliveries have succeeded, each with one attempt, and that none is left.
async fn all_delivered_once(world: &World, tenant: &str, deliveries: usize) {
    let logged = world.log(tenant).await;
    let is_delivered = |delivery: &Delivery| delivery.status == Status::Delivered && delivery.attempts == 1;
    assert!(logged.len() == deliveries && logged.iter().all(is_delivered), "{logged:?}");
    assert_eq!(world.left().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_receiver_gets_one_request_per_event() {
    for takes in [LATE.0, Duration::from_secs(2)] {
        let receiver = Moody::start(move |_| (takes, 200)).await;
        let (world, tenant, id) = world_with(&[], receiver.url()).await;
        send(&world, &tenant, 0..1).await;
        all_delivered_once(&world, &tenant.id, 1).await;
        assert!(matches!(world.gate(&tenant, &id).await, Gate::Late { .. }));
        send(&world, &tenant, 1..3).await;
        assert_eq!((receiver.requests(), waiting(&world).await), (1, [0, 0, 1, 0]), "the others are parked");
        assert_eq!(untried(&world, &tenant.id).await.len(), 2);
        world.drain_late().await;
        assert_eq!(receiver.requests(), 3);
        all_delivered_once(&world, &tenant.id, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_in_progress_is_in_the_log_and_closes_the_gate() {
    let (hanging, healthy) = (Rough::start(Manner::Hangs).await, Receiver::start().await);
    let (world, tenant, id) = world_with(&[("DELIVERY_TIMEOUT", "20")], hanging.url()).await;
    world.endpoint(&tenant, &healthy.url("/"), "s").await;
    let others = async {
        until(async || !world.gate(&tenant, &id).await.is_open()).await;
        let pending = untried(&world, &tenant.id).await;
        assert_eq!((pending.len(), pending[0].last_attempt.as_ref()), (1, None), "{pending:?}");
        // The healthy receiver of the same organization gets its events meanwhile.
        send(&world, &tenant, 1..11).await;
        assert_eq!((healthy.count().await, hanging.arrivals().await.len()), (11, 1));
        assert_eq!(waiting(&world).await, [0, 0, 1, 0]);
    };
    tokio::select! {
        () = send(&world, &tenant, 0..1) => panic!("the attempt hangs for 20 s"),
        () = others => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_starts_slowly_gets_one_request_per_event() {
    let receiver = Moody::start(|before| if before == 0 { (Duration::from_secs(2), 200) } else { AT_ONCE }).await;
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.new_endpoint(&tenant, receiver.url(), "s").await;
    send(&world, &tenant, 0..20).await;
    assert_eq!((receiver.requests(), waiting(&world).await), (0, [0, 0, 1, 0]));
    world.drain_late().await;
    assert_eq!(receiver.requests(), 20);
    all_delivered_once(&world, &tenant.id, 20).await;
    // At first, one attempt is in progress, and then one more for each success.
    let too_many = receiver.seen().into_iter().find(|(at_once, taken)| *at_once > 1 + taken);
    assert_eq!(too_many, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_receiver_that_answers_quickly_is_quick() {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let tenant = world.tenant("acme").await;
    world.new_endpoint(&tenant, &receiver.url("/"), "s").await;
    for (job, parked) in [(0, 1), (1, 0)] {
        send(&world, &tenant, job..job + 1).await;
        assert_eq!((receiver.count().await, waiting(&world).await), (job * 2, [0, 0, parked, 0]));
        world.drain_late().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_failures_keep_the_gate_open() {
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 3]).await;
    for url in [receiver.url("/"), "http://127.0.0.1:1/".to_owned()] {
        let (world, tenant, _) = world_with(&[("RETRY_SCHEDULE", "")], &url).await;
        for job in 0..3 {
            send(&world, &tenant, job..job + 1).await;
            assert_eq!(world.log_of(&tenant.id, Status::Failed).await.len(), job + 1, "it was attempted at once");
        }
        assert_eq!(world.left().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_url_and_activation_are_fresh_starts() {
    let receiver = Receiver::start().await;
    for change in [json!({"url": receiver.url("/new")}), json!({"active": true})] {
        let (world, tenant, id) = silent(&[], &receiver.url("/")).await;
        let mut change = change;
        change["id"] = json!(id);
        world.rpc(&tenant.key, "webhooks/update", change).await.ok();
        assert_eq!(world.gate(&tenant, &id).await, Gate::New);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_receiver_gets_one_attempt_after_each_pause() {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, id) = silent(&[("DELIVERY_TIMEOUT", "1")], receiver.url()).await;
    send(&world, &tenant, 0..30).await;
    assert_eq!((receiver.arrivals().await.len(), waiting(&world).await), (0, [0, 0, 0, 1]));
    let since = world.gate(&tenant, &id).await;
    poll(&world, "hanging-deliveries", 1).await;
    assert_eq!((receiver.arrivals().await.len(), untried(&world, &tenant.id).await.len()), (1, 29));
    let Gate::Silent { since: after, tried_at } = world.gate(&tenant, &id).await else { panic!("it is silent") };
    assert!(matches!(since, Gate::Silent { since, .. } if since == after), "{since:?}");
    assert!(Timestamp::now().since(tried_at) < Duration::from_secs(20), "{tried_at}");
    // The next attempt is five minutes later, and costs nothing until then.
    let counts = async || [world.counts("slow-deliveries").await, world.counts("hanging-deliveries").await];
    assert_eq!(counts().await, [[0; 3], [0, 0, 1]]);
    send(&world, &tenant, 30..40).await;
    assert_eq!((counts().await, receiver.arrivals().await.len()), ([[0; 3], [0, 0, 1]], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_answers_again_gets_its_whole_backlog() {
    let receiver = Receiver::start().await;
    let (world, tenant, id) = silent(&[], &receiver.url("/")).await;
    send(&world, &tenant, 0..60).await;
    poll(&world, "hanging-deliveries", 1).await;
    assert_eq!((receiver.count().await, waiting(&world).await), (1, [0, 0, 1, 0]), "the other drain makes the rest");
    poll(&world, "slow-deliveries", 1).await;
    assert_eq!(receiver.count().await, 60);
    all_delivered_once(&world, &tenant.id, 60).await;
    assert!(matches!(world.gate(&tenant, &id).await, Gate::Late { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_and_resends_do_not_wait_for_a_silent_receiver() {
    for route in ["webhooks/test", "deliveries/resend"] {
        let receiver = Receiver::start().await;
        let (world, tenant, id) = silent(&[], &receiver.url("/")).await;
        world.make_silent(&tenant, &id, Timestamp::now()).await;
        send(&world, &tenant, 0..1).await;
        assert_eq!(world.counts("hanging-deliveries").await, [0, 0, 1], "the next attempt is due in minutes");
        let before = Timestamp::now();
        let fields = match route {
            "webhooks/test" => json!({"id": id}),
            _ => json!({"delivery_id": world.only_logged(&tenant.id).await.id}),
        };
        world.rpc(&tenant.key, route, fields).await.ok();
        poll(&world, "deliveries", 1).await;
        assert_eq!((receiver.count().await, waiting(&world).await), (0, [0, 0, 1, 1]), "{route}");
        world.drain_late().await;
        assert_eq!(receiver.count().await, 1, "{route}");
        assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 1, "{route}");
        // The receiver has answered, so other deliveries do not wait for minutes any longer either.
        let Gate::Silent { since, tried_at } = world.gate(&tenant, &id).await else { panic!("it answered a test") };
        assert!(since == tried_at && since > before, "{route}");
    }
}

/// The first request hangs. The receiver's owner mends it, and sends a test.
#[tokio::test(flavor = "multi_thread")]
async fn an_answered_test_does_not_repeat_an_attempt_in_progress() {
    let receiver = Moody::start(|request| if request == 0 { FOREVER } else { AT_ONCE }).await;
    let (world, tenant, id) = silent(&[("DELIVERY_TIMEOUT", "4"), ("RETRY_SCHEDULE", "600")], receiver.url()).await;
    send(&world, &tenant, 0..3).await;
    let tested = async {
        until(async || receiver.requests() == 1).await;
        world.rpc(&tenant.key, "webhooks/test", json!({"id": id})).await.ok();
        poll(&world, "deliveries", 1).await;
        world.drain_late().await;
        assert_eq!(receiver.requests(), 2, "the events wait until the attempt in progress has ended");
    };
    tokio::join!(poll(&world, "hanging-deliveries", 1), tested);
    assert_eq!((receiver.requests(), world.counts("hanging-deliveries").await), (2, [0, 0, 1]));
}

/// A delivery that is attempted now and then must not wait behind those that came after it, or it would not end in time.
#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_delivery_is_attempted_first() {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, _) = silent(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "600")], receiver.url()).await;
    for (job, age) in [(1, Duration::ZERO), (2, DAY), (3, DAY / 2)] {
        let mut batch = records([event(&tenant.id, job)]);
        let sent_at = Timestamp::now().before(age).as_millisecond().to_string();
        batch["Records"][0]["attributes"]["SentTimestamp"] = json!(sent_at);
        world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    }
    poll(&world, "hanging-deliveries", 1).await;
    let logged = world.log(&tenant.id).await;
    let attempted: Vec<_> = logged.iter().filter(|it| it.attempts > 0).map(|it| it.job_id.as_str()).collect();
    assert_eq!(attempted, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_to_a_silent_receiver_fail_after_three_days() {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, _) = silent(&[("DELIVERY_TIMEOUT", "1")], receiver.url()).await;
    let minute = Duration::from_mins(1);
    for (age, events) in [(DAY * 3, 0..5), (DAY * 3 - minute, 5..6)] {
        let mut batch = records(events.map(|job| event(&tenant.id, job)));
        for record in batch["Records"].as_array_mut().expect("records") {
            let sent_at = Timestamp::now().before(age).as_millisecond();
            record["attributes"]["SentTimestamp"] = json!(sent_at.to_string());
        }
        let answer = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
        assert_eq!(answer["batchItemFailures"], json!([]));
    }
    assert_eq!(untried(&world, &tenant.id).await.len(), 6);
    poll(&world, "hanging-deliveries", 1).await;
    assert_eq!(receiver.arrivals().await.len(), 1, "only the younger one is attempted");
    let failed = world.log_of(&tenant.id, Status::Failed).await;
    let of_silence = |delivery: &&Delivery| {
        delivery.last_attempt.as_ref().is_some_and(|last| last.outcome == "unanswered") && delivery.attempts == 0
    };
    assert_eq!(failed.iter().filter(of_silence).count(), 5, "{failed:?}");
    assert!(world.only_endpoint(&tenant).await["failing_since"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_has_one_message_for_all_slow_receivers() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "600")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Rough::start(Manner::Hangs).await);
    for number in 0..10 {
        world.new_endpoint(&tenant, &format!("{}{number}", receiver.url()), "s").await;
    }
    send(&world, &tenant, 0..3).await;
    assert_eq!((untried(&world, &tenant.id).await.len(), waiting(&world).await), (30, [0, 0, 1, 0]));
    let began = Instant::now();
    poll(&world, "slow-deliveries", 1).await;
    assert!(began.elapsed() < Duration::from_secs(5), "the receivers are tried side by side");
    assert_eq!((receiver.arrivals().await.len(), untried(&world, &tenant.id).await.len()), (10, 20));
    assert_eq!(waiting(&world).await, [0, 10, 0, 1], "one message is for the receivers, which are silent now");
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_to_a_silent_origin_wait_separately() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "")]).await;
    let (hanging, well) = (Rough::start(Manner::Hangs).await, Receiver::start().await);
    for (job, path) in [(1, "first"), (2, "second"), (3, "third")] {
        world.deliver(callback("t", job, format!("{}{path}", hanging.url()))).await;
        assert_eq!(hanging.arrivals().await.len(), 1, "the origin is known to be silent");
    }
    assert_eq!((waiting(&world).await, untried(&world, "t").await.len()), ([0, 0, 0, 1], 2));
    for (job, waits) in [(4, 1), (5, 0)] {
        world.enqueue("job-events", callback("t", job, well.url("/"))).await;
        poll(&world, "job-events", 1).await;
        assert_eq!(waiting(&world).await, [0, 0, waits, 1], "the origin is new only once");
        world.drain_late().await;
    }
    assert_eq!(world.log_of("t", Status::Delivered).await.len(), 2);
}

/// All attempts hang until the test ends.
#[tokio::test(flavor = "multi_thread")]
async fn hanging_receivers_do_not_delay_other_receivers() {
    let world = World::live(&[("DELIVERY_TIMEOUT", "20")]).await;
    let (noisy, quiet) = (world.tenant("noisy").await, world.tenant("quiet").await);
    let hanging = join_all((0..20).map(|_| Moody::start(|_| FOREVER))).await;
    for receiver in &hanging {
        world.new_endpoint(&noisy, receiver.url(), "s").await;
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
        world.log_of(&quiet.id, Status::Delivered).await.len() == 10
            && world.log_of(&noisy.id, Status::Delivered).await.len() == 50
    })
    .await;
    // No delivery is lost, and every delivery is listed.
    until(async || untried(&world, &noisy.id).await.len() == 50 * 20).await;
    assert!(hanging.iter().all(|receiver| receiver.requests() <= 1));
}
