//! The retry schedule, and how it ends.

use common::{audit::Recorder, timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::json;
use tests::{Receiver, World, callback, event, receiver::Scripted, records, world::log::due_message};

use super::attempts::{reason, send_to, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_retried_until_it_succeeds() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0,0")]).await;
    let tenant = world.tenant("acme").await;
    let failing = Receiver::scripted(&[(500, &[]), (302, &[("location", "/elsewhere")])]).await;
    let healthy = Receiver::start().await;
    world.endpoint(&tenant, &failing.url("/"), "s").await;
    world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!(world.poll("deliveries").await, 1);
    assert_eq!(world.poll("deliveries").await, 1);
    assert_eq!(world.poll("deliveries").await, 0);
    let received = failing.received().await;
    assert_eq!(received.len(), 3);
    for attempt in &received {
        assert_eq!(attempt.path, "/");
        assert_eq!(attempt.header("webhook-id"), received[0].header("webhook-id"));
        assert_eq!(attempt.header("x-event-time"), received[0].header("x-event-time"));
        assert_eq!(attempt.body, received[0].body);
        attempt.verify("s");
    }
    assert_eq!(healthy.received().await.len(), 1);
    let mut logged = world.log(&tenant.id).await;
    logged.sort_by_key(|delivery| delivery.attempts);
    let logged: Vec<_> = logged.iter().map(|delivery| (delivery.status, delivery.attempts)).collect();
    assert_eq!(logged, [(Status::Delivered, 1), (Status::Delivered, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_fails_after_its_last_attempt_and_can_be_resent() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (503, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    world.poll("deliveries").await;
    assert_eq!(world.poll("deliveries").await, 0);
    let failed = world.only_logged(&tenant.id).await;
    assert_eq!((failed.status, failed.attempts), (Status::Failed, 2));
    let last = failed.last_attempt.as_ref().expect("an attempt");
    assert_eq!((&*last.outcome, last.status_code), ("status_5xx", Some(503)));
    assert_eq!(failed.webhook_endpoint_id.expect("an endpoint").to_string(), id);
    assert_eq!(failed.job_id, "j");

    let (log, owner, now) = (world.delivery_log(), tenant.id.parse().expect("an id"), Timestamp::now());
    let recorder = Recorder::system(&world.delivering()).expect("settings");
    let again = log.resend(&recorder, &owner, &failed.id, None, now).await.expect("it is resent");
    world.enqueue("deliveries", due_message(&tenant.id, &again)).await;
    world.poll("deliveries").await;
    let received = receiver.received().await;
    assert_eq!(received.len(), 3);
    assert_eq!(received[2].header("webhook-id"), received[0].header("webhook-id"));
    let delivered = world.only_logged(&tenant.id).await;
    assert_eq!((delivered.status, delivered.attempts), (Status::Delivered, 3));
    assert!(world.drain("deliveries-dead").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_uses_the_endpoints_current_url_and_secret() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/old"), "old").await;
    world.deliver(event(&tenant.id, "j")).await;
    let change = json!({"id": id, "url": receiver.url("/new"), "signing_secret": "the-new-secret-of-it"});
    world.rpc(&tenant.key, "webhooks/update", change).await.ok();
    world.poll("deliveries").await;
    world.drain_late().await;
    let received = receiver.received().await;
    assert_eq!(received[1].path, "/new");
    received[1].verify("the-new-secret-of-it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_a_key_and_no_body_url_or_secret() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[])]).await;
    let mut event = callback("t", "j", receiver.url("/canary"));
    (event["result"], event["callback_secret"]) = (json!("canary"), json!("canary"));
    world.deliver(event).await;
    for attempt in [2, 3] {
        let messages = world.drain("deliveries").await;
        let delivery = world.only_logged("t").await;
        assert_eq!(
            messages,
            [json!({"tenant_id": "t", "delivery_id": delivery.id.to_string(), "attempt": attempt})],
            "a message contains nothing else"
        );
        world.enqueue("deliveries", &messages[0]).await;
        world.poll("deliveries").await;
    }
    assert_eq!(world.only_logged("t").await.status, Status::Failed);
    assert!(world.drain("deliveries").await.is_empty() && world.drain("deliveries-dead").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_message_is_sent_again_without_an_attempt() {
    let world = World::with(&[("RETRY_SCHEDULE", "600")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!(world.poll("deliveries").await, 0);
    assert_eq!(world.counts("deliveries").await[2], 1);
    let delivery = world.only_logged(&tenant.id).await;
    let message = due_message(&tenant.id, &delivery).to_string();
    world.enqueue("deliveries", message.clone()).await;
    assert_eq!(world.poll("deliveries").await, 1);
    assert_eq!((receiver.count().await, world.counts("deliveries").await[2]), (1, 2));
    world.make_due(&tenant.id, &delivery, Timestamp::now()).await;
    // The second of two messages is stale.
    for _ in 0..2 {
        world.enqueue("deliveries", message.clone()).await;
        assert_eq!(world.poll("deliveries").await, 1);
    }
    assert_eq!(receiver.count().await, 2);
    assert!(world.drain("deliveries").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_succeeds_after_three_failures() {
    let world = world("0,0,0").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[])]).await;
    send_to(&world, &receiver.url("/")).await;
    for _ in 0..3 {
        assert_eq!(world.poll_due().await, 1);
    }
    assert_eq!(receiver.received().await.len(), 4);
    assert_eq!(world.left().await, 0);
    let delivery = world.only_logged("t").await;
    assert_eq!((delivery.status, delivery.attempts), (Status::Delivered, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_honored_on_429_and_503_only() {
    let world = world("0").await;
    let http_date = "Fri, 31 Dec 9999 23:59:59 GMT";
    for (status, header, waits) in [
        (429, "3600", true),
        (503, "3600", true),
        (429, http_date, true),
        (429, "soon", false),
        (429, "0", false),
        (500, "3600", false),
        (404, "3600", false),
    ] {
        let script: &[_] = match header {
            "3600" => &[("retry-after", "3600")],
            "soon" => &[("retry-after", "soon")],
            "0" => &[("retry-after", "0")],
            _ => &[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")],
        };
        let receiver = Receiver::scripted(&[(status, script)]).await;
        send_to(&world, &receiver.url("/")).await;
        let taken = world.poll("deliveries").await;
        assert_eq!(taken, usize::from(!waits), "{status} {header}");
        assert_eq!(receiver.received().await.len(), 1 + taken, "{status} {header}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_retry_after_values_are_spread_by_jitter() {
    let world = world("5").await;
    let busy: Scripted = (503, &[("retry-after", "3600")]);
    let receiver = Receiver::scripted(&[busy; 20]).await;
    world.make_origin_quick("t", &receiver.url("/")).await;
    let events = (0..20).map(|job| callback("t", job, receiver.url("/")));
    world.stack.invoke("webhooks-deliver", records(events)).await.expect("an answer");
    let now = common::timestamp::Timestamp::now().as_millisecond();
    let due = world.log("t").await.into_iter().filter_map(|delivery| delivery.next_attempt_at);
    let waits: Vec<_> = due.map(|due| due.as_millisecond() - now).collect();
    assert_eq!(waits.len(), 20);
    let (first, last) = (waits.iter().min().expect("they wait"), waits.iter().max().expect("they wait"));
    assert!(*first > 3_500_000 && *last < 3600 * 1200 && last - first > 60_000, "{waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_attempt_is_within_three_days_despite_retry_after() {
    let world = world("5,5,5").await;
    let day = 24 * 3600 * 1000;
    let now = common::timestamp::Timestamp::now().as_millisecond();
    let asks: [(i64, Scripted, bool); 4] = [
        // A wait of one day would end after the deadline, so it is shortened.
        (2 * day + 10_000, (503, &[("retry-after", "86400")]), true),
        (2 * day, (503, &[("retry-after", "3600")]), true),
        // The last four hours have begun.
        (3 * day - 4 * 3600 * 1000, (503, &[("retry-after", "86400")]), false),
        (3 * day, (503, &[]), false),
    ];
    for (age, answer, waits) in asks {
        let receiver = Receiver::scripted(&[answer]).await;
        world.make_origin_quick("t", &receiver.url("/")).await;
        let mut batch = records([callback("t", age, receiver.url("/"))]);
        batch["Records"][0]["attributes"]["SentTimestamp"] = json!((now - age).to_string());
        world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
        let logged = world.log("t").await;
        let delivery = logged.iter().find(|delivery| delivery.job_id == age.to_string()).expect("a delivery");
        let status = if waits { Status::Pending } else { Status::Failed };
        assert_eq!((delivery.status, delivery.attempts), (status, 1), "{age} {answer:?}");
        let is_in_time = |due: common::timestamp::Timestamp| due.as_millisecond() <= now - age + 3 * day;
        assert!(delivery.next_attempt_at.is_none_or(is_in_time), "{delivery:?}");
        assert_eq!(reason(delivery), "status_5xx");
        assert_eq!(receiver.received().await.len(), 1);
    }
}
