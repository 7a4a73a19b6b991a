//! Pull endpoints: deliveries are received with a lease, and settled.

use std::{collections::BTreeSet, time::Duration};

use common::{
    timestamp::Timestamp,
    webhooks::delivery::{AttemptResult, SHARDS, Status},
};
use futures::future::join_all;
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tests::{Receiver, Tenant, World, event, records, world::tables::Item};

use super::{Book, DAY, Draft, HOUR, id, read, recover::run};

/// A pull endpoint of `tenant`, with a secret chosen by the tenant.
async fn pull_endpoint(world: &World, tenant: &Tenant, secret: &str) -> String {
    let fields = json!({"kind": "pull", "signing_secret": secret});
    let answer = world.rpc(&tenant.key, "webhooks/create", fields).await;
    answer.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned()
}

/// A world with a tenant and a pull endpoint.
async fn with_endpoint(settings: &[(&str, &str)]) -> (World, Tenant, String) {
    let world = World::with(settings).await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    (world, tenant, endpoint)
}

async fn receive(world: &World, tenant: &Tenant, endpoint: &str, limit: u32) -> Value {
    let fields = json!({"webhook_endpoint_id": endpoint, "limit": limit});
    world.rpc(&tenant.key, "deliveries/receive", fields).await.ok().clone()
}

/// Receives once, and returns the deliveries, which must include all available ones.
async fn take(world: &World, tenant: &Tenant, endpoint: &str) -> Vec<Value> {
    receive(world, tenant, endpoint, 100).await["deliveries"].as_array().expect("deliveries").clone()
}

async fn take_one(world: &World, tenant: &Tenant, endpoint: &str) -> Value {
    let taken = take(world, tenant, endpoint).await;
    let [taken] = &taken[..] else { unreachable!("{taken:?}") };
    taken.clone()
}

fn settlement(taken: &Value, outcome: Value) -> Value {
    let mut settlement = json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"]});
    let members = outcome.as_object().expect("an object").clone();
    settlement.as_object_mut().expect("an object").extend(members);
    settlement
}

/// Settles these deliveries, all with the same outcome, and returns the results.
async fn settle(world: &World, tenant: &Tenant, taken: &[Value], outcome: Value) -> Vec<Value> {
    let settlements: Vec<_> = taken.iter().map(|taken| settlement(taken, outcome.clone())).collect();
    let answer = world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": settlements})).await;
    answer.ok()["settlements"].as_array().expect("settlements").clone()
}

async fn settle_one(world: &World, tenant: &Tenant, taken: &Value, outcome: Value) -> Value {
    settle(world, tenant, std::slice::from_ref(taken), outcome).await.remove(0)
}

fn result(delivery: &Value, result: &str, status: Option<&str>) -> Value {
    let mut expected = json!({"delivery_id": delivery["delivery_id"], "result": result});
    if let Some(status) = status {
        expected["status"] = json!(status);
    }
    expected
}

fn jobs(taken: &[Value]) -> Vec<&str> {
    taken.iter().filter_map(|taken| taken["job_id"].as_str()).collect()
}

