//! A process dies or a call fails at each step of handling an event. No event is lost, and no delivery stays pending.

use std::{ops::Range, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use common::{timestamp::Timestamp, webhooks::delivery::Status};
use futures::future::try_join_all;
use local::Worker;
use serde_json::json;
use tests::{Doomed, Receiver, Switch, World, at_each_call, event, records, world::tables::Item};
use tokio::time::Instant;

use super::{HOUR, log::noise};

/// The time limit for a process to handle all consequences of an event. The process may have to wait for redelivered
/// messages.
const PATIENCE: Duration = Duration::from_mins(1);

/// An event, and the flaky endpoint that it is for.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Whether the endpoint has been silent for an hour.
    waits: bool,
    /// The number of incompressible bytes in the event.
    bytes: usize,
    /// Whether the endpoints keep payloads.
    keeps: bool,
}

const PLAIN: Shape = Shape { waits: false, bytes: 10, keeps: true };

/// Sends an event to an endpoint that accepts it and to a flaky one that fails once. The calls with these numbers fail
/// in the first worker, which is followed by a healthy worker. Returns whether a call failed, and the violations.
async fn live_through(fails: Range<u64>, takes_effect: bool, shape: Shape) -> (bool, Result<(), String>) {
    let Shape { waits, bytes, keeps } = shape;
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (good, flaky) = (Receiver::start().await, Receiver::scripted(&[(500, &[])]).await);
    world.endpoint(&tenant, &good.url("/"), "s").await;
    let id = world.endpoint(&tenant, &flaky.url("/"), "s").await;
    for endpoint in world.endpoints(&tenant).await.iter().filter(|_| !keeps) {
        let fields = json!({"id": endpoint["webhook_endpoint_id"], "keep_payload": false});
        world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
    }
    if waits {
        world.make_silent(&tenant, &id, Timestamp::now().before(HOUR)).await;
    }
    world.come_back_after(1).await;
    let mut event = event(&tenant.id, "j");
    event["result"] = noise(bytes).into();
    world.enqueue("job-events", event).await;

    let case = format!("calls {fails:?} fail, the first takes effect: {takes_effect}, {shape:?}");
    let settings = [("RETRY_SCHEDULE", "0,0"), ("DELIVERY_TIMEOUT", "1")];
    let doomed = Doomed::worker(&world, &settings, fails, takes_effect).await;
    let healthy = world.worker(&settings);
    let deadline = Instant::now() + PATIENCE;
    while !doomed.has_died() && world.left().await > 0 && Instant::now() < deadline {
        // The call may fail, which is expected.
        handle(&world, &doomed.process).await.ok();
    }
    // The lock of a drain expires before its message returns, which takes three minutes in a deployment.
    let locked = |item: &Item| item.contains_key("runs_until");
    world.set_where("webhook-endpoints", locked, &json!({"runs_until": 0})).await;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let states = world.items("deliveries").await;
        let is = |status: &str| {
            let has_it = |is: &AttributeValue| is.as_s().is_ok_and(|is| is == status);
            states.iter().filter(|item| item.get("status").is_some_and(has_it)).count()
        };
        let is_payload = |item: &&Item| item.keys().any(|name| name.starts_with("payload"));
        let are_erased = keeps || states.iter().filter(is_payload).count() == 0;
        if is("delivered") == 2 && is("pending") == 0 && are_erased {
            let (good, flaky) = (good.received().await, flaky.received().await);
            for received in [&good, &flaky] {
                assert!(
                    received.iter().all(|one| one.header("webhook-id") == received[0].header("webhook-id")),
                    "{case}"
                );
            }
            // Either request to the flaky endpoint, the failing or the successful one, may be repeated.
            let too_many = || format!("{case}: {} and {} arrived", good.len(), flaky.len());
            let came = if good.len() > 2 || flaky.len() > 3 { Err(too_many()) } else { Ok(()) };
            return (doomed.has_died(), came);
        }
        if let Err(error) = handle(&world, &healthy).await {
            return (doomed.has_died(), Err(format!("{case}: {error:#}")));
        }
    }
    let (left, dead, items) = (world.left().await, world.dead_letters().await, world.items("deliveries").await);
    (doomed.has_died(), Err(format!("{case}: {left} messages are left, {dead:?} are dead: {items:?}")))
}

