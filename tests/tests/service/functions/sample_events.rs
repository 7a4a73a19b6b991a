//! Every sample event is valid for its function, so it can be used to invoke the function manually.

use serde_json::{Value, json};
use tests::{World, sample_event};

async fn invoke(function: &str, event: &str) -> (u64, Value) {
    let world = World::start().await;
    let event = serde_json::from_str(event).expect("an event");
    let response = world.stack.invoke(function, event).await.expect("an answer");
    let body = response["body"].as_str().map(|body| serde_json::from_str(body).unwrap_or_else(|_page| json!(body)));
    (response["statusCode"].as_u64().unwrap_or_default(), body.unwrap_or(response))
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_signup_and_create_org() {
    let (status, body) =
        invoke("auth-signup-and-create-org", &sample_event("auth-signup-and-create-org").to_string()).await;
    assert_eq!(status, 200, "{body}");
    assert!(body["json"]["sessionToken"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_invitations() {
    for function in ["auth-accept-invite-and-signup", "auth-invite-details"] {
        let (status, body) = invoke(function, &sample_event(function).to_string()).await;
        assert_eq!((status, &body["json"]["message"]), (404, &json!("Invitation not found")), "{function}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_request_password_reset() {
    let (status, body) =
        invoke("auth-request-password-reset", &sample_event("auth-request-password-reset").to_string()).await;
    assert_eq!((status, &body["json"]), (200, &json!({"status": "sent"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_cli() {
    let (status, body) = invoke("auth-cli", &sample_event("auth-cli").to_string()).await;
    assert_eq!((status, body), (200, Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn account_functions_that_need_a_cookie() {
    for (function, code) in [
        ("auth-organization", "UNAUTHORIZED"),
        ("auth-delete-user", "UNAUTHORIZED"),
        ("auth-account", "INVALID_TWO_FACTOR_COOKIE"),
    ] {
        let mut event = sample_event(function);
        if let Some(headers) = event["headers"].as_object_mut() {
            headers.remove("origin");
        }
        event["cookies"] = json!([]);
        let (status, body) = invoke(function, &event.to_string()).await;
        assert_eq!((status, &body["code"]), (401, &json!(code)), "{function}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn console() {
    let (status, body) = invoke("console", &sample_event("console").to_string()).await;
    assert!(status == 200 && body.as_str().is_some_and(|page| page.contains("<form")), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn docs() {
    let (status, body) = invoke("docs", &sample_event("docs").to_string()).await;
    assert!(status == 200 && body.as_str().is_some_and(|page| page.contains("/v1/webhooks/list")), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn console_webhooks() {
    let answer = World::start().await.stack.invoke("console-webhooks", sample_event("console-webhooks")).await;
    let answer = answer.expect("an answer");
    assert_eq!(
        (&answer["statusCode"], &answer["headers"]["location"]),
        (&json!(303), &json!("/signin?next=%2Fconsole"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_functions_with_a_session() {
    let event = |function| sample_event(function).to_string();
    let (status, body) = invoke("auth-cli-login-create", &event("auth-cli-login-create")).await;
    assert_eq!(status, 200, "{body}");
    let (status, body) = invoke("auth-cli-login-poll", &event("auth-cli-login-poll")).await;
    assert_eq!((status, &body["json"]), (200, &json!({"status": "expired"})));
    let world = World::start().await;
    let cookie = world.tenant("acme").await.cookie;
    for (function, expected) in
        [("auth-cli-login-approve", 404), ("auth-accept-invite-for-current-user", 404), ("auth-status", 200)]
    {
        assert_eq!(invoke(function, &event(function)).await.0, 401, "{function}");
        let mut event = sample_event(function);
        event["cookies"] = json!([cookie]);
        event["headers"]["origin"] = json!(world.stack.api());
        let response = world.stack.invoke(function, event).await.expect("an answer");
        assert_eq!(response["statusCode"], expected, "{function}: {response}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_settings() {
    let (status, body) = invoke("tenant-settings", &sample_event("tenant-settings").to_string()).await;
    assert_eq!((status, &body["json"]["code"]), (401, &json!("UNAUTHORIZED")));
    let world = World::start().await;
    let mut event = sample_event("tenant-settings");
    event["headers"]["x-api-key"] = json!(world.tenant("acme").await.key);
    let response = world.stack.invoke("tenant-settings", event).await.expect("an answer");
    assert_eq!(response["statusCode"], 200, "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks() {
    for (function, event) in [
        ("webhooks-create", &sample_event("webhooks-create").to_string()),
        ("webhooks-list", &sample_event("webhooks-list").to_string()),
        ("webhooks-update", &sample_event("webhooks-update").to_string()),
        ("webhooks-delete", &sample_event("webhooks-delete").to_string()),
        ("webhooks-test", &sample_event("webhooks-test").to_string()),
        ("webhooks-verify", &sample_event("webhooks-verify").to_string()),
    ] {
        let (status, body) = invoke(function, event).await;
        assert_eq!((status, &body["json"]["code"]), (401, &json!("UNAUTHORIZED")), "{function}");
        let mut event: Value = serde_json::from_str(event).expect("an event");
        let world = World::start().await;
        event["headers"]["x-api-key"] = json!(world.tenant("acme").await.key);
        let response = world.stack.invoke(function, event).await.expect("an answer");
        let expected = if matches!(function, "webhooks-create" | "webhooks-list") { 200 } else { 404 };
        assert_eq!(response["statusCode"], expected, "{function}: {response}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries() {
    let world = World::start().await;
    let key = world.tenant("acme").await.key;
    for (function, expected) in [
        ("deliveries-list", 200),
        ("deliveries-get", 404),
        ("deliveries-receive", 404),
        ("deliveries-settle", 200),
        ("deliveries-resend", 404),
        ("deliveries-erase", 404),
        ("deliveries-recover", 404),
        ("deliveries-stats", 200),
    ] {
        let mut event = sample_event(function);
        event["headers"]["x-api-key"] = json!(key);
        let response = world.stack.invoke(function, event).await.expect("an answer");
        assert_eq!(response["statusCode"], expected, "{function}: {response}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_list() {
    let world = World::start().await;
    let mut event = sample_event("audit-list");
    event["headers"]["x-api-key"] = json!(world.tenant("acme").await.key);
    let response = world.stack.invoke("audit-list", event).await.expect("an answer");
    assert_eq!(response["statusCode"], 200, "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_deliver() {
    let receiver = tests::Receiver::start().await;
    let event =
        sample_event("webhooks-deliver").to_string().replace("https://example.com/hook", &receiver.url("/hook"));
    let world = World::start().await;
    let event: Value = serde_json::from_str(&event).expect("an event");
    // The event is too old to wait for a drain.
    let body: Value = serde_json::from_str(tests::text(&event["Records"][0]["body"])).expect("a job event");
    world.make_origin_quick(tests::text(&body["tenant_id"]), &receiver.url("/")).await;
    let response = world.stack.invoke("webhooks-deliver", event).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": []}));
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_wake() {
    let (_, response) = invoke("deliveries-wake", &sample_event("deliveries-wake").to_string()).await;
    assert_eq!(response, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_bounces() {
    let (_, response) = invoke("accounts-bounces", &sample_event("accounts-bounces").to_string()).await;
    assert_eq!(response, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_purge() {
    let (_, response) = invoke("accounts-purge", &sample_event("accounts-purge").to_string()).await;
    assert_eq!(response, Value::Null);
}
