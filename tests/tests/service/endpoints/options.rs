//! The options of an endpoint that change what its receiver gets, and what the log keeps.

use std::time::Duration;

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use futures::future::join_all;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tests::{Browser, Moody, Receiver, Tenant, World, event};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";
/// Occurs in results and in receivers' responses.
const CANARY: &str = "canary-4be1";

async fn create(world: &World, tenant: &Tenant, url: &str, options: Value) -> String {
    let mut fields = json!({"url": url, "signing_secret": SECRET});
    fields.as_object_mut().expect("an object").extend(options.as_object().expect("an object").clone());
    let created = world.rpc(&tenant.key, "webhooks/create", fields).await;
    let id = created.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    // The receiver has answered quickly before.
    world.make_quick(tenant, &id).await;
    id
}

async fn update(world: &World, tenant: &Tenant, id: &str, fields: Value) -> tests::Answer {
    let mut fields = fields;
    fields["id"] = json!(id);
    world.rpc(&tenant.key, "webhooks/update", fields).await
}

/// A failed job with a result, an error and a stack.
fn failed(tenant: &Tenant, job: &str) -> Value {
    let mut failed = event(&tenant.id, job);
    failed["event"] = json!("job.failed");
    failed["status"] = json!("failed");
    failed["nonce"] = json!(1.5);
    failed["result"] = json!({"rows": [CANARY]});
    failed["error"] = json!({"message": CANARY});
    failed["mapped_stack"] = json!(CANARY);
    failed
}

/// The payload of a tenant's only delivery of a job in the log, if it is kept.
async fn logged(world: &World, tenant: &Tenant, job: &str) -> Value {
    let listed = world.rpc(&tenant.key, "deliveries/list", json!({"job_id": job})).await.ok().clone();
    let id = &listed["deliveries"][0]["delivery_id"];
    world.rpc(&tenant.key, "deliveries/get", json!({"delivery_id": id})).await.ok().clone()
}

/// Whether a table or the log contains text of a job or a receiver.
async fn is_anything_left(world: &World) -> bool {
    let items = format!("{:?}", world.items("deliveries").await);
    items.contains(CANARY) || items.contains("payload")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thin_endpoint_gets_events_without_results() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let (thin, full) = (Receiver::scripted(&[(500, &[])]).await, Receiver::start().await);
    create(&world, &tenant, &thin.url("/"), json!({"payload": "thin"})).await;
    create(&world, &tenant, &full.url("/"), json!({"payload": "full"})).await;
    let sent = failed(&tenant, "j-1");
    world.deliver(sent.clone()).await;
    while world.poll_due().await == 0 {}
    let received = thin.received().await;
    assert_eq!(received.len(), 2, "a retry is thin, too");
    for request in &received {
        let expected = r#"{"event":"job.failed","job_id":"j-1","nonce":1.5,"workflow":null,"deployment_id":null,"status":"failed","result":null,"error":null,"mapped_stack":null}"#;
        assert_eq!((&request.body[..], request.header("x-event-payload")), (expected.as_bytes(), "thin"));
        request.verify(SECRET);
        Webhook::new(SECRET).expect("a secret").verify(&request.body, &request.headers).expect("a signature");
    }
    let whole = &full.received().await[0];
    assert_eq!((&whole.json()["result"], whole.headers.get("x-event-payload")), (&sent["result"], None));
    for delivery in world.log(&tenant.id).await {
        let found = world.rpc(&tenant.key, "deliveries/get", json!({"delivery_id": delivery.id})).await;
        assert!(found.ok()["payload"].as_str().expect("a payload").contains(CANARY), "the log has the whole event");
    }
}

/// The receiver can fetch large results after its response.
#[tokio::test(flavor = "multi_thread")]
async fn a_thin_delivery_keeps_a_large_payload() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let mut random = fastrand::Rng::with_seed(1);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(500_000).collect();
    for (job, script) in [("at once", &[][..]), ("later", &[(500, &[][..])][..])] {
        let receiver = Receiver::scripted(script).await;
        let id = create(&world, &tenant, &receiver.url("/"), json!({"payload": "thin"})).await;
        let mut event = failed(&tenant, job);
        event["result"] = noise.as_str().into();
        world.deliver(event).await;
        while world.log_of(&tenant.id, Status::Pending).await.len() + world.poll_due().await > 0 {}
        let found = logged(&world, &tenant, job).await;
        assert_eq!(found["delivery"]["status"], "delivered", "{job}");
        assert!(found["payload"].as_str().is_some_and(|payload| payload.contains(&noise)), "{job}");
        let period = json!({"since": "2026-01-01T00:00:00Z", "webhook_endpoint_id": id});
        world.rpc(&tenant.key, "deliveries/erase", period).await.ok();
        world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();
        assert!(!is_anything_left(&world).await, "{job}");
    }
}

