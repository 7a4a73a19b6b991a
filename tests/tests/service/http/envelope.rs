//! The envelope of all `POST /v1/...` routes.

use serde_json::{Value, json};
use tests::World;

const LIST: &str = "/v1/webhooks/list";

#[tokio::test(flavor = "multi_thread")]
async fn an_input_without_fields_has_many_forms() {
    let world = World::start().await;
    let key = world.tenant("acme").await.key;
    for body in ["", "{}", r#"{"json":{}}"#, r#"{"json":null}"#, r#"{"meta":[[3]]}"#, r#"{"json":{"x":1},"meta":{}}"#] {
        let answer = world.post(&key, LIST, body.into()).await;
        assert_eq!(answer.ok(), &json!({"webhook_endpoints": []}), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_json_with_a_request_id_and_is_not_cached() {
    let world = World::start().await;
    let key = world.tenant("acme").await.key;
    for answer in [
        world.post(&key, LIST, Vec::new()).await,
        world.post("", LIST, Vec::new()).await,
        world.post(&key, LIST, b"x".to_vec()).await,
        world.post("", "/v1/auth/signupAndCreateOrg", b"{}".to_vec()).await,
    ] {
        assert_eq!(answer.headers["content-type"], "application/json", "{answer:?}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{answer:?}");
        assert_eq!(answer.headers["x-request-id"].len(), 36, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_the_envelope_is_malformed() {
    let world = World::start().await;
    let key = world.tenant("acme").await.key;
    let deep = [vec![b'['; 30_000], vec![b']'; 30_000]].concat();
    let bodies: [Vec<u8>; 10] = [
        // Without the envelope, the fields would be ignored.
        b"{\"url\":\"https://example.com/hook\"}".to_vec(),
        b"{\"meta\":[],\"limit\":1}".to_vec(),
        b"garbage".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"7".to_vec(),
        b"\"json\"".to_vec(),
        b"{\"json\":".to_vec(),
        vec![0xff, 0xfe, 0x00],
        deep,
    ];
    for body in bodies {
        for (key, route) in [(key.as_str(), "/v1/webhooks/create"), ("", "/v1/auth/signupAndCreateOrg")] {
            let answer = world.post(key, route, body.clone()).await;
            assert_eq!(
                answer.body,
                json!({"json": {
                    "defined": false, "code": "BAD_REQUEST", "status": 400,
                    "message": "Malformed request. The body must be JSON of the form {\"json\": {...}}.",
                }})
            );
            assert_eq!(answer.status, 400);
        }
    }
}

/// Nested uses of serde_json's marker for raw values once made the parser overflow the stack, which kills the process.
#[tokio::test(flavor = "multi_thread")]
async fn a_deeply_nested_body_gets_a_response() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut bomb = "0".to_owned();
    for _ in 0..60 {
        let inside = bomb.replace('\\', r"\u005c").replace('"', r"\u0022");
        let (open, close) = ("[".repeat(122), "]".repeat(122));
        bomb = format!(r#"{open}{{"$serde_json::private::RawValue":"{inside}"}}{close}"#);
    }
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    for value in [bomb, deep] {
        for body in [
            format!(r#"{{"json":{{"url":{value}}}}}"#),
            format!(r#"{{"json":{value}}}"#),
            format!(r#"{{"name":{value}}}"#),
        ] {
            assert!(body.len() < 64 * 1024);
            for route in ["/v1/auth/signupAndCreateOrg", "/v1/webhooks/create", "/api/auth/send-verification-email"] {
                let answer = world.post(&tenant.key, route, body.clone().into_bytes()).await;
                assert_eq!(answer.status, 400, "{route}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_that_is_not_an_object_is_an_issue() {
    let world = World::start().await;
    let key = world.tenant("acme").await.key;
    for fields in [json!([]), json!("x"), json!(1), json!(true)] {
        let answer = world.rpc(&key, "webhooks/list", fields).await;
        assert_eq!(answer.error(), (400, "BAD_REQUEST", ""));
        assert_eq!(answer.issues(), [("", "invalid_type")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_not_unicode_is_rejected_by_name() {
    let world = World::start().await;
    let key = world.tenant("acme").await.key;
    let create = |url: &str, more: &str| format!(r#"{{"json":{{"url":{url}{more}}}}}"#).into_bytes();
    let (url, surrogate) = (r#""https://example.com/""#, r#""\ud800""#);
    for more in [r#","unknown":"\ud800""#, r#","unknown":1e400"#, r#","unknown":[{"a":-1e400}]"#, r#","\udfff":1"#] {
        assert!(world.post(&key, "/v1/webhooks/create", create(url, more)).await.ok()["success"] == true, "{more}");
    }
    for (body, path, code) in [
        (create(surrogate, ""), "url", "invalid_format"),
        (create(url, r#","description":"a\udc00""#), "description", "invalid_format"),
        (create(url, r#","events":["\ud800"]"#), "events", "invalid_format"),
        (create(url, r#","headers":{"x-a":"\ud800"}"#), "headers", "invalid_type"),
        (create("1e400", ""), "url", "invalid_type"),
    ] {
        let answer = world.post(&key, "/v1/webhooks/create", body).await;
        assert_eq!(answer.issues(), [(path, code)], "{answer:?}");
    }
    let answer = world.post(&key, "/v1/deliveries/list", br#"{"json":{"limit":1e400}}"#.to_vec()).await;
    assert_eq!(answer.issues(), [("limit", "too_big")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_64_kib_are_rejected_before_parsing() {
    let world = World::start().await;
    let key = world.tenant("acme").await.key;
    for (key, route) in [(key.as_str(), LIST), ("", LIST), ("", "/v1/auth/acceptInviteAndSignup")] {
        let answer = world.post(key, route, vec![b'x'; 70_000]).await;
        assert_eq!(answer.error(), (413, "PAYLOAD_TOO_LARGE", ""));
        assert_eq!(answer.headers["x-request-id"].len(), 36);
    }
    let full = [br#"{"json":{}}"#.to_vec(), vec![b' '; 64 * 1024 - 11]].concat();
    assert_eq!(world.post(&key, LIST, full.clone()).await.status, 200);
    assert_eq!(world.post(&key, LIST, [full, vec![b' ']].concat()).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_issue_of_an_input_is_reported() {
    let world = World::start().await;
    let answer = world
        .rpc(
            "",
            "auth/signupAndCreateOrg",
            json!({
                "name": " ", "email": "nobody", "password": "short", "organizationName": 7, "organizationSlug": "-A",
            }),
        )
        .await;
    assert_eq!(answer.error(), (400, "BAD_REQUEST", ""));
    assert_eq!(answer.json()["message"], "Input validation failed");
    assert_eq!(
        answer.issues(),
        [
            ("name", "too_small"),
            ("email", "invalid_format"),
            ("password", "too_small"),
            ("organizationName", "invalid_type"),
            ("organizationSlug", "invalid_format"),
            ("organizationSlug", "invalid_format"),
            ("debugNotificationEmail", "invalid_type"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_gets_the_functions_error_shape() {
    let world = World::start().await;
    let mut event = tests::sample_event("webhooks-list");
    event["requestContext"]["http"]["method"] = json!("GET");
    let response = world.stack.invoke("webhooks-list", event).await.expect("an answer");
    assert_eq!(response["statusCode"], 405);
    let body: Value = serde_json::from_str(response["body"].as_str().expect("a body")).expect("JSON");
    assert_eq!(body["json"]["code"], "METHOD_NOT_SUPPORTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn unmapped_paths_are_answered_by_the_gateway() {
    let world = World::start().await;
    for request in
        [world.http.post(world.url("/v1/webhooks/unknown")), world.http.post(world.url("/v1/webhooks/list/more"))]
    {
        let answer = world.send(request).await;
        assert_eq!((answer.status, answer.body), (404, json!({"message": "Not Found"})));
    }
    // For browsers, a function serves a page instead.
    for (path, message) in [(LIST, "Not found. Calls under /v1 use POST"), ("/unknown", "Not Found")] {
        let answer = world.send(world.http.get(world.url(path))).await;
        assert_eq!((answer.status, answer.body), (404, json!({"code": "NOT_FOUND", "message": message})));
    }
}

/// `lambda_http` builds a URL from these values, and panics if it cannot.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_http_request_does_not_affect_others() {
    let world = World::start().await;
    let event = |name: &str, changes: Value| {
        let mut event = tests::sample_event(name);
        event.as_object_mut().expect("members").extend(changes.as_object().expect("members").clone());
        event
    };
    for (name, code) in [("webhooks-list", "/json/code"), ("auth-cli", "/code")] {
        for changes in [
            json!({"headers": {"host": "a b"}}),
            json!({"headers": {"host": "x:99999"}}),
            json!({"headers": {"host": "["}}),
            json!({"headers": {"host": "%zz"}}),
            json!({"rawQueryString": "a b"}),
            json!({"rawQueryString": "a=\"b\""}),
            json!({"body": "no base64!", "isBase64Encoded": true}),
            json!({"headers": {"x y": "z"}}),
            json!({"requestContext": {}}),
        ] {
            let answer = world.stack.invoke(name, event(name, changes.clone())).await.expect("an answer");
            assert_eq!(answer["statusCode"], 400, "{changes}: {answer}");
            let body: Value = serde_json::from_str(answer["body"].as_str().expect("a body")).expect("JSON");
            assert_eq!(body.pointer(code), Some(&json!("BAD_REQUEST")), "{changes}: {body}");
            assert!(answer["headers"]["x-request-id"].is_string());
        }
        let forwarded = event(name, json!({"headers": {"x-forwarded-proto": "a b://"}, "rawPath": "no slash"}));
        let answer = world.stack.invoke(name, forwarded).await.expect("an answer");
        assert!(answer["statusCode"].as_u64().expect("a status") < 500, "{answer}");
    }
    for host in ["a b", "x:99999", "[", "%zz"] {
        let request = world.http.get(world.url("/api/auth/get-session")).header("host", host);
        assert_eq!(world.send(request).await.status, 400, "{host}");
    }
    assert_eq!(world.cli_get("", "get-session").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_internal_error_hides_its_cause_and_logs_it() {
    let world = World::start().await;
    let key = world.tenant("acme").await.key;
    let dynamodb = world.stack.dynamodb_client();
    dynamodb.delete_table().table_name("webhook-endpoints").send().await.expect("the deletion succeeds");
    let answer = world.post(&key, LIST, Vec::new()).await;
    assert_eq!(
        answer.body,
        json!({"json": {
            "defined": false, "code": "INTERNAL_SERVER_ERROR", "status": 500, "message": "Internal server error",
        }})
    );
    let id = answer.headers["x-request-id"].to_str().expect("an id").to_owned();
    let log = tests::log::collected();
    let line = log.lines().find(|line| line.contains(&id)).expect("a line with the request id");
    assert!(line.contains("listing endpoints") && line.contains("ResourceNotFoundException"), "{line}");
}
