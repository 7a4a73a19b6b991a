//! The signatures of a delivery.

use std::time::Duration;

use common::timestamp::Timestamp;
use serde_json::json;
use standardwebhooks::Webhook;
use tests::{Receiver, World, callback, event};

/// The library's `Webhook::new` decodes the secret from base64.
#[tokio::test(flavor = "multi_thread")]
async fn the_library_verifies_by_the_secrets_text_and_bytes() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let secrets = [
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "c2VjcmV0MQ==",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        "password",
        &"A".repeat(256),
    ];
    for (number, secret) in secrets.iter().enumerate() {
        world.endpoint(&tenant, &receiver.url(&format!("/{number}")), secret).await;
    }
    let mut with_callback = callback(&tenant.id, "callback", receiver.url("/0"));
    with_callback["callback_secret"] = json!(secrets[0]);
    world.make_origin_quick(&tenant.id, &receiver.url("/")).await;
    for event in [event(&tenant.id, "job"), with_callback] {
        world.enqueue("job-events", event).await;
    }
    world.poll("job-events").await;
    let received = receiver.received().await;
    assert_eq!(received.len(), secrets.len() + 1);
    for delivery in received {
        let number: usize = delivery.path[1..].parse().expect("a number");
        let webhook = Webhook::new(secrets[number]).expect("the library accepts it");
        webhook.verify(&delivery.body, &delivery.headers).expect("verified in the obvious way");
        delivery.verify(secrets[number]);
        assert_eq!(delivery.header("webhook-signature").split(' ').count(), 2);
    }
}

/// New endpoints cannot use such a secret. For endpoints that already do, the bytes of the secret are the key.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_decodes_to_an_empty_key_signs_with_its_text() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.set("webhook-endpoints", ("signing_secret", "s"), json!({"signing_secret": "whsec_"})).await;
    let mut with_callback = callback(&tenant.id, "callback", receiver.url("/"));
    with_callback["callback_secret"] = json!("whsec_");
    world.make_origin_quick(&tenant.id, &receiver.url("/")).await;
    for event in [event(&tenant.id, "job"), with_callback] {
        world.enqueue("job-events", event).await;
    }
    world.poll("job-events").await;
    let received = receiver.received().await;
    assert_eq!(received.len(), 2);
    for delivery in received {
        delivery.verify("whsec_");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reserialized_body_has_the_same_signature() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let spaced = "{ \"text\" : \"a \\\"b\\\"  \\\\\" ,\n\t\"list\": [ 1.10, { } ] }";
    let terse = r#"{"text":"a \"b\"  \\","list":[1.10,{}]}"#;
    let event = format!(
        r#"{{ "event": "job.failed", "tenant_id": "{}", "job_id": "j", "nonce": {spaced}, "workflow": {spaced},
            "deployment_id": {spaced}, "status": {spaced}, "result": {spaced}, "error": {spaced},
            "mapped_stack": {spaced} }}"#,
        tenant.id
    );
    world.deliver(event).await;
    let received = &receiver.received().await[0];
    let body = format!(
        r#"{{"event":"job.failed","job_id":"j","nonce":{terse},"workflow":{terse},"deployment_id":{terse},"status":{terse},"result":{terse},"error":{terse},"mapped_stack":{terse}}}"#
    );
    assert_eq!(received.body, body);
    received.verify("s");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_its_own_timestamp_and_the_event_its_time() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant.id, "j")).await;
    let mut attempted = Vec::new();
    for queue in ["job-events", "deliveries", "deliveries"] {
        if attempted.len() == 2 {
            let delivery = world.only_logged(&tenant.id).await.id;
            world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery})).await.ok();
        }
        // The timestamp has whole seconds.
        tokio::time::sleep(Duration::from_millis(1001)).await;
        let before = Timestamp::now().as_second();
        assert_eq!(world.poll(queue).await, 1);
        attempted.push(before..=Timestamp::now().as_second());
    }
    let received = receiver.received().await;
    assert_eq!(received.len(), 3);
    for (attempt, when) in received.iter().zip(attempted) {
        let timestamp = attempt.header("webhook-timestamp").parse().expect("seconds");
        assert!(when.contains(&timestamp), "{timestamp} in {when:?}");
        let event_time = attempt.header("x-event-time");
        assert_eq!(event_time, received[0].header("x-event-time"));
        assert!(timestamp > event_time.parse::<Timestamp>().expect("a time").as_second());
    }
}
