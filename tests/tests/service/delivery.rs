//! From a job event to signed deliveries.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use common::{
    timestamp::Timestamp,
    webhooks::delivery::{Status, Trigger},
};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tests::{Interceptor, Received, Receiver, Tenant, World, world::due_message};

pub(crate) fn event(tenant: &Tenant, job: &str) -> Value {
    json!({"event": "job.completed", "tenant_id": tenant.id, "job_id": job})
}

/// By the bytes of the secret.
pub(crate) fn verify(received: &Received, secret: &str) {
    let webhook = Webhook::from_bytes(secret.as_bytes().to_vec()).expect("a key");
    webhook.verify(&received.body, &received.headers).expect("Standard Webhooks' own code verifies it");
    assert_eq!(
        received.header("x-webhook-signature"),
        common::webhooks::target::body_signature(
            &common::webhooks::target::SigningSecret::parse(secret).expect("a secret"),
            &received.body
        )
    );
}

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
    let mut event = event(&tenant, "job-1");
    event["status"] = json!("completed");
    event["workflow"] = json!("import");
    world.enqueue("job-events", event.to_string()).await;
    assert_eq!(world.stack.poll("job-events").await.expect("a step"), 1);

    let mut received = receiver.received().await;
    received.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(received.iter().map(|r| r.path.as_str()).collect::<Vec<_>>(), ["/one?a=b", "/two"]);
    verify(&received[0], "secret one");
    verify(&received[1], "whsec_two");
    for one in &received {
        assert_eq!(
            one.body,
            r#"{"event":"job.completed","job_id":"job-1","nonce":null,"workflow":"import","deployment_id":null,"status":"completed","result":null,"error":null,"mapped_stack":null}"#
        );
        assert_eq!(one.header("content-type"), "application/json");
        assert_eq!(one.header("x-event-type"), "job.completed");
        assert!(one.header("user-agent").starts_with("webhooks-deliver/"));
        let timestamp: i64 = one.header("webhook-timestamp").parse().expect("seconds");
        assert!((common::timestamp::Timestamp::now().as_second() - timestamp).abs() < 60);
    }
    assert_ne!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert!(world.drain("job-events").await.is_empty() && world.drain("deliveries").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_gets_only_the_events_that_it_wants() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    for (path, events) in [
        ("/all", json!(null)),
        ("/both", json!(["job.completed", "job.failed"])),
        ("/completed", json!(["job.completed"])),
        ("/failed", json!(["job.failed"])),
    ] {
        let fields = json!({"url": receiver.url(path), "signing_secret": "s", "events": events});
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    let mut failed = event(&tenant, "j");
    failed["event"] = json!("job.failed");
    for event in [event(&tenant, "j"), failed] {
        world.enqueue("job-events", event.to_string()).await;
    }
    world.stack.poll("job-events").await.expect("a step");
    let received = receiver.received().await;
    let got = |name: &str| {
        let of_event = received.iter().filter(|delivery| delivery.header("x-event-type") == name);
        let mut paths: Vec<_> = of_event.map(|delivery| delivery.path.as_str()).collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(got("job.completed"), ["/all", "/both", "/completed"]);
    assert_eq!(got("job.failed"), ["/all", "/both", "/failed"]);
    assert_eq!(world.log(&tenant.id).await.len(), 6, "what is not wanted is not logged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_exists_is_made_though_its_event_is_no_longer_wanted() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "events": ["job.failed"]})).await.ok();
    world.stack.poll("deliveries").await.expect("a step");
    assert_eq!(receiver.count().await, 2);
    let delivery = world.only_logged(&tenant.id).await;
    assert_eq!(delivery.status, Status::Delivered);
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery.id})).await.ok();
    world.stack.poll("deliveries").await.expect("a step");
    assert_eq!(receiver.count().await, 3);
}