/// The payload was shared before its endpoints stopped keeping payloads.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_payload_that_is_no_longer_kept_goes_with_the_last() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receivers = [Receiver::scripted(&[(500, &[])]).await, Receiver::scripted(&[(500, &[])]).await];
    let mut ids = Vec::new();
    for receiver in &receivers {
        ids.push(create(&world, &tenant, &receiver.url("/"), json!({})).await);
    }
    let mut event = failed(&tenant, "j");
    event["result"] = "x".repeat(2000).into();
    world.deliver(event).await;
    assert!(is_anything_left(&world).await);
    for id in &ids {
        update(&world, &tenant, id, json!({"keep_payload": false})).await.ok();
    }
    world.set_where("deliveries", |item| item.contains_key("shared_at"), &json!({"shared_at": 0})).await;
    while world.log_of(&tenant.id, Status::Pending).await.len() + world.poll_due().await > 0 {}
    assert!(!is_anything_left(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_at_the_time_of_an_attempt_counts() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = create(&world, &tenant, &receiver.url("/"), json!({})).await;
    world.deliver(failed(&tenant, "j")).await;
    update(&world, &tenant, &id, json!({"payload": "thin"})).await.ok();
    while world.poll_due().await == 0 {}
    let received = receiver.received().await;
    let errors: Vec<_> = received.iter().map(|request| request.json()["error"].is_null()).collect();
    assert_eq!(errors, [false, true]);
    // A test shows the receiver which form it gets.
    world.rpc(&tenant.key, "webhooks/test", json!({"id": id, "event": "job.completed"})).await.ok();
    world.poll("deliveries").await;
    let test = receiver.received().await.pop().expect("a test");
    assert_eq!((test.header("x-event-payload"), &test.json()["result"]), ("thin", &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thin_pull_endpoint_gets_events_without_results() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let fields = json!({"kind": "pull", "payload": "thin", "signing_secret": SECRET});
    let created = world.rpc(&tenant.key, "webhooks/create", fields).await.ok().clone();
    world.deliver(failed(&tenant, "j")).await;
    let fields = json!({"webhook_endpoint_id": created["webhook_endpoint_id"]});
    let received = world.rpc(&tenant.key, "deliveries/receive", fields).await.ok().clone();
    let taken = &received["deliveries"][0];
    assert_eq!(taken["headers"]["x-event-payload"], "thin");
    let body = taken["body"].as_str().expect("a body");
    assert!(body.contains(r#""status":"failed","result":null,"error":null,"mapped_stack":null}"#), "{body}");
    let headers = taken["headers"].as_object().expect("headers").iter().map(|(name, value)| {
        let value = value.as_str().expect("text").parse().expect("a value");
        (name.parse::<reqwest::header::HeaderName>().expect("a name"), value)
    });
    let headers: reqwest::header::HeaderMap = headers.collect();
    Webhook::new(SECRET).expect("a secret").verify(body.as_bytes(), &headers).expect("a signature");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_payload_that_is_not_kept_leaves_nothing() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let tenant = world.tenant("acme").await;
    let answer: (u16, &[(&str, &str)]) = (500, &[]);
    let quick = Receiver::start().await;
    create(&world, &tenant, &quick.url("/"), json!({"keep_payload": false})).await;
    world.deliver(failed(&tenant, "at once")).await;
    assert!(!is_anything_left(&world).await);

    let failing = Receiver::scripted(&[answer, answer]).await;
    create(&world, &tenant, &failing.url("/"), json!({"keep_payload": false})).await;
    world.deliver(failed(&tenant, "later")).await;
    assert!(is_anything_left(&world).await, "another attempt needs the payload");
    while world.log_of(&tenant.id, Status::Pending).await.len() + world.poll_due().await > 0 {}
    assert_eq!(failing.count().await, 3);
    assert!(!is_anything_left(&world).await);
    let found = logged(&world, &tenant, "later").await;
    assert_eq!((&found["delivery"]["status"], found.get("payload")), (&json!("delivered"), None));
    assert!(found["delivery"]["erased_at"].is_string());
    let resent = world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": found["delivery"]["delivery_id"]}));
    assert_eq!(resent.await.error(), (409, "CONFLICT", "payload_not_kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_keeps_its_payload_until_it_succeeds() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    create(&world, &tenant, &receiver.url("/"), json!({"keep_payload": false})).await;
    world.deliver(failed(&tenant, "j")).await;
    let found = logged(&world, &tenant, "j").await;
    assert_eq!(found["delivery"]["status"], "failed");
    assert!(found["payload"].as_str().expect("a payload").contains(CANARY));
    let id = &found["delivery"]["delivery_id"];
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": id})).await.ok();
    world.poll("deliveries").await;
    assert_eq!(receiver.count().await, 2);
    assert!(!is_anything_left(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_payload_that_is_not_kept_leaves_nothing() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull", "keep_payload": false})).await;
    world.deliver(failed(&tenant, "j")).await;
    let fields = json!({"webhook_endpoint_id": created.ok()["webhook_endpoint_id"]});
    for (status, is_left) in [(500, true), (200, false)] {
        let received = world.rpc(&tenant.key, "deliveries/receive", fields.clone()).await.ok().clone();
        let taken = &received["deliveries"][0];
        let settlement = json!({
            "delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": status, "response": CANARY,
        });
        world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": [settlement]})).await.ok();
        assert_eq!(is_anything_left(&world).await, is_left, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_bounds_the_requests_in_progress() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    for takes in [30, 1100] {
        let receiver = Moody::start(move |_| (Duration::from_millis(takes), 200)).await;
        create(&world, &tenant, receiver.url(), json!({"max_concurrent": 2})).await;
        let events = (0..12).map(|job| world.enqueue("job-events", event(&tenant.id, format!("{takes}-{job}"))));
        join_all(events).await;
        while receiver.requests() < 12 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let most = receiver.seen().into_iter().map(|(at_once, _)| at_once).max();
        assert_eq!(most, Some(2), "a receiver that takes {takes} ms");
        let id = world.endpoints(&tenant).await.pop().expect("an endpoint")["webhook_endpoint_id"].clone();
        world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_shown_kept_and_cleared() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = create(&world, &tenant, "https://example.com", json!({})).await;
    for (fields, shown) in [
        (json!({}), json!([null, null, null])),
        (json!({"payload": "thin"}), json!(["thin", null, null])),
        (json!({"keep_payload": false, "max_concurrent": 100}), json!(["thin", false, 100])),
        (json!({"description": "x"}), json!(["thin", false, 100])),
        (json!({"payload": "full", "max_concurrent": 1}), json!(["full", false, 1])),
        (json!({"payload": null, "keep_payload": null, "max_concurrent": null}), json!([null, null, null])),
    ] {
        update(&world, &tenant, &id, fields.clone()).await.ok();
        let endpoint = world.only_endpoint(&tenant).await;
        assert_eq!(
            json!([endpoint["payload"], endpoint["keep_payload"], endpoint["max_concurrent"]]),
            shown,
            "{fields}"
        );
    }
    for (fields, field) in [
        (json!({"payload": "small"}), "payload"),
        (json!({"payload": 1}), "payload"),
        (json!({"keep_payload": "no"}), "keep_payload"),
        (json!({"max_concurrent": 0}), "max_concurrent"),
        (json!({"max_concurrent": 101}), "max_concurrent"),
        (json!({"max_concurrent": 1.5}), "max_concurrent"),
        (json!({"max_concurrent": "5"}), "max_concurrent"),
        (json!({"rotation_overlap_seconds": 604_801}), "rotation_overlap_seconds"),
        (json!({"rotation_overlap_seconds": -1}), "rotation_overlap_seconds"),
    ] {
        let refused = update(&world, &tenant, &id, fields.clone()).await;
        assert_eq!(refused.issues().iter().map(|(path, _)| *path).collect::<Vec<_>>(), [field], "{fields}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overlap_of_a_rotation_can_be_chosen_and_ended() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = create(&world, &tenant, "https://example.com", json!({})).await;
    let left = async || {
        let end = world.only_endpoint(&tenant).await.get("previous_secret_expires_at").cloned()?;
        let end: Timestamp = end.as_str()?.parse().ok()?;
        Some(end.since(Timestamp::now()).as_secs())
    };
    for (fields, expected) in [
        (json!({"signing_secret": "one-one-one-one-one", "rotation_overlap_seconds": 604_800}), Some(604_800)),
        // Without a secret, the time only becomes shorter.
        (json!({"rotation_overlap_seconds": 3600}), Some(3600)),
        (json!({"rotation_overlap_seconds": 86_400}), Some(3600)),
        (json!({"rotation_overlap_seconds": 0}), None),
        (json!({"rotation_overlap_seconds": 60}), None),
        (json!({"signing_secret": "two-two-two-two-two"}), Some(86_400)),
        (json!({"signing_secret": "six-six-six-six-six", "rotation_overlap_seconds": 0}), None),
    ] {
        update(&world, &tenant, &id, fields.clone()).await.ok();
        let left = left().await;
        let is_it = match (left, expected) {
            (Some(left), Some(expected)) => (expected - 60..=expected).contains(&left),
            (left, expected) => left == expected,
        };
        assert!(is_it, "{fields}: {left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_sets_options_and_ends_an_old_secret() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = create(&world, &tenant, "https://example.com", json!({})).await;
    let (browser, path) = (Browser::new(&world, &tenant.cookie), format!("/console/endpoints/{id}"));
    let page = browser.open(&path).await;
    let typed = [
        ("url", "https://example.com"),
        ("payload", "thin"),
        ("keep_payload", "false"),
        ("max_concurrent", "7"),
        ("completed", "yes"),
        ("failed", "yes"),
    ];
    browser.press(&path, &page, "Save changes", &typed).await;
    let endpoint = world.only_endpoint(&tenant).await;
    assert_eq!((&endpoint["payload"], &endpoint["keep_payload"]), (&json!("thin"), &json!(false)));
    assert_eq!(endpoint["max_concurrent"], 7);
    let page = browser.open(&path).await;
    for shown in ["Thin: without result, error and stack", "Erased after each success", "At most 7"] {
        assert!(page.page().contains(shown), "{shown}");
    }
    let refused = browser
        .press(
            &path,
            &page,
            "Save changes",
            &[("url", "https://example.com"), ("max_concurrent", "many"), ("completed", "yes")],
        )
        .await;
    assert!(refused.page().contains("Must be a whole number from 1 to 100"));

    // A default that was chosen stays, and changes nothing.
    let fields = json!({"payload": "full", "keep_payload": true});
    update(&world, &tenant, &id, fields).await.ok();
    let page = browser.open(&path).await;
    // An untouched form submits every field.
    let blank = [
        ("url", "https://example.com"),
        ("description", ""),
        ("workflows", ""),
        ("payload", "full"),
        ("keep_payload", "true"),
        ("max_concurrent", ""),
        ("headers", ""),
        ("completed", "yes"),
        ("failed", "yes"),
    ];
    browser.press(&path, &page, "Save changes", &blank).await;
    let endpoint = world.only_endpoint(&tenant).await;
    assert_eq!((&endpoint["payload"], &endpoint["keep_payload"]), (&json!("full"), &json!(true)));
    assert_eq!(endpoint.get("max_concurrent"), None, "an empty field is accepted");

    let page = browser.open(&path).await;
    browser.press(&path, &page, "Rotate secret", &[("overlap", "604800")]).await;
    assert!(world.only_endpoint(&tenant).await["previous_secret_expires_at"].is_string());
    // The same form again, for a leaked secret, ends it now, and a third time, it stays ended.
    for overlap in ["0", "604800"] {
        let ended = browser.press(&path, &page, "Rotate secret", &[("overlap", overlap)]).await;
        assert!(ended.page().contains("The old secret has ended"), "{overlap}");
    }
    assert_eq!(world.only_endpoint(&tenant).await.get("previous_secret_expires_at"), None);

    let page = browser.open(&path).await;
    browser.press(&path, &page, "Rotate secret", &[("overlap", "604800")]).await;
    let page = browser.open(&path).await;
    browser.press(&path, &page, "End the old secret now", &[]).await;
    assert_eq!(world.only_endpoint(&tenant).await.get("previous_secret_expires_at"), None);
    assert!(!browser.open(&path).await.page().contains("End the old secret now"));
}
