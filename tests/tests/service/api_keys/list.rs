//! The keys that a member can list and delete.

use serde_json::{Value, json};
use tests::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_pages_and_refuses_unsupported_parameters() {
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
    // A member's pages contain only keys that the member manages.
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
async fn an_owner_manages_all_keys_and_a_member_their_own() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let other = world.tenant("other").await;
    let member = world.member(&tenant, "al@example.com", "member").await.cookie;
    let issued = world.cli(&member, "api-key/create", json!({"name": "members"})).await.body;
    let names = async |cookie: &str| {
        let keys = world.cli_get(cookie, "api-key/list").await.body;
        keys.as_array().expect("keys").iter().map(|key| key["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&tenant.cookie).await, ["test", "a member's", "members"]);
    assert_eq!(names(&member).await, ["a member's", "members"]);
    let owners = world.cli_get(&tenant.cookie, "api-key/list").await.body[0]["id"].clone();
    let delete =
        async |cookie: &str, id: &Value| world.cli(cookie, "api-key/delete", json!({"keyId": id})).await.status;
    assert_eq!(delete(&member, &owners).await, 404);
    assert_eq!(delete(&other.cookie, &owners).await, 404);
    assert_eq!(delete(&tenant.cookie, &json!(uuid::Uuid::now_v7())).await, 404);
    assert_eq!(delete(&tenant.cookie, &json!("x")).await, 400);
    assert_eq!(delete("", &owners).await, 401);
    assert_eq!(delete(&tenant.cookie, &issued["id"]).await, 200);
    assert_eq!(delete(&tenant.cookie, &issued["id"]).await, 404);
    assert_eq!(world.rpc(issued["key"].as_str().expect("a key"), "webhooks/list", json!({})).await.status, 401);
    assert_eq!(world.rpc(&tenant.key, "webhooks/list", json!({})).await.status, 200);
}