async fn ends_of_lease() {
    tokio::time::sleep(Duration::from_millis(1_050)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_endpoint_has_no_url_and_is_listed_with_its_kind() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let create = async |fields| world.rpc(&tenant.key, "webhooks/create", fields).await;
    for (fields, path) in [
        (json!({"kind": "pull", "url": "https://example.com"}), "url"),
        (json!({"kind": "push"}), "url"),
        (json!({}), "url"),
        (json!({"kind": "poll"}), "kind"),
    ] {
        let refused = create(fields).await;
        assert_eq!((refused.status, refused.issues()[0].0), (400, path), "{refused:?}");
    }
    let answer = create(json!({"kind": "pull", "description": "a laptop", "events": ["job.failed"]})).await;
    assert!(answer.ok()["signing_secret"].is_string());
    let listed = world.only_endpoint(&tenant).await;
    assert_eq!((&listed["kind"], listed.get("url")), (&json!("pull"), None));
    assert_eq!((listed.get("last_asked_at"), listed.get("last_taken_at")), (None, None));
    let update = json!({"id": listed["webhook_endpoint_id"], "url": "https://example.com/"});
    let refused = world.rpc(&tenant.key, "webhooks/update", update).await;
    assert_eq!(refused.error(), (409, "CONFLICT", "pull_endpoint"));
    world.endpoint(&tenant, "https://example.com/", "correct-horse-battery").await;
    let kinds: Vec<_> = world.endpoints(&tenant).await.iter().map(|endpoint| endpoint["kind"].clone()).collect();
    assert_eq!(kinds, ["pull", "push"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_delivery_equals_its_post() {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let tenant = world.tenant("acme").await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";
    for kind in [json!({"url": receiver.url("/")}), json!({"kind": "pull"})] {
        let mut fields = json!({"signing_secret": secret, "headers": {"authorization": "Bearer t"}});
        fields.as_object_mut().expect("an object").extend(kind.as_object().expect("an object").clone());
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    let mut told = event(&tenant.id, "jöb \u{1F600}");
    told["result"] = json!({"text": "a \"quote\"", "number": 1.10});
    world.deliver(told).await;
    let endpoint = world.endpoints(&tenant).await[1]["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    let posted = receiver.received().await.remove(0);
    let taken = take_one(&world, &tenant, &endpoint).await;
    assert_eq!(taken["body"].as_str().expect("a body").as_bytes(), posted.body);
    assert_eq!((&taken["attempt"], &taken["event"]), (&json!(1), &json!("job.completed")));
    let headers = taken["headers"].as_object().expect("headers");
    let names: BTreeSet<_> = headers.keys().map(String::as_str).collect();
    let of_connection = ["content-length", "host", "connection"];
    let sent: BTreeSet<_> =
        posted.headers.keys().map(HeaderName::as_str).filter(|name| !of_connection.contains(name)).collect();
    assert_eq!(names, sent);
    for same in ["content-type", "user-agent", "x-event-type", "x-event-time", "x-webhook-signature", "authorization"] {
        assert_eq!(headers[same], json!(posted.headers[same].to_str().expect("text")), "{same}");
    }
    assert_ne!(headers["webhook-id"], json!(posted.headers["webhook-id"].to_str().expect("text")));
    let verified: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, value.as_str().expect("text").parse().expect("a value"))
        })
        .collect();
    let body = taken["body"].as_str().expect("a body").as_bytes();
    Webhook::new(secret).expect("a secret").verify(body, &verified).expect("a signature");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_delivery_is_delivered_in_the_log() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in ["one", "two", "three"] {
        world.deliver(event(&tenant.id, job)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(world.log_of(&tenant.id, Status::Held).await.len(), 3);
    assert_eq!(world.left().await, 0, "no message waits in a queue");
    let two = receive(&world, &tenant, &endpoint, 2).await;
    assert_eq!(jobs(two["deliveries"].as_array().expect("deliveries")), ["one", "two"], "the oldest first");
    assert_eq!(two["poll_after_ms"], 0, "there may be more deliveries");
    let rest = receive(&world, &tenant, &endpoint, 10).await;
    assert_eq!(jobs(rest["deliveries"].as_array().expect("deliveries")), ["three"]);
    assert_eq!(rest["poll_after_ms"], 1_000);
    assert_eq!(receive(&world, &tenant, &endpoint, 10).await["deliveries"], json!([]), "all are leased");
    let all = [two["deliveries"].as_array().expect("two").clone(), rest["deliveries"].as_array().expect("one").clone()];
    let all = all.concat();
    let settled = settle(&world, &tenant, &all, json!({"status_code": 204, "duration_ms": 12})).await;
    let expected: Vec<_> = all.iter().map(|taken| result(taken, "settled", Some("delivered"))).collect();
    assert_eq!(settled, expected);
    for taken in &all {
        let got = read(&world, &tenant, "get", json!({"delivery_id": taken["delivery_id"]})).await.ok().clone();
        assert_eq!((&got["delivery"]["status"], &got["delivery"]["attempts"]), (&json!("delivered"), &json!(1)));
        let attempt = &got["attempts"][0];
        assert_eq!((&attempt["outcome"], &attempt["status_code"]), (&json!("delivered"), &json!(204)));
        assert_eq!((&attempt["duration_ms"], &attempt["trigger"]), (&json!(12), &json!("event")));
        assert_eq!(got["payload"], taken["body"]);
    }
    let listed = world.only_endpoint(&tenant).await;
    assert!(listed["last_asked_at"].is_string() && listed["last_taken_at"].is_string(), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_returns_its_delivery_and_cannot_settle() {
    let (world, tenant, endpoint) = with_endpoint(&[("LEASE_TIME", "1")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let first = take_one(&world, &tenant, &endpoint).await;
    ends_of_lease().await;
    let late = settle_one(&world, &tenant, &first, json!({"status_code": 200})).await;
    assert_eq!(late, result(&first, "lease_expired", None));
    assert_eq!(world.only_logged(&tenant.id).await.attempts, 0, "nothing has changed");
    let second = take_one(&world, &tenant, &endpoint).await;
    assert_eq!((&second["attempt"], &second["delivery_id"]), (&json!(1), &first["delivery_id"]));
    assert_ne!(second["lease"], first["lease"]);
    let late = settle_one(&world, &tenant, &first, json!({"status_code": 500})).await;
    assert_eq!(late["result"], "lease_expired");
    let settled = settle_one(&world, &tenant, &second, json!({"status_code": 200})).await;
    assert_eq!(settled, result(&second, "settled", Some("delivered")));
    assert_eq!(settle_one(&world, &tenant, &second, json!({"status_code": 200})).await, settled, "response was lost");
    let logged = world.only_logged(&tenant.id).await;
    assert_eq!((logged.status, logged.attempts), (Status::Delivered, 1));
    ends_of_lease().await;
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_pull_delivery_is_retried_and_finally_fails() {
    let (world, tenant, endpoint) = with_endpoint(&[("RETRY_SCHEDULE", "0,0")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let outcomes = [
        (json!({"status_code": 503, "response": "é".repeat(1_000)}), "pending", "status_5xx"),
        (json!({"error": "connect"}), "pending", "connect"),
        (json!({"status_code": 302}), "failed", "redirect"),
    ];
    for (number, (outcome, status, reason)) in outcomes.into_iter().enumerate() {
        let taken = take_one(&world, &tenant, &endpoint).await;
        assert_eq!(taken["attempt"], number + 1);
        let mut settled = settle_one(&world, &tenant, &taken, outcome).await;
        let next = settled.as_object_mut().and_then(|settled| settled.remove("next_attempt_at"));
        assert_eq!(settled, result(&taken, "settled", Some(status)));
        assert_eq!(next.is_some(), status == "pending");
        let last = world.only_logged(&tenant.id).await.last_attempt.expect("an attempt");
        assert_eq!(last.outcome, reason);
    }
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new());
    let got = read(&world, &tenant, "get", json!({"delivery_id": world.only_logged(&tenant.id).await.id})).await;
    let attempts = got.ok()["attempts"].as_array().expect("attempts").clone();
    let outcomes: Vec<_> = attempts.iter().map(|attempt| attempt["outcome"].as_str().expect("a reason")).collect();
    assert_eq!(outcomes, ["status_5xx", "connect", "redirect"]);
    assert_eq!(attempts[0]["response"], "é".repeat(512));
    assert_eq!(attempts[1]["trigger"], "schedule");
    assert_eq!(tests::log::of_this_test().metric("DeliveryFailed"), [(1.0, "redirect".to_owned())]);
    assert!(world.only_endpoint(&tenant).await["failing_since"].is_string());
    world.deliver(event(&tenant.id, "k")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await;
    assert_eq!(world.only_endpoint(&tenant).await.get("failing_since"), None, "a success clears the error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_makes_a_delivery_available_without_an_attempt() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    let released = settle_one(&world, &tenant, &taken, json!({})).await;
    assert_eq!(released, result(&taken, "released", Some("held")));
    let again = take_one(&world, &tenant, &endpoint).await;
    assert_eq!(again["attempt"], 1);
    assert_eq!(settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await["result"], "lease_expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_share_the_deliveries() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in 0..60 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    world.handle_all().await;
    let takers = (0..6).map(async |_| {
        let mut all = Vec::new();
        loop {
            let answer = receive(&world, &tenant, &endpoint, 7).await;
            let taken = answer["deliveries"].as_array().expect("deliveries").clone();
            if taken.is_empty() && answer["poll_after_ms"] != 0 {
                break all;
            }
            all.extend(settle(&world, &tenant, &taken, json!({"status_code": 200})).await);
        }
    });
    let all: Vec<Value> = join_all(takers).await.concat();
    assert!(all.iter().all(|settled| settled["result"] == "settled"), "{all:?}");
    let ids: BTreeSet<_> = all.iter().map(|settled| settled["delivery_id"].to_string()).collect();
    assert_eq!((all.len(), ids.len()), (60, 60));
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_tenant_receives_from_its_active_pull_endpoints() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    let other = world.tenant("other").await;
    world.deliver(event(&tenant.id, "j")).await;
    let ask = async |who: &Tenant, endpoint: &str| {
        world.rpc(&who.key, "deliveries/receive", json!({"webhook_endpoint_id": endpoint})).await
    };
    assert_eq!(ask(&other, &endpoint).await.error(), (404, "NOT_FOUND", ""));
    let taken = take_one(&world, &tenant, &endpoint).await;
    let theirs = settle_one(&world, &other, &taken, json!({"status_code": 200})).await;
    assert_eq!(theirs, result(&taken, "not_found", None));
    settle_one(&world, &tenant, &taken, json!({})).await;
    let push = world.endpoint(&tenant, "https://example.com/", "correct-horse-battery").await;
    assert_eq!(ask(&tenant, &push).await.error(), (409, "CONFLICT", "not_a_pull_endpoint"));
    let set_active = async |active: bool| {
        world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": active})).await.ok();
    };
    set_active(false).await;
    assert_eq!(ask(&tenant, &endpoint).await.error(), (409, "CONFLICT", "endpoint_inactive"));
    world.deliver(event(&tenant.id, "k")).await;
    set_active(true).await;
    let both = take(&world, &tenant, &endpoint).await;
    assert_eq!(jobs(&both).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["j", "k"]));
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    assert_eq!(ask(&tenant, &endpoint).await.error(), (404, "NOT_FOUND", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_deleted_endpoint_can_be_settled() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in ["good", "bad"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let taken = take(&world, &tenant, &endpoint).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    let good = settle_one(&world, &tenant, &taken[0], json!({"status_code": 200})).await;
    assert_eq!(good, result(&taken[0], "settled", Some("delivered")));
    let bad = settle_one(&world, &tenant, &taken[1], json!({"status_code": 500})).await;
    assert_eq!(bad, result(&taken[1], "settled", Some("ended")), "the delivery cannot be received again");
}

/// The numbers of pending and held deliveries in the statistics.
async fn open(world: &World, tenant: &Tenant) -> [u64; 2] {
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({})).await.ok().clone();
    ["pending", "held"].map(|status| stats["open"][status]["count"].as_u64().expect("a count"))
}

/// Sweeps this long after now.
async fn sweep_after(world: &World, seconds: u64) {
    crate::notices::sweep(world, Timestamp::now().after(Duration::from_secs(seconds))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_pull_endpoint_ends_its_deliveries() {
    let (world, tenant, endpoint) = with_endpoint(&[("LEASE_TIME", "3600"), ("RETRY_SCHEDULE", "600")]).await;
    let other = world.tenant("other").await;
    pull_endpoint(&world, &other, "correct-horse-battery").await;
    world.deliver(event(&other.id, "theirs")).await;
    let mut taken = Vec::new();
    for (job, status) in [("retried", Some(500)), ("resent", Some(200)), ("leased", None)] {
        world.deliver(event(&tenant.id, job)).await;
        let one = take_one(&world, &tenant, &endpoint).await;
        if let Some(status) = status {
            settle_one(&world, &tenant, &one, json!({"status_code": status})).await;
        }
        taken.push(one);
    }
    let resend = json!({"delivery_id": taken[1]["delivery_id"]});
    world.rpc(&tenant.key, "deliveries/resend", resend.clone()).await.ok();
    world.deliver(event(&tenant.id, "held")).await;
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok();
    world.handle_all().await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    for _repeated in 0..2 {
        sweep_after(&world, 10).await;
    }
    let log = world.log(&tenant.id).await;
    let left = log.iter().filter(|delivery| delivery.status != Status::Ended).map(|delivery| delivery.job_id.as_str());
    assert_eq!((log.len(), left.collect::<Vec<_>>()), (5, vec!["leased"]));
    assert_eq!(open(&world, &tenant).await, [0, 1]);
    assert_eq!((open(&world, &other).await, world.log(&other.id).await.len()), ([0, 1], 1));
    let settled = settle_one(&world, &tenant, &taken[2], json!({"status_code": 200})).await;
    assert_eq!(settled["status"], "delivered");
    assert_eq!(open(&world, &tenant).await, [0, 0]);

    // A client may resend a delivery to the deleted endpoint.
    world.rpc(&tenant.key, "deliveries/resend", resend).await.ok();
    assert_eq!(open(&world, &tenant).await, [1, 0]);
    sweep_after(&world, 60).await;
    assert_eq!(open(&world, &tenant).await, [0, 0]);
    sweep_after(&world, 16 * 60).await;
    let items = world.items("deliveries").await;
    let is_left = |item: &&Item| item.get("open").is_some_and(|open| open.as_s().is_ok_and(|open| open == "ending"));
    assert_eq!(items.iter().filter(is_left).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_endpoints_delivery_ends_with_its_lease() {
    let (world, tenant, endpoint) = with_endpoint(&[("LEASE_TIME", "1")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    take_one(&world, &tenant, &endpoint).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    ends_of_lease().await;
    sweep_after(&world, 10).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_deliveries_of_a_deleted_endpoint_end() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": false})).await.ok();
    world.deliver(event(&tenant.id, "early")).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    sweep_after(&world, 10).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Ended);
    // A process that had read the endpoint before holds a delivery afterwards.
    let book = Book::of(&world);
    book.write_one(&tenant, Draft::to(&endpoint, book.ago(HOUR), "late").status(Status::Held)).await;
    assert_eq!(open(&world, &tenant).await, [0, 1]);
    sweep_after(&world, 16 * 60).await;
    assert_eq!(open(&world, &tenant).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_to_an_existing_endpoint_stays_available() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let first = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &first, json!({"status_code": 200})).await;
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": first["delivery_id"]})).await.ok();
    sweep_after(&world, 10).await;
    sweep_after(&world, 16 * 60).await;
    take_one(&world, &tenant, &endpoint).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_can_be_received_at_once_and_ends_a_lease() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let first = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &first, json!({"status_code": 200})).await;
    let resend = json!({"delivery_id": first["delivery_id"]});
    world.rpc(&tenant.key, "deliveries/resend", resend.clone()).await.ok();
    assert_eq!(world.left().await, 0, "the delivery does not need a message");
    let second = take_one(&world, &tenant, &endpoint).await;
    assert_eq!((&second["attempt"], &second["body"]), (&json!(2), &first["body"]));
    assert_eq!(second["headers"]["webhook-id"], first["headers"]["webhook-id"]);
    world.rpc(&tenant.key, "deliveries/resend", resend).await.ok();
    assert_eq!(settle_one(&world, &tenant, &second, json!({"status_code": 200})).await["result"], "lease_expired");
    let third = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &third, json!({"status_code": 200})).await;
    let logged = world.only_logged(&tenant.id).await;
    assert_eq!((logged.status, logged.attempts), (Status::Delivered, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_secrets_sign_after_a_rotation_until_the_announced_end() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!(receive(&world, &tenant, &endpoint, 1).await.get("previous_secret_expires_at"), None);
    world
        .rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "signing_secret": "another-horse-battery"}))
        .await
        .ok();
    world.deliver(event(&tenant.id, "k")).await;
    let answer = receive(&world, &tenant, &endpoint, 10).await;
    assert!(answer["previous_secret_expires_at"].is_string(), "{answer}");
    let signatures = answer["deliveries"][0]["headers"]["webhook-signature"].as_str().expect("signatures");
    assert!(signatures.split(' ').count() >= 2, "{signatures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_of_a_pull_endpoint_waits_until_it_is_received() {
    let (world, tenant, endpoint) = with_endpoint(&[("RETRY_SCHEDULE", "0")]).await;
    let answer = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await;
    world.poll_all("deliveries").await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    assert_eq!((&taken["delivery_id"], &taken["event"]), (&answer.ok()["delivery_id"], &json!("webhook.test")));
    let settled = settle_one(&world, &tenant, &taken, json!({"status_code": 500})).await;
    assert_eq!(settled["status"], "failed", "a test has only one attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_410_disables_a_pull_endpoint_and_is_counted_once() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    for _ in 0..2 {
        let settled = settle_one(&world, &tenant, &taken, json!({"status_code": 410})).await;
        assert_eq!(settled, result(&taken, "settled", Some("failed")));
    }
    let disabled = world.only_endpoint(&tenant).await;
    assert_eq!((&disabled["active"], &disabled["disabled_reason"]), (&json!(false), &json!("gone")));
    let log = tests::log::of_this_test();
    for metric in ["DeliveryFailed", "EndpointDisabled"] {
        assert_eq!(log.metric(metric), [(1.0, "gone".to_owned())], "{metric}");
    }
    for message in ["delivery.failed", "endpoint.disabled"] {
        assert_eq!(log.0.iter().filter(|line| line["message"] == message).count(), 1, "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreceived_delivery_fails_and_can_be_recovered() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    let book = Book::of(&world);
    // The sweep checks the minute in which the delivery expires.
    over_age(&world, &tenant, &endpoint).await;
    world.sweep(Timestamp::now()).await;
    // No message was sent for this delivery, but the later check wakes it.
    world.sweep(Timestamp::now().after(HOUR)).await;
    world.handle_all().await;
    let failed = world.only_logged(&tenant.id).await;
    assert_eq!((failed.status, failed.attempts), (Status::Failed, 0));
    assert_eq!(failed.last_attempt.expect("why").outcome, "untaken");
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new());
    assert!(world.only_endpoint(&tenant).await["failing_since"].is_string());
    let fields = json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY * 4)});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    assert_eq!(run(&book).await.len(), 1);
    let taken = take_one(&world, &tenant, &endpoint).await;
    let settled = settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await;
    assert_eq!(settled["status"], "delivered");
}

/// A delivery to a pull endpoint that is past its deadline, with the due row for the deadline.
async fn over_age(world: &World, tenant: &Tenant, endpoint: &str) {
    let book = Book::of(world);
    let (mut old, payload) = Draft::to(endpoint, book.ago(DAY * 3), "old").delivery(&id(tenant));
    (old.attempts, old.tries, old.last_attempt, old.next_attempt_at) = (0, 0, None, None);
    let old = old.after(&AttemptResult::ToBeTaken, &[], || 0.0, book.now);
    book.put(vec![book.log.due_row(&id(tenant), &old, book.now)]).await;
    let first = book.log.first_row(&id(tenant), &old, Some(&payload), book.now);
    assert!(matches!(book.log.begin(vec![first]).await[..], [Ok(())]));
}

/// Settlements of one call are written together. Each of its calls to the tables fails with its repetitions, alone or
/// with all later ones, and the client repeats a failed call.
#[tokio::test(flavor = "multi_thread")]
async fn settlements_count_once_although_any_call_fails() {
    let (world, cut_off) = World::cut_off_with(&[("RETRY_SCHEDULE", "3600")]).await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    let mut jobs = (0..).map(|job: usize| event(&tenant.id, job));
    let mut take_three = async || {
        for event in jobs.by_ref().take(3) {
            world.deliver(event).await;
        }
        let taken = take(&world, &tenant, &endpoint).await;
        assert_eq!(taken.len(), 3);
        taken
    };
    let settle = async |taken: &[Value]| {
        let settlements =
            taken.iter().zip([200, 500, 200]).map(|(taken, status)| settlement(taken, json!({"status_code": status})));
        let fields = json!({"settlements": settlements.collect::<Vec<_>>()});
        world.rpc(&tenant.key, "deliveries/settle", fields).await
    };
    let (taken, before) = (take_three().await, world.calls());
    settle(&taken).await.ok();
    let calls = world.calls() - before;
    assert!((5..9).contains(&calls), "{calls}");
    let cases = (0..calls).flat_map(|call| [call + 3, u64::MAX].map(|end| call..end));
    for (failing, takes_effect) in cases.flat_map(|calls| [(calls.clone(), false), (calls, true)]) {
        let taken = take_three().await;
        cut_off.fail(failing.clone(), takes_effect);
        let broken = settle(&taken).await;
        cut_off.fail(0..0, false);
        let settled = if broken.status == 200 { broken } else { settle(&taken).await };
        let settled = settled.ok()["settlements"].as_array().expect("a list").clone();
        let results: Vec<_> = settled.iter().map(|settled| [&settled["result"], &settled["status"]]).collect();
        let expected = ["delivered", "pending", "delivered"].map(|status| [json!("settled"), json!(status)]);
        assert_eq!(results, expected.each_ref().map(|[result, status]| [result, status]), "{failing:?} {takes_effect}");
        let logged = world.log(&tenant.id).await;
        assert!(logged.iter().all(|delivery| delivery.attempts == 1), "{failing:?} {takes_effect}: {logged:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_delivery_fails_only_when_its_lease_ends() {
    let (world, tenant, endpoint) = with_endpoint(&[("LEASE_TIME", "3600")]).await;
    over_age(&world, &tenant, &endpoint).await;
    take_one(&world, &tenant, &endpoint).await;
    let delivery = world.only_logged(&tenant.id).await;
    let known = world.delivery_log().known(&id(&tenant), &[delivery.id]).await.expect("the log is read");
    let lease = known[&delivery.id].pull.as_ref().and_then(|pull| pull.lease?.ends).expect("a lease");
    world.enqueue("deliveries", json!({"tenant_id": tenant.id, "delivery_id": delivery.id, "attempt": 0})).await;
    world.poll_all("deliveries").await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Held);
    // The lease ends too late for a message, so the sweep wakes the delivery.
    world.forget_sweeps().await;
    world.sweep(lease.after(Duration::from_secs(60))).await;
    let woken = world.drain("deliveries").await;
    assert_eq!(woken, [json!({"tenant_id": tenant.id, "delivery_id": delivery.id, "attempt": 0})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_when_a_failed_delivery_is_available_again() {
    let (world, tenant, endpoint) = with_endpoint(&[("RETRY_SCHEDULE", "600")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &taken, json!({"status_code": 500})).await;
    let next = world.log_of(&tenant.id, Status::Pending).await[0].next_attempt_at.expect("a time");
    let list = read(&world, &tenant, "list", json!({})).await.ok().clone();
    assert_eq!(list["deliveries"][0]["next_attempt_at"], json!(next));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_are_received_one_by_one_and_none_is_lost() {
    let (world, tenant, endpoint) = with_endpoint(&[("KEPT_PAYLOAD_BYTES", "100000")]).await;
    let sizes = [100, 700, 60_000, 220_000, 240_000, 240_000, 240_000, 240_000, 240_000, 240_000];
    for (number, size) in sizes.into_iter().enumerate() {
        let mut told = event(&tenant.id, number);
        // Quotes and backslashes take the most space in JSON.
        told["result"] = json!("\"\\".repeat(size / 4));
        world.deliver(told).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut taken = Vec::new();
    loop {
        let answer = receive(&world, &tenant, &endpoint, 100).await;
        let some = answer["deliveries"].as_array().expect("deliveries").clone();
        let size = serde_json::to_string(&json!({"body": answer.to_string()})).expect("JSON").len();
        assert!(size < 6_291_556, "{size}");
        taken.extend(some);
        if answer["poll_after_ms"] != 0 {
            break;
        }
    }
    let numbers: Vec<_> = (0..sizes.len()).map(|number| number.to_string()).collect();
    assert_eq!(jobs(&taken), numbers);
    settle(&world, &tenant, &taken, json!({"status_code": 200})).await;
    for taken in &taken {
        let got = read(&world, &tenant, "get", json!({"delivery_id": taken["delivery_id"]})).await.ok().clone();
        assert_eq!(got["delivery"]["status"], "delivered");
        assert!(got.get("payload").is_none_or(|payload| *payload == taken["body"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicated_event_waits_once() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    let sent_at = Timestamp::now().as_millisecond().to_string();
    let message = async |receives: &str| {
        let mut records = records([event(&tenant.id, "j")]);
        records["Records"][0]["attributes"] = json!({"SentTimestamp": sent_at, "ApproximateReceiveCount": receives});
        let answer = world.stack.invoke("webhooks-deliver", records).await.expect("an answer");
        assert_eq!(answer["batchItemFailures"], json!([]));
    };
    message("1").await;
    message("2").await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    message("3").await;
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new(), "it is leased");
    settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_problem_of_a_settlement_is_an_issue_with_its_path() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let issues = async |fields: Value| {
        let answer = world.rpc(&tenant.key, "deliveries/settle", fields).await;
        let issues: Vec<String> = answer.json()["data"]["issues"]
            .as_array()
            .expect("issues")
            .iter()
            .map(|issue| {
                let path = issue["path"].as_array().expect("a path").iter();
                path.map(|part| part.as_str().unwrap_or_default()).collect::<Vec<_>>().join(".")
            })
            .collect();
        (answer.status, issues.join(" "))
    };
    let valid = "019c1422-7c00-7b4c-8e6f-3a5b7d9f1c24.0.1769860800000.1854d20f452c5b4c1e350d7c7a00518b";
    for (fields, paths) in [
        (json!({}), "settlements"),
        (json!({"settlements": []}), "settlements"),
        (json!({"settlements": {}}), "settlements"),
        (json!({"settlements": vec![json!({}); 101]}), "settlements"),
        (json!({"settlements": [7, {}]}), "settlements.0 settlements.1.delivery_id settlements.1.lease"),
        (
            json!({"settlements": [{"delivery_id": valid, "lease": "x", "status_code": 7, "error": "bad",
                "duration_ms": -1, "response": 1}]}),
            "settlements.0.lease settlements.0.status_code settlements.0.error settlements.0.duration_ms \
             settlements.0.response",
        ),
        (
            json!({"settlements": [{"delivery_id": valid, "lease": "01890f3e-7b5a-7cc0-8000-000000000000",
                "status_code": 200, "error": "dns"}]}),
            "settlements.0.error",
        ),
    ] {
        assert_eq!(issues(fields.clone()).await, (400, paths.to_owned()), "{fields}");
    }
}

/// Deliveries to a pull endpoint, stored as `webhooks-deliver` stores them. Some are available, and others were settled
/// long ago.
async fn fill(book: &Book, tenant: &Tenant, endpoint: &str, settled: u32, waiting: u32) {
    let tenant_id = id(tenant);
    book.write(tenant, (0..settled).map(|number| Draft::to(endpoint, book.ago(HOUR * 2), number))).await;
    let waiting = (0..waiting).map(|number| {
        let at = book.ago(HOUR).after(Duration::from_millis(number.into()));
        let (delivery, payload) = Draft::to(endpoint, at, format!("waiting {number}")).delivery(&tenant_id);
        let delivery = common::webhooks::delivery::Delivery::new(delivery.id, delivery.event, delivery.job_id);
        (delivery.after(&AttemptResult::ToBeTaken, &[], || 0.0, book.now), payload)
    });
    let waiting: Vec<_> = waiting.collect();
    let firsts: Vec<_> = waiting
        .iter()
        .map(|(delivery, payload)| book.log.first_row(&tenant_id, delivery, Some(payload), book.now))
        .collect();
    assert!(book.log.begin(firsts).await.iter().all(Result::is_ok));
}

async fn reads_little(settled: u32, waiting: u32) {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    fill(&Book::of(&world), &tenant, &endpoint, settled, waiting).await;
    for limit in [1, 10, 100] {
        let _before = world.units();
        let taken = receive(&world, &tenant, &endpoint, limit).await;
        let taken = taken["deliveries"].as_array().expect("deliveries").len();
        let items = world.units().items;
        assert_eq!(taken, limit as usize);
        // One read each: the key, its user, the endpoint, and the index entry of each delivery.
        assert!(items <= 3 + taken, "{taken} read {items}");
    }
    let settled = take(&world, &tenant, &endpoint).await;
    settle(&world, &tenant, &settled, json!({"status_code": 204})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receive_does_not_read_settled_deliveries() {
    reads_little(1_000, 220).await;
}

/// `cargo test -p tests --test service behind_200_000 -- --ignored`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_delivery_behind_200_000_is_received_without_reading_them() {
    reads_little(200_000, 1_000).await;
}

/// The shards for the other deliveries are derived from a first delivery.
#[tokio::test(flavor = "multi_thread")]
async fn a_spread_log_is_received_oldest_first() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "before")).await;
    world.stored_endpoints().spread_log(&id(&tenant), endpoint.parse().expect("an id")).await.expect("it is spread");
    for job in 0..20 {
        world.deliver(event(&tenant.id, job)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let shards: BTreeSet<_> = world.log(&tenant.id).await.iter().map(|delivery| delivery.id.shard).collect();
    assert!(shards.len() > 1 && shards.iter().all(|shard| *shard < SHARDS), "{shards:?}");
    let mut taken = Vec::new();
    while taken.len() < 21 {
        taken.extend(receive(&world, &tenant, &endpoint, 4).await["deliveries"].as_array().expect("some").clone());
    }
    let expected: Vec<_> = ["before".to_owned()].into_iter().chain((0..20).map(|job| job.to_string())).collect();
    assert_eq!(jobs(&taken), expected);
}

/// The figures for polls and events in docs/performance.md.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_poll_reads_four_small_items_and_writes_nothing() {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    receive(&world, &tenant, &endpoint, 10).await;
    let _before = world.units();
    assert_eq!(receive(&world, &tenant, &endpoint, 10).await["poll_after_ms"], 3_000);
    let idle = world.units();
    eprintln!("an idle poll: {idle:?}");
    assert!(idle.calls <= 4 && idle.read <= 3.5 && idle.written == 0.0, "{idle:?}");

    world.deliver(event(&tenant.id, "warm")).await;
    settle(&world, &tenant, &take(&world, &tenant, &endpoint).await, json!({"status_code": 204})).await;
    for job in 0..10 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    let _before = world.units();
    world.poll("job-events").await;
    let recorded = world.units();
    let taken = take(&world, &tenant, &endpoint).await;
    let leased = world.units();
    settle(&world, &tenant, &taken, json!({"status_code": 204})).await;
    let settled = world.units();
    eprintln!("ten events: recorded {recorded:?}, taken {leased:?}, settled {settled:?}");
    let written = recorded.written + leased.written + settled.written;
    assert!(taken.len() == 10 && written <= 100.0, "{written}");
    assert!(leased.calls + settled.calls <= 17, "{leased:?} {settled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_settled_together_all_count_toward_the_streak() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in 0..3 {
        world.deliver(event(&tenant.id, job)).await;
    }
    settle(&world, &tenant, &take(&world, &tenant, &endpoint).await, json!({"status_code": 500})).await;
    let items = world.items("webhook-endpoints").await;
    let streak = items.iter().find_map(|item| item.get("streak")?.as_s().ok()).expect("a streak");
    assert!(streak.ends_with(".3"), "{streak}");
}

#[tokio::test]
async fn the_first_of_two_settlements_in_one_call_counts() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in ["one", "other"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let taken = take(&world, &tenant, &endpoint).await;
    let (one, other) = (&taken[0], &taken[1]);
    let outcomes = [(one, json!({"status_code": 200})), (other, json!({"status_code": 204})), (one, json!({}))];
    let settlements = outcomes.map(|(taken, outcome)| settlement(taken, outcome));
    let fields = json!({"settlements": settlements});
    for _ in ["at first", "again"] {
        let answer = world.rpc(&tenant.key, "deliveries/settle", fields.clone()).await;
        let expected = [one, other, one].map(|taken| result(taken, "settled", Some("delivered")));
        assert_eq!(answer.ok()["settlements"], json!(expected));
    }
    let attempts = world.log(&tenant.id).await.into_iter().map(|delivery| delivery.attempts);
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 1]);
}