/// `Webhook::new` of the library takes the secret as base64.
#[tokio::test(flavor = "multi_thread")]
async fn the_library_verifies_the_obvious_way_and_by_the_secrets_bytes() {
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
    let callback = json!({"callback_url": receiver.url("/0"), "callback_secret": secrets[0]});
    let mut with_callback = event(&tenant, "callback");
    with_callback.as_object_mut().expect("fields").extend(callback.as_object().expect("fields").clone());
    for event in [event(&tenant, "job"), with_callback] {
        world.enqueue("job-events", event.to_string()).await;
    }
    world.stack.poll("job-events").await.expect("a step");
    let received = receiver.received().await;
    assert_eq!(received.len(), secrets.len() + 1);
    for delivery in received {
        let number: usize = delivery.path[1..].parse().expect("a number");
        let webhook = Webhook::new(secrets[number]).expect("the library takes it");
        webhook.verify(&delivery.body, &delivery.headers).expect("verified the obvious way");
        verify(&delivery, secrets[number]);
        assert_eq!(delivery.header("webhook-signature").split(' ').count(), 2);
    }
}

/// An endpoint can no longer be given such a secret. Its text is a key all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_decodes_to_an_empty_key_signs_where_it_is_stored_or_comes_with_a_job() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let items = world.items("webhook-endpoints").await;
    let mut endpoint = items.into_iter().find(|item| item.contains_key("signing_secret")).expect("the endpoint");
    endpoint.insert("signing_secret".to_owned(), AttributeValue::S("whsec_".to_owned()));
    let put = world.stack.dynamodb_client().put_item().table_name("webhook-endpoints").set_item(Some(endpoint));
    put.send().await.expect("it is stored");
    let mut with_callback = event(&tenant, "callback");
    with_callback["callback_url"] = json!(receiver.url("/"));
    with_callback["callback_secret"] = json!("whsec_");
    for event in [event(&tenant, "job"), with_callback] {
        world.enqueue("job-events", event.to_string()).await;
    }
    world.stack.poll("job-events").await.expect("a step");
    let received = receiver.received().await;
    assert_eq!(received.len(), 2);
    for delivery in received {
        verify(&delivery, "whsec_");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_goes_before_the_endpoints_and_skipping_before_all() {
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
        let mut event = event(&tenant, job);
        event.as_object_mut().expect("fields").extend(callback.as_object().expect("fields").clone());
        world.enqueue("job-events", event.to_string()).await;
    }
    assert_eq!(world.stack.poll("job-events").await.expect("a step"), 4);
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
    world.enqueue("job-events", event).await;
    world.stack.poll("job-events").await.expect("a step");
    let received = &receiver.received().await[0];
    let body = String::from_utf8_lossy(&received.body).into_owned();
    assert!(body.contains(&format!(r#""result":{result},"error":[1.0,1e2],"#)), "{body}");
    verify(received, "s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_signs_the_body_that_it_parsed_gets_the_same_signature() {
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
    world.enqueue("job-events", event).await;
    world.stack.poll("job-events").await.expect("a step");
    let received = &receiver.received().await[0];
    let body = format!(
        r#"{{"event":"job.failed","job_id":"j","nonce":{terse},"workflow":{terse},"deployment_id":{terse},"status":{terse},"result":{terse},"error":{terse},"mapped_stack":{terse}}}"#
    );
    assert_eq!(received.body, body);
    verify(received, "s");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_time_is_when_the_event_entered_its_queue() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let before = Timestamp::now();
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    let after = Timestamp::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    world.stack.poll("job-events").await.expect("a step");
    let received = receiver.received().await.remove(0);
    let time = received.header("x-event-time");
    assert_eq!(time, world.only_logged(&tenant.id).await.created_at.to_string());
    assert!((before..=after).contains(&time.parse().expect("a time")), "{time}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timestamp_is_of_the_attempt_and_the_event_time_of_the_event() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    let mut attempted = Vec::new();
    for queue in ["job-events", "deliveries", "deliveries"] {
        if attempted.len() == 2 {
            let delivery = world.only_logged(&tenant.id).await.id;
            world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery})).await.ok();
        }
        // The timestamp has whole seconds.
        tokio::time::sleep(Duration::from_millis(1001)).await;
        let before = Timestamp::now().as_second();
        assert_eq!(world.stack.poll(queue).await.expect("a step"), 1);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_has_the_same_webhook_id() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for job in ["same", "same", "other"] {
        world.enqueue("job-events", event(&tenant, job).to_string()).await;
    }
    world.stack.poll("job-events").await.expect("a step");
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
async fn a_failed_attempt_is_repeated_from_the_deliveries_queue_until_it_succeeds() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0,0")]).await;
    let tenant = world.tenant("acme").await;
    let failing = Receiver::scripted(&[(500, &[]), (302, &[("location", "/elsewhere")])]).await;
    let healthy = Receiver::start().await;
    world.endpoint(&tenant, &failing.url("/"), "s").await;
    world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    assert_eq!(world.stack.poll("job-events").await.expect("a step"), 1);
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 0);
    let received = failing.received().await;
    assert_eq!(received.len(), 3);
    for attempt in &received {
        assert_eq!(attempt.path, "/");
        assert_eq!(attempt.header("webhook-id"), received[0].header("webhook-id"));
        assert_eq!(attempt.header("x-event-time"), received[0].header("x-event-time"));
        assert_eq!(attempt.body, received[0].body);
        verify(attempt, "s");
    }
    assert_eq!(healthy.received().await.len(), 1);
    let mut logged = world.log(&tenant.id).await;
    logged.sort_by_key(|delivery| delivery.attempts);
    let logged: Vec<_> = logged.iter().map(|delivery| (delivery.status, delivery.attempts)).collect();
    assert_eq!(logged, [(Status::Delivered, 1), (Status::Delivered, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_attempt_the_delivery_is_failed_in_the_log_and_can_be_sent_again() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (503, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    world.stack.poll("deliveries").await.expect("a step");
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 0);
    let failed = world.only_logged(&tenant.id).await;
    assert_eq!((failed.status, failed.attempts), (Status::Failed, 2));
    let last = failed.last_attempt.as_ref().expect("an attempt");
    assert_eq!((&*last.outcome, last.status_code), ("status_5xx", Some(503)));
    assert_eq!(failed.webhook_endpoint_id.expect("an endpoint").to_string(), id);
    assert_eq!(failed.job_id, "j");

    let (log, owner, now) = (world.delivery_log(), tenant.id.parse().expect("an id"), Timestamp::now());
    let again = log.resend(&owner, &failed.id, Trigger::Resend, now, None, now).await.expect("it is resent");
    world.enqueue("deliveries", due_message(&tenant.id, &again).to_string()).await;
    world.stack.poll("deliveries").await.expect("a step");
    let received = receiver.received().await;
    assert_eq!(received.len(), 3);
    assert_eq!(received[2].header("webhook-id"), received[0].header("webhook-id"));
    let delivered = world.only_logged(&tenant.id).await;
    assert_eq!((delivered.status, delivered.attempts), (Status::Delivered, 3));
    assert!(world.drain("deliveries-dead").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_a_key_and_no_body_url_or_secret() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[])]).await;
    let event = json!({
        "event": "job.completed", "tenant_id": "t", "job_id": "j", "result": "canary",
        "callback_url": receiver.url("/canary"), "callback_secret": "canary",
    });
    world.enqueue("job-events", event.to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    for attempt in [2, 3] {
        let messages = world.drain("deliveries").await;
        let delivery = world.only_logged("t").await;
        assert_eq!(
            messages,
            [json!({"tenant_id": "t", "delivery_id": delivery.id.to_string(), "attempt": attempt})],
            "nothing else is in a message"
        );
        world.enqueue("deliveries", messages[0].to_string()).await;
        world.stack.poll("deliveries").await.expect("a step");
    }
    assert_eq!(world.only_logged("t").await.status, Status::Failed);
    assert!(world.drain("deliveries").await.is_empty() && world.drain("deliveries-dead").await.is_empty());
}

/// The queues refuse these characters as SQS does (see `queues.rs`), so none of them may get into a message.
#[tokio::test(flavor = "multi_thread")]
async fn strings_that_sqs_refuses_are_delivered_and_retried_like_any_others() {
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
        world.enqueue("job-events", event).await;
        assert_eq!(world.stack.poll("job-events").await.expect("a step"), 1);
        assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
        assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
        let received = receiver.received().await;
        assert_eq!(received.len(), 3);
        let logged = world.log("t").await;
        let delivery = logged.iter().find(|delivery| delivery.status == status).expect("a delivery");
        assert_eq!((delivery.job_id.as_str(), delivery.attempts), (format!("{status}{refused}").as_str(), 3));
        for attempt in received {
            assert_eq!(attempt.json()["job_id"], delivery.job_id);
            assert_eq!(attempt.json()["result"], json!([refused]));
            verify(&attempt, &format!("s{refused}"));
        }
    }
    for queue in ["job-events", "deliveries", "deliveries-dead"] {
        assert!(world.drain(queue).await.is_empty(), "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_uses_the_url_and_secret_that_the_endpoint_has_then() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/old"), "old").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    let change = json!({"id": id, "url": receiver.url("/new"), "signing_secret": "new"});
    world.rpc(&tenant.key, "webhooks/update", change).await.ok();
    world.stack.poll("deliveries").await.expect("a step");
    let received = receiver.received().await;
    assert_eq!(received[1].path, "/new");
    verify(&received[1], "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_ends_when_its_endpoint_is_deleted_or_inactive() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let deleted = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let inactive = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": deleted})).await.ok();
    world.rpc(&tenant.key, "webhooks/update", json!({"id": inactive, "active": false})).await.ok();
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 2);
    assert_eq!(receiver.received().await.len(), 2);
    assert!(world.drain("deliveries").await.is_empty() && world.drain("deliveries-dead").await.is_empty());
    let logged = world.log(&tenant.id).await;
    assert_eq!(logged.len(), 2);
    assert!(logged.iter().all(|delivery| (delivery.status, delivery.attempts) == (Status::Ended, 1)), "{logged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_early_is_sent_on_and_not_attempted() {
    let world = World::with(&[("RETRY_SCHEDULE", "600")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 0);
    assert_eq!(delayed(&world).await, 1);
    let delivery = world.only_logged(&tenant.id).await;
    let message = due_message(&tenant.id, &delivery).to_string();
    world.enqueue("deliveries", message.clone()).await;
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
    assert_eq!((receiver.count().await, delayed(&world).await), (1, 2));
    world.make_due(&tenant.id, &delivery, Timestamp::now()).await;
    // The second of two is stale.
    for _ in 0..2 {
        world.enqueue("deliveries", message.clone()).await;
        assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
    }
    assert_eq!(receiver.count().await, 2);
    assert!(world.drain("deliveries").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_with_its_double_is_one_attempt() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    let delivery = world.only_logged(&tenant.id).await;
    world.enqueue("deliveries", due_message(&tenant.id, &delivery).to_string()).await;
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 2);
    assert_eq!(receiver.count().await, 2);
    assert!(world.drain("deliveries").await.is_empty());
}

/// A proxy before the queues that refuses to send messages while the switch is on.
async fn refusing(is_refusing: &Arc<AtomicBool>) -> Interceptor {
    let is_refusing = Arc::clone(is_refusing);
    Interceptor::start(move |operation, _| {
        (operation == "SendMessageBatch" && is_refusing.load(Ordering::Relaxed)).then(|| (500, json!({})))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_again_because_its_message_was_not_sent_sends_it_and_posts_nothing() {
    let is_refusing = Arc::new(AtomicBool::new(true));
    let sqs = refusing(&is_refusing).await;
    let world = World::with(&[("AWS_ENDPOINT_URL_SQS", sqs.address()), ("RETRY_SCHEDULE", "0,0")]).await;
    sqs.stand_before(world.stack.sqs());
    for queue in ["job-events", "deliveries"] {
        let attributes = world.stack.sqs_client().set_queue_attributes().queue_url(&world.stack.queues()[queue]);
        let visibility = attributes.attributes(aws_sdk_sqs::types::QueueAttributeName::VisibilityTimeout, "0");
        visibility.send().await.expect("it is set");
    }
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    for (queue, attempts) in [("job-events", 1), ("deliveries", 2)] {
        is_refusing.store(true, Ordering::Relaxed);
        assert_eq!(world.stack.poll(queue).await.expect("a step"), 1);
        let delivery = world.only_logged(&tenant.id).await;
        assert_eq!((delivery.status, delivery.attempts), (Status::Pending, attempts));
        is_refusing.store(false, Ordering::Relaxed);
        assert_eq!(world.stack.poll(queue).await.expect("a step"), 1, "it came back");
        assert_eq!(receiver.count().await, usize::try_from(attempts).expect("a few"), "and was not posted again");
    }
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
    let delivery = world.only_logged(&tenant.id).await;
    assert_eq!((delivery.status, delivery.attempts, receiver.count().await), (Status::Delivered, 3, 3));
    assert!(world.drain("deliveries").await.is_empty() && world.drain("job-events").await.is_empty());
}

/// The number of deliveries waiting for their time.
async fn delayed(world: &World) -> usize {
    let name = aws_sdk_sqs::types::QueueAttributeName::ApproximateNumberOfMessagesDelayed;
    let attributes = world.stack.sqs_client().get_queue_attributes().queue_url(&world.stack.queues()["deliveries"]);
    let attributes = attributes.attribute_names(name.clone()).send().await.expect("the queue answers");
    attributes.attributes.expect("attributes")[&name].parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_message_stays_and_holds_nothing_up() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let record = |id: &str, body: &str| {
        json!({
            "messageId": id, "receiptHandle": id, "body": body, "attributes": {}, "messageAttributes": {},
            "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:job-events",
        })
    };
    let batch = json!({"Records": [
        record("a", "garbage"), record("b", &event(&tenant, "j").to_string()), record("c", r#"{"event":"job.started"}"#),
    ]});
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "c"}]}));
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_message_ends_in_the_dead_letter_queue() {
    let world = World::start().await;
    let (sqs, queue) = (world.stack.sqs_client(), world.stack.queues()["job-events"].clone());
    let instant = aws_sdk_sqs::types::QueueAttributeName::VisibilityTimeout;
    sqs.set_queue_attributes().queue_url(queue).attributes(instant, "0").send().await.expect("it is set");
    world.enqueue("job-events", "garbage").await;
    while world.stack.poll("job-events").await.expect("a step") > 0 {}
    assert_eq!(world.drain("job-events-dead").await, [json!("garbage")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_receivers_have_their_time_and_delay_nobody() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1")]).await;
    let tenant = world.tenant("acme").await;
    let hanging = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    // More than are signed at a time: none of them may hold up another.
    for number in 0..12 {
        let url = format!("http://{}/{number}", hanging.local_addr().expect("an address"));
        world.endpoint(&tenant, &url, "s").await;
    }
    let healthy = Receiver::start().await;
    world.endpoint(&tenant, &healthy.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    let started = tokio::time::Instant::now();
    world.stack.poll("job-events").await.expect("a step");
    assert!(started.elapsed() >= Duration::from_secs(1), "the hanging receivers had their second");
    assert_eq!(delayed(&world).await, 12, "and get another attempt");
    assert!(
        healthy.received().await[0].at - started < Duration::from_millis(900),
        "the healthy one did not wait for them"
    );
}
