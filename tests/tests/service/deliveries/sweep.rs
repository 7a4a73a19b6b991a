//! The sweep wakes deliveries after long waits, and deliveries whose messages were lost.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DeliveryId, Status, WebhookId},
        log::due_rows::PARTITIONS,
    },
};
use serde_json::{Value, json};
use tests::{
    Call, Moody, Receiver, Switch, Tenant, World, event,
    moody::{AT_ONCE, FOREVER},
    world::{faults::failure, log::due_message},
};

use super::isolation::{send, until, untried, world_with};

fn in_minutes(minutes: i64) -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond() + minutes * 60_000)
}

/// A world with a delivery whose first attempt has failed, and a receiver that accepts the next attempt.
async fn failed_once(schedule: &str) -> (World, Tenant, Receiver) {
    let world = World::with(&[("RETRY_SCHEDULE", schedule)]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    fail_once(&world, &tenant, &receiver).await;
    (world, tenant, receiver)
}

async fn fail_once(world: &World, tenant: &Tenant, receiver: &Receiver) {
    world.endpoint(tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!(receiver.count().await, 1);
}

/// Makes the attempt whose message is due within seconds.
async fn attempt(world: &World) {
    let attempted = async { while world.poll("deliveries").await == 0 {} };
    tokio::time::timeout(Duration::from_secs(5), attempted).await.expect("a message");
}

/// The number of attempts in messages. A message of a single one has no list.
fn attempts_in(messages: &[Value]) -> usize {
    messages.iter().map(|message| message["attempts"].as_array().map_or(1, Vec::len)).sum()
}

/// Removes the message that is due within seconds.
async fn lose_message(world: &World) {
    let lost = async { while world.drain("deliveries").await.is_empty() {} };
    tokio::time::timeout(Duration::from_secs(5), lost).await.expect("a message");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_has_no_message_until_its_minute() {
    let (world, tenant, receiver) = failed_once("1000").await;
    // An early message is dropped, because the log records the wait.
    let delivery = world.only_logged(&tenant.id).await;
    world.enqueue("deliveries", due_message(&tenant.id, &delivery)).await;
    attempt(&world).await;
    assert_eq!(receiver.count().await, 1);
    world.sweep(in_minutes(15)).await;
    assert!(world.drain("deliveries").await.is_empty(), "the minute in which the delivery is due has not begun");
    world.sweep(in_minutes(21)).await;
    world.make_due(&tenant.id, &delivery, Timestamp::now()).await;
    attempt(&world).await;
    assert_eq!((receiver.count().await, world.only_logged(&tenant.id).await.status), (2, Status::Delivered));
    world.sweep(in_minutes(40)).await;
    assert!(world.drain("deliveries").await.is_empty(), "a delivered delivery is not woken");
}

/// A sweep may run at any second of its minute. Without this rule, all attempts that were due earlier in that minute
/// would be woken at once.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_due_before_the_sweep_are_a_minute_late() {
    let (world, tenant, _) = failed_once("1000").await;
    let at = world.only_logged(&tenant.id).await.next_attempt_at.expect("it waits");
    let second = Duration::from_secs(1);
    world.sweep(at.after(second * 30)).await;
    assert!(world.drain("deliveries").await.is_empty(), "the delivery is due in half a minute");
    assert_eq!(world.counts("deliveries").await, [0, 0, 1]);
    world.forget_sweeps().await;
    world.sweep(at.after(second * 61)).await;
    assert_eq!(world.drain("deliveries").await.len(), 1, "the delivery is already late");
}

/// The sweep reads a minute's partition in pages of a thousand rows.
#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_waits_that_end_in_a_minute_is_woken() {
    let (world, tenant, _) = failed_once("1000").await;
    let (delivery, log) = (world.only_logged(&tenant.id).await, world.delivery_log());
    let tenant = tenant.id.parse().expect("a tenant");
    let ids = (0..).map(|job| WebhookId::of(&tenant, &job.to_string(), "job.completed", "callback"));
    let shard = delivery.webhook_id.shard(PARTITIONS);
    let ids: Vec<_> = ids.filter(|id| id.shard(PARTITIONS) == shard).take(1_000).collect();
    let rows = ids.iter().map(|id| {
        let other = Delivery { webhook_id: *id, id: DeliveryId { webhook_id: *id, ..delivery.id }, ..delivery.clone() };
        ((), log.due_row(&tenant, &other, Timestamp::now()))
    });
    assert!(log.put(rows.collect()).await.is_empty());
    world.sweep(in_minutes(21)).await;
    let (mut woken, mut messages) = (0, 0);
    while woken <= ids.len() {
        let drained = world.drain("deliveries").await;
        assert_ne!(drained.len(), 0, "{woken} of {} are woken", ids.len() + 1);
        woken += attempts_in(&drained);
        messages += drained.len();
    }
    assert_eq!((woken, messages), (ids.len() + 1, 101), "attempts that are due at the same time share messages");
}

/// If one of the attempts of a message cannot be made, the message is repeated, but not the other attempts.
#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_of_a_message_is_made_once() {
    let (unread, to_fail) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicUsize::new(0)));
    let (endpoint, left) = (Arc::clone(&unread), Arc::clone(&to_fail));
    let world = World::answering(&[("RETRY_SCHEDULE", "1000")], move |call| {
        let is_its = call["Key"]["webhook_endpoint_id"]["S"] == *endpoint.lock().expect("no panic");
        let fails = is_its && call.operation == "GetItem" && left.load(Ordering::SeqCst) > 0;
        fails.then(|| left.fetch_sub(1, Ordering::SeqCst)).map(|_| failure())
    });
    let world = world.await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[])]).await;
    for path in ["/a", "/b", "/c"] {
        *unread.lock().expect("no panic") = world.endpoint(&tenant, &receiver.url(path), "s").await;
    }
    world.deliver(event(&tenant.id, "j")).await;
    let deliveries = world.log(&tenant.id).await;
    let mut attempts = Vec::new();
    for delivery in &deliveries {
        world.make_due(&tenant.id, delivery, Timestamp::now()).await;
        attempts.push(json!({"delivery_id": delivery.id, "attempt": 2}));
    }
    // The SDK tries three times.
    to_fail.store(3, Ordering::SeqCst);
    world.enqueue("deliveries", json!({"tenant_id": tenant.id, "attempts": attempts})).await;
    assert_eq!((world.poll("deliveries").await, receiver.count().await), (1, 5), "one cannot be read");
    assert_eq!(to_fail.load(Ordering::SeqCst), 0);
    let repeated = async { while world.poll("deliveries").await == 0 {} };
    tokio::time::timeout(Duration::from_secs(10), repeated).await.expect("the message returns");
    assert_eq!(receiver.count().await, 6);
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 3);
    assert_eq!(world.left().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_woken_twice_is_attempted_once() {
    let (world, tenant, receiver) = failed_once("1000,1000").await;
    world.make_due(&tenant.id, &world.only_logged(&tenant.id).await, Timestamp::now()).await;
    for _ in 0..2 {
        world.sweep(in_minutes(21)).await;
        // The state that a sweep leaves if it dies before saving its progress.
        world.forget_sweeps().await;
    }
    world.poll_all("deliveries").await;
    assert_eq!(receiver.count().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_wakes_a_delivery_whose_message_was_lost() {
    let (world, tenant, receiver) = failed_once("0").await;
    for lost in 1..=2 {
        lose_message(&world).await;
        world.sweep(in_minutes(lost * 16)).await;
    }
    attempt(&world).await;
    assert_eq!((receiver.count().await, world.only_logged(&tenant.id).await.status), (2, Status::Delivered));
}

/// Two messages for an attempt may be handled by two processes, which both make it.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_after_an_outage_sends_one_message() {
    let (world, ..) = failed_once("1000").await;
    world.sweep(in_minutes(37)).await;
    assert_eq!(attempts_in(&world.drain("deliveries").await), 1);
    world.sweep(in_minutes(53)).await;
    assert_eq!(attempts_in(&world.drain("deliveries").await), 1, "the message was lost");
}

/// An event that is redriven as a dead letter is a new event, so it does not wake the delivery of the earlier one.
#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_wakes_a_first_attempt_whose_record_was_lost() {
    let receiver = Moody::start(|before| if before == 0 { FOREVER } else { AT_ONCE }).await;
    let (world, tenant, endpoint) = world_with(&[("DELIVERY_TIMEOUT", "20")], receiver.url()).await;
    tokio::select! {
        () = send(&world, &tenant, 0..1) => panic!("the attempt hangs for 20 s"),
        () = until(async || !world.gate(&tenant, &endpoint).await.is_open()) => {}
    }
    assert_eq!(untried(&world, &tenant.id).await.len(), 1);
    world.sweep(in_minutes(17)).await;
    attempt(&world).await;
    world.drain_late().await;
    assert_eq!((receiver.requests(), world.only_logged(&tenant.id).await.status), (2, Status::Delivered));
}

/// An index that cannot be written makes searches slower, and nothing else late.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_fails_does_not_delay_the_sweep() {
    let is_request =
        |call: &Call| call.operation == "Query" && call["ExpressionAttributeValues"].to_string().contains("index/");
    let world = World::answering(&[("RETRY_SCHEDULE", "1000")], move |call| is_request(call).then(failure)).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    fail_once(&world, &tenant, &receiver).await;
    world.sweep(in_minutes(21)).await;
    assert_eq!(world.drain("deliveries").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_ahead_does_not_skip_minutes() {
    let world = World::with(&[("RETRY_SCHEDULE", "1000")]).await;
    world.sweep(in_minutes(180)).await;
    world.sweep(Timestamp::now()).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    fail_once(&world, &tenant, &receiver).await;
    world.sweep(in_minutes(21)).await;
    assert_eq!(world.drain("deliveries").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_are_not_overdue_stay_unchanged() {
    let (world, _, _receiver) = failed_once("600").await;
    world.sweep(in_minutes(18)).await;
    assert!(world.drain("deliveries").await.is_empty(), "its own message is still delayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sweep_runs_at_a_time() {
    let (world, _, _receiver) = failed_once("1000").await;
    let until = in_minutes(22).as_millisecond();
    world.put_cursors(&json!({"taken_until": until})).await;
    world.sweep(in_minutes(21)).await;
    assert!(world.drain("deliveries").await.is_empty(), "another sweeper is running");
    world.sweep(in_minutes(23)).await;
    assert_eq!(world.drain("deliveries").await.len(), 1, "a new sweep takes over from one that died");
}

/// Each sweeper has a schedule and its own partitions.
#[tokio::test(flavor = "multi_thread")]
async fn sweepers_share_the_due_rows() {
    let (world, tenant, _) = failed_once("1000").await;
    let (delivery, log) = (world.only_logged(&tenant.id).await, world.delivery_log());
    let tenant = tenant.id.parse().expect("a tenant");
    let other = |job: u32| {
        let webhook_id = WebhookId::of(&tenant, &job.to_string(), "job.completed", "callback");
        Delivery { webhook_id, id: DeliveryId { webhook_id, ..delivery.id }, ..delivery.clone() }
    };
    let rows = (1..100).map(|job| ((), log.due_row(&tenant, &other(job), Timestamp::now())));
    assert!(log.put(rows.collect()).await.is_empty());
    let mut woken = Vec::new();
    for sweeper in [0, 1, 2, 3, 0, 1, 2, 3] {
        let tick = json!({"sweeper": sweeper, "time": in_minutes(21)});
        world.stack.invoke("deliveries-wake", tick).await.expect("it sweeps");
        let mut attempts = 0;
        loop {
            match &world.drain("deliveries").await[..] {
                [] => break,
                messages => attempts += attempts_in(messages),
            }
        }
        woken.push(attempts);
    }
    assert!(woken[..4].iter().all(|share| *share > 5), "{woken:?}");
    assert_eq!((woken[..4].iter().sum(), &woken[4..]), (100, [0; 4].as_slice()));
    assert!(world.stack.invoke("deliveries-wake", json!({"sweeper": 4})).await.is_err(), "there is no fifth sweeper");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweeper_whose_lease_response_was_lost_still_sweeps() {
    let (world, calls) = World::cut_off().await;
    let tenant = "t".parse().expect("a tenant");
    let wait = Delivery {
        next_attempt_at: Some(in_minutes(16)),
        ..Delivery::test("01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id"), Timestamp::now())
    };
    let sweeper = wait.webhook_id.shard(PARTITIONS) % 4;
    let log = world.delivery_log();
    assert!(log.put(vec![((), log.due_row(&tenant, &wait, Timestamp::now()))]).await.is_empty());
    calls.fail(0..1, true);
    let tick = json!({"sweeper": sweeper, "time": in_minutes(17)});
    world.stack.invoke("deliveries-wake", tick).await.expect("it sweeps");
    assert!(calls.is_reached());
    assert_eq!(world.drain("deliveries").await.len(), 1);
}

/// The due rows of a minute are in several partitions, each with rows for all tenants.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_cannot_be_woken_does_not_block_its_partition() {
    let broken = Arc::new(Mutex::new(None));
    let whose = Arc::clone(&broken);
    let world = World::answering(&[("RETRY_SCHEDULE", "0")], move |call| {
        let whose = whose.lock().expect("no panic");
        let is_theirs = whose.as_ref().is_some_and(|tenant: &String| call.body.to_string().contains(tenant));
        (call.operation == "BatchWriteItem" && is_theirs).then(failure)
    })
    .await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let (first, second) = two_in_a_partition(&world, &receiver).await;

    *broken.lock().expect("no panic") = Some(first.id.clone());
    let tick = json!({"time": in_minutes(16)});
    assert!(
        world.stack.invoke("deliveries-wake", tick).await.is_err(),
        "the minute is not complete, because no row can be written"
    );
    attempt(&world).await;
    assert_eq!(world.only_logged(&second.id).await.status, Status::Delivered);
    assert_eq!(world.only_logged(&first.id).await.status, Status::Pending);

    *broken.lock().expect("no panic") = None;
    world.sweep(in_minutes(16)).await;
    attempt(&world).await;
    assert_eq!(world.only_logged(&first.id).await.status, Status::Delivered);
}

/// Two tenants with one delivery each. The messages are lost, and the due rows are in the same partition.
async fn two_in_a_partition(world: &World, receiver: &Receiver) -> (Tenant, Tenant) {
    // Tenants are checked in the order of their ids, which is the order of their sign-ups.
    let (first, second) = (world.tenant("first").await, world.tenant("second").await);
    for tenant in [&first, &second] {
        world.endpoint(tenant, &receiver.url("/"), "s").await;
        world.deliver(event(&tenant.id, "j")).await;
        lose_message(world).await;
    }
    bring_together(world).await;
    (first, second)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_delivery_does_not_block_its_partition() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let (first, second) = two_in_a_partition(&world, &receiver).await;

    let states = world.items("deliveries").await.into_iter();
    let is_theirs = |row: &HashMap<String, AttributeValue>| {
        row["destination"].as_s().is_ok_and(|key| key.starts_with(&format!("{}/", first.id)))
    };
    let state = states.filter(is_theirs).find(|row| row.contains_key("status")).expect("a state");
    let mut broken = state.clone();
    broken.remove("event").expect("it has an event");
    world.put("deliveries", broken).await;
    let tick = json!({"time": in_minutes(16)});
    assert!(world.stack.invoke("deliveries-wake", tick).await.is_err(), "an operator has to investigate the error");
    attempt(&world).await;
    assert_eq!(world.only_logged(&second.id).await.status, Status::Delivered);

    // The minute still counts as complete, and the delivery is checked again 15 minutes later.
    world.put("deliveries", state).await;
    world.sweep(in_minutes(17)).await;
    assert!(world.drain("deliveries").await.is_empty());
    world.sweep(in_minutes(32)).await;
    attempt(&world).await;
    assert_eq!(world.only_logged(&first.id).await.status, Status::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn throttled_deliveries_are_checked_in_the_same_sweep() {
    // DynamoDB returns states in a throttled partition as unprocessed until the caller stops the read.
    let (throttled, left_out) = (Switch::default(), AtomicUsize::new(0));
    let is_on = throttled.clone();
    let world = World::answering(&[("RETRY_SCHEDULE", "0")], move |call| {
        let is_state = call.operation == "BatchGetItem" && !call.body.to_string().contains("cursor");
        let is_left_out = is_on.is_on() && is_state && left_out.fetch_add(1, Ordering::SeqCst) < 4;
        is_left_out.then(|| (200, json!({"Responses": {}, "UnprocessedKeys": call["RequestItems"]})))
    })
    .await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    fail_once(&world, &tenant, &receiver).await;
    lose_message(&world).await;
    throttled.on();
    world.sweep(in_minutes(16)).await;
    attempt(&world).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Delivered);
}

/// A call to SQS that failed for every message.
fn refused(call: &Call) -> (u16, Value) {
    let entries = call["Entries"].as_array().expect("entries").iter();
    let failed = entries.map(|entry| json!({"Id": entry["Id"], "Code": "InternalError", "SenderFault": false}));
    (200, json!({"Successful": [], "Failed": failed.collect::<Vec<_>>()}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_does_not_block_later_minutes() {
    let broken = Switch::default();
    let is_broken = broken.clone();
    let world = World::queues_answering(&[], move |call| {
        (is_broken.is_on() && call.operation == "SendMessageBatch").then(|| refused(call))
    })
    .await;
    let (tenant, log) = ("t".parse().expect("a tenant"), world.delivery_log());
    let endpoint = "01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id");
    let rows = [16, 18].map(|minutes| {
        let next_attempt_at = Some(in_minutes(minutes));
        let wait = Delivery { next_attempt_at, ..Delivery::test(endpoint, Timestamp::now()) };
        (wait.id.to_string(), log.due_row(&tenant, &wait, Timestamp::now()))
    });
    let [(_, first), (later, second)] = rows;
    assert!(log.put(vec![((), first), ((), second)]).await.is_empty());
    for (minutes, is_refused) in [(17, true), (19, false)] {
        if is_refused {
            broken.on();
        } else {
            broken.off();
        }
        let swept = world.stack.invoke("deliveries-wake", json!({"time": in_minutes(minutes)})).await;
        assert_eq!(swept.is_err(), is_refused, "an operator has to investigate the queue");
    }
    let woken = world.drain("deliveries").await.into_iter().map(|message| message["delivery_id"].clone());
    assert_eq!(woken.collect::<Vec<_>>(), [json!(later)]);
}

/// Moves all due rows to the partition of the first row.
async fn bring_together(world: &World) {
    let dynamodb = world.stack.dynamodb_client();
    let rows = world.items("deliveries").await.into_iter();
    let rows: Vec<_> = rows.filter(|row| row["destination"].as_s().is_ok_and(|key| key.starts_with("due/"))).collect();
    let Some(place) = rows.first().map(|row| row["destination"].clone()) else { return };
    for mut row in rows {
        let away = dynamodb.delete_item().table_name("deliveries").key("delivery", row["delivery"].clone());
        away.key("destination", row["destination"].clone()).send().await.expect("the deletion succeeds");
        row.insert("destination".to_owned(), place.clone());
        world.put("deliveries", row).await;
    }
}
