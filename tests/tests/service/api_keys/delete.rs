//! API keys, from creation to deletion.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Answer, Interceptor, World};

async fn create(world: &World, cookie: &str) -> Value {
    world.cli(cookie, "api-key/create", json!({"name": "spare"})).await.body
}

async fn delete(world: &World, cookie: &str, id: &Value) -> Answer {
    world.cli(cookie, "api-key/delete", json!({"keyId": id})).await
}

async fn works(world: &World, key: &Value) -> bool {
    world.rpc(key.as_str().expect("a key"), "webhooks/list", json!({})).await.status == 200
}

/// A world whose index of keys always contains exactly the items in `index`, however outdated.
async fn with_an_index_of(index: &Arc<Mutex<Vec<Value>>>) -> (World, Interceptor) {
    let index = Arc::clone(index);
    let tables = Interceptor::start(move |operation, call| {
        let is_index = operation == "Query" && call.get("IndexName").is_some();
        let items = index.lock().expect("no panic");
        is_index.then(|| (200, json!({"Items": *items, "Count": items.len(), "ScannedCount": items.len()})))
    })
    .await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", tables.address())]).await;
    tables.stand_before(world.stack.dynamodb());
    (world, tables)
}

/// The keys in the table, in the form of a query result.
async fn stored(world: &World) -> Vec<Value> {
    let items = world.items("api-keys").await.into_iter().filter(|item| item.contains_key("key_id"));
    let values = |item: std::collections::HashMap<String, _>| {
        let value = |value: aws_sdk_dynamodb::types::AttributeValue| match value.as_n() {
            Ok(number) => json!({"N": number}),
            Err(_text) => json!({"S": value.as_s().expect("a text")}),
        };
        item.into_iter().map(|(name, attribute)| (name, value(attribute))).collect()
    };
    items.map(values).map(Value::Object).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_missing_from_the_index_is_deleted_at_once() {
    let (world, _tables) = with_an_index_of(&Arc::default()).await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    assert!(works(&world, &issued["key"]).await);
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
    assert!(!works(&world, &issued["key"]).await);
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_key_that_is_still_in_the_index_is_gone() {
    let index = Arc::new(Mutex::new(Vec::new()));
    let (world, _tables) = with_an_index_of(&index).await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    let before = stored(&world).await;
    assert_eq!(before.len(), 2);
    *index.lock().expect("no panic") = before;
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
    let again = delete(&world, &tenant.cookie, &issued["id"]).await;
    assert_eq!((again.status, &again.body["message"]), (404, &json!("API key not found")));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_8_deletions_at_once_one_succeeds() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    let answers = join_all((0..8).map(|_| delete(&world, &tenant.cookie, &issued["id"]))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404, 404, 404, 404, 404, 404, 404]);
    assert!(!works(&world, &issued["key"]).await);
    assert!(works(&world, &json!(tenant.key)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_organizations_key_is_not_found_whatever_the_index_says() {
    let index = Arc::new(Mutex::new(Vec::new()));
    let (world, _tables) = with_an_index_of(&index).await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let issued = create(&world, &tenant.cookie).await;
    for id in [&issued["id"], &json!(uuid::Uuid::now_v7())] {
        let refused = delete(&world, &other.cookie, id).await;
        assert_eq!((refused.status, &refused.body["message"]), (404, &json!("API key not found")));
    }
    assert!(works(&world, &issued["key"]).await);
}

/// Older keys have no pointer to find them by id.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_key_is_found_through_the_index() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let issued = create(&world, &tenant.cookie).await;
    let dynamodb = world.stack.dynamodb_client();
    for item in world.items("api-keys").await.iter().filter(|item| item.contains_key("hash")) {
        let key = item["key_hash"].clone();
        dynamodb.delete_item().table_name("api-keys").key("key_hash", key).send().await.expect("it is deleted");
    }
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
    assert!(!works(&world, &issued["key"]).await);
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 404);
}

/// Keys are listed in one answer, which must fit into Lambda's.
#[tokio::test(flavor = "multi_thread")]
async fn an_organization_has_at_most_100_keys_also_under_concurrent_creates() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut issued = Vec::new();
    for _ in 0..98 {
        issued.push(create(&world, &tenant.cookie).await["id"].clone());
    }
    let one_more = || world.cli(&tenant.cookie, "api-key/create", json!({"name": "x"}));
    let last = futures::future::join_all((0..8).map(|_| one_more())).await;
    assert_eq!(last.iter().filter(|answer| answer.status == 200).count(), 1);
    for refused in last.iter().filter(|answer| answer.status != 200) {
        assert_eq!((refused.status, &refused.body["reason"]), (409, &json!("key_limit")), "{refused:?}");
    }
    assert_eq!(delete(&world, &tenant.cookie, &issued[0]).await.status, 200);
    assert_eq!(one_more().await.status, 200);
    assert_eq!(one_more().await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_the_keys_is_listed_as_asked_for_and_what_is_not_served_is_refused_by_its_name() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let al = world.member(&tenant, "al@example.com", "member").await;
    for name in ["one", "two"] {
        assert_eq!(world.cli(&al.cookie, "api-key/create", json!({"name": name})).await.status, 200);
    }
    let list = async |cookie: &str, query: &str| world.cli_get(cookie, &format!("api-key/list?{query}")).await;
    let names = async |cookie: &str, query: &str| {
        let listed = list(cookie, query).await;
        assert_eq!(listed.status, 200, "{query}: {listed:?}");
        listed.body.as_array().expect("keys").iter().map(|key| key["name"].clone()).collect::<Vec<_>>()
    };
    let own = format!("organizationId={}", tenant.id);
    for (query, expected) in [
        ("", &["test", "a member's", "one", "two"][..]),
        (&own, &["test", "a member's", "one", "two"]),
        ("limit=2", &["test", "a member's"]),
        ("limit=2&offset=1&sortBy=createdAt&sortDirection=asc", &["a member's", "one"]),
        ("sortDirection=desc&limit=3", &["two", "one", "a member's"]),
        ("offset=4", &[]),
    ] {
        assert_eq!(names(&tenant.cookie, query).await, expected, "{query}");
    }
    // A member's parts are of what they manage.
    assert_eq!(names(&al.cookie, "limit=2").await, ["a member's", "one"]);
    for (query, field) in
        [("limit=0", "limit"), ("offset=-1", "offset"), ("sortBy=name", "sortBy"), ("configId=x", "configId")]
    {
        let refused = list(&tenant.cookie, query).await;
        assert_eq!((refused.status, &refused.body["issues"][0]["path"]), (400, &json!([field])), "{query}");
    }
    let foreign = list(&tenant.cookie, &format!("organizationId={}", other.id)).await;
    assert_eq!((foreign.status, &foreign.body["message"]), (404, &json!("Organization not found")));
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

#[tokio::test(flavor = "multi_thread")]
async fn the_day_of_the_last_request_is_written_once_a_day() {
    let writes = Arc::new(Mutex::new(0));
    let written = Arc::clone(&writes);
    let tables = Interceptor::start(move |operation, call| {
        let is_note = operation == "UpdateItem" && call["TableName"] == "api-keys";
        *written.lock().expect("no panic") += usize::from(is_note);
        None
    })
    .await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", tables.address())]).await;
    tables.stand_before(world.stack.dynamodb());
    let tenant = world.tenant("acme").await;
    let last_request = async || world.cli_get(&tenant.cookie, "api-key/list").await.body[0]["lastRequest"].clone();
    assert_eq!(last_request().await, Value::Null);
    let today = json!(format!("{}T00:00:00.000Z", &common::timestamp::Timestamp::now().to_string()[..10]));
    for days in 1..=2 {
        for _ in 0..3 {
            assert!(works(&world, &json!(tenant.key)).await);
        }
        assert_eq!(*writes.lock().expect("no panic"), days);
        assert_eq!(last_request().await, today);
        world.forget_uses().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_works_until_it_expires() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let fields = |expires_in: Value| json!({"name": "short", "expiresIn": expires_in});
    for bad in [json!(59), json!(31_536_001), json!("60"), json!(-60), Value::Null] {
        assert_eq!(world.cli(&tenant.cookie, "api-key/create", fields(bad.clone())).await.status, 400, "{bad}");
    }
    let issued = world.cli(&tenant.cookie, "api-key/create", fields(json!(60))).await.body;
    let expires: common::timestamp::Timestamp = issued["expiresAt"].as_str().expect("a time").parse().expect("a time");
    let created: common::timestamp::Timestamp = issued["createdAt"].as_str().expect("a time").parse().expect("a time");
    assert_eq!(expires.as_millisecond() - created.as_millisecond(), 60_000);
    assert!(works(&world, &issued["key"]).await);
    let keys = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    assert_eq!((&keys[0]["expiresAt"], &keys[1]["expiresAt"]), (&Value::Null, &issued["expiresAt"]));
    // A minute later.
    for item in world.items("api-keys").await.iter().filter(|item| item.contains_key("expires_at")) {
        let update = world.stack.dynamodb_client().update_item().table_name("api-keys");
        let update = update.key("key_hash", item["key_hash"].clone()).update_expression("SET expires_at = :now");
        let now = aws_sdk_dynamodb::types::AttributeValue::S(created.to_string());
        update.expression_attribute_values(":now", now).send().await.expect("it is updated");
    }
    assert!(!works(&world, &issued["key"]).await);
    let by_key =
        world.http.get(world.url("/api/auth/get-session")).header("x-api-key", issued["key"].as_str().expect("a key"));
    assert_eq!(world.send(by_key).await.body, Value::Null);
    assert!(works(&world, &json!(tenant.key)).await);
    // It is listed until somebody deletes it.
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
}
