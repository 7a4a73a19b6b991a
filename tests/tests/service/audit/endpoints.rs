//! Changes to endpoints.

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Receiver, World, event};

use super::{count, entries, latest, records};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_an_endpoint_names_its_old_and_new_values() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let fields = json!({
        "url": "http://127.0.0.1:9/hook?token=s3cret-query", "description": "Ours", "events": ["job.failed"],
        "headers": {"x-key": "s3cret-header"}, "signing_secret": "s3cret-signing-one",
    });
    let created = world.rpc(&tenant.key, "webhooks/create", fields).await.ok().clone();
    let id = &created["webhook_endpoint_id"];
    let entry = latest(&world, &tenant, "webhook.created").await;
    assert_eq!(entry["target"], json!({"kind": "endpoint", "id": id, "name": "http://127.0.0.1:9/hook"}));
    let expected = json!([
        {"field": "url", "new": "http://127.0.0.1:9/hook"},
        {"field": "active", "new": "true"},
        {"field": "description", "new": "Ours"},
        {"field": "events", "new": "job.failed"},
        {"field": "headers", "new": "x-key"},
    ]);
    assert_eq!(entry["changes"], expected);
    assert_eq!(entry["actor"]["kind"], "key");
    assert_eq!((&entry["actor"]["name"], &entry["actor"]["email"]), (&json!("test"), &json!(tenant.email)));
    assert_eq!(entry["ip"], "127.0.0.1");

    for (fields, expected) in [
        (json!({"description": null}), json!([{"field": "description", "old": "Ours"}])),
        (
            json!({"events": ["job.failed", "job.completed"], "workflows": ["b", "a"]}),
            json!([
                {"field": "events", "old": "job.failed", "new": "job.completed, job.failed"},
                {"field": "workflows", "new": "a, b"},
            ]),
        ),
        (json!({"active": false}), json!([{"field": "active", "old": "true", "new": "false"}])),
        (json!({"headers": {"x-key": "s3cret-other"}}), json!([{"field": "headers"}])),
        (json!({"headers": {"x-new": "s3cret-new"}}), json!([{"field": "headers", "old": "x-key", "new": "x-new"}])),
        (json!({"signing_secret": "s3cret-signing-two"}), json!([{"field": "signing_secret"}])),
        (
            json!({"url": "http://127.0.0.1:9/hook?token=s3cret-two", "headers": null}),
            json!([
                {"field": "url"}, {"field": "headers", "old": "x-new"},
            ]),
        ),
        (
            json!({"url": "http://127.0.0.1:9/other?s3cret"}),
            json!([{"field": "url", "old": "http://127.0.0.1:9/hook", "new": "http://127.0.0.1:9/other"}]),
        ),
    ] {
        let mut change = fields.clone();
        change["id"] = id.clone();
        world.rpc(&tenant.key, "webhooks/update", change.clone()).await.ok();
        assert_eq!(latest(&world, &tenant, "webhook.updated").await["changes"], expected, "{fields}");
        let before = count(&world).await;
        world.rpc(&tenant.key, "webhooks/update", change).await.ok();
        assert_eq!(count(&world).await, before, "the values are unchanged: {fields}");
    }

    world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();
    let entry = latest(&world, &tenant, "webhook.deleted").await;
    assert_eq!(entry["target"], json!({"kind": "endpoint", "id": id, "name": "http://127.0.0.1:9/other"}));
    for item in world.items("audit").await {
        assert!(!format!("{item:?}").contains("s3cret"), "{item:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_endpoint_names_the_settler_or_the_service() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    let pushed = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let pulled = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await.ok().clone();
    let pulled = pulled["webhook_endpoint_id"].as_str().expect("an id");
    world.deliver(event(&tenant.id, "j")).await;
    let endpoint = json!({"webhook_endpoint_id": pulled});
    let taken = world.rpc(&tenant.key, "deliveries/receive", endpoint).await.ok()["deliveries"][0].clone();
    let settled = json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": 410});
    world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": [settled]})).await.ok();
    let found = entries(&world, &tenant, json!({"action": "webhook.disabled"})).await;
    let targets: Vec<_> = found.iter().map(|entry| entry["target"]["id"].as_str().expect("an id")).collect();
    assert_eq!(targets, [pulled, &pushed]);
    let actor = &found[0]["actor"];
    assert_eq!(
        (&actor["kind"], &actor["name"], &actor["email"]),
        (&json!("key"), &json!("test"), &json!(tenant.email))
    );
    assert_eq!(found[0]["ip"], "127.0.0.1");
    assert_eq!(found[1]["actor"], json!({"kind": "system", "id": "system"}));
    assert_eq!((&found[1]["ip"], &found[1]["user_agent"]), (&Value::Null, &Value::Null));
    for entry in found {
        let changes = json!([{"field": "active", "old": "true", "new": "false"}, {"field": "reason", "new": "gone"}]);
        assert_eq!(entry["changes"], changes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_of_an_endpoint_are_all_recorded() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "http://127.0.0.1:9/0", "s").await;
    let changes = (1..=10).map(async |number| {
        let fields = json!({"id": id, "url": format!("http://127.0.0.1:9/{number}")});
        world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
    });
    join_all(changes).await;
    // Each change replaced the value that the previous change had set.
    let found = entries(&world, &tenant, json!({"action": "webhook.updated"})).await;
    let mut values: Vec<_> =
        found.iter().map(|entry| (&entry["changes"][0]["old"], &entry["changes"][0]["new"])).collect();
    assert_eq!(values.len(), 10);
    let mut value = &json!("http://127.0.0.1:9/0");
    while let Some(index) = values.iter().position(|(old, _)| *old == value) {
        value = values.swap_remove(index).1;
    }
    assert!(values.is_empty(), "{values:?}");
    assert_eq!(&world.only_endpoint(&tenant).await["url"], value);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_be_recorded_is_not_made() {
    let (world, switch) = World::failing(records).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    let (before, recorded) = (world.endpoints(&tenant).await, count(&world).await);
    switch.on();
    for (route, fields) in [
        ("create", json!({"url": "http://127.0.0.1:9/other"})),
        ("update", json!({"id": id, "description": "new"})),
        ("delete", json!({"id": id})),
    ] {
        let answer = world.rpc(&tenant.key, &format!("webhooks/{route}"), fields).await;
        assert_eq!(answer.status, 500, "{route}");
    }
    switch.off();
    assert_eq!((world.endpoints(&tenant).await, count(&world).await), (before, recorded));
}

/// A process may die before or after each of its calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_leaves_both_the_change_and_its_entry_or_neither() {
    let lives = (0..5).flat_map(|call| [(call, false), (call, true)]).map(async |(call, takes_effect)| {
        let (world, cut_off) = World::cut_off().await;
        let tenant = world.tenant("acme").await;
        let id = world.endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
        cut_off.fail(call..call + 3, takes_effect);
        let _lost = world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "description": "new"})).await;
        // Repeats the change until none of its calls fails.
        while world.rpc(&tenant.key, "webhooks/list", json!({})).await.status != 200 {}
        let is_changed = world.only_endpoint(&tenant).await["description"] == "new";
        let is_recorded = !entries(&world, &tenant, json!({"action": "webhook.updated"})).await.is_empty();
        assert_eq!(is_changed, is_recorded, "call {call}");
        is_changed
    });
    let changed = join_all(lives).await;
    assert!(changed.contains(&true) && changed.contains(&false), "{changed:?}");
}
