//! The payload of an event to several endpoints is stored once. Large results do not delay other organizations.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use common::{
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, Status},
};
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Receiver, Switch, Tenant, World, event, records, world::tables::Item};

use super::{id, log::noise, read};

/// An event whose result has this many incompressible bytes.
fn large(tenant: &str, job: &str, bytes: usize) -> Value {
    let mut event = event(tenant, job);
    event["result"] = noise(bytes).into();
    event
}

/// The number of stored payloads.
async fn payloads(world: &World) -> usize {
    let items = world.items("deliveries").await;
    items.iter().filter(|item| item.keys().any(|name| name.starts_with("payload"))).count()
}

/// A tenant with this many endpoints, whose receivers fail once.
async fn with_failing(world: &World, endpoints: usize) -> (Tenant, Vec<Receiver>) {
    with_failing_often(world, endpoints, 1).await
}

async fn with_failing_often(world: &World, endpoints: usize, times: usize) -> (Tenant, Vec<Receiver>) {
    let (tenant, answers) = (world.tenant("acme").await, vec![(500, &[][..]); times]);
    let receivers = join_all((0..endpoints).map(|_| Receiver::scripted(&answers))).await;
    for receiver in &receivers {
        world.endpoint(&tenant, &receiver.url("/"), "s").await;
    }
    (tenant, receivers)
}

async fn payload(world: &World, tenant: &Tenant, delivery: &Delivery) -> Option<String> {
    let answer = read(world, tenant, "get", json!({"delivery_id": delivery.id})).await;
    answer.ok()["payload"].as_str().map(str::to_owned)
}

async fn erase(world: &World, tenant: &Tenant, fields: Value) {
    world.rpc(&tenant.key, "deliveries/erase", fields).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_to_several_endpoints_stores_its_payload_once() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let (tenant, receivers) = with_failing(&world, 30).await;
    world.deliver(large(&tenant.id, "j", 20_000)).await;
    assert_eq!(payloads(&world).await, 1);
    let pending = world.log_of(&tenant.id, Status::Pending).await;
    assert_eq!(pending.len(), 30);
    let shown = payload(&world, &tenant, &pending[0]).await.expect("a payload");
    world.poll_all("deliveries").await;
    for receiver in &receivers {
        let received = receiver.received().await;
        assert_eq!(received.len(), 2);
        assert!(received.iter().all(|attempt| attempt.body == shown.as_bytes()));
    }
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 30);
    assert_eq!(payload(&world, &tenant, &pending[0]).await, None, "large payloads are not shown after a success");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_one_delivery_needs_is_not_shared() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let (tenant, _receivers) = with_failing(&world, 1).await;
    world.deliver(event(&tenant.id, "one")).await;
    let items = world.items("deliveries").await;
    let has = |name: &str| items.iter().filter(|item| item.contains_key(name)).count();
    assert_eq!((payloads(&world).await, has("shared")), (1, 0));
    let healthy = Receiver::start().await;
    world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.deliver(event(&tenant.id, "two")).await;
    let items = world.items("deliveries").await;
    assert!(items.iter().all(|item| !item.contains_key("shared")), "both succeed at once: {items:?}");
    assert_eq!(payloads(&world).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_payload_is_erased_with_the_last_delivery() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receivers) = with_failing(&world, 3).await;
    let delivered = Receiver::start().await;
    world.endpoint(&tenant, &delivered.url("/"), "s").await;
    world.deliver(large(&tenant.id, "j", 2_000)).await;
    let long_ago = Timestamp::now().before(Duration::from_mins(1)).as_millisecond();
    world.set_where("deliveries", |item| item.contains_key("shared_at"), &json!({"shared_at": long_ago})).await;
    let failed = world.log_of(&tenant.id, Status::Failed).await;
    assert_eq!((failed.len(), payloads(&world).await), (3, 2), "one is shared, and one is of the delivered one");

    erase(&world, &tenant, json!({"delivery_id": failed[0].id})).await;
    assert_eq!(payload(&world, &tenant, &failed[0]).await, None);
    assert!(payload(&world, &tenant, &failed[1]).await.is_some() && payloads(&world).await == 2);
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": failed[1].id})).await.ok();
    world.handle_all().await;
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 2);
    let requests = join_all(receivers.iter().map(Receiver::count)).await;
    assert_eq!(requests.iter().sum::<usize>(), 4, "the resent one has been sent again");
    assert!(payload(&world, &tenant, &failed[1]).await.is_some(), "it is small");

    erase(&world, &tenant, json!({"job_id": "j"})).await;
    assert_eq!(payloads(&world).await, 0);
    erase(&world, &tenant, json!({"job_id": "j"})).await;
}

