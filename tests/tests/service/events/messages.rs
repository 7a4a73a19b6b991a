//! The contents of an event, and its time.

use std::time::Duration;

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::json;
use tests::{Receiver, World, event, records};

#[tokio::test(flavor = "multi_thread")]
async fn numbers_keep_every_digit() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let result = r#"{"integer":123456789012345678901234567890,"decimal":3.14159265358979323846264338327950288}"#;
    let event = format!(
        r#"{{"event":"job.failed","tenant_id":"{}","job_id":"j","result":{result},"error":[1.0,1e2]}}"#,
        tenant.id
    );
    world.deliver(event).await;
    let received = &receiver.received().await[0];
    let body = String::from_utf8_lossy(&received.body).into_owned();
    assert!(body.contains(&format!(r#""result":{result},"error":[1.0,1e2],"#)), "{body}");
    received.verify("s");
}

/// Like SQS, the queues reject these characters (see `local::queues`), so messages must not contain them.
#[tokio::test(flavor = "multi_thread")]
async fn strings_that_sqs_refuses_are_delivered_and_retried() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let refused = "\u{fffe}\u{ffff}\u{1}\u{8}\u{1f}\0";
    let escaped = r"\ufffe\uffff\u0001\u0008\u001f\u0000";
    for (failures, status) in [(2, Status::Delivered), (3, Status::Failed)] {
        let receiver = Receiver::scripted(&vec![(500, &[] as &[_]); failures]).await;
        let event = format!(
            r#"{{"event":"job.completed","tenant_id":"t","job_id":"{status}{escaped}","result":["{escaped}"],
                "callback_url":"{}","callback_secret":"s{escaped}"}}"#,
            receiver.url("/")
        );
        world.deliver(event).await;
        assert_eq!(world.poll("deliveries").await, 1);
        assert_eq!(world.poll("deliveries").await, 1);
        let received = receiver.received().await;
        assert_eq!(received.len(), 3);
        let logged = world.log("t").await;
        let delivery = logged.iter().find(|delivery| delivery.status == status).expect("a delivery");
        assert_eq!((delivery.job_id.as_str(), delivery.attempts), (format!("{status}{refused}").as_str(), 3));
        for attempt in received {
            assert_eq!(attempt.json()["job_id"], delivery.job_id);
            assert_eq!(attempt.json()["result"], json!([refused]));
            attempt.verify(&format!("s{refused}"));
        }
    }
    assert_eq!(world.left().await, 0);
    assert!(world.dead_letters().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_time_is_when_the_event_entered_its_queue() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let before = Timestamp::now();
    world.enqueue("job-events", event(&tenant.id, "j")).await;
    let after = Timestamp::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    world.poll("job-events").await;
    let received = receiver.received().await.remove(0);
    let time = received.header("x-event-time");
    assert_eq!(time, world.only_logged(&tenant.id).await.created_at.to_string());
    assert!((before..=after).contains(&time.parse().expect("a time")), "{time}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_message_stays_without_delaying_others() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let batch = records(["garbage", &event(&tenant.id, "j").to_string(), r#"{"event":"job.started"}"#]);
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}, {"itemIdentifier": "2"}]}));
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_message_ends_in_the_dead_letter_queue() {
    let world = World::start().await;
    world.come_back_after(0).await;
    world.enqueue("job-events", "garbage").await;
    world.poll_all("job-events").await;
    assert_eq!(world.drain("job-events-dead").await, [json!("garbage")]);
}
