//! A receiver that is slow hurts nobody else: no other tenant, and no other receiver of its own. Its attempts in the queues
//! that all share are cut off, and then its work has a queue of its own.

use std::time::Duration;

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Destination, MAX_AGE, Payload, Status},
        event::JobEvent,
        log::First,
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
async fn world_with(settings: &[(&str, &str)], url: &str) -> (World, Tenant, String) {
    let world = World::with(settings).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, url, "s").await;
    (world, tenant, id)
}

/// The same, whose receiver hangs, as its record has said for two hours.
async fn silent(settings: &[(&str, &str)]) -> (World, Tenant, String, Rough) {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, id) = world_with(settings, receiver.url()).await;
    let (owner, endpoint) = (tenant.id.parse().expect("a tenant"), id.parse().expect("an id"));
    let since = minutes_ago(120);
    world.stored_endpoints().note_unanswered(&owner, endpoint, since, true).await.expect("it is noted");
    (world, tenant, id, receiver)
}

fn minutes_ago(minutes: u64) -> Timestamp {
    Timestamp::now().before(Duration::from_secs(minutes * 60))
}

/// Puts a parked event of this age into the queue for slow receivers.
async fn park(world: &World, tenant: &Tenant, id: &str, job: usize, minutes: u64) {
    let event = JobEvent::parse(&event(&tenant.id, job).to_string(), minutes_ago(minutes)).expect("an event");
    let delivery = Delivery::first(&event, &Destination::Endpoint(id.parse().expect("an id")), 1);
    let (message, row) = world.delivery_log().parked_row(&event, &[delivery.id], Timestamp::now());
    assert!(world.delivery_log().put(vec![((), row)]).await.is_empty());
    world.enqueue("slow-deliveries", json!({"tenant_id": tenant.id, "parked": message.parked.to_string()})).await;
}

/// Goes on until this holds.
async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < deadline, "it does not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many messages the queues have to hand out, now or later: that of events, that of deliveries, and that of slow
/// receivers.
async fn waiting(world: &World) -> [usize; 3] {
    let mut waiting = [0; 3];
    for (number, queue) in ["job-events", "deliveries", "slow-deliveries"].into_iter().enumerate() {
        let [due, _, delayed] = world.counts(queue).await;
        waiting[number] = due + delayed;
    }
    waiting
}

/// Handles so many messages of the queue for slow receivers, once they are due: a second or two after they were parked.
async fn poll_slow(world: &World, messages: usize) {
    let (mut handled, deadline) = (0, Instant::now() + Duration::from_secs(20));
    while handled < messages && Instant::now() < deadline {
        handled += world.poll("slow-deliveries").await;
    }
    assert_eq!(handled, messages);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_takes_too_long_is_cut_off_and_made_once_more_with_time() {
    let late = Moody::start(|_| (Duration::from_secs(2), 200)).await;
    let (world, tenant, _) = world_with(&[], late.url()).await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!((late.requests(), waiting(&world).await), (1, [0, 0, 1]));
    assert!(world.log(&tenant.id).await.is_empty(), "what is parked is no attempt");
    poll_slow(&world, 1).await;
    let delivery = world.only_logged(&tenant.id).await;
    assert_eq!((delivery.status, delivery.attempts, world.left().await), (Status::Delivered, 1, 0));
    assert_eq!(late.ids(), [delivery.webhook_id.to_string(), delivery.webhook_id.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_attempt_goes_ahead_to_an_unknown_receiver_and_others_follow_only_its_success() {
    for (answer, requests, parked) in [(AT_ONCE, 10, 0), (FOREVER, 1, 10)] {
        let receiver = Moody::start(move |_| answer).await;
        let (world, tenant, _) = world_with(&[], receiver.url()).await;
        for job in 0..10 {
            world.enqueue("job-events", event(&tenant.id, job)).await;
        }
        assert_eq!(world.poll("job-events").await, 10);
        assert_eq!((receiver.requests(), waiting(&world).await), (requests, [0, 0, parked]));
        assert!(receiver.seen()[1..].iter().all(|(_, taken)| *taken > 0), "only the first went ahead");
    }
}

/// Another process has it from the record alone.
#[tokio::test(flavor = "multi_thread")]
async fn all_processes_know_of_a_slow_receiver_until_it_is_activated_again() {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, id) = world_with(&[], receiver.url()).await;
    let other = world.worker(&[]);
    for (job, attempts) in [(1, 1), (3, 2)] {
        world.deliver(event(&tenant.id, job)).await;
        assert_eq!(receiver.arrivals().await.len(), attempts, "it starts afresh");
        world.enqueue("job-events", event(&tenant.id, job + 1)).await;
        other.poll("job-events").await.expect("a step");
        assert_eq!(receiver.arrivals().await.len(), attempts, "the other process does not wait for it");
        world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": true})).await.ok();
    }
    assert_eq!(waiting(&world).await, [0, 0, 4]);
}

/// What is known is known of the receiver that was there.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_url_is_a_fresh_start_for_a_slow_endpoint() {
    let (world, tenant, id, _hanging) = silent(&[]).await;
    let receiver = Receiver::start().await;
    world.deliver(event(&tenant.id, 1)).await;
    assert_eq!(waiting(&world).await, [0, 0, 1]);
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "url": receiver.url("/")})).await.ok();
    world.deliver(event(&tenant.id, 2)).await;
    assert_eq!((receiver.count().await, waiting(&world).await), (1, [0, 0, 1]));
}

