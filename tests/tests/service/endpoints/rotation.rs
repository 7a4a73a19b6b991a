//! Rotating an endpoint's signing secret while the receiver still uses the previous one.

use std::time::Duration;

use common::{timestamp::Timestamp, webhooks::delivery::Trigger};
use futures::future::join_all;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tests::{Received, Receiver, Tenant, World, event};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_hours(1);

async fn update(world: &World, tenant: &Tenant, id: &str, fields: Value) {
    let mut fields = fields;
    fields["id"] = json!(id);
    world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
}

async fn rotate(world: &World, tenant: &Tenant, id: &str, secret: &str) {
    update(world, tenant, id, json!({"signing_secret": secret})).await;
}

/// Ends the overlap.
async fn expire(world: &World, id: &str) {
    let over = json!({"previous_secret_expires_at": Timestamp::now().as_millisecond()});
    world.set("webhook-endpoints", ("webhook_endpoint_id", id), over).await;
}

/// Delivers another event, and returns the receiver's request.
async fn deliver(world: &World, tenant: &Tenant, receiver: &Receiver) -> Received {
    world.deliver(event(&tenant.id, "j")).await;
    receiver.received().await.pop().expect("a delivery")
}

fn signatures(received: &Received) -> Vec<&str> {
    received.header("webhook-signature").split(' ').collect()
}

/// Whether the bytes of `secret` verify a delivery.
fn is_signed_with(received: &Received, secret: &str) -> bool {
    let webhook = Webhook::from_bytes(secret.as_bytes().to_vec()).expect("a key");
    webhook.verify(&received.body, &received.headers).is_ok()
}

/// Secrets that are not base64, so each yields one signature.
const SECRETS: [&str; 3] = ["secret-one--------", "secret-two--------", "secret-six--------"];

