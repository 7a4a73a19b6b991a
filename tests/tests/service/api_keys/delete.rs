//! Deleting a key, regardless of what the key index contains.

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{World, text, world::tables::Item};

use super::{create, delete};

/// The keys in the table, in the format of a query result.
async fn stored(world: &World) -> Vec<Value> {
    let items = world.items("api-keys").await.into_iter().filter(|item| item.contains_key("key_id"));
    let values = |item: Item| {
        let value = |value: aws_sdk_dynamodb::types::AttributeValue| match value.as_n() {
            Ok(number) => json!({"N": number}),
            Err(_text) => json!({"S": value.as_s().expect("a string")}),
        };
        item.into_iter().map(|(name, attribute)| (name, value(attribute))).collect()
    };
    items.map(values).map(Value::Object).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_missing_from_the_index_is_deleted_at_once() {
    let (world, _index) = World::lagging("api-keys").await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    assert!(world.key_works(text(&issued["key"])).await);
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
    assert!(!world.key_works(text(&issued["key"])).await);
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_key_that_is_still_in_the_index_is_gone() {
    let (world, index) = World::lagging("api-keys").await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    let before = stored(&world).await;
    assert_eq!(before.len(), 2);
    *index.lock().expect("no panic") = before;
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
    let again = delete(&world, &tenant.cookie, &issued["id"]).await;
    assert_eq!((again.status, &again.body["message"]), (404, &json!("API key not found")));
}

/// The counter also proves that the organization exists, because deleting the organization removes the counter.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_does_not_restore_the_counter_of_an_organization() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    let counters =
        async || world.items("api-keys").await.into_iter().filter(|item| item.contains_key("keys")).collect::<Vec<_>>();
    let key = counters().await.pop().expect("a counter").remove("key_hash").expect("its key");
    let delete_counter = world.stack.dynamodb_client().delete_item().table_name("api-keys").key("key_hash", key);
    delete_counter.send().await.expect("the deletion succeeds");
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
    assert_eq!(counters().await, []);
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_8_concurrent_deletions_succeeds() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    let answers = join_all((0..8).map(|_| delete(&world, &tenant.cookie, &issued["id"]))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404, 404, 404, 404, 404, 404, 404]);
    assert!(!world.key_works(text(&issued["key"])).await);
    assert!(world.key_works(&tenant.key).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_organizations_key_is_not_found() {
    let (world, _index) = World::lagging("api-keys").await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let issued = create(&world, &tenant.cookie).await;
    for id in [&issued["id"], &json!(uuid::Uuid::now_v7())] {
        let refused = delete(&world, &other.cookie, id).await;
        assert_eq!((refused.status, &refused.body["message"]), (404, &json!("API key not found")));
    }
    assert!(world.key_works(text(&issued["key"])).await);
}

/// Keys from earlier versions are stored without a pointer from the id to the key.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_key_is_found_through_the_index() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    let dynamodb = world.stack.dynamodb_client();
    for item in world.items("api-keys").await.iter().filter(|item| item.contains_key("hash")) {
        let key = item["key_hash"].clone();
        dynamodb.delete_item().table_name("api-keys").key("key_hash", key).send().await.expect("the deletion succeeds");
    }
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
    assert!(!world.key_works(text(&issued["key"])).await);
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_key_leaves_nothing_behind() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let before = world.items("api-keys").await.len();
    let issued = create(&world, &tenant.cookie).await;
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
    assert_eq!(world.items("api-keys").await.len(), before);
}
