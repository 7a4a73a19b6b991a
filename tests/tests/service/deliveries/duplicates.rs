//! Duplicate messages cause only one post where possible.

use common::webhooks::delivery::Status;
use serde_json::json;
use tests::{
    Call, Proxy, Receiver, Switch, World, callback, event, records,
    world::{faults::failure, log::due_message},
};

/// The repeated write of its state finds the state, which is not that of a duplicate.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_no_duplicate_if_a_response_is_lost() {
    let world = World::repeating(&[]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    // The state of one parked delivery is put, and those of several are inserted together.
    for (job, paths) in [["/1"].as_slice(), &["/2", "/3"]].into_iter().enumerate() {
        for path in paths {
            world.new_endpoint(&tenant, &receiver.url(path), "correct-horse-battery").await;
        }
        world.deliver(event(&tenant.id, job)).await;
        assert_eq!(receiver.count().await, [1, 4][job]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_has_the_same_webhook_id() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for job in ["same", "same", "other"] {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    world.poll("job-events").await;
    let ids = async |job: &str| {
        let received = receiver.received().await;
        let of_job = received.iter().filter(|r| r.json()["job_id"] == job);
        of_job.map(|r| r.header("webhook-id").to_owned()).collect::<Vec<_>>()
    };
    let (same, other) = (ids("same").await, ids("other").await);
    assert_eq!(same.len(), 2);
    assert_eq!(same[0], same[1]);
    assert_ne!(same[0], other[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_copies_of_a_message_cause_one_attempt() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    let delivery = world.only_logged(&tenant.id).await;
    world.enqueue("deliveries", due_message(&tenant.id, &delivery)).await;
    assert_eq!(world.poll("deliveries").await, 2);
    assert_eq!(receiver.count().await, 2);
    assert!(world.drain("deliveries").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_sends_the_missing_message_and_posts_nothing() {
    let refuses = Switch::default();
    let is_refusing = refuses.clone();
    let sends = |call: &Call| call.operation == "SendMessageBatch";
    // The visibility timeout of this test applies.
    let is_early = |call: &Call| call.operation == "ChangeMessageVisibilityBatch";
    let ignored = || (200, json!({"Successful": [], "Failed": []}));
    let sqs = Proxy::answering(move |call| {
        (sends(call) && is_refusing.is_on()).then(failure).or_else(|| is_early(call).then(ignored))
    })
    .await;
    let world = World::with(&[("AWS_ENDPOINT_URL_SQS", sqs.address()), ("RETRY_SCHEDULE", "0,0")]).await;
    let _sqs = sqs.before(world.stack.sqs());
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant.id, "j")).await;
    for (queue, attempts) in [("job-events", 1), ("deliveries", 2)] {
        refuses.on();
        world.come_back_after(0).await;
        assert_eq!(world.poll(queue).await, 1);
        let delivery = world.only_logged(&tenant.id).await;
        assert_eq!((delivery.status, delivery.attempts), (Status::Pending, attempts));
        refuses.off();
        // A message must not be redelivered after it is handled but before it is deleted.
        world.come_back_after(60).await;
        assert_eq!(world.poll(queue).await, 1, "the message was redelivered");
        assert_eq!(receiver.count().await, usize::try_from(attempts).expect("a few"), "and was not posted again");
    }
    assert_eq!(world.poll("deliveries").await, 1);
    let delivery = world.only_logged(&tenant.id).await;
    assert_eq!((delivery.status, delivery.attempts, receiver.count().await), (Status::Delivered, 3, 3));
    assert!(world.drain("deliveries").await.is_empty() && world.drain("job-events").await.is_empty());
}

/// SQS may deliver an event twice in one batch, and a producer may send an event twice within a millisecond.
#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_in_a_batch_does_not_block_the_batch() {
    let world = World::start().await;
    for tenant in ["t", "u"] {
        world.make_origin_quick(tenant, "http://127.0.0.1:9/").await;
    }
    let mut batch = records(["t", "t", "u"].map(|tenant| callback(tenant, "j", "http://127.0.0.1:9/")));
    for record in batch["Records"].as_array_mut().expect("records") {
        record["attributes"]["SentTimestamp"] =
            json!(common::timestamp::Timestamp::now().as_second().to_string() + "000");
    }
    let answer = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(answer["batchItemFailures"], json!([]));
    for tenant in ["t", "u"] {
        let logged = world.log(tenant).await;
        assert_eq!(logged.len(), 1, "{tenant}: {logged:?}");
        assert_eq!((logged[0].status, logged[0].attempts), (Status::Pending, 1), "{tenant}");
    }
}

/// An event that is over a minute old may be a copy. If the log cannot be read, the event is delivered anyway: two
/// deliveries are better than none.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_event_is_delivered_although_the_log_is_unavailable() {
    let world = World::answering(&[], |call| {
        let is_log = call["RequestItems"].get("deliveries").is_some();
        (call.operation == "BatchGetItem" && is_log).then(failure)
    })
    .await;
    let receiver = Receiver::start().await;
    world.make_origin_quick("t", &receiver.url("/")).await;
    let mut batch = records([callback("t", "j", receiver.url("/"))]);
    let sent = common::timestamp::Timestamp::now().as_millisecond() - 120_000;
    batch["Records"][0]["attributes"]["SentTimestamp"] = json!(sent.to_string());
    let answer = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(answer["batchItemFailures"], json!([]));
    assert_eq!(receiver.count().await, 1);
    assert_eq!(world.only_logged("t").await.status, Status::Delivered);
}
