//! `POST /v1/webhooks/delete`.

use futures::future::join_all;
use serde_json::json;
use tests::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_endpoint_is_gone_and_makes_room() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "1")]).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let answer = world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await;
    assert_eq!(answer.ok()["success"], true);
    assert!(world.endpoints(&tenant).await.is_empty());
    let again = world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await;
    assert_eq!(again.error(), (404, "NOT_FOUND", ""));
    world.endpoint(&tenant, "https://example.com/2", "s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_concurrent_deletes_succeeds_and_is_counted() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "2")]).await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, "https://example.com/1", "s").await;
    let id = world.endpoint(&tenant, "https://example.com/2", "s").await;
    let fields = json!({"id": id.to_uppercase()});
    let deletes = join_all((0..16).map(|_| world.rpc(&tenant.key, "webhooks/delete", fields.clone()))).await;
    assert_eq!(deletes.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(deletes.iter().filter(|answer| answer.status == 404).count(), 15);
    world.endpoint(&tenant, "https://example.com/3", "s").await;
    let fields = json!({"url": "https://example.com/4", "signing_secret": "correct-horse-battery", "unknown": {"is": "ignored"}});
    assert_eq!(world.rpc(&tenant.key, "webhooks/create", fields).await.error(), (409, "CONFLICT", "endpoint_limit"));
}
