//! The delivery log is written as deliveries happen.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use tests::{Manner, Receiver, Rough, Tenant, World};

fn event(tenant: &Tenant, job: &str) -> Value {
    json!({"event": "job.completed", "tenant_id": tenant.id, "job_id": job, "result": 1})
}

/// The states of all deliveries in the log.
async fn states(world: &World) -> Vec<HashMap<String, AttributeValue>> {
    let mut items = world.items("deliveries").await;
    items.retain(|item| item.contains_key("status"));
    items
}

fn text<'a>(item: &'a HashMap<String, AttributeValue>, name: &str) -> &'a str {
    item.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_appears_at_once_even_while_others_of_its_batch_hang() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "3")]).await;
    let tenant = world.tenant("acme").await;
    let (hanging, healthy) = (Rough::start(Manner::Hangs).await, Receiver::start().await);
    world.endpoint(&tenant, hanging.url(), "s").await;
    let id = world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    let polled = async {
        world.stack.poll("job-events").await.expect("a step");
    };
    let seen = async {
        healthy.wait_for(1).await;
        let logged = async {
            loop {
                let states = states(&world).await;
                if !states.is_empty() {
                    return states;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(1), logged).await.expect("a delivery within a second")
    };
    let ((), states) = tokio::join!(polled, seen);
    assert_eq!(states.len(), 1, "the hanging one has not ended by then");
    assert!(text(&states[0], "destination").contains(&id));
    assert_eq!(self::states(&world).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_repeats_no_delivery() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let table = world.stack.dynamodb_client().delete_table().table_name("deliveries");
    table.send().await.expect("it is deleted");
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    assert_eq!(receiver.count().await, 1);
    let messages = world.stack.sqs_client().get_queue_attributes().queue_url(&world.stack.queues()["job-events"]);
    let in_flight = aws_sdk_sqs::types::QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
    let attributes = messages.attribute_names(in_flight.clone()).send().await.expect("the queue answers");
    assert_eq!(attributes.attributes.expect("attributes")[&in_flight], "0", "its record is acknowledged");
    assert!(tests::log::collected().contains("LogWriteFailed"), "and that is counted");
}