#[tokio::test(flavor = "multi_thread")]
async fn both_secrets_sign_during_the_overlap_the_new_one_first() {
    both_sign_for(World::start().await, 24 * HOUR).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overlap_is_a_setting() {
    both_sign_for(World::with(&[("ROTATION_OVERLAP", "3600")]).await, HOUR).await;
}

async fn both_sign_for(world: World, overlap: Duration) {
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let id = world.endpoint(&tenant, &receiver.url("/"), SECRETS[0]).await;
    assert_eq!(world.only_endpoint(&tenant).await.get("previous_secret_expires_at"), None);
    let start = Timestamp::now();
    rotate(&world, &tenant, &id, SECRETS[1]).await;
    let expires_at = world.only_endpoint(&tenant).await["previous_secret_expires_at"].clone();
    let expires_at: Timestamp = expires_at.as_str().expect("a time").parse().expect("a time");
    assert!((start.after(overlap)..=Timestamp::now().after(overlap)).contains(&expires_at), "{expires_at}");

    let both = deliver(&world, &tenant, &receiver).await;
    assert_eq!(signatures(&both).len(), 2);
    // The signature with the new secret covers only the body.
    both.verify(SECRETS[1]);
    assert!(is_signed_with(&both, SECRETS[0]));
    let mut first_only = both.clone();
    first_only.headers.insert("webhook-signature", signatures(&both)[0].parse().expect("a header value"));
    first_only.verify(SECRETS[1]);

    expire(&world, &id).await;
    assert_eq!(world.only_endpoint(&tenant).await.get("previous_secret_expires_at"), None);
    let one = deliver(&world, &tenant, &receiver).await;
    assert_eq!(signatures(&one).len(), 1);
    one.verify(SECRETS[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_attempts_and_resends_are_signed_with_both_secrets() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), SECRETS[0]).await;
    assert_eq!(signatures(&deliver(&world, &tenant, &receiver).await).len(), 1);
    rotate(&world, &tenant, &id, SECRETS[1]).await;
    world.poll("deliveries").await;
    let delivery = world.only_logged(&tenant.id).await.id;
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery})).await.ok();
    world.poll("deliveries").await;
    let received = receiver.received().await;
    assert_eq!(received.len(), 3);
    for attempt in &received[1..] {
        assert!(SECRETS[..2].iter().all(|secret| is_signed_with(attempt, secret)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_response_has_a_secret_that_signs() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com", "canary-previous-secret").await;
    let rotation = json!({"id": id, "signing_secret": "canary-current-secret"});
    let fields = [("update", rotation), ("list", json!({})), ("delete", json!({"id": id}))];
    for (route, fields) in fields {
        let answer = world.rpc(&tenant.key, &format!("webhooks/{route}"), fields).await;
        let text = answer.ok().to_string();
        assert!(!text.contains("canary") && !text.contains("_secret\""), "{route}: {text}");
        assert_eq!(text.contains("previous_secret_expires_at"), route == "list");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rotating_again_keeps_the_two_newest() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let id = world.endpoint(&tenant, &receiver.url("/"), SECRETS[0]).await;
    for secret in &SECRETS[1..] {
        rotate(&world, &tenant, &id, secret).await;
    }
    let delivery = deliver(&world, &tenant, &receiver).await;
    assert_eq!(SECRETS.map(|secret| is_signed_with(&delivery, secret)), [false, true, true]);
    assert!(!format!("{:?}", world.items("webhook-endpoints").await).contains(SECRETS[0]));
}

/// The same is true for changes to other fields, and after the overlap has ended.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_secret_again_is_not_a_rotation() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let id = world.endpoint(&tenant, "https://example.com", SECRETS[0]).await;
    let same = |secret: &str| json!({"signing_secret": secret, "url": receiver.url("/"), "description": "moved"});
    update(&world, &tenant, &id, same(SECRETS[0])).await;
    let endpoint = world.only_endpoint(&tenant).await;
    assert_eq!((&endpoint["description"], endpoint.get("previous_secret_expires_at")), (&json!("moved"), None));
    rotate(&world, &tenant, &id, SECRETS[1]).await;
    let rotated = world.only_endpoint(&tenant).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    update(&world, &tenant, &id, same(SECRETS[1])).await;
    let again = world.only_endpoint(&tenant).await;
    assert_eq!(again["previous_secret_expires_at"], rotated["previous_secret_expires_at"]);
    assert!(again["updated_at"].as_str() > rotated["updated_at"].as_str());
    let delivery = deliver(&world, &tenant, &receiver).await;
    assert!(SECRETS[..2].iter().all(|secret| is_signed_with(&delivery, secret)));
    let unknown = json!({"id": uuid::Uuid::now_v7(), "signing_secret": SECRETS[0]});
    assert_eq!(world.rpc(&tenant.key, "webhooks/update", unknown).await.error(), (404, "NOT_FOUND", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_overlap_the_previous_secret_is_forgotten_at_once() {
    let world = World::with(&[("ROTATION_OVERLAP", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let id = world.endpoint(&tenant, &receiver.url("/"), SECRETS[0]).await;
    rotate(&world, &tenant, &id, SECRETS[1]).await;
    assert_eq!(world.only_endpoint(&tenant).await.get("previous_secret_expires_at"), None);
    let delivery = deliver(&world, &tenant, &receiver).await;
    assert_eq!(signatures(&delivery).len(), 1);
    delivery.verify(SECRETS[1]);
    assert!(!format!("{:?}", world.items("webhook-endpoints").await).contains(SECRETS[0]));
}

/// 0.1.0 accepted secrets of any length, and with surrounding white space.
#[tokio::test(flavor = "multi_thread")]
async fn a_stored_secret_of_0_1_0_signs_and_is_rotated_away() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    for old in ["five5", " pasted-2 "] {
        let id = world.endpoint(&tenant, &receiver.url("/"), old).await;
        let again = json!({"id": id, "signing_secret": old});
        let message = world.rpc(&tenant.key, "webhooks/update", again).await.ok()["message"].clone();
        assert!(message.as_str().is_some_and(|message| message.contains("can be guessed")), "{message}");
        update(&world, &tenant, &id, json!({"description": "still there"})).await;
        assert!(is_signed_with(&deliver(&world, &tenant, &receiver).await, old), "{old:?}");
        rotate(&world, &tenant, &id, SECRETS[1]).await;
        let delivery = deliver(&world, &tenant, &receiver).await;
        assert!([old, SECRETS[1]].iter().all(|secret| is_signed_with(&delivery, secret)), "{old:?}");
        world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();
    }
}

/// Each rotation keeps the secret that it replaces, so only the first one can keep the original secret.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_rotations_keep_the_previous_secret() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com", "the original secret").await;
    let secrets: Vec<_> = (0..16).map(|number| format!("a new secret number {number}")).collect();
    join_all(secrets.iter().map(|secret| rotate(&world, &tenant, &id, secret))).await;
    let items = world.items("webhook-endpoints").await;
    let endpoint = items.iter().find(|item| item.contains_key("signing_secret")).expect("the endpoint");
    let [current, previous] =
        ["signing_secret", "previous_secret"].map(|name| endpoint[name].as_s().expect("a string"));
    assert!(current != previous, "{current:?} after itself");
    assert!([current, previous].iter().all(|one| secrets.contains(one)), "{current:?} after {previous:?}");
}

/// The receiver gets each new secret just before the endpoint does, and then drops the second-to-last one. Even the
/// older of its two secrets verifies every request, so the receiver can switch later.
#[tokio::test(flavor = "multi_thread")]
async fn two_secrets_verify_1000_deliveries_during_three_rotations() {
    // No delivery fails, however the failed attempts are distributed.
    let world = World::with(&[("RETRY_SCHEDULE", &["0"; 20].join(","))]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 20]).await;
    let secrets = [
        "whsec_c2VjcmV0LW51bWJlci1vbmU=",
        "c2VjcmV0LW51bWJlci10d28=",
        "secret number three of four",
        "sécret number four of four",
    ];
    let id = world.endpoint(&tenant, &receiver.url("/"), secrets[0]).await;

    let mut known_since = vec![Instant::now()];
    let events = async {
        for job in 0..980 {
            world.enqueue("job-events", event(&tenant.id, job)).await;
        }
    };
    let deliver = join_all(world.queues().map(async |queue| {
        while receiver.count().await < 1000 {
            world.poll(queue).await;
        }
    }));
    let rotations = async {
        for (number, secret) in (1..).zip(&secrets[1..]) {
            receiver.wait_for(number * 250).await;
            known_since.push(Instant::now());
            rotate(&world, &tenant, &id, secret).await;
            let page = world.rpc(&tenant.key, "deliveries/list", json!({"status": "delivered", "limit": 5})).await;
            for delivery in page.ok()["deliveries"].as_array().expect("a list") {
                let resend = json!({"delivery_id": delivery["delivery_id"]});
                world.rpc(&tenant.key, "deliveries/resend", resend).await.ok();
            }
        }
    };
    tokio::join!(events, deliver, rotations);
    for queue in world.queues() {
        world.poll_all(queue).await;
    }

    let received = receiver.received().await;
    // 980 events, 20 failed attempts, and 15 resends.
    assert_eq!(received.len(), 1015);
    for (number, attempt) in received.iter().enumerate() {
        let newest = known_since.iter().filter(|since| **since <= attempt.at).count();
        let older = secrets[newest.saturating_sub(2)];
        assert!(is_signed_with(attempt, older), "delivery {number}, after {newest} secrets");
    }
    assert_eq!(known_since.len(), 4);
    let log = world.log(&tenant.id).await;
    let attempts = log.iter().filter_map(|delivery| delivery.last_attempt.as_ref());
    let resent = attempts.filter(|attempt| attempt.trigger == Trigger::Resend).count();
    assert!((5..=15).contains(&resent), "{resent} deliveries were last sent by a resend");
}
