//! The validity of a key, and its last use.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tests::{Switch, World, text};

use super::delete;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_valid_until_it_expires() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let fields = |expires_in: Value| json!({"name": "short", "expiresIn": expires_in});
    for bad in [json!(59), json!(31_536_001), json!("60"), json!(-60)] {
        assert_eq!(world.cli(&tenant.cookie, "api-key/create", fields(bad.clone())).await.status, 400, "{bad}");
    }
    let issued = world.cli(&tenant.cookie, "api-key/create", fields(json!(60))).await.body;
    let expires: common::timestamp::Timestamp = issued["expiresAt"].as_str().expect("a time").parse().expect("a time");
    let created: common::timestamp::Timestamp = issued["createdAt"].as_str().expect("a time").parse().expect("a time");
    assert_eq!(expires.as_millisecond() - created.as_millisecond(), 60_000);
    assert!(world.key_works(text(&issued["key"])).await);
    let keys = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    assert_eq!((&keys[0]["expiresAt"], &keys[1]["expiresAt"]), (&Value::Null, &issued["expiresAt"]));
    // A minute later.
    world.set_where("api-keys", |item| item.contains_key("expires_at"), &json!({"expires_at": created})).await;
    assert!(!world.key_works(text(&issued["key"])).await);
    assert!(world.key_works(&tenant.key).await);
    // An expired key is listed until it is deleted.
    assert_eq!(delete(&world, &tenant.cookie, &issued["id"]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_day_of_the_last_request_is_written_once_a_day() {
    let writes = Arc::new(Mutex::new(0));
    let written = Arc::clone(&writes);
    let world = World::answering(&[], move |call| {
        let is_note = call.operation == "UpdateItem" && call["TableName"] == "api-keys";
        *written.lock().expect("no panic") += usize::from(is_note);
        None
    })
    .await;
    let tenant = world.tenant("acme").await;
    let last_request = async || world.cli_get(&tenant.cookie, "api-key/list").await.body[0]["lastRequest"].clone();
    assert_eq!(last_request().await, Value::Null);
    let today = json!(format!("{}T00:00:00.000Z", &common::timestamp::Timestamp::now().to_string()[..10]));
    for days in 1..=2 {
        for _ in 0..3 {
            assert!(world.key_works(&tenant.key).await);
        }
        assert_eq!(*writes.lock().expect("no panic"), days);
        assert_eq!(last_request().await, today);
        world.forget_uses().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_stops_working_at_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for _ in 0..2 {
        world.endpoints(&tenant).await;
    }
    let keys = world.items("api-keys").await;
    let hash = keys.iter().find(|item| item.contains_key("key_id")).expect("the key")["key_hash"].clone();
    let dynamodb = world.stack.dynamodb_client();
    dynamodb.delete_item().table_name("api-keys").key("key_hash", hash).send().await.expect("the revocation succeeds");
    assert_eq!(world.rpc(&tenant.key, "webhooks/list", json!({})).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_key_and_its_user_are_read_in_one_call() {
    let reads = Arc::new(Mutex::new(Vec::new()));
    let read = Arc::clone(&reads);
    let world = World::answering(&[], move |call| {
        if call.function == "webhooks-list" && call.operation.ends_with("GetItem") {
            read.lock().expect("no panic").push(call.operation.clone());
        }
        None
    })
    .await;
    let tenant = world.tenant("acme").await;
    for (number, expected) in [["GetItem"; 2].as_slice(), &["BatchGetItem"], &["BatchGetItem"]].into_iter().enumerate()
    {
        world.endpoints(&tenant).await;
        assert_eq!(std::mem::take(&mut *reads.lock().expect("no panic")), expected, "call {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_key_is_valid_while_batched_reads_are_throttled() {
    let (throttled, left_out) = (Switch::default(), Arc::new(AtomicUsize::new(0)));
    let (is_on, counted) = (throttled.clone(), Arc::clone(&left_out));
    let world = World::answering(&[], move |call| {
        let is_key = call.operation == "BatchGetItem" && call["RequestItems"].get("api-keys").is_some();
        (is_on.is_on() && is_key).then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            (200, json!({"Responses": {}, "UnprocessedKeys": call["RequestItems"]}))
        })
    })
    .await;
    let tenant = world.tenant("acme").await;
    world.endpoints(&tenant).await;
    throttled.on();
    world.endpoints(&tenant).await;
    assert!(left_out.load(Ordering::SeqCst) > 0, "a batch requested the key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_key_ends_at_once_with_its_user() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "jo@example.com", "member").await;
    for _ in 0..2 {
        assert!(world.key_works(&member.key).await);
    }
    let fields = json!({"memberIdOrEmail": "jo@example.com"});
    assert_eq!(world.cli(&owner.cookie, "organization/remove-member", fields).await.status, 200);
    world.is_shut_out(&member).await;
    assert!(world.key_works(&owner.key).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_cannot_issue_keys_or_sign_out() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let get = |route: &str| {
        world.send(world.http.get(world.url(&format!("/api/auth/{route}"))).header("x-api-key", &tenant.key))
    };
    let session = get("get-session").await.body;
    assert_eq!(session["user"]["id"], json!(tenant.user));
    assert_eq!(session["session"]["expiresAt"], Value::Null);
    let keys = get("api-key/list").await.body;
    assert_eq!(session["session"]["id"], keys[0]["id"]);
    let post = |route: &str, body: Value| {
        let request = world.http.post(world.url(&format!("/api/auth/{route}"))).header("x-api-key", &tenant.key);
        world.send(request.json(&body))
    };
    assert_eq!(post("api-key/create", json!({"name": "x"})).await.status, 401);
    assert_eq!(post("sign-out", Value::Null).await.status, 200);
    assert_eq!(get("get-session").await.body["user"]["id"], json!(tenant.user), "the key still works");
    assert_eq!(post("api-key/delete", json!({"keyId": keys[0]["id"]})).await.status, 200);
    assert_eq!(get("get-session").await.body, Value::Null);
}
