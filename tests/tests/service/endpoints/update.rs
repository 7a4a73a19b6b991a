//! `POST /v1/webhooks/update`.

use serde_json::{Value, json};
use tests::World;

#[tokio::test(flavor = "multi_thread")]
async fn an_update_changes_only_the_given_fields() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let update = async |mut fields: Value| {
        let before = world.endpoints(&tenant).await.remove(0);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        fields["id"] = json!(id);
        let answer = world.rpc(&tenant.key, "webhooks/update", fields).await;
        assert_eq!(answer.ok()["success"], true);
        (before, world.endpoints(&tenant).await.remove(0))
    };
    let (before, after) = update(json!({})).await;
    assert_eq!(before, after);
    let (before, after) = update(json!({"description": "new", "url": "https://example.com/2", "active": false})).await;
    assert_eq!(after["description"], "new");
    assert_eq!(after["url"], "https://example.com/2");
    assert_eq!(after["active"], false);
    assert_eq!(after["created_at"], before["created_at"]);
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    let (_, after) = update(json!({"description": null})).await;
    assert_eq!(after.get("description"), None);
    assert_eq!(after["url"], "https://example.com/2");
    let (before, after) = update(json!({"signing_secret": "rotated-horse-battery"})).await;
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    assert!(format!("{:?}", world.items("webhook-endpoints").await).contains("rotated"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_an_endpoint_are_set_kept_and_cleared() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let create = json!({
        "url": "https://example.com", "signing_secret": "correct-horse-battery", "events": ["job.failed", "job.failed"],
    });
    let id = world.rpc(&tenant.key, "webhooks/create", create).await.ok()["webhook_endpoint_id"].clone();
    assert_eq!(world.endpoints(&tenant).await[0]["events"], json!(["job.failed"]));
    for (fields, events) in [
        (json!({"description": "ours"}), Some(json!(["job.failed"]))),
        (json!({"events": ["job.failed", "job.completed"]}), Some(json!(["job.completed", "job.failed"]))),
        (json!({"events": null}), None),
        (json!({"events": ["job.completed"]}), Some(json!(["job.completed"]))),
    ] {
        let mut update = fields.clone();
        update["id"] = id.clone();
        world.rpc(&tenant.key, "webhooks/update", update).await.ok();
        assert_eq!(world.endpoints(&tenant).await[0].get("events"), events.as_ref(), "{fields}");
    }
    let all = json!({"url": "https://example.com", "signing_secret": "correct-horse-battery", "events": null});
    world.rpc(&tenant.key, "webhooks/create", all).await.ok();
    assert_eq!(world.endpoints(&tenant).await[1].get("events"), None);
    let bad = json!({"id": id, "events": [7, "job.failed", "canary", null]});
    let answer = world.rpc(&tenant.key, "webhooks/update", bad).await;
    let issues = answer.json()["data"]["issues"].as_array().expect("issues");
    let paths: Vec<_> = issues.iter().map(|issue| &issue["path"]).collect();
    assert_eq!(paths, [&json!(["events", "0"]), &json!(["events", "2"]), &json!(["events", "3"])]);
}

/// The form of the console sends all its fields, also if none has changed.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_without_changes_succeeds_if_a_response_is_lost() {
    let world = World::repeating(&[]).await;
    let tenant = world.tenant("acme").await;
    let id = world.new_endpoint(&tenant, "https://example.com/1", "correct-horse-battery").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "url": "https://example.com/1"})).await.ok();
}
