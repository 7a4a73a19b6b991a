//! The command-line authentication flow.

use serde_json::{Value, json};
use tests::{
    World,
    world::{cookie, link},
};

#[tokio::test(flavor = "multi_thread")]
async fn get_session_returns_the_signed_in_user() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let answer = world.session(&cookie(&account)).await;
    assert_eq!(answer.status, 200);
    let session = &answer.body["session"];
    assert_eq!(
        answer.body,
        json!({
            "session": {"id": session["id"], "expiresAt": session["expiresAt"]},
            "user": {
                "id": account["userId"], "email": "jo@acme.example.com", "name": "Jo Doe", "emailVerified": false,
            },
        })
    );
    let expires: common::timestamp::Timestamp = session["expiresAt"].as_str().expect("a time").parse().expect("a time");
    let days = (expires.as_second() - common::timestamp::Timestamp::now().as_second()) / 86_400;
    assert!((29..=30).contains(&days), "{days}");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_session_returns_null_without_a_valid_cookie() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    for cookie in ["", "session_token=x", &format!("session_token={}", "a".repeat(43))] {
        let answer = world.session(cookie).await;
        assert_eq!((answer.status, answer.body), (200, Value::Null), "{cookie}");
    }
    let tokens = world.items("tokens").await;
    let session = tokens.iter().find(|item| item["kind"].as_s().is_ok_and(|kind| kind == "session")).expect("one");
    let mut expired = session.clone();
    let now = common::timestamp::Timestamp::now().as_second().to_string();
    expired.insert("expires_at".to_owned(), aws_sdk_dynamodb::types::AttributeValue::N(now));
    let dynamodb = world.stack.dynamodb_client();
    dynamodb.put_item().table_name("tokens").set_item(Some(expired)).send().await.expect("it is stored");
    assert_eq!(world.session(&cookie(&account)).await.body, Value::Null);
}

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
            "enabled": true, "createdAt": issued.body["createdAt"], "expiresAt": null,
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
    assert!(refused.body["message"].as_str().expect("a message").contains("needs a session"), "{refused:?}");
    let wrong = world.http.post(world.url("/api/auth/api-key/create")).header("x-api-key", "ak_wrong");
    let refused = world.send(wrong.json(&json!({"name": "x"}))).await;
    assert_eq!(refused.body["message"], "A valid credential is required");
}

/// Otherwise another site's page could sign a visitor in to the account of the site's owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_origin_is_refused_on_every_post_and_the_expected_one_is_named() {
    let world = World::with(&[("TRUSTED_ORIGINS", "https://app.example.com")]).await;
    world.sign_up("acme").await;
    let link = link(&world.mail_to("jo@acme.example.com").await);
    let token = link.rsplit('=').next().expect("a token");
    let credentials = json!({"email": "jo@acme.example.com", "password": "correct horse battery"});
    for origin in ["https://evil.example.com", "null", "", "http://127.0.0.1:1"] {
        for route in [
            "verify-email",
            "send-verification-email",
            "sign-in/email",
            "sign-out",
            "organization/invite-member",
            "api-key/create",
            "api-key/delete",
        ] {
            let request = world.http.post(world.url(&format!("/api/auth/{route}"))).header("origin", origin);
            let request =
                if route == "verify-email" { request.form(&[("token", token)]) } else { request.json(&credentials) };
            let answer = world.send(request).await;
            assert_eq!((answer.status, &answer.body["code"]), (403, &json!("INVALID_ORIGIN")), "{origin} {route}");
            assert!(answer.body["message"].as_str().expect("a message").contains(world.stack.api()), "{answer:?}");
            assert!(!answer.headers.contains_key("set-cookie"));
        }
    }
    for origin in ["https://app.example.com", world.stack.api()] {
        let request = world.http.post(world.url("/api/auth/sign-in/email")).header("origin", origin);
        assert_eq!(world.send(request.json(&credentials)).await.status, 200, "{origin}");
    }
    let request = world.http.post(world.url("/api/auth/sign-in/email"));
    assert_eq!(world.send(request.json(&credentials)).await.status, 200, "no browser");
    assert_eq!(world.confirm(&link).await.status, 200, "the token was not spent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_names_the_first_issue() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for (route, body, message) in [
        ("api-key/create", json!({}), "name: required"),
        ("api-key/create", json!({"name": ""}), "name: must have at least 1 character"),
        ("api-key/delete", json!({"keyId": 7}), "keyId: must be a string"),
        ("sign-in/email", json!({"password": "x"}), "email: required"),
        ("organization/invite-member", json!({"email": "no", "role": "boss"}), "email: must be an email address"),
    ] {
        let answer = world.cli(&tenant.cookie, route, body).await;
        assert_eq!((answer.status, &answer.body["message"]), (400, &json!(message)), "{answer:?}");
        assert!(answer.body["issues"].is_array());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies_and_unknown_routes_get_the_flows_own_error_shape() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let create = |body: Vec<u8>| {
        let request = world.http.post(world.url("/api/auth/api-key/create")).body(body);
        world.send(request.header("cookie", &tenant.cookie).header("origin", world.stack.api()))
    };
    for body in [
        b"x".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        vec![0xff],
        Vec::new(),
        b"{}".to_vec(),
        br#"{"name":""}"#.to_vec(),
        br#"{"name":7}"#.to_vec(),
    ] {
        let answer = create(body).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("BAD_REQUEST")), "{answer:?}");
        assert!(answer.body["message"].is_string());
    }
    let large = create(vec![b'x'; 70_000]).await;
    assert_eq!((large.status, &large.body["code"]), (413, &json!("PAYLOAD_TOO_LARGE")));
    let unknown = world.send(world.http.get(world.url("/api/auth/unknown"))).await;
    assert_eq!((unknown.status, &unknown.body["code"]), (404, &json!("NOT_FOUND")));
    let options = world.http.request(reqwest::Method::OPTIONS, world.url("/api/auth/sign-in/email"));
    assert_eq!(world.send(options).await.status, 204);
    let method = world.send(world.http.get(world.url("/api/auth/api-key/create"))).await;
    assert_eq!((method.status, &method.body["code"]), (405, &json!("METHOD_NOT_SUPPORTED")));
}
