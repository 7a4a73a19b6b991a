//! Resends, recoveries, erasures and tests.

use serde_json::{Value, json};
use tests::{Browser, Receiver, Tenant, World, event, text};

use super::{entries, latest};

/// Starts a world with an endpoint and one delivery to it, which has succeeded.
async fn delivered() -> (World, Receiver, Tenant, String, Value) {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "job")).await;
    let listed = world.rpc(&tenant.key, "deliveries/list", json!({})).await.ok().clone();
    let delivery = listed["deliveries"][0].clone();
    (world, receiver, tenant, endpoint, delivery)
}

/// The action, target and changes of an entry.
fn recorded(entry: &Value) -> Value {
    json!([entry["action"], entry["target"], entry["changes"]])
}

#[tokio::test(flavor = "multi_thread")]
async fn each_act_on_deliveries_is_recorded_with_its_object() {
    let (world, _receiver, tenant, endpoint, delivery) = delivered().await;
    let (id, since) = (&delivery["delivery_id"], "2026-01-01T00:00:00.000Z");
    let until = "2026-01-02T00:00:00.000Z";
    let url = &world.only_endpoint(&tenant).await["url"];
    for (route, fields, expected) in [
        (
            "webhooks/test",
            json!({"id": endpoint, "event": "job.failed"}),
            json!(["webhook.tested", {"kind": "endpoint", "id": endpoint, "name": url}, [{"field": "event", "new": "job.failed"}]]),
        ),
        (
            "deliveries/resend",
            json!({"delivery_id": id}),
            json!([
                "delivery.resent", {"kind": "delivery", "id": id, "name": "job"},
                [{"field": "webhook_endpoint_id", "new": endpoint}],
            ]),
        ),
        (
            "deliveries/recover",
            json!({"webhook_endpoint_id": endpoint, "since": since, "until": until, "status": "failed"}),
            json!([
                "recovery.started", {"kind": "endpoint", "id": endpoint},
                [{"field": "status", "new": "failed"}, {"field": "since", "new": since}, {"field": "until", "new": until}],
            ]),
        ),
        (
            "deliveries/erase",
            json!({"since": since, "until": until, "webhook_endpoint_id": endpoint}),
            json!([
                "erasure.requested", {"kind": "endpoint", "id": endpoint},
                [{"field": "since", "new": since}, {"field": "until", "new": until}],
            ]),
        ),
        (
            "deliveries/erase",
            json!({"until": until}),
            json!(["erasure.requested", {"kind": "organization", "id": tenant.id}, [{"field": "until", "new": until}]]),
        ),
        (
            "deliveries/erase",
            json!({"job_id": "another"}),
            json!(["erasure.requested", {"kind": "job", "id": "another"}, []]),
        ),
    ] {
        world.rpc(&tenant.key, route, fields.clone()).await.ok();
        let entry = &entries(&world, &tenant, json!({"limit": 1})).await[0];
        assert_eq!(recorded(entry), expected, "{route} {fields}");
        assert_eq!((&entry["actor"]["kind"], &entry["ip"]), (&json!("key"), &json!("127.0.0.1")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_erasure_and_one_with_a_cursor_are_recorded() {
    let (world, _receiver, tenant, _, delivery) = delivered().await;
    let id = delivery["delivery_id"].clone();
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": id})).await.ok();
    let refused = world.rpc(&tenant.key, "deliveries/erase", json!({"delivery_id": id})).await;
    assert_eq!(refused.status, 409);
    let entry = latest(&world, &tenant, "erasure.requested").await;
    assert_eq!(recorded(&entry), json!(["erasure.requested", {"kind": "delivery", "id": id}, []]));
    let cursor = id.as_str().expect("an id").rsplitn(3, '.').take(2).collect::<Vec<_>>();
    let cursor = cursor.into_iter().rev().collect::<Vec<_>>().join(".");
    world.rpc(&tenant.key, "deliveries/erase", json!({"job_id": "job", "cursor": cursor})).await.ok();
    let entry = latest(&world, &tenant, "erasure.requested").await;
    assert_eq!(recorded(&entry), json!(["erasure.requested", {"kind": "job", "id": "job"}, []]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_an_endpoint_leads_to_its_changes() {
    let (world, _receiver, tenant, endpoint, delivery) = delivered().await;
    let id = text(&delivery["delivery_id"]);
    world
        .rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "events": ["job.failed"], "payload": "thin"}))
        .await
        .ok();
    let browser = Browser::new(&world, &tenant.cookie);
    let page = format!("/console/endpoints/{endpoint}");
    let changes = format!("/console/audit?target={endpoint}");
    assert!(browser.open(&page).await.page().contains(&format!("href=\"{changes}\"")));
    let listed = browser.open(&changes).await;
    for expected in ["Endpoint created", "Events: all \u{2192} job.failed", "Payload: full \u{2192} thin"] {
        assert!(listed.page().contains(expected), "{expected}: {}", listed.page());
    }
    assert!(!listed.page().contains("API key created</td>"), "{}", listed.page());

    let path = format!("/console/deliveries/{id}");
    let delivery = browser.open(&path).await;
    browser.press(&path, &delivery, "Resend", &[]).await;
    let all = browser.open("/console/audit").await;
    for expected in ["Delivery resent", &format!("href=\"{path}\"")] {
        assert!(all.page().contains(expected), "{expected}: {}", all.page());
    }
    let member = world.member(&tenant, "member@example.com", "member").await;
    let shown = Browser::new(&world, &member.cookie).open(&page).await;
    assert!(!shown.page().contains(&changes), "only owners may read the log");
}
