//! Issuing a key.

use serde_json::json;
use tests::{
    World,
    world::{cookie, link},
};

use super::{create, delete};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_issued_to_a_verified_user_and_shown_once() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let cookie = cookie(&account);
    let unverified = world.cli(&cookie, "api-key/create", json!({"name": "laptop"})).await;
    assert_eq!((unverified.status, &unverified.body["code"]), (403, &json!("EMAIL_NOT_VERIFIED")));
    world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await;
    let issued = world.cli(&cookie, "api-key/create", json!({"name": " laptop "})).await;
    assert_eq!(issued.status, 200, "{issued:?}");
    let key = issued.body["key"].as_str().expect("a key");
    assert!(key.starts_with("ak_") && key.len() == 46, "{key}");
    assert_eq!(
        issued.body,
        json!({
            "id": issued.body["id"], "name": "laptop", "prefix": "ak_", "start": key[..9], "key": key,
            "enabled": true, "createdAt": issued.body["createdAt"], "expiresAt": null, "kind": "personal",
            "scopes": null,
        })
    );
    assert!(!format!("{:?}", world.items("api-keys").await).contains(&key[3..]));
    world.rpc(key, "webhooks/list", json!({})).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn issuing_a_key_needs_a_session_and_our_origin() {
    let world = World::with(&[("TRUSTED_ORIGINS", "https://app.example.com")]).await;
    let tenant = world.tenant("acme").await;
    let create = |cookie: &str, origin: Option<&str>| {
        let request = world.http.post(world.url("/api/auth/api-key/create")).json(&json!({"name": "x"}));
        let request = if cookie.is_empty() { request } else { request.header("cookie", cookie) };
        world.send(match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        })
    };
    assert_eq!(create(&tenant.cookie, Some("https://app.example.com")).await.status, 200);
    for origin in [None, Some("https://evil.example.com"), Some("null")] {
        assert_eq!(create(&tenant.cookie, origin).await.status, 403, "{origin:?}");
    }
    assert_eq!(create("", None).await.status, 401);
    assert_eq!(create("session_token=x", Some(world.stack.api())).await.status, 401);
    let by_key = world.http.post(world.url("/api/auth/api-key/create")).header("x-api-key", &tenant.key);
    let refused = world.send(by_key.json(&json!({"name": "x"}))).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.body["message"], "Sign in first: an API key is not enough for this");
    let wrong = world.http.post(world.url("/api/auth/api-key/create")).header("x-api-key", "ak_wrong");
    let refused = world.send(wrong.json(&json!({"name": "x"}))).await;
    assert_eq!(refused.body["message"], "A valid credential is required");
}

/// Better Auth's client sends `null` for a key that does not expire.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_an_expiry_of_null_does_not_expire() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for fields in [json!({"name": "x", "expiresIn": null}), json!({"name": "x"})] {
        let issued = world.cli(&tenant.cookie, "api-key/create", fields).await;
        assert_eq!((issued.status, &issued.body["expiresAt"]), (200, &json!(null)), "{issued:?}");
    }
    for wrong in [json!(0), json!("60"), json!([]), json!(false), json!(59)] {
        let refused = world.cli(&tenant.cookie, "api-key/create", json!({"name": "x", "expiresIn": wrong})).await;
        assert_eq!(refused.refused(), (400, "BAD_REQUEST"), "{wrong}");
    }
}

/// All keys are listed in one response, which must fit into Lambda's limit.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_stop_at_100_keys() {
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
