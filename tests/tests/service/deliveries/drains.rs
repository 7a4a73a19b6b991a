//! An organization's drains make its parked attempts. Each has at most one message, and no message is needed twice.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Destination, Payload, Status},
        event::JobEvent,
    },
};
use serde_json::{Value, json};
use tests::{Call, Receiver, Tenant, World, callback, event, records, world::log::due_message};

use super::{
    HOUR,
    isolation::{poll, send, untried, waiting},
};

/// A world with a tenant that has an endpoint whose receiver is new, so the first attempts are parked.
async fn with_new_receiver() -> (World, Tenant, Receiver) {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let tenant = world.tenant("acme").await;
    world.new_endpoint(&tenant, &receiver.url("/"), "s").await;
    (world, tenant, receiver)
}

/// Takes the only message of the late drain from its queue.
async fn only_message(world: &World) -> Value {
    let mut messages = world.drain("slow-deliveries").await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.remove(0)
}

fn ago(seconds: usize) -> i64 {
    Timestamp::now().before(Duration::from_secs(seconds as u64)).as_millisecond()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_drains_message_does_nothing() {
    let (world, tenant, receiver) = with_new_receiver().await;
    send(&world, &tenant, 0..10).await;
    let message = only_message(&world).await;
    for _ in 0..2 {
        world.enqueue("slow-deliveries", &message).await;
    }
    poll(&world, "slow-deliveries", 2).await;
    world.handle_all().await;
    assert_eq!((receiver.count().await, world.log_of(&tenant.id, Status::Delivered).await.len()), (10, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_message_of_a_drain_is_replaced_after_minutes() {
    let (world, tenant, receiver) = with_new_receiver().await;
    send(&world, &tenant, 0..1).await;
    let message = only_message(&world).await;
    let at = &message["at"];
    assert_eq!(message, json!({"tenant_id": tenant.id, "drain": "late", "at": at}), "it contains nothing else");
    for (late, messages) in [(4, 0), (6, 1)] {
        world.set_drains(&tenant, json!({"expected_at": ago(late * 60)})).await;
        send(&world, &tenant, late..late + 1).await;
        assert_eq!(waiting(&world).await, [0, 0, messages, 0], "after {late} minutes");
    }
    world.drain_late().await;
    assert_eq!((receiver.count().await, world.left().await), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_replaces_a_lost_message_of_a_drain() {
    let (world, tenant, receiver) = with_new_receiver().await;
    send(&world, &tenant, 0..1).await;
    world.drain("slow-deliveries").await;
    let later = Timestamp::now().after(HOUR / 3);
    world.sweep(later).await;
    assert_eq!(waiting(&world).await, [0; 4], "the message may still arrive");
    world.set_drains(&tenant, json!({"expected_at": ago(6 * 60)})).await;
    world.forget_sweeps().await;
    world.sweep(later).await;
    world.drain_late().await;
    assert_eq!((receiver.count().await, world.left().await), (1, 0));
}

/// While a round runs, other messages do nothing. The message of a process that has died returns after the lock has
/// expired.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_died_is_continued_when_its_message_returns() {
    let (world, tenant, receiver) = with_new_receiver().await;
    send(&world, &tenant, 0..2).await;
    // The message returns while the lock holds, so it is sent on to the end of the lock.
    world.set_drains(&tenant, json!({"runs_until": ago(0) + 3000})).await;
    poll(&world, "slow-deliveries", 1).await;
    assert_eq!((receiver.count().await, world.counts("slow-deliveries").await), (0, [0, 0, 1]));
    world.handle_all().await;
    assert_eq!(receiver.count().await, 2);
}

/// The process that has rescheduled a drain has sent another message.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_for_another_time_is_dropped() {
    let (world, tenant, receiver) = with_new_receiver().await;
    send(&world, &tenant, 0..1).await;
    for expected in [json!(ago(0) + 60_000), Value::Null] {
        let message = only_message(&world).await;
        world.set_drains(&tenant, json!({"expected_at": expected})).await;
        world.enqueue("slow-deliveries", &message).await;
        poll(&world, "slow-deliveries", 1).await;
        assert_eq!((receiver.count().await, waiting(&world).await), (0, [0; 4]), "{expected}");
        world.enqueue("slow-deliveries", &message).await;
    }
}

/// The process died after it had ended the drain, and before it looked for attempts that were parked meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_died_at_its_end_finds_what_was_parked() {
    let (world, tenant, receiver) = with_new_receiver().await;
    send(&world, &tenant, 0..1).await;
    let mut batch = records([only_message(&world).await]);
    world.set_drains(&tenant, json!({"expected_at": null})).await;
    let record = &mut batch["Records"][0];
    record["eventSourceARN"] = json!("arn:aws:sqs:eu-central-1:123456789012:slow-deliveries");
    record["attributes"]["ApproximateReceiveCount"] = json!("2");
    let answer = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!((answer, waiting(&world).await), (json!({"batchItemFailures": []}), [0, 0, 1, 0]));
    world.handle_all().await;
    assert_eq!(receiver.count().await, 1);
}

/// The other organizations' drains are replaced at once, and this one's in the sweep that can read it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_drain_does_not_stop_the_sweep() {
    let (world, broken) = World::failing(|call| {
        call.operation == "GetItem"
            && call.body.to_string().contains("unreadable")
            && call.body.to_string().contains("#drain#")
    })
    .await;
    for tenant in ["readable", "unreadable"] {
        world.enqueue("job-events", callback(tenant, 0, "http://127.0.0.1:9/")).await;
        poll(&world, "job-events", 1).await;
    }
    world.drain("slow-deliveries").await;
    for tenant in ["readable", "unreadable"] {
        world
            .set_where(
                "webhook-endpoints",
                |item| item["tenant_id"].as_s().is_ok_and(|id| id == tenant) && item.contains_key("expected_at"),
                &json!({"expected_at": ago(6 * 60)}),
            )
            .await;
    }
    broken.on();
    let later = Timestamp::now().after(HOUR / 3);
    world.sweep(later).await;
    assert_eq!(waiting(&world).await, [0, 0, 1, 0], "one is replaced");
    broken.off();
    world.sweep(later.after(HOUR / 3)).await;
    assert_eq!(waiting(&world).await, [0, 0, 2, 0], "the other is checked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_attempt_replaces_a_drain_that_died() {
    let (world, tenant, receiver) = with_new_receiver().await;
    send(&world, &tenant, 0..2).await;
    world.drain("slow-deliveries").await;
    for (lock, messages) in [(45_000, 0), (-1000, 1)] {
        world.set_drains(&tenant, json!({"runs_until": ago(0) + lock})).await;
        send(&world, &tenant, messages + 2..messages + 3).await;
        assert_eq!(waiting(&world).await, [0, 0, messages, 0]);
    }
    world.drain_late().await;
    assert_eq!(receiver.count().await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_serves_more_receivers_than_fit_into_a_round() {
    let (world, receiver) = (World::start().await, Receiver::everywhere().await);
    for host in 1..=130 {
        world.enqueue("job-events", callback("t", host, receiver.url_of_host(Ipv4Addr::new(127, 0, 1, host)))).await;
    }
    poll(&world, "job-events", 130).await;
    assert_eq!((receiver.count().await, waiting(&world).await), (0, [0, 0, 1, 0]));
    world.handle_all().await;
    assert_eq!((receiver.count().await, world.log_of("t", Status::Delivered).await.len()), (130, 130));
}

/// A drain deletes the rows of deliveries that are not parked.
#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_a_parked_attempt_is_written_after_its_state() {
    let written = Arc::<Mutex<Vec<bool>>>::default();
    let writes = Arc::clone(&written);
    let world = World::answering(&[], move |call| {
        let is_row = call.operation == "BatchWriteItem" && call.body.to_string().contains("\"parked/");
        let is_state = call.operation == "PutItem" && call["TableName"] == "deliveries";
        if is_row || is_state {
            writes.lock().expect("not poisoned").push(is_row);
        }
        None
    })
    .await;
    let tenant = world.tenant("acme").await;
    world.new_endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    send(&world, &tenant, 0..1).await;
    assert_eq!(*written.lock().expect("not poisoned"), [false, true]);
}

/// The delivery was parked when its message arrived, and the receiver has become quick since.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_message_for_a_parked_attempt_makes_no_attempt() {
    let (world, tenant, receiver) = with_new_receiver().await;
    send(&world, &tenant, 0..1).await;
    let delivery = world.only_logged(&tenant.id).await;
    world.make_quick(&tenant, &delivery.webhook_endpoint_id.expect("an endpoint").to_string()).await;
    world.enqueue("deliveries", due_message(&tenant.id, &delivery)).await;
    poll(&world, "deliveries", 1).await;
    assert_eq!(receiver.count().await, 0, "its drain may be making the attempt");
    world.handle_all().await;
    assert_eq!((receiver.count().await, world.only_logged(&tenant.id).await.status), (1, Status::Delivered));
}

/// An update leaves messages of the previous version in the queues: one for each attempt.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_the_previous_version_are_handled() {
    let (world, tenant, receiver) = with_new_receiver().await;
    let endpoint = world.only_endpoint(&tenant).await["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    for (number, queue) in ["slow-deliveries", "hanging-deliveries"].into_iter().enumerate() {
        let at = Timestamp::from_millisecond(ago(60));
        let told = JobEvent::parse(&event(&tenant.id, number).to_string(), at).expect("an event");
        let destination = Destination::Endpoint(endpoint.parse().expect("an id"));
        let delivery = Delivery { next_attempt_at: Some(at), ..Delivery::first(&told, &destination, 1) };
        let payload = Payload { destination, body: told.body.into(), trace: None };
        let (log, owner) = (world.delivery_log(), tenant.id.parse().expect("a tenant"));
        let first = log.first_row(&owner, &delivery, Some(&payload), Timestamp::now());
        assert!(matches!(log.begin(vec![first]).await[..], [Ok(())]));
        world.enqueue(queue, due_message(&tenant.id, &delivery)).await;
        poll(&world, queue, 1).await;
        let waits = 1 - number;
        assert_eq!(untried(&world, &tenant.id).await.len(), waits, "{queue}: only a new receiver's attempt is parked");
        world.drain_late().await;
        assert_eq!((receiver.count().await, world.left().await), (number + 1, 0), "{queue}");
    }
}

/// A process may die before it has sent the message of a drain. The sweep then finds the row.
#[tokio::test(flavor = "multi_thread")]
async fn a_drains_row_is_written_before_its_item() {
    let is_item =
        |call: &Call| call.operation == "UpdateItem" && call["Key"]["webhook_endpoint_id"]["S"] == "#drain#late";
    let (world, fails) = World::failing(is_item).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.new_endpoint(&tenant, &receiver.url("/"), "s").await;
    fails.on();
    world.enqueue("job-events", event(&tenant.id, "j")).await;
    world.poll("job-events").await;
    let items = world.items("deliveries").await;
    let keys = items.iter().filter_map(|item| item["delivery"].as_s().ok());
    let rows = keys.filter(|key| key.starts_with("drain/") && key.ends_with(&tenant.id)).count();
    assert_eq!((rows > 0, world.counts("slow-deliveries").await), (true, [0, 0, 0]));
}
