//! Failing endpoints, from the first failed attempts until a success or until they are disabled.

use std::time::Duration;

use common::{
    audit::Recorder,
    aws::clients::Aws,
    config::Env,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, Failure, Outcome, Trigger},
        endpoints::{Consequence, DisabledReason, Endpoints, Health},
        event::EventName,
    },
};
use serde_json::json;
use tests::{Receiver, Tenant, World, callback, event};

pub(crate) const DAY: i64 = 24 * 60 * 60 * 1000;

/// A world with a tenant, in which each delivery is attempted only once.
pub(crate) async fn impatient() -> (World, Tenant) {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    (world, tenant)
}

/// Changes the time at which the endpoint started to fail.
pub(crate) async fn failing_for(world: &World, tenant: &Tenant, endpoint: &str, milliseconds: i64) {
    let since = Timestamp::now().as_millisecond() - milliseconds;
    assert!(world.only_endpoint(tenant).await["failing_since"].is_string());
    world.set("webhook-endpoints", ("webhook_endpoint_id", endpoint), json!({"failing_since": since})).await;
}

/// Changes the start of the endpoint's failed attempts to this many seconds ago, and returns it.
pub(crate) async fn failing_since(world: &World, tenant: &Tenant, endpoint: &str, seconds: u64) -> Timestamp {
    let is_it = |item: &tests::world::tables::Item| {
        let has = |name: &str, text: &str| item.get(name).is_some_and(|found| found.as_s().is_ok_and(|is| is == text));
        has("tenant_id", &tenant.id) && has("webhook_endpoint_id", endpoint)
    };
    let item = world.items("webhook-endpoints").await.into_iter().find(|item| is_it(item)).expect("an endpoint");
    let streak = item["streak"].as_s().expect("failed attempts");
    let since = Timestamp::now().before(Duration::from_secs(seconds));
    let (_, attempts) = streak.split_once('.').expect("a number of attempts");
    let streak = json!({"streak": format!("{}.{attempts}", since.as_millisecond())});
    assert_eq!(world.set_where("webhook-endpoints", is_it, &streak).await, 1);
    since
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_fails_from_a_failed_delivery_until_a_success() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[]), (500, &[]), (500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    assert_eq!(world.only_endpoint(&tenant).await.get("failing_since"), None, "another attempt follows");
    while world.poll_due().await == 0 {}
    let delivery = world.only_logged(&tenant.id).await;
    let failing = world.only_endpoint(&tenant).await;
    assert_eq!(failing["failing_since"], json!(delivery.attempts_so_far().next().expect("an attempt").at));
    assert_eq!(failing["first_failed_delivery_at"], json!(delivery.last_attempt.expect("an attempt").at));
    assert_eq!((&failing["active"], failing.get("disabled_at")), (&json!(true), None));
    assert_eq!(failing["updated_at"], failing["created_at"], "the tenant has not changed it");

    // Another failed delivery changes nothing.
    world.deliver(event(&tenant.id, "2")).await;
    while world.poll_due().await == 0 {}
    assert_eq!(world.only_endpoint(&tenant).await, failing);
    // A delivery that succeeds on its second attempt also counts as a success.
    world.deliver(event(&tenant.id, "3")).await;
    while receiver.count().await < 5 {
        world.poll_due().await;
    }
    assert_eq!(world.only_endpoint(&tenant).await, failing);
    while receiver.count().await < 6 {
        world.poll_due().await;
    }
    assert_eq!(world.only_endpoint(&tenant).await.get("failing_since"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_at_the_first_attempt_ends_the_failing_state() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    assert!(world.only_endpoint(&tenant).await["failing_since"].is_string());
    world.deliver(event(&tenant.id, "2")).await;
    assert_eq!(world.only_endpoint(&tenant).await.get("failing_since"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_disabled_after_five_days_until_activation() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[]), (500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    failing_for(&world, &tenant, &id, 5 * DAY - 60_000).await;
    world.deliver(event(&tenant.id, "2")).await;
    assert_eq!(world.only_endpoint(&tenant).await["active"], true);
    failing_for(&world, &tenant, &id, 5 * DAY).await;
    world.deliver(event(&tenant.id, "3")).await;
    let disabled = world.only_endpoint(&tenant).await;
    assert_eq!((&disabled["active"], &disabled["disabled_reason"]), (&json!(false), &json!("failing")));
    assert!(disabled["disabled_at"].is_string() && disabled["failing_since"].is_string(), "{disabled}");
    world.deliver(event(&tenant.id, "4")).await;
    assert_eq!(receiver.count().await, 3, "the endpoint gets no more events");

    // An update without `active: true` enables nothing.
    for change in [json!({"id": id, "description": "ours"}), json!({"id": id, "active": false})] {
        world.rpc(&tenant.key, "webhooks/update", change).await.ok();
        assert_eq!(world.only_endpoint(&tenant).await["disabled_at"], disabled["disabled_at"]);
    }
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": true})).await.ok();
    let afresh = world.only_endpoint(&tenant).await;
    assert_eq!(afresh["active"], true);
    for member in ["failing_since", "disabled_at", "disabled_reason"] {
        assert_eq!(afresh.get(member), None, "{member}");
    }
    world.deliver(event(&tenant.id, "5")).await;
    let failing = world.only_endpoint(&tenant).await;
    assert_eq!((receiver.count().await, &failing["active"]), (4, &json!(true)));
    assert!(failing["failing_since"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_may_be_allowed_to_fail_forever() {
    let world = World::with(&[("RETRY_SCHEDULE", ""), ("DISABLE_AFTER", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    failing_for(&world, &tenant, &id, 1000 * DAY).await;
    world.deliver(event(&tenant.id, "2")).await;
    assert_eq!(world.only_endpoint(&tenant).await["active"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_410_disables_an_endpoint_at_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    let disabled = world.only_endpoint(&tenant).await;
    assert_eq!((&disabled["active"], &disabled["disabled_reason"]), (&json!(false), &json!("gone")));
    assert_eq!(disabled["failing_since"], json!(world.only_logged(&tenant.id).await.last_attempt.expect("one").at));
    assert!(disabled["disabled_at"].is_string());
    world.deliver(event(&tenant.id, "2")).await;
    assert_eq!(receiver.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_callback_does_not_affect_endpoints() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(callback(&tenant.id, "j", receiver.url("/"))).await;
    assert_eq!(receiver.count().await, 1);
    let endpoint = world.only_endpoint(&tenant).await;
    assert_eq!((&endpoint["active"], endpoint.get("failing_since")), (&json!(true), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_410_of_a_former_url_does_not_disable_the_endpoint() {
    let (world, tenant) = impatient().await;
    let id = world.endpoint(&tenant, "https://example.com/old", "s").await;
    let settings = world.stack.environment("webhooks-deliver").expect("a function").clone();
    let env = Env::new(move |name| settings.get(name).cloned());
    let endpoints = Endpoints::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings");
    let recorder = Recorder::system(&env).expect("settings");
    let (owner, endpoint) = (tenant.id.parse().expect("a tenant"), id.parse().expect("an id"));
    let gone = async |at: Timestamp| {
        let answer = Outcome::Failed(Failure::Status(410, None));
        let last_attempt = Some(Attempt::new(at, 1, answer, None, Trigger::Schedule));
        let delivery = Delivery { event: EventName::Completed, last_attempt, ..Delivery::test(endpoint, at) };
        let (health, now) = (Health::default(), Timestamp::now());
        let noted = endpoints.delivery_failed(&recorder, &owner, &delivery, health, Duration::ZERO, now);
        noted.await.expect("a call")
    };
    let before = Timestamp::now();
    tokio::time::sleep(Duration::from_millis(2)).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "url": "https://example.com/new"})).await.ok();
    assert_eq!((gone(before).await, &world.only_endpoint(&tenant).await["active"]), (None, &json!(true)));
    let after = Timestamp::now().after(Duration::from_millis(2));
    assert_eq!(gone(after).await, Some(Consequence::Disabled(DisabledReason::Gone)));
}

/// A record is redelivered long after its attempt was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_repetition_undoes_neither_a_success_nor_a_fresh_start() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com", "s").await;
    let settings = world.stack.environment("webhooks-deliver").expect("a function").clone();
    let env = Env::new(move |name| settings.get(name).cloned());
    let endpoints = Endpoints::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings");
    let recorder = Recorder::system(&env).expect("settings");
    let (owner, endpoint) = (tenant.id.parse().expect("a tenant"), id.parse().expect("an id"));
    let note = async |attempt: &Attempt| {
        let (health, now) = (Health::default(), Timestamp::now());
        let event = EventName::Completed;
        let delivery = Delivery { event, last_attempt: Some(attempt.clone()), ..Delivery::test(endpoint, now) };
        let noted = endpoints.delivery_failed(&recorder, &owner, &delivery, health, Duration::ZERO, now);
        noted.await.expect("a call")
    };
    let failed =
        |at, status| Attempt::new(at, 1, Outcome::Failed(Failure::Status(status, None)), None, Trigger::Schedule);
    let (start, ago) = (Timestamp::now(), |seconds| Timestamp::now().before(Duration::from_secs(seconds)));
    let (first, gone) = (failed(ago(60), 500), failed(ago(60), 410));
    assert_eq!(note(&first).await, Some(Consequence::Failing));
    assert_eq!(note(&first).await, None, "the second failure does not change anything");

    endpoints.note_answered(&owner, endpoint, ago(30)).await.expect("a call");
    for late in [&first, &gone] {
        assert_eq!(note(late).await, None);
    }
    let healthy = world.only_endpoint(&tenant).await;
    assert_eq!((&healthy["active"], healthy.get("failing_since")), (&json!(true), None));

    assert_eq!(note(&failed(ago(20), 500)).await, Some(Consequence::Failing));
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": true})).await.ok();
    for late in [failed(start, 500), failed(start, 410)] {
        assert_eq!(note(&late).await, None);
    }
    assert_eq!(note(&failed(Timestamp::now().after(Duration::from_secs(1)), 500)).await, Some(Consequence::Failing));
}

/// The error in an endpoint's item, and the time of the error.
async fn noted(world: &World, tenant: &Tenant, endpoint: &str) -> Option<serde_json::Value> {
    let fields = json!({"webhook_endpoint_id": endpoint});
    world.rpc(&tenant.key, "deliveries/stats", fields).await.ok().get("last_error").cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_three_errors_one_a_minute_is_noted() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (501, &[]), (503, &[]), (502, &[]), (500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    assert_eq!(noted(&world, &tenant, &endpoint).await, None);
    world.deliver(event(&tenant.id, "1")).await;
    let first = world.only_logged(&tenant.id).await.last_attempt.expect("an attempt");
    let error = noted(&world, &tenant, &endpoint).await.expect("an error");
    assert_eq!(error, json!({"at": first.at, "reason": "status_5xx", "status_code": 500}));
    for job in ["1.1", "1.2"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let error = noted(&world, &tenant, &endpoint).await.expect("an error");
    assert_eq!(error["status_code"], 501);
    world.deliver(event(&tenant.id, "2")).await;
    assert_eq!(noted(&world, &tenant, &endpoint).await, Some(error), "the last error is from the same minute");

    let before = first.at.before(Duration::from_secs(61)).as_millisecond();
    world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), json!({"erred_at": before})).await;
    world.deliver(event(&tenant.id, "3")).await;
    let third = noted(&world, &tenant, &endpoint).await.expect("an error");
    assert_eq!(third["status_code"], 502);

    // A test does not change the last error, and a success does not remove an earlier error.
    world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), json!({"erred_at": before})).await;
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok();
    world.handle_all().await;
    world.deliver(event(&tenant.id, "4")).await;
    world.handle_all().await;
    assert_eq!(receiver.count().await, 7);
    let kept = noted(&world, &tenant, &endpoint).await.expect("an error");
    assert_eq!((&kept["status_code"], &kept["at"]), (&json!(502), &json!(Timestamp::from_millisecond(before))));
    // The previous receiver's errors do not count against the new one.
    world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "url": receiver.url("/new")})).await.ok();
    assert_eq!(noted(&world, &tenant, &endpoint).await, None);
}

/// A failed test is not a missed event, so the page does not show a banner for it, and recoveries do not resend it.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_test_is_listed_but_neither_counted_nor_recovered() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let test = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await;
    world.poll_all("deliveries").await;
    for filter in [json!({"status": "failed"}), json!({"status": "failed", "event": "webhook.test"}), json!({})] {
        let listed = world.rpc(&tenant.key, "deliveries/list", filter).await;
        assert_eq!(listed.ok()["deliveries"][0]["delivery_id"], test.ok()["delivery_id"]);
        assert_eq!(listed.ok()["deliveries"].as_array().map(Vec::len), Some(1));
    }
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({})).await;
    assert_eq!((&stats.ok()["total"]["failed"], &stats.ok()["open"]["failed"]["count"]), (&json!(0), &json!(0)));
    let page = tests::Browser::new(&world, &tenant.cookie).open("/console").await;
    assert!(!page.page().contains("notice bad") && !page.page().contains("Resend"), "{}", page.page());
    let since = Timestamp::now().before(Duration::from_mins(1));
    let fields = json!({"webhook_endpoint_id": endpoint, "since": since});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    world.sweep(Timestamp::now()).await;
    world.poll_all("deliveries").await;
    assert_eq!(receiver.count().await, 1);
}
