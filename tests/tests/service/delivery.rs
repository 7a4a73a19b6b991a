//! From a job event to signed deliveries.

use std::time::Duration;

use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tests::{Received, Receiver, Tenant, World};

pub(crate) fn event(tenant: &Tenant, job: &str) -> Value {
    json!({"event": "job.completed", "tenant_id": tenant.id, "job_id": job})
}

fn verify(received: &Received, secret: &str) {
    let webhook = Webhook::from_bytes(secret.as_bytes().to_vec()).expect("a key");
    webhook.verify(&received.body, &received.headers).expect("Standard Webhooks' own code verifies it");
    assert_eq!(
        received.header("x-webhook-signature"),
        common::webhooks::signing::body_signature(
            &common::webhooks::signing_secret::SigningSecret::parse(secret).expect("a secret"),
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
        assert!((jiff::Timestamp::now().as_second() - timestamp).abs() < 60);
    }
    assert_ne!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert!(world.drain("job-events").await.is_empty() && world.drain("deliveries").await.is_empty());
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
        assert_eq!(attempt.body, received[0].body);
        verify(attempt, "s");
    }
    assert_eq!(healthy.received().await.len(), 1);
    assert!(world.drain("deliveries-dead").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_attempt_the_delivery_is_in_the_dead_letter_queue_and_can_be_put_back() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (503, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    world.stack.poll("deliveries").await.expect("a step");
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 0);
    let dead = world.drain("deliveries-dead").await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0]["dead"]["reason"], "status_5xx");
    assert_eq!(dead[0]["dead"]["attempts"], 2);
    assert_eq!(dead[0]["endpoint_id"], json!(id));
    assert_eq!(dead[0]["body"]["job_id"], "j");
    world.enqueue("deliveries", dead[0].to_string()).await;
    world.stack.poll("deliveries").await.expect("a step");
    let received = receiver.received().await;
    assert_eq!(received.len(), 3);
    assert_eq!(received[2].header("webhook-id"), received[0].header("webhook-id"));
    assert!(world.drain("deliveries-dead").await.is_empty());
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_not_due_is_sent_on_and_not_attempted() {
    let world = World::with(&[("RETRY_SCHEDULE", "7200")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.enqueue("job-events", event(&tenant, "j").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 0);
    assert_eq!(delayed(&world).await, 1);
    let message = |not_before: i64| {
        json!({
        "tenant_id": tenant.id, "event": "job.completed", "webhook_id": "msg_x", "callback_url": receiver.url("/hop"),
        "callback_secret": "s", "attempts": 1, "not_before": not_before, "body": {"a": 1},
    }).to_string()
    };
    let now = jiff::Timestamp::now().as_millisecond();
    world.enqueue("deliveries", message(now + 3_600_000)).await;
    world.enqueue("deliveries", message(now)).await;
    assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 2);
    let received = receiver.received().await;
    assert_eq!(received.iter().filter(|r| r.path == "/hop").count(), 1);
    assert!(world.drain("deliveries").await.is_empty());
    assert_eq!(delayed(&world).await, 2);
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