/// Makes a process handle a batch from each queue with messages, or wait for a batch.
async fn handle(world: &World, process: &Worker) -> Result<(), anyhow::Error> {
    let polled = world.filled(world.queues()).await;
    try_join_all(polled.into_iter().map(|queue| process.poll(queue))).await.map(drop)
}

/// Makes each call fail in turn.
async fn live_through_all(length: u64, takes_effect: bool, shape: Shape) {
    let live = |call: u64| live_through(call..call.saturating_add(length), takes_effect, shape);
    let lives = at_each_call(0.., live).await;
    let failed: Vec<_> = lives.all.iter().filter_map(|(_, end)| end.as_ref().err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(lives.calls() > 10, "{}", lives.calls());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_before_any_of_its_calls() {
    live_through_all(u64::MAX, false, PLAIN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_after_any_of_its_calls() {
    live_through_all(u64::MAX, true, PLAIN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_may_fail_with_its_repetitions() {
    live_through_all(3, false, PLAIN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_after_any_call_for_parked_deliveries() {
    live_through_all(u64::MAX, true, Shape { waits: true, ..PLAIN }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_before_any_call_for_parked_deliveries() {
    live_through_all(u64::MAX, false, Shape { waits: true, ..PLAIN }).await;
}

/// The payload of this event is divided among two items.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_at_any_call_for_a_large_event() {
    live_through_all(u64::MAX, true, Shape { bytes: 700_000, ..PLAIN }).await;
    live_through_all(u64::MAX, false, Shape { bytes: 700_000, waits: true, ..PLAIN }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_not_kept_goes_although_a_process_dies() {
    live_through_all(u64::MAX, true, Shape { keeps: false, ..PLAIN }).await;
    live_through_all(u64::MAX, false, Shape { keeps: false, waits: true, ..PLAIN }).await;
}

/// The redelivered record covers all destinations of the event.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_without_a_message_ends_in_each_endpoint_state() {
    let broken = Switch::default();
    let is_broken = broken.clone();
    let world = World::queues_answering(&[("HOLD_FOR", "0")], move |call| {
        (is_broken.is_on() && call.operation == "SendMessageBatch").then(|| (500, json!({"message": "no"})))
    })
    .await;
    let tenant = world.tenant("acme").await;
    let changes = [
        ("delete", json!({}), Status::Ended),
        ("update", json!({"active": false}), Status::Held),
        ("update", json!({"events": ["job.failed"]}), Status::Delivered),
    ];
    let receiver = Receiver::start().await;
    let mut ids = Vec::new();
    for _ in &changes {
        let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
        world.make_late(&tenant, &id).await;
        ids.push(id);
    }
    let mut batch = records([event(&tenant.id, "j")]);
    let sent_at = Timestamp::now().as_millisecond().to_string();
    batch["Records"][0]["attributes"] = json!({"SentTimestamp": sent_at});
    broken.on();
    let response = world.stack.invoke("webhooks-deliver", batch.clone()).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}), "its messages were not sent");
    assert_eq!(world.log_of(&tenant.id, Status::Pending).await.len(), 3);
    broken.off();
    for ((route, fields, _), id) in changes.iter().zip(&ids) {
        let mut fields = fields.clone();
        fields["id"] = json!(id);
        world.rpc(&tenant.key, &format!("webhooks/{route}"), fields).await.ok();
    }
    batch["Records"][0]["attributes"]["ApproximateReceiveCount"] = json!("2");
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": []}));
    world.handle_all().await;
    for ((_, _, status), id) in changes.iter().zip(&ids) {
        let logged = world.log(&tenant.id).await;
        let delivery = logged.iter().find(|it| it.webhook_endpoint_id.is_some_and(|found| found.to_string() == *id));
        assert_eq!(delivery.map(|delivery| delivery.status), Some(*status), "{id}");
    }
}
