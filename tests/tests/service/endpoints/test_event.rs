//! `POST /v1/webhooks/test`, from the request to the receiver and the log.

use std::{collections::BTreeSet, time::Duration};

use common::{
    timestamp::Timestamp,
    webhooks::{delivery::Status, event::EventName},
};
use futures::future::join_all;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tests::{Receiver, Tenant, World, event, size};

async fn test(world: &World, tenant: &Tenant, endpoint: &str) -> String {
    let answer = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await;
    assert_eq!((&answer.ok()["success"], &answer.ok()["message"]), (&json!(true), &json!("Test event will be sent")));
    answer.ok()["delivery_id"].as_str().expect("an id").to_owned()
}

async fn get(world: &World, tenant: &Tenant, delivery: &str) -> Value {
    world.rpc(&tenant.key, "deliveries/get", json!({"delivery_id": delivery})).await.ok().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_event_goes_through_the_whole_path() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let before = Timestamp::now();
    let delivery = test(&world, &tenant, &endpoint).await;
    let after = Timestamp::now();
    let pending = get(&world, &tenant, &delivery).await;
    assert_eq!((&pending["delivery"]["status"], &pending["delivery"]["attempts"]), (&json!("pending"), &json!(0)));

    assert_eq!(world.poll("deliveries").await, 1);

    let received = receiver.received().await;
    let nine = r#"{"event":"webhook.test","job_id":"test","nonce":null,"workflow":null,"deployment_id":null,"status":null,"result":null,"error":null,"mapped_stack":null}"#;
    assert_eq!(received[0].body, nine);
    assert_eq!((received[0].path.as_str(), received[0].header("x-event-type")), ("/hook", "webhook.test"));
    let time: Timestamp = received[0].header("x-event-time").parse().expect("a time");
    assert!((before..=after).contains(&time), "{time}");
    let verifier = Webhook::from_bytes(b"s".to_vec()).expect("a key");
    verifier.verify(&received[0].body, &received[0].headers).expect("it is signed with the endpoint's secret");

    let logged = get(&world, &tenant, &delivery).await;
    assert_eq!(logged["payload"], nine);
    let test = &logged["delivery"];
    assert_eq!(test["webhook_id"], received[0].header("webhook-id"));
    assert_eq!(
        (&test["event"], &test["job_id"], &test["status"]),
        (&json!("webhook.test"), &json!("test"), &json!("delivered"))
    );
    assert_eq!((&test["webhook_endpoint_id"], &test["last_attempt"]["trigger"]), (&json!(endpoint), &json!("test")));
    let listed = world.rpc(&tenant.key, "deliveries/list", json!({"event": "webhook.test"})).await;
    assert_eq!(&listed.ok()["deliveries"], &json!([test]));
    let others = world.rpc(&tenant.key, "deliveries/list", json!({"event": "job.completed"})).await;
    assert_eq!(others.ok()["deliveries"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_of_a_job_event_counts_as_a_test() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let emails = world.mails().await.len();
    for (count, event) in ["job.failed", "job.completed"].into_iter().enumerate() {
        let answer = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint, "event": event})).await;
        let delivery = answer.ok()["delivery_id"].as_str().expect("an id");
        assert_eq!(world.poll("deliveries").await, 1);
        let received = receiver.received().await.remove(count);
        received.verify("s");
        assert_eq!((received.header("x-event-type"), &received.json()["event"]), (event, &json!(event)));
        let members: Vec<_> = received.json().as_object().expect("members").keys().cloned().collect();
        assert_eq!((members.len(), &received.json()["job_id"]), (9, &json!("test")));
        let logged = get(&world, &tenant, delivery).await;
        assert_eq!(logged["payload"].as_str().map(str::as_bytes), Some(&*received.body));
        let test = &logged["delivery"];
        assert_eq!(
            (&test["event"], &test["status"], &test["attempts"], &test["last_attempt"]["trigger"]),
            (&json!("webhook.test"), &json!("failed"), &json!(1), &json!("test"))
        );
    }
    world.sweep(Timestamp::now().after(Duration::from_mins(2))).await;
    assert_eq!(world.mails().await.len(), emails, "no email about a failed job or a failing endpoint");
    assert_eq!(world.only_endpoint(&tenant).await.get("failing_since"), None);
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({})).await;
    assert_eq!(stats.ok()["total"]["failed"], 0);
    let unknown = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint, "event": "job.done"})).await;
    assert_eq!(unknown.issues(), [("event", "invalid_format")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_endpoint_receives_a_sample_under_its_own_name() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let endpoint = &created.ok()["webhook_endpoint_id"];
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint, "event": "job.failed"})).await.ok();
    world.poll("deliveries").await;
    let received = world.rpc(&tenant.key, "deliveries/receive", json!({"webhook_endpoint_id": endpoint})).await;
    let received = &received.ok()["deliveries"][0];
    assert_eq!(
        (&received["event"], &received["headers"]["x-event-type"]),
        (&json!("job.failed"), &json!("job.failed"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_test_is_a_separate_delivery() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for _ in 0..3 {
        test(&world, &tenant, &endpoint).await;
    }
    world.poll_all("deliveries").await;
    let received = receiver.received().await;
    let ids: BTreeSet<_> = received.iter().map(|one| one.header("webhook-id").to_owned()).collect();
    assert_eq!((received.len(), ids.len()), (3, 3));
    // The messages are redelivered, as after a crash, but nothing is posted twice.
    for test in world.log(&tenant.id).await {
        let message = json!({"tenant_id": tenant.id, "delivery_id": test.id, "attempt": 1});
        world.enqueue("deliveries", message).await;
    }
    world.poll_all("deliveries").await;
    assert_eq!(receiver.count().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inactive_endpoint_gets_tests_and_nothing_else() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": false})).await.ok();
    world.deliver(event(&tenant.id, "job")).await;
    test(&world, &tenant, &endpoint).await;
    world.poll("deliveries").await;
    let received = receiver.received().await;
    assert_eq!(received.iter().map(|one| one.header("x-event-type")).collect::<Vec<_>>(), ["webhook.test"]);
    let logged: Vec<_> = world.log(&tenant.id).await.iter().map(|one| (one.event, one.status)).collect();
    assert_eq!(logged, [(EventName::Test, Status::Delivered), (EventName::Completed, Status::Held)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_is_sent_regardless_of_the_endpoints_filter() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for event in ["job.completed", "job.failed"] {
        world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "events": [event]})).await.ok();
        test(&world, &tenant, &endpoint).await;
        world.poll("deliveries").await;
    }
    let received = receiver.received().await;
    assert_eq!(received.iter().map(|one| one.header("x-event-type")).collect::<Vec<_>>(), ["webhook.test"; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_test_is_not_retried_and_its_resend_is_one_attempt() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (503, &[("retry-after", "1")])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let delivery = test(&world, &tenant, &endpoint).await;
    for (attempts, code, trigger) in [(1, 500, "test"), (2, 503, "resend")] {
        assert_eq!(world.poll("deliveries").await, 1);
        let logged = get(&world, &tenant, &delivery).await;
        let test = &logged["delivery"];
        assert_eq!((&test["status"], &test["attempts"]), (&json!("failed"), &json!(attempts)));
        let last = &test["last_attempt"];
        assert_eq!((&last["status_code"], &last["trigger"]), (&json!(code), &json!(trigger)));
        assert!(world.drain("deliveries").await.is_empty());
        world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery})).await.ok();
    }
    assert_eq!(world.poll("deliveries").await, 1);
    assert_eq!(get(&world, &tenant, &delivery).await["delivery"]["status"], "delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_of_many_concurrent_tests_are_sent() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    let fields = json!({"id": endpoint});
    let answers = join_all((0..16).map(|_| world.rpc(&tenant.key, "webhooks/test", fields.clone()))).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((made.len(), refused.len()), (10, 6));
    for answer in refused {
        assert_eq!(answer.error(), (429, "TOO_MANY_REQUESTS", ""));
        let wait: u64 = answer.headers["retry-after"].to_str().expect("a string").parse().expect("seconds");
        assert!((1..=60).contains(&wait), "{wait}");
    }
    assert_eq!(world.log(&tenant.id).await.len(), 10);
    assert_eq!(world.drain("deliveries").await.len(), 10);
    // Another endpoint has a separate limit.
    let other = world.endpoint(&tenant, "https://example.com/", "s").await;
    test(&world, &tenant, &other).await;
    // As far as the tenant can tell, the endpoint has not changed.
    let listed = &world.endpoints(&tenant).await[0];
    assert_eq!(listed["updated_at"], listed["created_at"]);
    assert_eq!(listed.get("tested_at"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_tenants_own_endpoint_is_tested() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let endpoint = world.endpoint(&theirs, "https://example.com/", "s").await;
    let unknown = uuid::Uuid::now_v7().to_string();
    for id in [&endpoint, &unknown] {
        let answer = world.rpc(&ours.key, "webhooks/test", json!({"id": id})).await;
        assert_eq!(answer.error(), (404, "NOT_FOUND", ""));
    }
    for (fields, issue) in [(json!({}), "invalid_type"), (json!({"id": "#count"}), "invalid_format")] {
        let answer = world.rpc(&ours.key, "webhooks/test", fields).await;
        assert_eq!(answer.issues(), [("id", issue)]);
    }
    assert!(world.items("deliveries").await.is_empty());
    assert!(world.drain("deliveries").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_is_sent_only_to_permitted_destinations() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    // The endpoint is stored with an address that the deployment does not allow.
    let moved = json!({"url": "http://169.254.169.254/"});
    world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), moved).await;
    test(&world, &tenant, &endpoint).await;
    world.poll("deliveries").await;
    let test = world.only_logged(&tenant.id).await;
    assert_eq!((test.status, &*test.last_attempt.expect("an attempt").outcome), (Status::Failed, "blocked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_ends_if_its_endpoint_is_deleted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    test(&world, &tenant, &endpoint).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    world.poll("deliveries").await;
    assert_eq!((world.only_logged(&tenant.id).await.status, receiver.count().await), (Status::Ended, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_takes_effect_even_if_its_message_cannot_be_sent() {
    let world = World::with(&[("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1")]).await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    test(&world, &tenant, &endpoint).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Pending);
}

/// A call fails three times, which is the maximum number of tries. Only in a thorough run does every call do so.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_at_any_of_its_writes() {
    let every = size(1, 3);
    let calls = (0..5).flat_map(|call| [(call, false), (call, true)]).step_by(every);
    let lives = calls.map(async |(call, takes_effect)| {
        let (world, cut_off) = World::cut_off().await;
        let tenant = world.tenant("acme").await;
        let receiver = Receiver::start().await;
        let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
        cut_off.fail(call..call + 3, takes_effect);
        let answer = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await;
        world.drain("deliveries").await;
        // Calls the API until none of its calls fails anymore.
        while world.rpc(&tenant.key, "webhooks/list", json!({})).await.status != 200 {}
        let items = world.items("webhook-endpoints").await;
        let times = items.iter().find_map(|item| item.get("tested_at")?.as_l().ok()).map_or(0, Vec::len);
        let begun = world.log(&tenant.id).await.len();
        // The message is lost, so the sweep finds the test and makes its attempt. On a busy machine, the attempt may be
        // cut off; a later sweep then repeats it.
        for minutes in [17, 34, 51] {
            world.sweep(Timestamp::now().after(Duration::from_mins(minutes))).await;
            world.handle_all().await;
            if begun == 0 || receiver.count().await > 0 {
                break;
            }
        }
        (answer.status, begun, times, receiver.count().await.min(1))
    });
    let mut expected = [(500, 0, 0, 0); 10];
    // Batched writes may be retried later.
    expected[6..8].fill((503, 0, 0, 0));
    // The transaction, which is the last of the failing writes, took effect.
    expected[9] = (500, 1, 1, 1);
    assert_eq!(join_all(lives).await, expected.into_iter().step_by(every).collect::<Vec<_>>());
}
