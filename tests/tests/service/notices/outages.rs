//! Outages: endpoints whose attempts all fail are reported before a delivery has failed permanently.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::{Value, json};
use tests::{Doomed, Receiver, Tenant, World, at_each_call, event, world::log::due_message};

use super::{FAILING, MINUTE, RECOVERED, broken, later, mails, subjects, sweep};
use crate::endpoints::failing::failing_since;

/// A schedule whose retries a test makes due.
const SCHEDULE: [(&str, &str); 1] = [("RETRY_SCHEDULE", "7200,7200,7200,7200")];

/// Makes the next attempts of all pending deliveries.
async fn retry(world: &World, tenant: &Tenant) {
    for delivery in world.log_of(&tenant.id, Status::Pending).await {
        world.make_due(&tenant.id, &delivery, Timestamp::now()).await;
        world.enqueue("deliveries", due_message(&tenant.id, &delivery)).await;
    }
    world.handle_all().await;
}

/// A world with an endpoint that has failed this many attempts at one delivery.
async fn failed(receiver: &Receiver, attempts: usize) -> (World, Tenant, String) {
    let world = World::with(&SCHEDULE).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    for _ in 1..attempts {
        retry(&world, &tenant).await;
    }
    (world, tenant, id)
}

async fn since(world: &World, tenant: &Tenant) -> Value {
    world.only_endpoint(tenant).await.get("failing_since").cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_failed_attempts_are_reported_after_five_minutes() {
    let receiver = Receiver::scripted(&[(400, &[]), (400, &[]), (400, &[])]).await;
    let (world, tenant, id) = failed(&receiver, 3).await;
    let first = world.only_logged(&tenant.id).await.attempts_so_far().next().expect("an attempt").at;
    // No attempt is made in the meantime.
    sweep(&world, later(4 * MINUTE)).await;
    assert_eq!(subjects(&world).await.len(), 0);
    for minute in 5..8 {
        sweep(&world, later(minute * MINUTE)).await;
        assert_eq!(subjects(&world).await, [FAILING]);
    }
    let mail = mails(&world).await.pop().expect("an email");
    let text = mail["text"].as_str().expect("a string");
    for part in [
        "no attempt to deliver to it succeeds",
        &format!("First failed attempt: {}\n", first.readable()),
        "Failed attempts: 3 or more\n",
        "Pending deliveries: 1 or more\n",
        "Last failed job: j\n",
        "Last error: HTTP 400",
    ] {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
    assert!(!text.contains("permanent"), "{text}");

    let at = failing_since(&world, &tenant, &id, 300).await;
    assert_eq!(since(&world, &tenant).await, json!(at));
    retry(&world, &tenant).await;
    assert_eq!(since(&world, &tenant).await, Value::Null);
    sweep(&world, later(9 * MINUTE)).await;
    assert_eq!(subjects(&world).await, [FAILING, RECOVERED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_failed_attempts_are_not_reported() {
    let (world, tenant, id) = failed(&broken().await, 2).await;
    failing_since(&world, &tenant, &id, 3600).await;
    sweep(&world, later(10 * MINUTE)).await;
    assert_eq!((subjects(&world).await.len(), since(&world, &tenant).await), (0, Value::Null));
}

/// Its failures are not an outage, although there are many.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_rejects_some_events_is_not_failing() {
    let script: Vec<_> = [400, 400, 204].iter().cycle().take(12).map(|status| (*status, &[] as &[_])).collect();
    let receiver = Receiver::scripted(&script).await;
    let (world, tenant, _) = failed(&receiver, 1).await;
    for job in 1..12 {
        world.deliver(event(&tenant.id, job)).await;
    }
    assert_eq!(receiver.count().await, 12);
    for minute in [0, 6] {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert_eq!(subjects(&world).await.len(), 0);
    let items = world.items("webhook-endpoints").await;
    assert!(items.iter().all(|item| !item.contains_key("streak")), "the last attempt succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_with_a_permanent_failure_is_reported_once() {
    let (world, tenant, _) = failed(&broken().await, 3).await;
    sweep(&world, later(6 * MINUTE)).await;
    assert_eq!(subjects(&world).await, [FAILING]);
    for _ in 0..2 {
        retry(&world, &tenant).await;
    }
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Failed);
    assert!(world.only_endpoint(&tenant).await["first_failed_delivery_at"].is_string());
    for minute in [7, 70] {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert_eq!(subjects(&world).await, [FAILING]);
}

/// An endpoint that version 0.1.0 has marked as failing has no streak, and its tenant was notified.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_an_older_version_reported_goes_on() {
    let world = World::with(&SCHEDULE).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 4]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let day_ago = Timestamp::now().before(Duration::from_hours(24));
    let stored = json!({"failing_since": day_ago.as_millisecond(), "told_since": day_ago.as_millisecond()});
    world.set("webhook-endpoints", ("webhook_endpoint_id", &id), stored).await;
    world.deliver(event(&tenant.id, "j")).await;
    for _ in 0..3 {
        retry(&world, &tenant).await;
    }
    sweep(&world, later(6 * MINUTE)).await;
    assert_eq!((subjects(&world).await.len(), since(&world, &tenant).await), (0, json!(day_ago)));
    retry(&world, &tenant).await;
    sweep(&world, later(7 * MINUTE)).await;
    assert_eq!((subjects(&world).await, since(&world, &tenant).await), (vec![RECOVERED.to_owned()], Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_or_disabled_endpoint_is_not_reported() {
    for change in [json!({"url": "http://127.0.0.1:1/new"}), json!({"active": false}), json!({"active": true})] {
        let (world, tenant, id) = failed(&broken().await, 3).await;
        let mut fields = change.clone();
        fields["id"] = json!(id);
        world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
        for minute in [6, 7] {
            sweep(&world, later(minute * MINUTE)).await;
        }
        assert_eq!(subjects(&world).await.len(), 0, "{change}");
        let items = world.items("webhook-endpoints").await;
        assert!(items.iter().all(|item| !item.contains_key("notice")), "{change}");
    }
}

/// The success comes between the sweep's read and its first write.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_has_just_ended_is_not_reported() {
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 3]).await;
    let (world, tenant, id) = failed(&receiver, 3).await;
    let (endpoints, owner) = (world.stored_endpoints(), tenant.id.parse().expect("an id"));
    let notice = endpoints.notice(&owner, id.parse().expect("an id"), later(6 * MINUTE)).await;
    let notice = notice.expect("a read").expect("a notice");
    retry(&world, &tenant).await;
    assert!(endpoints.try_notice(&owner, notice).await.expect("a write").is_none());
    sweep(&world, later(6 * MINUTE)).await;
    assert_eq!(subjects(&world).await.len(), 0);
}

/// Makes a process die at this call while it makes the third attempt.
async fn fail_and_die(call: u64, takes_effect: bool) -> (bool, ()) {
    let (world, tenant, _) = failed(&broken().await, 2).await;
    world.come_back_after(1).await;
    let delivery = world.only_logged(&tenant.id).await;
    world.make_due(&tenant.id, &delivery, Timestamp::now()).await;
    world.enqueue("deliveries", due_message(&tenant.id, &delivery)).await;
    let doomed = Doomed::worker(&world, &SCHEDULE, call..u64::MAX, takes_effect).await;
    // The call may fail, which is expected.
    while matches!(doomed.process.poll("deliveries").await, Ok(0)) && !doomed.has_died() {}
    let healthy = world.worker(&SCHEDULE);
    for _ in 0..3 {
        healthy.poll("deliveries").await.expect("a step");
    }
    for minute in [6, 7] {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert_eq!(subjects(&world).await, [FAILING], "call {call}, takes effect: {takes_effect}");
    (doomed.has_died(), ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_makes_the_third_attempt_may_die() {
    // Call 5 is the first write to the endpoint.
    for (first, takes_effect) in [(0, false), (0, true), (5, false), (5, true)] {
        let lives = at_each_call(first.., |call| fail_and_die(call, takes_effect)).await;
        assert!(lives.calls() >= 2, "{}", lives.calls());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_successes_nor_many_failures_write_to_the_endpoint() {
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    let world = World::answering(&SCHEDULE, move |call| {
        let is_of_endpoints = call["TableName"].as_str().is_some_and(|name| name.contains("endpoints"));
        if call.function == "webhooks-deliver" && call.operation == "UpdateItem" && is_of_endpoints {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        None
    })
    .await;
    let tenant = world.tenant("acme").await;
    // The third failed attempt is enough.
    for (receiver, expected) in &[(Receiver::start().await, 0), (broken().await, 3)] {
        world.endpoint(&tenant, &receiver.url("/"), "s").await;
        for job in 0..10 {
            world.deliver(event(&tenant.id, job)).await;
        }
        assert_eq!((receiver.count().await, writes.swap(0, Ordering::Relaxed)), (10, *expected));
    }
}
