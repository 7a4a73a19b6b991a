//! Rules for all routes under `/api/auth`.

use serde_json::json;
use tests::{World, world::link};

/// Otherwise, a page on another site could sign a visitor in to an account that belongs to the owner of that site.
#[tokio::test(flavor = "multi_thread")]
async fn every_post_refuses_a_foreign_origin_and_names_the_expected() {
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
    assert_eq!(world.confirm(&link).await.status, 200, "the token is still valid");
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
    for (method, path, allowed) in [
        (reqwest::Method::GET, "api-key/create", "POST"),
        (reqwest::Method::PUT, "api-key/create", "POST"),
        (reqwest::Method::POST, "api-key/list", "GET, HEAD"),
        (reqwest::Method::PATCH, "get-session", "GET, HEAD"),
    ] {
        let answer = world.send(world.http.request(method.clone(), world.url(&format!("/api/auth/{path}")))).await;
        let mut given: Vec<_> = answer.headers["allow"].to_str().expect("ASCII").split(", ").collect();
        given.sort_unstable();
        assert_eq!((answer.status, given.join(", ").as_str()), (405, allowed), "{method} {path}");
    }
}
