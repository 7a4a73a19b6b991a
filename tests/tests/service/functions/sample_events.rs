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

/// The objects in the events do not exist.
#[tokio::test(flavor = "multi_thread")]
async fn routes_under_v1() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for function in local::generated_events().expect("the code matches events/fields.json").into_keys() {
        let mut event = sample_event(&function);
        let needs_key = event["headers"]["x-api-key"].is_string();
        let call = async |event: &Value| {
            let response = world.stack.invoke(&function, event.clone()).await.expect("an answer");
            let body: Value = serde_json::from_str(tests::text(&response["body"])).expect("JSON");
            (response["statusCode"].as_u64().unwrap_or_default(), body["json"]["code"].clone())
        };
        if needs_key || event["cookies"].is_array() {
            assert_eq!(call(&event).await, (401, json!("UNAUTHORIZED")), "{function}");
        }
        if needs_key {
            event["headers"]["x-api-key"] = json!(tenant.key);
        } else if event["cookies"].is_array() {
            event["cookies"] = json!([tenant.cookie]);
            event["headers"]["origin"] = json!(world.stack.api());
        }
        let (status, code) = call(&event).await;
        assert!(status == 200 || (status, &code) == (404, &json!("NOT_FOUND")), "{function}: {status} {code}");
    }
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
