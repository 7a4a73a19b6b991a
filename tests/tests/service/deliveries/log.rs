//! The contents of the delivery log while deliveries are in progress.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use common::webhooks::delivery::{Delivery, Status};
use serde_json::{Value, json};
use tests::{Manner, Receiver, Rough, Tenant, World, callback, event, records};

#[tokio::test(flavor = "multi_thread")]
async fn a_result_appears_at_once_even_while_others_of_its_batch_hang() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "20")]).await;
    let tenant = world.tenant("acme").await;
    let (hanging, healthy) = (Rough::start(Manner::Hangs).await, Receiver::start().await);
    let hanging = world.endpoint(&tenant, hanging.url(), "s").await;
    let healthy = world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant.id, "j")).await;
    let seen = async {
        loop {
            let states = states(&world, &tenant).await;
            if let (Some(delivered), Some(waits)) = (states.get(&healthy), states.get(&hanging)) {
                return (*delivered, *waits);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        _ = world.poll("job-events") => panic!("the hanging attempt gets the full time"),
        seen = seen => assert_eq!(seen, ((Status::Delivered, 1), (Status::Pending, 0))),
    }
}

/// The status and the number of attempts of the delivery to each endpoint.
async fn states(world: &World, tenant: &Tenant) -> HashMap<String, (Status, u32)> {
    let logged = world.log(&tenant.id).await.into_iter();
    let endpoint = |delivery: &Delivery| delivery.webhook_endpoint_id.expect("an endpoint").to_string();
    logged.map(|delivery| (endpoint(&delivery), (delivery.status, delivery.attempts))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_does_not_repeat_deliveries() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let table = world.stack.dynamodb_client().delete_table().table_name("deliveries");
    table.send().await.expect("the deletion succeeds");
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!(receiver.count().await, 1);
    assert_eq!(world.counts("job-events").await, [0, 0, 0], "its record is acknowledged");
    assert_eq!(tests::log::of_this_test().metric("LogWriteFailed").len(), 1, "and the failed write is counted");
}

/// Incompressible text of this many bytes.
pub(super) fn noise(length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    std::iter::repeat_with(|| random.alphanumeric()).take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_event_fits_into_the_log() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let url = receiver.url("/");
    let url = format!("{url}{}", "u".repeat(2048 - url.len()));
    let head = format!(
        r#"{{"event":"job.completed","tenant_id":"t","job_id":"j","callback_url":"{url}","callback_secret":"{}","error":""#,
        "s".repeat(256),
    );
    let event = format!("{head}{}\"}}", noise(1_048_576 - head.len() - 2));
    assert_eq!(event.len(), 1_048_576);
    world.make_origin_quick("t", &url).await;
    world.enqueue("job-events", event).await;
    world.poll("job-events").await;
    world.poll("deliveries").await;
    world.poll("deliveries").await;
    let delivery = world.only_logged("t").await;
    assert_eq!((delivery.status, delivery.attempts), (Status::Delivered, 3));
    let received = receiver.received().await;
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|attempt| attempt.body == received[0].body && attempt.path.len() > 2000));
    // Large payloads are not kept once they have been delivered.
    let found =
        world.delivery_log().find(&"t".parse().expect("a tenant"), &delivery.id).await.expect("the read succeeds");
    assert!(found.expect("a delivery").1.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_too_large_for_the_log_is_sent_nowhere() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    world.make_origin_quick("t", &receiver.url("/")).await;
    let mut large = callback("t", "large", receiver.url("/large"));
    large["result"] = json!(noise(1_048_576));
    let batch = records([large, callback("t", "j", receiver.url("/"))]);
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    assert_eq!(world.only_logged("t").await.job_id, "j");
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_stays_queued_while_the_log_fails() {
    let was_refused = AtomicBool::new(false);
    let world = World::answering(&[("RETRY_SCHEDULE", "0")], move |call| {
        let is_first = call.operation == "BatchWriteItem" && !was_refused.swap(true, Ordering::Relaxed);
        is_first.then(|| (400, json!({"__type": "com.amazon.coral.validate#ValidationException"})))
    })
    .await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.make_origin_quick("t", &receiver.url("/")).await;
    let batch = records([callback("t", "j", receiver.url("/"))]);
    let response = world.stack.invoke("webhooks-deliver", batch.clone()).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    let again = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(again, json!({"batchItemFailures": []}));
    let received = receiver.received().await;
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(world.only_logged("t").await.status, Status::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_beyond_one_partition_gets_more_partitions() {
    // The endpoint's first partition does not accept writes: each batch returns them as unprocessed.
    let world = World::answering(&[], |call| {
        let writes = call["RequestItems"]["deliveries"].as_array().filter(|_| call.operation == "BatchWriteItem")?;
        let is_first = |write: &&Value| {
            write["PutRequest"]["Item"]["destination"]["S"].as_str().is_some_and(|place| place.ends_with(".0"))
        };
        let first: Vec<_> = writes.iter().filter(is_first).collect();
        (first.len() == writes.len()).then(|| (200, json!({"UnprocessedItems": {"deliveries": first}})))
    })
    .await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let events = |from: usize| records((from..from + 20).map(|job| event(&tenant.id, job)));
    let answer = world.stack.invoke("webhooks-deliver", events(0)).await.expect("an answer");
    assert_eq!(answer, json!({"batchItemFailures": []}), "events that have arrived are not sent again");
    let logged = world.log(&tenant.id).await;
    let spread: HashSet<u8> = logged.iter().map(|delivery| delivery.id.shard).collect();
    assert!(spread.len() > 1 && logged.len() == 20, "{spread:?}");
    assert_eq!(receiver.count().await, 20);
    // From this time on, rows are spread before they are written.
    let answer = world.stack.invoke("webhooks-deliver", events(20)).await.expect("an answer");
    assert_eq!(answer, json!({"batchItemFailures": []}));
    assert_eq!(world.log(&tenant.id).await.len(), logged.len() + 20);
}