/// Others wait for an invocation then, and it would wait for the receiver.
#[tokio::test(flavor = "multi_thread")]
async fn while_events_wait_for_long_those_of_a_receiver_that_lingers_are_parked() {
    for (takes, parked) in [(Duration::ZERO, 0), (Duration::from_millis(150), 1)] {
        let receiver = Moody::start(move |_| (takes, 200)).await;
        let (world, tenant, _) = world_with(&[], receiver.url()).await;
        // One of several is quick, even if a test waits for CPU.
        for job in 0..4 {
            world.deliver(event(&tenant.id, job)).await;
        }
        world.enqueue("job-events", event(&tenant.id, 4)).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(world.poll("job-events").await, 1);
        assert_eq!((receiver.requests(), waiting(&world).await), (5 - parked, [0, 0, parked]));
        poll_slow(&world, parked).await;
        assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_slow_receiver_has_a_queue_of_its_own() {
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (200, &[]), (200, &[])]).await;
    let (world, tenant, id) = world_with(&[("RETRY_SCHEDULE", "0,1000")], &receiver.url("/")).await;
    world.make_slow(&tenant, &id).await;
    world.deliver(event(&tenant.id, "j")).await;
    for attempts in 0..2 {
        assert_eq!((receiver.count().await, waiting(&world).await), (attempts, [0, 0, 1]), "first attempt and retry");
        poll_slow(&world, 1).await;
    }
    assert_eq!((receiver.count().await, world.left().await), (2, 0), "a long wait has no message");
    world.sweep(Timestamp::now().after(Duration::from_secs(21 * 60))).await;
    assert_eq!(waiting(&world).await, [0, 0, 1], "it is woken for the right queue");
    world.drain("slow-deliveries").await;

    let delivery = world.only_logged(&tenant.id).await.id;
    let resend = ("deliveries/resend", json!({"delivery_id": delivery}));
    for (attempts, (route, fields)) in [(2, resend), (3, ("webhooks/test", json!({"id": id})))] {
        world.rpc(&tenant.key, route, fields).await.ok();
        // Whoever asks for it does not know the receiver.
        assert_eq!(world.poll("deliveries").await, 1);
        assert_eq!((receiver.count().await, waiting(&world).await), (attempts, [0, 0, 1]), "{route}");
        poll_slow(&world, 1).await;
        assert_eq!((receiver.count().await, world.left().await), (attempts + 1, 0), "{route}");
    }
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_three_times_in_a_row_is_slow() {
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (200, &[]), (500, &[]), (500, &[]), (500, &[])]).await;
    let (world, tenant, _) = world_with(&[("RETRY_SCHEDULE", "")], &receiver.url("/")).await;
    let other = world.worker(&[]);
    for job in 1..=6 {
        world.deliver(event(&tenant.id, job)).await;
        assert_eq!(receiver.count().await, job, "it may fail twice");
    }
    world.deliver(event(&tenant.id, 7)).await;
    world.enqueue("job-events", event(&tenant.id, 8)).await;
    other.poll("job-events").await.expect("a step");
    assert_eq!((receiver.count().await, waiting(&world).await), (6, [0, 0, 2]));
    poll_slow(&world, 2).await;
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_makes_a_receiver_slow_at_once_and_an_error_does_not() {
    for (is_refused, attempted) in [(true, 1), (false, 2)] {
        let receiver = Receiver::scripted(&[(500, &[])]).await;
        let url = if is_refused { "http://127.0.0.1:1/".to_owned() } else { receiver.url("/") };
        let (world, tenant, _) = world_with(&[("RETRY_SCHEDULE", "")], &url).await;
        for job in 1..=2 {
            world.deliver(event(&tenant.id, job)).await;
        }
        assert_eq!(world.log(&tenant.id).await.len(), attempted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_answers_late_now_and_then_stays_slow() {
    let receiver = Moody::start(|before| if before.is_multiple_of(3) { TOO_LATE } else { AT_ONCE }).await;
    let (world, tenant, _) = world_with(&[], receiver.url()).await;
    for job in 0..6 {
        world.deliver(event(&tenant.id, job)).await;
        assert_eq!(receiver.requests(), 1 + job, "only the very first is made in the queue of events");
        poll_slow(&world, 1).await;
    }
    let delivered = world.log_of(&tenant.id, Status::Delivered).await;
    assert!(delivered.len() == 6 && delivered.iter().all(|delivery| delivery.attempts == 1), "{delivered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_to_a_slow_origin_are_parked_each_for_itself() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "")]).await;
    let receiver = Rough::start(Manner::Hangs).await;
    for (job, path) in [(1, "first"), (2, "second"), (2, "third")] {
        world.deliver(callback("t", job, format!("{}{path}", receiver.url()))).await;
        assert_eq!(receiver.arrivals().await.len(), 1, "it has shown enough");
    }
    assert_eq!(waiting(&world).await, [0, 0, 3]);
    poll_slow(&world, 3).await;
    assert_eq!((receiver.arrivals().await.len(), world.log_of("t", Status::Failed).await.len()), (4, 3));
}

/// A tenant could have any number of origins, and each would be tried once.
#[tokio::test(flavor = "multi_thread")]
async fn after_three_slow_origins_of_callbacks_a_tenants_others_are_taken_for_slow() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "")]).await;
    let hanging = join_all((0..3).map(|_| Rough::start(Manner::Hangs))).await;
    for (job, receiver) in hanging.iter().enumerate() {
        world.enqueue("job-events", callback("noisy", job, receiver.url())).await;
    }
    assert_eq!(world.poll("job-events").await, 3);
    for receiver in &hanging {
        assert_eq!(receiver.arrivals().await.len(), 1);
    }
    for (tenant, attempted) in [("noisy", 0), ("quiet", 1)] {
        let well = Receiver::start().await;
        world.deliver(callback(tenant, "j", well.url("/"))).await;
        assert_eq!(well.count().await, attempted, "{tenant}");
        until(async || {
            world.poll_due().await;
            well.count().await == 1
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_event_is_in_the_log_if_its_endpoint_is_gone_or_inactive() {
    // What was for it while it was active is held, also where an inactive endpoint collects nothing.
    for (route, mut fields, status, hold_for) in [
        ("delete", json!({}), Status::Ended, "604800"),
        ("update", json!({"active": false}), Status::Held, "604800"),
        ("update", json!({"active": false}), Status::Held, "0"),
    ] {
        let (world, tenant, id) = world_with(&[("HOLD_FOR", hold_for)], "http://127.0.0.1:9/").await;
        world.make_slow(&tenant, &id).await;
        for job in 0..4 {
            world.deliver(event(&tenant.id, job)).await;
        }
        fields["id"] = json!(id);
        world.rpc(&tenant.key, &format!("webhooks/{route}"), fields).await.ok();
        poll_slow(&world, 4).await;
        assert_eq!((world.log_of(&tenant.id, status).await.len(), world.left().await), (4, 0));
    }
}

/// What is parked for one receiver is written once, and is gone with a delivery that may not keep it.
#[tokio::test(flavor = "multi_thread")]
async fn the_payload_of_a_parked_event_is_that_of_its_delivery() {
    tests::log::collect();
    for (answer, payloads) in [(500, 1), (200, 0)] {
        let receiver = Moody::start(move |_| (Duration::ZERO, answer)).await;
        let (world, tenant, id) = world_with(&[("KEPT_PAYLOAD_BYTES", "0")], receiver.url()).await;
        world.make_slow(&tenant, &id).await;
        let mut large = event(&tenant.id, "j");
        large["result"] = json!("a word or two, ".repeat(1000));
        world.deliver(large).await;
        let stored = async || {
            let items = world.items("deliveries").await;
            items.iter().filter(|item| item.keys().any(|name| name.starts_with("payload"))).count()
        };
        assert_eq!((stored().await, waiting(&world).await), (1, [0, 0, 1]));
        poll_slow(&world, 1).await;
        let delivery = world.only_logged(&tenant.id).await;
        assert_eq!((receiver.requests(), stored().await), (1, payloads), "{delivery:?}");
        // Its process may have died before its message was deleted.
        world.enqueue("slow-deliveries", json!({"tenant_id": tenant.id, "parked": delivery.id.to_string()})).await;
        poll_slow(&world, 1).await;
        let log = tests::log::collected();
        let is_alarming = |line: &str| line.contains(&tenant.id) && line.contains("has expired");
        assert_eq!((receiver.requests(), log.lines().any(is_alarming)), (1, false));
    }
}

/// As when its tenant sends the delivery again before the message that parked it has been deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_event_can_be_read_once_its_row_is_the_payload_of_a_delivery() {
    let receiver = Receiver::start().await;
    let (world, tenant, id) = world_with(&[], &receiver.url("/")).await;
    world.make_slow(&tenant, &id).await;
    let told = JobEvent::parse(&event(&tenant.id, 1).to_string(), Timestamp::now()).expect("an event");
    let destination = Destination::Endpoint(id.parse().expect("an id"));
    let (delivery, log) = (Delivery::first(&told, &destination, 1), world.delivery_log());
    let (message, _) = log.parked_row(&told, &[delivery.id], Timestamp::now());
    let payload = Payload { destination, body: told.body.clone() };
    let row = log.payload_row(&told.tenant, &delivery.id, &payload, Timestamp::now());
    assert!(log.put(vec![((), row)]).await.is_empty());
    world.enqueue("slow-deliveries", json!({"tenant_id": tenant.id, "parked": message.parked.to_string()})).await;
    poll_slow(&world, 1).await;
    assert_eq!((receiver.count().await, world.only_logged(&tenant.id).await.status), (1, Status::Delivered));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_put_off_until_three_days_after_its_event_at_most() {
    let (world, tenant, id, receiver) = silent(&[]).await;
    let probed = json!({"probed_at": Timestamp::now().as_millisecond()});
    world.set("webhook-endpoints", ("webhook_endpoint_id", &id), probed).await;
    let left = Duration::from_secs(10 * 60);
    let told = JobEvent::parse(&event(&tenant.id, 1).to_string(), Timestamp::now().before(MAX_AGE - left));
    let told = told.expect("an event");
    let destination = Destination::Endpoint(id.parse().expect("an id"));
    let delivery = Delivery::first(&told, &destination, 1);
    let delivery = Delivery { next_attempt_at: Some(Timestamp::now()), ..delivery };
    let payload = Payload { destination, body: told.body.clone() };
    let owner = tenant.id.parse().expect("a tenant");
    let first = First { tenant: &owner, delivery: &delivery, payload: Some(&payload) };
    assert!(matches!(world.delivery_log().begin(&[first], Timestamp::now()).await[..], [Ok(true)]));
    world.enqueue("slow-deliveries", due_message(&tenant.id, &delivery)).await;
    poll_slow(&world, 1).await;
    let waits = world.only_logged(&tenant.id).await;
    assert_eq!((waits.status, receiver.arrivals().await.len()), (Status::Pending, 0));
    assert_eq!(waits.next_attempt_at, Some(told.at.after(MAX_AGE)), "it would be an hour or two");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_receivers_have_their_time_and_hold_up_no_event() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "600")]).await;
    let tenant = world.tenant("acme").await;
    let hanging = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    // More than are signed at a time: none of them may hold up another.
    for number in 0..12 {
        let url = format!("http://{}/{number}", hanging.local_addr().expect("an address"));
        world.endpoint(&tenant, &url, "s").await;
    }
    let healthy = Receiver::start().await;
    world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!((healthy.count().await, waiting(&world).await), (1, [0, 0, 1]), "the others are parked together");
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Delivered);
    let started = Instant::now();
    poll_slow(&world, 1).await;
    assert!(started.elapsed() >= Duration::from_secs(1), "they had their second");
    let failed = world.log_of(&tenant.id, Status::Pending).await;
    assert!(failed.len() == 12 && failed.iter().all(|delivery| delivery.attempts == 1), "{failed:?}");
    assert_eq!(world.counts("slow-deliveries").await, [0, 0, 12], "and get another attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_tries_a_receiver_that_hangs() {
    let settings = [("DELIVERY_TIMEOUT", "20")];
    let (world, tenant, id, receiver) = silent(&settings).await;
    let other = world.worker(&settings);
    park(&world, &tenant, &id, 1, 1).await;
    let others = async {
        until(async || receiver.arrivals().await.len() == 1).await;
        park(&world, &tenant, &id, 2, 1).await;
        other.poll("slow-deliveries").await.expect("a step")
    };
    tokio::select! {
        _ = world.poll("slow-deliveries") => panic!("it hangs for 20 s"),
        handled = others => assert_eq!((handled, receiver.arrivals().await.len()), (1, 1), "it is left alone"),
    }
}

/// A parked event cannot be seen, so it does not stay parked for long.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_receiver_that_hangs_is_in_the_log_after_a_while_and_fails_after_three_days() {
    let (world, tenant, id, receiver) = silent(&[("DELIVERY_TIMEOUT", "20")]).await;
    // It gets so many attempts at once.
    for job in 0..4 {
        park(&world, &tenant, &id, job, 1).await;
    }
    let late = async {
        until(async || receiver.arrivals().await.len() == 4).await;
        for (job, age, delayed, logged) in
            [(14, 14, 1, None), (16, 16, 1, Some(Status::Pending)), (3, 3 * 24 * 60, 1, Some(Status::Failed))]
        {
            let now = Timestamp::now();
            park(&world, &tenant, &id, job, age).await;
            assert_eq!(world.poll("slow-deliveries").await, 1);
            // What waits for longer than a message can be delayed has none.
            assert_eq!(world.counts("slow-deliveries").await, [0, 4, delayed]);
            let logged_now = world.log(&tenant.id).await.into_iter().find(|it| it.job_id == job.to_string());
            assert_eq!(logged_now.as_ref().map(|delivery| delivery.status), logged, "{age} minutes");
            let Some(delivery) = logged_now else { continue };
            assert_eq!(
                (delivery.attempts, delivery.next_attempt_at > Some(now)),
                (0, delivery.status == Status::Pending)
            );
        }
    };
    tokio::select! {
        _ = world.poll("slow-deliveries") => panic!("the first attempts hang for 20 s"),
        () = late => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_comes_back_gets_what_has_waited() {
    let world = World::live(&[("DELIVERY_TIMEOUT", "1"), ("RETRY_SCHEDULE", "0,0,0,0")]).await;
    let works = Switch::default();
    let is_working = works.clone();
    let receiver = Moody::start(move |_| if is_working.is_on() { AT_ONCE } else { FOREVER }).await;
    for job in 0..3 {
        world.enqueue("job-events", callback("t", job, receiver.url())).await;
    }
    // The first one is cut off, and then all have their time.
    until(async || receiver.requests() >= 4).await;
    works.on();
    until(async || world.log_of("t", Status::Delivered).await.len() == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_slow_receiver_does_not_flood_it() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    // The first one is cut off. The next ones take long, so that all others wait for them.
    let receiver = Moody::start(|before| if before < 5 { TOO_LATE } else { AT_ONCE }).await;
    world.endpoint(&tenant, receiver.url(), "s").await;
    for job in 0..60 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    until(async || world.log_of(&tenant.id, Status::Delivered).await.len() == 60).await;
    for (at_once, taken) in receiver.seen() {
        assert!(at_once <= 4 + taken, "{at_once} at once, though it had taken {taken}");
    }
}

/// While the attempts hang: none ends before the test does.
#[tokio::test(flavor = "multi_thread")]
async fn receivers_that_hang_hold_up_nobody() {
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
    for receiver in &hanging {
        assert!(receiver.arrivals().await.len() <= 5, "the first one, and so many at once that have time");
    }
}

/// Its message is the same in both queues, and a process leaves out a message that it is working on.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_cut_off_is_not_lost_on_its_way_to_the_other_queue() {
    let world = World::live(&[("RETRY_SCHEDULE", "0,0")]).await;
    // Of as many tenants, so that none has too many slow origins.
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
