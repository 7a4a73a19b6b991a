//! The sweep wakes what waits for long, and what lost its message.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::json;
use tests::{Interceptor, Receiver, Tenant, World, world::due_message};

const MINUTE: i64 = 60_000;

fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// A world with a delivery whose first attempt has failed, and the endpoint's receiver, which takes the next one.
async fn failed_once(schedule: &str) -> (World, Tenant, Receiver) {
    let world = World::with(&[("RETRY_SCHEDULE", schedule)]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    fail_once(&world, &tenant, &receiver).await;
    (world, tenant, receiver)
}

async fn fail_once(world: &World, tenant: &Tenant, receiver: &Receiver) {
    world.endpoint(tenant, &receiver.url("/"), "s").await;
    let event = json!({"event": "job.completed", "tenant_id": tenant.id, "job_id": "j"});
    world.enqueue("job-events", event.to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    assert_eq!(receiver.count().await, 1);
}

/// Runs the sweep of the minute of this time.
async fn sweep(world: &World, at: i64) {
    let tick = json!({"time": Timestamp::from_millisecond(at)});
    world.stack.invoke("deliveries-wake", tick).await.expect("a sweep");
}

/// Makes the attempt whose message comes within seconds.
async fn attempt(world: &World) {
    let attempted = async { while world.stack.poll("deliveries").await.expect("a step") == 0 {} };
    tokio::time::timeout(Duration::from_secs(5), attempted).await.expect("a message");
}

/// Removes the message that comes within seconds.
async fn lose_message(world: &World) {
    let lost = async { while world.drain("deliveries").await.is_empty() {} };
    tokio::time::timeout(Duration::from_secs(5), lost).await.expect("a message");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_has_no_message_until_its_minute_comes() {
    let (world, tenant, receiver) = failed_once("1000").await;
    // A message that comes early is dropped: the log has the wait.
    let delivery = world.only_logged(&tenant.id).await;
    world.enqueue("deliveries", due_message(&tenant.id, &delivery).to_string()).await;
    attempt(&world).await;
    assert_eq!(receiver.count().await, 1);
    sweep(&world, now() + 15 * MINUTE).await;
    assert!(world.drain("deliveries").await.is_empty(), "its minute has not come");
    sweep(&world, now() + 21 * MINUTE).await;
    world.make_due(&tenant.id, &delivery, Timestamp::now()).await;
    attempt(&world).await;
    assert_eq!((receiver.count().await, world.only_logged(&tenant.id).await.status), (2, Status::Delivered));
    sweep(&world, now() + 40 * MINUTE).await;
    assert!(world.drain("deliveries").await.is_empty(), "nobody wakes what is delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_woken_twice_is_attempted_once() {
    let (world, tenant, receiver) = failed_once("1000,1000").await;
    world.make_due(&tenant.id, &world.only_logged(&tenant.id).await, Timestamp::now()).await;
    for _ in 0..2 {
        sweep(&world, now() + 21 * MINUTE).await;
        let cursor = world.stack.dynamodb_client().delete_item().table_name("deliveries");
        let (destination, delivery) = (AttributeValue::S("due".into()), AttributeValue::S("cursor".into()));
        // As if the first one had died before it saved how far it was.
        cursor.key("destination", destination).key("delivery", delivery).send().await.expect("it is deleted");
    }
    while world.stack.poll("deliveries").await.expect("a step") > 0 {}
    assert_eq!(receiver.count().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_whose_message_got_lost_is_found_and_woken_until_it_is_attempted() {
    let (world, tenant, receiver) = failed_once("0").await;
    for lost in 1..=2 {
        lose_message(&world).await;
        sweep(&world, now() + lost * 16 * MINUTE).await;
    }
    attempt(&world).await;
    assert_eq!((receiver.count().await, world.only_logged(&tenant.id).await.status), (2, Status::Delivered));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_ahead_costs_nobody_their_minute() {
    let world = World::with(&[("RETRY_SCHEDULE", "1000")]).await;
    sweep(&world, now() + 180 * MINUTE).await;
    sweep(&world, now()).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    fail_once(&world, &tenant, &receiver).await;
    sweep(&world, now() + 21 * MINUTE).await;
    assert_eq!(world.drain("deliveries").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_overdue_is_left_alone() {
    let (world, _, _receiver) = failed_once("600").await;
    sweep(&world, now() + 18 * MINUTE).await;
    assert!(world.drain("deliveries").await.is_empty(), "its own message is still delayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sweep_runs_at_a_time() {
    let (world, _, _receiver) = failed_once("1000").await;
    let taken = world.stack.dynamodb_client().update_item().table_name("deliveries");
    taken
        .key("destination", AttributeValue::S("due".into()))
        .key("delivery", AttributeValue::S("cursor".into()))
        .update_expression("SET taken_until = :until")
        .expression_attribute_values(":until", AttributeValue::N((now() + 22 * MINUTE).to_string()))
        .send()
        .await
        .expect("it is taken");
    sweep(&world, now() + 21 * MINUTE).await;
    assert!(world.drain("deliveries").await.is_empty(), "another one is sweeping");
    sweep(&world, now() + 23 * MINUTE).await;
    assert_eq!(world.drain("deliveries").await.len(), 1, "one that died is followed");
}

/// What is due in a minute is in partitions, in which the tenants are mixed.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_whose_deliveries_cannot_be_read_does_not_hold_up_those_in_the_same_partition() {
    let broken = Arc::new(Mutex::new(None));
    let whose = Arc::clone(&broken);
    let tables = Interceptor::start(move |operation, call| {
        let whose = whose.lock().expect("no panic");
        let is_theirs = whose.as_ref().is_some_and(|tenant: &String| call.to_string().contains(&format!("{tenant}/")));
        (operation == "BatchGetItem" && is_theirs).then(|| (500, json!({})))
    });
    let tables = tables.await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", tables.address()), ("RETRY_SCHEDULE", "0")]).await;
    tables.stand_before(world.stack.dynamodb());
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    // Tenants are looked at in the order of their ids, which is that of their sign-ups.
    let (first, second) = (world.tenant("first").await, world.tenant("second").await);
    for tenant in [&first, &second] {
        world.endpoint(tenant, &receiver.url("/"), "s").await;
        let event = json!({"event": "job.completed", "tenant_id": tenant.id, "job_id": "j"});
        world.enqueue("job-events", event.to_string()).await;
        world.stack.poll("job-events").await.expect("a step");
        lose_message(&world).await;
    }
    bring_together(&world).await;

    *broken.lock().expect("no panic") = Some(first.id.clone());
    let tick = json!({"time": Timestamp::from_millisecond(now() + 16 * MINUTE)});
    assert!(world.stack.invoke("deliveries-wake", tick.clone()).await.is_err(), "the minute is not done");
    attempt(&world).await;
    assert_eq!(world.only_logged(&second.id).await.status, Status::Delivered);
    assert_eq!(world.only_logged(&first.id).await.status, Status::Pending);

    *broken.lock().expect("no panic") = None;
    world.stack.invoke("deliveries-wake", tick).await.expect("a sweep");
    attempt(&world).await;
    assert_eq!(world.only_logged(&first.id).await.status, Status::Delivered);
}

/// Puts all due rows into the partition of the first.
async fn bring_together(world: &World) {
    let dynamodb = world.stack.dynamodb_client();
    let rows = world.items("deliveries").await.into_iter();
    let rows: Vec<_> = rows.filter(|row| row["destination"].as_s().is_ok_and(|key| key.starts_with("due/"))).collect();
    let Some(place) = rows.first().map(|row| row["destination"].clone()) else { return };
    for mut row in rows {
        let away = dynamodb.delete_item().table_name("deliveries").key("delivery", row["delivery"].clone());
        away.key("destination", row["destination"].clone()).send().await.expect("it is deleted");
        row.insert("destination".to_owned(), place.clone());
        dynamodb.put_item().table_name("deliveries").set_item(Some(row)).send().await.expect("it is stored");
    }
}
