//! Messages that a version before the delivery log left in the queues are taken over.

use common::webhooks::log::{Status, Trigger};
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, world::due_message};

/// A delivery to an endpoint as it waited in the queue, after this many attempts.
fn waiting(tenant: &Tenant, endpoint: &str, attempts: u32) -> Value {
    let now = common::timestamp::Timestamp::now().as_millisecond();
    json!({
        "tenant_id": tenant.id, "event": "job.failed", "webhook_id": "msg_0123456789abcdef0123456789abcdef",
        "endpoint_id": endpoint, "attempts": attempts, "event_at": now - 60_000, "not_before": now,
        "give_up_at": now + 3_600_000, "body": {"event": "job.failed", "job_id": "old", "result": [1]},
    })
}

/// The same after it was given up, or one that could not be handled.
fn dead(tenant: &Tenant, endpoint: &str) -> Value {
    let mut letter = waiting(tenant, endpoint, 0);
    let members = letter.as_object_mut().expect("an object");
    members.remove("not_before");
    members.remove("give_up_at");
    letter["dead"] = json!({"reason": "status_5xx", "attempts": 2, "at": "2026-01-31T12:00:00.000Z"});
    letter
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_delivery_goes_on_where_it_was() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let message = waiting(&tenant, &id, 1);
    // The same one twice, as SQS may deliver it.
    for _ in 0..2 {
        world.enqueue("deliveries", message.to_string()).await;
        assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
        let taken_over = world.only_logged(&tenant.id).await;
        assert_eq!((taken_over.status, taken_over.attempts, receiver.count().await), (Status::Pending, 1, 0));
        assert_eq!(world.drain("deliveries").await, [due_message(&tenant.id, &taken_over)]);
    }
    let taken_over = world.only_logged(&tenant.id).await;
    world.enqueue("deliveries", due_message(&tenant.id, &taken_over).to_string()).await;
    while world.stack.poll("deliveries").await.expect("a step") > 0 {}
    let received = receiver.received().await;
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].header("webhook-id"), "msg_0123456789abcdef0123456789abcdef");
    assert_eq!(received[0].json(), message["body"]);
    let failed = world.only_logged(&tenant.id).await;
    assert_eq!((failed.status, failed.attempts, failed.job_id.as_str()), (Status::Failed, 2, "old"));
    assert_eq!(failed.last_attempt.expect("an attempt").trigger, Trigger::Schedule);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_put_back_starts_over() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("deliveries", dead(&tenant, &id).to_string()).await;
    while world.stack.poll("deliveries").await.expect("a step") > 0 {}
    let entry = world.only_logged(&tenant.id).await;
    assert_eq!((entry.status, entry.attempts, receiver.count().await), (Status::Delivered, 2, 2));
    assert!(world.drain("deliveries-dead").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_old_version_had_for_a_callback_keeps_its_url_and_secret() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let mut message = waiting(&tenant, "", 1);
    message.as_object_mut().expect("an object").remove("endpoint_id");
    message["callback_url"] = json!(receiver.url("/callback"));
    message["callback_secret"] = json!("canary");
    world.enqueue("deliveries", message.to_string()).await;
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
    let messages = world.drain("deliveries").await;
    assert_eq!(messages.len(), 1);
    assert!(!messages[0].to_string().contains("callback_url") && !messages[0].to_string().contains("canary"));
    world.enqueue("deliveries", messages[0].to_string()).await;
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
    let received = receiver.received().await;
    assert_eq!(received[0].path, "/callback");
    let secret = common::webhooks::signing_secret::SigningSecret::parse("canary").expect("a secret");
    let signature = common::webhooks::signing::body_signature(&secret, &received[0].body);
    assert_eq!(received[0].header("x-webhook-signature"), signature);
}