/// The process that stored the payload may be about to write another delivery of the event, which needs it.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_payload_cannot_be_erased_for_a_minute() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, _receivers) = with_failing(&world, 2).await;
    world.deliver(event(&tenant.id, "j")).await;
    let failed = world.log_of(&tenant.id, Status::Failed).await;
    for (age, is_erased) in [(59, false), (60, true)] {
        let stored_at = Timestamp::now().before(Duration::from_secs(age)).as_millisecond();
        let set = json!({"shared_at": stored_at});
        assert_eq!(world.set_where("deliveries", |item| item.contains_key("shared_at"), &set).await, 1);
        for fields in [json!({"delivery_id": failed[0].id}), json!({"job_id": "j"})] {
            let answer = world.rpc(&tenant.key, "deliveries/erase", fields).await;
            match is_erased {
                true => drop(answer.ok()),
                false => assert_eq!(answer.error(), (409, "CONFLICT", "delivery_pending")),
            }
        }
        assert_eq!(payloads(&world).await, usize::from(!is_erased));
    }
}

/// The process that erased the last delivery died before it had deleted the payload. Before the call is repeated,
/// another process stores the payload again, because it handles the event again.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_erasure_spares_a_payload_that_was_stored_again() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, _receivers) = with_failing(&world, 2).await;
    world.deliver(event(&tenant.id, "j")).await;
    let is_state = |item: &Item| item.contains_key("shared");
    let erased_at = json!({"erased_at": Timestamp::now().as_millisecond()});
    assert_eq!(world.set_where("deliveries", is_state, &erased_at).await, 2);
    let delivery = world.log(&tenant.id).await.remove(0);
    for fields in [json!({"delivery_id": delivery.id}), json!({"job_id": "j"})] {
        let answer = world.rpc(&tenant.key, "deliveries/erase", fields).await;
        assert_eq!(answer.error(), (409, "CONFLICT", "delivery_pending"));
        assert_eq!(payloads(&world).await, 1);
    }
    let long_ago = json!({"shared_at": Timestamp::now().before(Duration::from_mins(1)).as_millisecond()});
    world.set_where("deliveries", |item| item.contains_key("shared_at"), &long_ago).await;
    erase(&world, &tenant, json!({"delivery_id": delivery.id})).await;
    assert_eq!(payloads(&world).await, 0, "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn for_this_minute_no_delivery_of_the_job_is_erased() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, _receivers) = with_failing(&world, 2).await;
    let delivered = Receiver::start().await;
    world.endpoint(&tenant, &delivered.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    let answer = world.rpc(&tenant.key, "deliveries/erase", json!({"job_id": "j"})).await;
    assert_eq!(answer.error(), (409, "CONFLICT", "delivery_pending"));
    for delivery in world.log(&tenant.id).await {
        assert!(payload(&world, &tenant, &delivery).await.is_some(), "{delivery:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_organization_leaves_no_shared_payload() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, _receivers) = with_failing(&world, 2).await;
    world.deliver(large(&tenant.id, "j", 2_000)).await;
    let log = world.delivery_log();
    for shard in world.stored_endpoints().shards(&id(&tenant), None).await.expect("shards") {
        while log.forget_page(&id(&tenant), shard).await.expect("the deletion succeeds") {}
    }
    assert_eq!(payloads(&world).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_that_waits_does_not_delay_those_of_others() {
    let (good, written) = (Arc::new(OnceLock::<String>::new()), Arc::new(Mutex::new(Vec::new())));
    let (whose, calls) = (Arc::clone(&good), Arc::clone(&written));
    let world = World::answering(&[("RETRY_SCHEDULE", "60")], move |call| {
        let is_large = call.operation == "BatchWriteItem" && call["RequestItems"].to_string().contains("shared_at");
        let key = call["Item"]["destination"]["S"].as_str().filter(|_| call["TableName"] == "deliveries");
        let is_good = key.zip(whose.get()).is_some_and(|(key, id)| key.starts_with(id.as_str()));
        if is_large || is_good {
            calls.lock().expect("no panic").push(is_good);
        }
        is_large.then(|| (200, json!({"UnprocessedItems": call["RequestItems"]})))
    })
    .await;
    let (bad, _receivers) = with_failing(&world, 2).await;
    let (tenant, receiver) = (world.tenant("good").await, Receiver::scripted(&[(500, &[])]).await);
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    good.set(tenant.id.clone()).expect("it is set once");
    let batch = records([large(&bad.id, "j", 100_000), event(&tenant.id, "j")]);
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    let calls = written.lock().expect("no panic").split_off(0);
    assert_eq!(calls.iter().filter(|is_good| **is_good).count(), 1, "{calls:?}");
    assert!(calls.last() == Some(&false) && calls.len() > 3, "the other result was stored between tries: {calls:?}");
}

/// A throttled partition of an endpoint's own rows spreads its log. The shared payload has a partition of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_shared_payload_spreads_no_log_and_is_retried() {
    let throttled = Switch::default();
    let is_throttled = throttled.clone();
    let world = World::answering(&[("RETRY_SCHEDULE", "60")], move |call| {
        let is_it = call.operation == "BatchWriteItem" && call["RequestItems"].to_string().contains("shared_at");
        (is_it && is_throttled.is_on()).then(|| (200, json!({"UnprocessedItems": call["RequestItems"]})))
    })
    .await;
    let (tenant, receivers) = with_failing_often(&world, 2, 2).await;
    let batch = records([large(&tenant.id, "j", 2_000)]);
    throttled.on();
    let response = world.stack.invoke("webhooks-deliver", batch.clone()).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    assert!(world.items("webhook-endpoints").await.iter().all(|item| !item.contains_key("log_shards")));
    assert!(world.log(&tenant.id).await.is_empty(), "no delivery is without its payload");
    throttled.off();
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": []}));
    let pending = world.log_of(&tenant.id, Status::Pending).await;
    assert!(payload(&world, &tenant, &pending[0]).await.is_some() && pending.len() == 2);
    assert_eq!(join_all(receivers.iter().map(Receiver::count)).await, [2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_could_not_be_stored_soon_comes_back() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let world = World::queues_answering(&[], move |call| {
        if call.operation == "ChangeMessageVisibilityBatch" {
            seen.lock().expect("no panic").push(call["Entries"].clone());
        }
        None
    })
    .await;
    // The endpoints cannot be read.
    let table = world.stack.dynamodb_client().delete_table().table_name("webhook-endpoints");
    table.send().await.expect("the deletion succeeds");
    world.enqueue("job-events", event("t", "j")).await;
    assert_eq!(world.poll("job-events").await, 1);
    let calls = calls.lock().expect("no panic").split_off(0);
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].as_array().map(Vec::len), Some(1));
    assert_eq!(calls[0][0]["VisibilityTimeout"], 5);
    assert_eq!(world.counts("job-events").await, [0, 1, 0], "it is invisible until then");
}

/// The age of a queue does not include messages that were received three times.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_fails_for_five_minutes_is_counted() {
    let world = World::start().await;
    // The endpoints cannot be read.
    let table = world.stack.dynamodb_client().delete_table().table_name("webhook-endpoints");
    table.send().await.expect("the deletion succeeds");
    for receives in ["6", "7"] {
        let mut batch = records([event("t", "j"), json!("malformed")]);
        for record in batch["Records"].as_array_mut().expect("records") {
            record["attributes"] = json!({"ApproximateReceiveCount": receives});
        }
        let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
        assert_eq!(response["batchItemFailures"].as_array().map(Vec::len), Some(2));
    }
    assert_eq!(tests::log::of_this_test().metric("FailingRecord"), [(1.0, String::new())]);
}

/// A copy for each endpoint would take 20 times 100 units for the payloads alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_to_failing_endpoints_costs_its_size_once() {
    let world = World::metered().await;
    let (tenant, _receivers) = with_failing(&world, 20).await;
    let _unmeasured = world.units();
    world.deliver(large(&tenant.id, "j", 100_000)).await;
    let written = world.units().written;
    assert!((100.0..260.0).contains(&written), "{written} units");
}

/// The log has only the beginning of such an id, by which it could not find the payload again.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_a_long_id_shares_no_payload() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let (tenant, _receivers) = with_failing(&world, 2).await;
    world.deliver(event(&tenant.id, "j".repeat(1025))).await;
    assert_eq!(payloads(&world).await, 2);
    world.poll_all("deliveries").await;
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 2);
}
