//! The `traceparent` of job events.

use common::webhooks::delivery::Status;
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, event};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn traced(tenant: &Tenant, job: &str, trace: Value) -> Value {
    let mut event = event(&tenant.id, job);
    event["traceparent"] = trace;
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_the_trace_of_its_job() {
    tests::log::collect();
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    // The payload moves to a separate item, and then back into the log row.
    let mut large = traced(&tenant, "j", json!(TRACE));
    large["result"] = json!("x".repeat(3000));
    world.deliver(large).await;
    world.poll("deliveries").await;
    let delivered = world.only_logged(&tenant.id).await;
    assert_eq!(delivered.status, Status::Delivered);
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivered.id})).await.ok();
    world.poll("deliveries").await;
    let received = receiver.wait_for(3).await;
    assert_eq!(received.iter().map(|one| one.header("traceparent")).collect::<Vec<_>>(), [TRACE; 3]);
    assert_eq!(received[0].json().get("traceparent"), None);
    world.deliver(traced(&tenant, "k", json!(TRACE))).await;
    let small = world.log(&tenant.id).await.into_iter().find(|delivery| delivery.job_id == "k").expect("it is logged");
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": small.id})).await.ok();
    world.poll("deliveries").await;
    let received = receiver.wait_for(5).await;
    assert_eq!(received.iter().map(|one| one.header("traceparent")).collect::<Vec<_>>(), [TRACE; 5]);
    let log = tests::log::collected();
    let lines = log.lines().filter(|line| line.contains(&tenant.id) && line.contains("attempt.completed"));
    assert_eq!(lines.filter(|line| line.contains(TRACE)).count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_trace_is_omitted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for (job, trace) in [("a", json!("00-x")), ("b", json!(7)), ("c", json!(format!("{TRACE}\r\nx-a: b")))] {
        world.deliver(traced(&tenant, job, trace)).await;
    }
    let received = receiver.wait_for(3).await;
    assert_eq!(received.iter().map(|one| one.header("traceparent")).collect::<Vec<_>>(), [""; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_received_delivery_has_the_trace_of_its_job() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let endpoint = created.ok()["webhook_endpoint_id"].clone();
    let mut large = traced(&tenant, "a", json!(TRACE));
    large["result"] = json!("x".repeat(3000));
    world.deliver(large).await;
    world.deliver(traced(&tenant, "b", json!(TRACE))).await;
    let received = world.rpc(&tenant.key, "deliveries/receive", json!({"webhook_endpoint_id": endpoint})).await;
    let deliveries = received.ok()["deliveries"].as_array().expect("deliveries");
    assert_eq!(deliveries.len(), 2);
    for delivery in deliveries {
        assert_eq!(delivery["headers"]["traceparent"], TRACE);
    }
}
