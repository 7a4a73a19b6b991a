//! The destinations of an event.

use common::webhooks::delivery::{Delivery, Status};
use serde_json::json;
use tests::{Receiver, World, event};

#[tokio::test(flavor = "multi_thread")]
async fn every_active_endpoint_gets_the_event_signed() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/one?a=b"), "secret one").await;
    world.endpoint(&tenant, &receiver.url("/two"), "whsec_two").await;
    let inactive = world.endpoint(&tenant, &receiver.url("/inactive"), "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": inactive, "active": false})).await.ok();
    world.endpoint(&other, &receiver.url("/other"), "s").await;
    let mut event = event(&tenant.id, "job-1");
    event["status"] = json!("completed");
    event["workflow"] = json!("import");
    world.deliver(event).await;

    let mut received = receiver.received().await;
    received.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(received.iter().map(|r| r.path.as_str()).collect::<Vec<_>>(), ["/one?a=b", "/two"]);
    received[0].verify("secret one");
    received[1].verify("whsec_two");
    for one in &received {
        assert_eq!(
            one.body,
            r#"{"event":"job.completed","job_id":"job-1","nonce":null,"workflow":"import","deployment_id":null,"status":"completed","result":null,"error":null,"mapped_stack":null}"#
        );
        assert_eq!(one.header("content-type"), "application/json");
        assert_eq!(one.header("x-event-type"), "job.completed");
        assert!(one.header("user-agent").starts_with("fanfare/"));
        let timestamp: i64 = one.header("webhook-timestamp").parse().expect("seconds");
        assert!((common::timestamp::Timestamp::now().as_second() - timestamp).abs() < 60);
    }
    assert_ne!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert!(world.drain("job-events").await.is_empty() && world.drain("deliveries").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_gets_only_the_events_of_its_filter() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    for (path, events) in [
        ("/all", json!(null)),
        ("/both", json!(["job.completed", "job.failed"])),
        ("/completed", json!(["job.completed"])),
        ("/failed", json!(["job.failed"])),
    ] {
        let fields = json!({"url": receiver.url(path), "signing_secret": "correct-horse-battery", "events": events});
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    let mut failed = event(&tenant.id, "j");
    failed["event"] = json!("job.failed");
    for event in [event(&tenant.id, "j"), failed] {
        world.enqueue("job-events", event).await;
    }
    world.poll("job-events").await;
    world.drain_late().await;
    let received = receiver.received().await;
    let got = |name: &str| {
        let of_event = received.iter().filter(|delivery| delivery.header("x-event-type") == name);
        let mut paths: Vec<_> = of_event.map(|delivery| delivery.path.as_str()).collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(got("job.completed"), ["/all", "/both", "/completed"]);
    assert_eq!(got("job.failed"), ["/all", "/both", "/failed"]);
    assert_eq!(world.log(&tenant.id).await.len(), 6, "unwanted events are not logged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_event_filter_does_not_affect_deliveries_in_the_log() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "events": ["job.failed"]})).await.ok();
    world.poll("deliveries").await;
    assert_eq!(receiver.count().await, 2);
    let delivery = world.only_logged(&tenant.id).await;
    assert_eq!(delivery.status, Status::Delivered);
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery.id})).await.ok();
    world.poll("deliveries").await;
    assert_eq!(receiver.count().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_overrides_callbacks_and_callbacks_override_endpoints() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/endpoint"), "s").await;
    for (job, callback) in [
        ("callback", json!({"callback_url": receiver.url("/callback"), "callback_secret": "c"})),
        ("url-only", json!({"callback_url": receiver.url("/callback"), "callback_secret": null})),
        ("secret-only", json!({"callback_secret": "c"})),
        ("skipped", json!({"callback_url": receiver.url("/callback"), "callback_secret": "c", "skip_callbacks": true})),
    ] {
        let mut event = event(&tenant.id, job);
        event.as_object_mut().expect("fields").extend(callback.as_object().expect("fields").clone());
        world.enqueue("job-events", event).await;
    }
    assert_eq!(world.poll("job-events").await, 4);
    world.drain_late().await;
    let mut got: Vec<_> =
        receiver.received().await.iter().map(|r| (r.json()["job_id"].clone(), r.path.clone())).collect();
    got.sort_by_key(|(job, _)| job.to_string());
    assert_eq!(
        got,
        [("callback", "/callback"), ("secret-only", "/endpoint"), ("url-only", "/endpoint")]
            .map(|(job, path)| (json!(job), path.to_owned()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_ends_without_its_endpoint_or_is_held_if_inactive() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let deleted = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let inactive = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": deleted})).await.ok();
    world.rpc(&tenant.key, "webhooks/update", json!({"id": inactive, "active": false})).await.ok();
    assert_eq!(world.poll("deliveries").await, 2);
    assert_eq!(receiver.received().await.len(), 2);
    assert!(world.drain("deliveries").await.is_empty() && world.drain("deliveries-dead").await.is_empty());
    let logged = world.log(&tenant.id).await;
    let statuses = [&deleted, &inactive].map(|endpoint| {
        let of = |delivery: &&Delivery| delivery.webhook_endpoint_id.is_some_and(|id| id.to_string() == **endpoint);
        logged.iter().find(of).map(|delivery| (delivery.status, delivery.attempts))
    });
    assert_eq!((logged.len(), statuses), (2, [Some((Status::Ended, 1)), Some((Status::Held, 1))]));
}
