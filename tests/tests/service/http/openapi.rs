//! The OpenAPI description. `World` checks every response against it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::{
    World,
    description::{examples, resolved, validator},
};

fn document() -> Value {
    local::openapi().expect("the functions match the template")
}

/// Every operation: its path, its method and its description.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.iter().map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

/// With `UPDATE_DOCS`, the file is updated first.
#[test]
fn the_openapi_file_is_up_to_date() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, format!("{:#}\n", document())).expect("the write succeeds");
    }
    let written: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap_or_default()).unwrap_or_default();
    assert!(written == document(), "docs/openapi.json is stale: see CONTRIBUTING.md");
}

/// Each function reads exactly the fields that the crate `api` names.
#[test]
fn the_client_has_exactly_the_fields_of_each_input() {
    let document = document();
    let calls = [
        api::account::CALLS,
        api::audit::CALLS,
        api::auth::CALLS,
        api::deliveries::CALLS,
        api::team::CALLS,
        api::verification::CALLS,
        api::webhooks::CALLS,
    ]
    .concat();
    assert_eq!(calls.len(), 34);
    for (path, names) in calls {
        let route = &document["paths"][path];
        let body = &route["post"]["requestBody"]["content"]["application/json"]["schema"];
        let input = if path.starts_with("/v1/") { &body["properties"]["json"] } else { body };
        let cases = input["oneOf"].as_array().map_or(std::slice::from_ref(input), Vec::as_slice);
        let properties = cases.iter().filter_map(|case| case["properties"].as_object()).flatten();
        let described: BTreeSet<_> = properties.map(|(name, _)| name.as_str()).collect();
        assert!(route.is_object() && described == names.iter().copied().collect(), "{path}: {described:?}, {names:?}");
    }
    let element = "/paths/~1v1~1deliveries~1settle/post/requestBody/content/application~1json/schema/properties/json\
                   /properties/settlements/items/properties";
    let described = document.pointer(element).and_then(Value::as_object).expect("properties");
    let names = api::deliveries::Settlement::NAMES;
    let mut names = [names.delivery_id, names.lease, names.status_code, names.error, names.duration_ms, names.response];
    names.sort_unstable();
    assert_eq!(described.keys().collect::<Vec<_>>(), names);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_api_serves_it() {
    let world = World::start().await;
    let answer = world.send(world.http.get(world.url("/openapi.json"))).await;
    assert_eq!(answer.status, 200);
    let mut expected = document();
    let session = &mut expected["components"]["securitySchemes"]["session"]["name"];
    assert_eq!(session.take(), json!("__Host-session_token"));
    *session = json!("session_token");
    assert_eq!(answer.body, expected, "only the name of the cookie differs, because the local API has no TLS");
}

#[test]
fn members_can_be_added_to_responses_and_webhooks() {
    let closed = r#""additionalProperties":false"#;
    assert!(!document().to_string().contains(closed));
    assert!(local::exact_openapi().expect("a document").to_string().contains(closed), "tests find undescribed members");
}

/// Tools for language models show only the description, and generators of zod schemas cannot write U+2028.
#[test]
fn descriptions_stand_alone_and_patterns_suit_generators() {
    let document = document();
    let webhooks = document["webhooks"].as_object().expect("webhooks");
    let webhooks = webhooks.iter().map(|(name, webhook)| (name.as_str(), "post", &webhook["post"]));
    for (path, method, operation) in operations(&document).chain(webhooks) {
        let summary = operation["summary"].as_str().expect("a summary");
        let description = operation["description"].as_str().expect("a description");
        assert!(description.starts_with(summary), "{method} {path}: {description}");
    }
    let text = document.to_string();
    assert!(!text.contains("u2028") && !text.contains("u2029"));
    for webhook in document["webhooks"].as_object().expect("webhooks").values() {
        let headers = webhook["post"]["parameters"].as_array().expect("headers");
        assert!(headers.iter().any(|header| header["name"] == "traceparent"));
    }
}

#[test]
fn the_server_can_be_any_deployment() {
    let document = document();
    let servers = document["servers"].as_array().expect("a list");
    for server in servers {
        let url = server["url"].as_str().expect("a URL");
        assert!(url == "/" || url == "{base_url}", "{url} is only one deployment's address");
    }
    assert_eq!(servers[0]["variables"]["base_url"]["default"], "http://127.0.0.1:9000");
}

/// Receivers must not need the API's credentials.
#[test]
fn a_webhook_does_not_need_a_credential() {
    let document = document();
    let webhooks = document["webhooks"].as_object().expect("webhooks");
    for (name, webhook) in webhooks {
        assert_eq!(webhook["post"]["security"], json!([]), "{name}");
    }
    assert_eq!(webhooks.len(), 6);
}

/// Generators create a type for each schema without a name.
#[test]
fn errors_refer_to_shared_schemas() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().expect("responses") {
            let is_done = ["200", "303"].contains(&status.as_str());
            assert_eq!(response["$ref"].is_string(), !is_done, "{method} {path} {status}");
        }
    }
    for (name, response) in document["components"]["responses"].as_object().expect("responses") {
        let schema = &response["content"]["application/json"]["schema"];
        let of_page =
            ["EnvelopeError", "PlainError"].map(|name| json!({"$ref": format!("#/components/schemas/{name}")}));
        assert!(of_page.contains(schema) || name == "PageRefusal", "{name}: {schema}");
    }
}

/// With `oneOf`, the most common generator would find several matching alternatives.
#[test]
fn named_values_are_enums_and_not_alternatives() {
    let document = document();
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        let alternatives = schema["oneOf"].as_array().into_iter().flatten();
        assert_eq!(alternatives.filter(|one| one["const"].is_string()).count(), 0, "{name}");
    }
    assert!(document["components"]["schemas"]["Status"]["enum"].is_array());
}

/// Collects the paths of all properties and parameters below `part` without a description, and counts all properties
/// and parameters.
fn undescribed(part: &Value, path: &str, missing: &mut Vec<String>) -> usize {
    let mut count = 0;
    let mut check = |name: &str, described: &Value| {
        count += 1;
        if described["description"].as_str().is_none_or(str::is_empty) {
            missing.push(format!("{path}/{name}"));
        }
    };
    for (name, property) in part["properties"].as_object().into_iter().flatten() {
        check(name, property);
    }
    for parameter in part["parameters"].as_array().into_iter().flatten() {
        check(parameter["name"].as_str().expect("a name"), parameter);
    }
    let below: Vec<(String, &Value)> = match part {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| !name.starts_with("example"))
            .map(|(name, below)| (name.clone(), below))
            .collect(),
        Value::Array(elements) => {
            elements.iter().enumerate().map(|(index, below)| (index.to_string(), below)).collect()
        }
        _ => Vec::new(),
    };
    count + below.iter().map(|(name, below)| undescribed(below, &format!("{path}/{name}"), missing)).sum::<usize>()
}

#[test]
fn every_property_and_parameter_is_described() {
    let mut missing = Vec::new();
    let count = undescribed(&document(), "", &mut missing);
    assert!(missing.is_empty(), "describe them with `about`, or in the comment of the field: {missing:#?}");
    assert!(count > 400, "{count}");
}

#[test]
fn responses_that_name_a_wait_declare_its_header() {
    let document = document();
    let all = document["components"]["responses"].as_object().expect("responses");
    let wait = all
        .iter()
        .filter(|(_, response)| response["description"].as_str().is_some_and(|it| it.contains("Retry-After")));
    let wait: Vec<_> = wait.collect();
    assert!(
        wait.len() >= 5
            && wait.iter().all(|(_, response)| response["headers"]["Retry-After"]["schema"]["type"] == "integer")
    );
}

/// The examples in the reference are the first thing that readers try.
#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_a_call_is_valid() {
    let (world, document) = (World::start().await, document());
    let tenant = world.tenant("acme").await;
    // An owner can require a second factor only if they have one themselves.
    let session = world.protect(&tenant).await.cookie;
    let mut seen = 0;
    for (path, _, operation) in operations(&document).filter(|(path, ..)| path.starts_with("/v1/")) {
        let example = &operation["requestBody"]["content"]["application/json"]["example"];
        let call = world.http.post(world.url(path)).json(example);
        let answer = world.send(call.header("cookie", &session).header("origin", world.stack.api())).await;
        assert!([200, 404, 409].contains(&answer.status), "{path} {example}: {answer:?}");
        seen += 1;
    }
    assert!(seen >= 20, "{seen}");
}

#[test]
fn every_example_matches_its_schema() {
    let document = document();
    let mut seen = 0;
    let mut check = |name: &str, part: &Value| {
        for media in part["content"].as_object().into_iter().flat_map(serde_json::Map::values) {
            let schema = validator(&media["schema"], &document, true);
            for example in media.get("example").into_iter().chain(examples(media)) {
                let problems: Vec<_> = schema.iter_errors(example).map(|error| error.to_string()).collect();
                assert!(problems.is_empty(), "{name}: {problems:?} in {example}");
                seen += 1;
            }
        }
    };
    for (path, method, operation) in operations(&document) {
        let name = format!("{method} {path}");
        check(&name, &operation["requestBody"]);
        for response in operation["responses"].as_object().expect("responses").values() {
            check(&name, resolved(response, &document));
        }
    }
    assert!(seen > 300, "{seen}");
}

/// The strings in a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        Value::Object(all) => all.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn no_example_is_a_placeholder() {
    let document = document();
    let mut seen = 0;
    for (name, operation) in tests::description::routes() {
        let responses = operation["responses"].as_object().expect("responses").values();
        let bodies = responses.map(|response| resolved(response, &document)).chain([&operation["requestBody"]]);
        for (kind, media) in bodies.filter_map(|body| body["content"].as_object()).flatten() {
            let example = media.get("example");
            assert!(kind == "application/json" || example.is_none(), "{name}: forms and pages do not need examples");
            for text in example.map(texts).unwrap_or_default() {
                assert!(!["text", "string", "Done", "", "x"].contains(&text), "{name}: {text} in {example:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 200, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_example_has_the_message_of_the_response() {
    let (world, document) = (World::start().await, document());
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/hook", "correct-horse-battery").await;
    let test = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok()["delivery_id"].clone();
    world.handle_all().await;
    for (route, fields) in [
        ("webhooks/create", json!({"url": "https://example.com/"})),
        ("deliveries/resend", json!({"delivery_id": test})),
        ("webhooks/update", json!({"id": endpoint})),
        ("webhooks/delete", json!({"id": endpoint})),
        ("auth/requestPasswordReset", json!({"email": "ada@example.com"})),
    ] {
        let answer = world.rpc(&tenant.key, route, fields).await;
        let example =
            format!("/paths/~1v1~1{}/post/responses/200/content/application~1json/example", route.replace('/', "~1"));
        let example = document.pointer(&example).expect(route);
        for name in ["message", "status"] {
            assert_eq!(answer.ok().get(name), example["json"].get(name), "{route}");
        }
    }
    let cookie =
        world.rpc("", "auth/signupAndCreateOrg", World::sign_up_fields("other")).await.ok()["setCookie"].clone();
    let example = &document["paths"]["/v1/auth/signupAndCreateOrg"]["post"]["responses"]["200"]["content"];
    let example = &example["application/json"]["example"]["json"]["setCookie"];
    let attributes =
        |cookies: &Value| cookies[0].as_str().expect("a cookie").split_once(';').expect("attributes").1.to_owned();
    assert_eq!(attributes(example), format!("{}; Secure", attributes(&cookie)), "a deployment has TLS");
}

/// Whether a request's body or query parameters match the description.
fn is_described(document: &Value, method: &str, path: &str, input: &Value) -> bool {
    let operation = &document["paths"][path][method];
    if method == "post" {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        return validator(schema, document, true).is_valid(input);
    }
    let parameters = operation["parameters"].as_array().expect("parameters");
    parameters.iter().all(|parameter| {
        let value = input.get(parameter["name"].as_str().expect("a name"));
        value.is_none_or(|value| validator(&parameter["schema"], document, true).is_valid(value))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_requests_match_the_description() {
    let (world, document) = (World::start().await, document());
    let tenant = world.tenant("acme").await;
    let (list, settle, create) = ("/v1/deliveries/list", "/v1/deliveries/settle", "/v1/webhooks/create");
    let (key, members) = ("/api/auth/api-key/create", "/api/auth/organization/list-members");
    let fields = |fields: Value| json!({ "json": fields });
    let endpoint = |secret: &str| fields(json!({"url": "https://example.com/hook", "signing_secret": secret}));
    let with = |name: &str, value: &str| fields(json!({"url": "https://example.com/hook", "headers": {name: value}}));
    let delivery = |id: &str| fields(json!({"delivery_id": format!("{id}.0123456789abcdef0123456789abcdef")}));
    let settlement = |outcome: Value| {
        let mut settlement = json!({
            "delivery_id": "callback.3.1769860800999.0123456789abcdef0123456789abcdef",
            "lease": "01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0",
        });
        settlement.as_object_mut().expect("an object").extend(outcome.as_object().cloned().unwrap_or_default());
        fields(json!({"settlements": [settlement]}))
    };
    let login = |last: &str| {
        let secret = format!("{}{last}", "a".repeat(42));
        fields(json!({"requestId": "01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0", "secret": secret}))
    };
    let (erase, recover, update) = ("/v1/deliveries/erase", "/v1/deliveries/recover", "/v1/webhooks/update");
    let id = "callback.3.1769860800999.0123456789abcdef0123456789abcdef";
    let since = "2026-01-31T00:00:00Z";
    let workflows = |names: &[&str]| fields(json!({"url": "https://example.com/", "workflows": names}));
    let recovery = |outcome: &str| fields(json!({"since": since, "outcome": outcome}));
    for (method, path, input, is_taken) in [
        ("post", list, json!({}), true),
        ("post", list, json!({"meta": []}), true),
        ("post", list, json!({"meta": [], "json": {}}), true),
        ("post", list, json!({"json": {}, "other": 1}), true),
        ("post", list, json!({"status": "failed"}), false),
        ("post", list, json!({"meta": [], "limit": 1}), false),
        ("post", list, fields(json!({"status": null, "limit": null, "since": null, "outcome": null})), true),
        ("post", list, fields(json!({"outcome": "status_5xx"})), true),
        ("post", list, fields(json!({"outcome": "delivered"})), true),
        ("post", list, fields(json!({"outcome": "status_500"})), false),
        ("post", list, fields(json!({"outcome": ""})), false),
        ("post", recover, recovery("timeout"), true),
        ("post", recover, recovery("Timeout"), false),
        ("post", recover, fields(json!({"since": null})), false),
        ("post", recover, fields(json!({"since": since, "until": null, "webhook_endpoint_id": null})), true),
        ("post", erase, json!({}), false),
        ("post", erase, fields(json!({})), false),
        ("post", erase, fields(json!(null)), false),
        ("post", erase, fields(json!({"delivery_id": null, "job_id": null})), false),
        ("post", erase, fields(json!({"cursor": null})), false),
        ("post", erase, fields(json!({"delivery_id": id})), true),
        ("post", erase, fields(json!({"delivery_id": id, "job_id": null, "since": null})), true),
        ("post", erase, fields(json!({"delivery_id": id, "job_id": "j"})), false),
        ("post", erase, fields(json!({"job_id": "no job"})), true),
        ("post", erase, fields(json!({"since": since})), true),
        ("post", erase, fields(json!({"since": since, "job_id": "j"})), false),
        ("post", erase, fields(json!({"webhook_endpoint_id": "01a1fd8f-0d9d-7467-9431-944eedd69c67"})), false),
        ("post", create, fields(json!({"kind": null, "url": "https://example.com/"})), true),
        ("post", create, fields(json!({"kind": "push", "url": null})), false),
        ("post", create, fields(json!({"kind": "pull", "url": null})), true),
        ("post", create, fields(json!({"url": "https://example.com/", "signing_secret": null})), true),
        ("post", create, fields(json!({"url": "https://example.com/", "active": null})), false),
        ("post", create, fields(json!({"url": "https://example.com/", "max_concurrent": null})), true),
        ("post", create, fields(json!({"url": "https://example.com/", "events": []})), false),
        ("post", create, fields(json!({"url": "https://example.com/", "events": null})), true),
        ("post", update, fields(json!({"id": null})), false),
        ("post", create, workflows(&["nightly", " Übernacht 2 ", "夜間\u{3000}*"]), true),
        ("post", create, workflows(&["night\u{7f}ly"]), false),
        ("post", create, workflows(&["night\u{200b}ly"]), false),
        ("post", create, workflows(&["night\u{2029}ly"]), false),
        ("post", create, workflows(&[" "]), false),
        ("post", create, workflows(&["\u{feff}"]), false),
        ("post", create, workflows(&[]), false),
        ("post", key, json!({"name": "Zoë", "scopes": []}), false),
        ("post", key, json!({"name": "Zoë", "scopes": null, "kind": null, "organizationId": null}), true),
        ("post", key, json!({"name": "Zoë", "scopes": ["webhooks:read", "webhooks:read"]}), true),
        ("post", key, json!({"name": "Zoë\u{2029}of Acme"}), false),
        ("post", key, json!({"name": "Zoë\u{a0}of\u{3000}Acme\u{2027}"}), true),
        ("post", list, fields(json!({})), true),
        ("post", list, fields(json!(null)), true),
        ("post", list, fields(json!([])), false),
        ("post", list, json!(null), false),
        ("post", list, fields(json!({"since": "2026-01-31T00:00:00Z"})), true),
        ("post", list, fields(json!({"since": "2026-01-31T00:00:00.123456+02:00"})), true),
        ("post", list, fields(json!({"until": "2026-01-31"})), false),
        ("post", list, fields(json!({"limit": 100})), true),
        ("post", list, fields(json!({"limit": 2.0})), true),
        ("post", list, fields(json!({"limit": 1e2})), true),
        ("post", list, fields(json!({"limit": 2.5})), false),
        ("post", list, fields(json!({"limit": 1e300})), false),
        ("post", list, fields(json!({"limit": 101})), false),
        ("post", list, fields(json!({"limit": "2"})), false),
        ("post", list, fields(json!({"cursor": "1769860800999.0123456789abcdef0123456789abcdef"})), true),
        ("post", list, fields(json!({"cursor": "1769860800999.0123456789ABCDEF0123456789abcdef"})), false),
        ("post", list, fields(json!({"cursor": "next"})), false),
        ("post", "/v1/deliveries/get", fields(json!(null)), false),
        ("post", "/v1/deliveries/get", delivery("callback.7.1769860800999"), true),
        ("post", "/v1/deliveries/get", delivery("01a1fd8f-0d9d-7467-9431-944eedd69c67.0.1769860800999"), true),
        ("post", "/v1/deliveries/get", delivery("callback.8.1769860800999"), false),
        ("post", "/v1/deliveries/get", delivery("callback.7.176986080099"), false),
        ("post", "/v1/auth/cliLoginPoll", login("A"), true),
        ("post", "/v1/auth/cliLoginPoll", login("a"), false),
        ("post", "/v1/auth/cliLoginPoll", login(""), false),
        ("post", create, fields(json!({})), false),
        ("post", create, json!({}), false),
        ("post", create, fields(json!({"kind": "push"})), false),
        ("post", create, fields(json!({"kind": "push", "url": "https://example.com/"})), true),
        ("post", create, fields(json!({"kind": "pull"})), true),
        ("post", create, fields(json!({"kind": "pull", "url": "https://example.com/"})), false),
        ("post", settle, settlement(json!({})), true),
        ("post", settle, settlement(json!({"status_code": 200})), true),
        ("post", settle, settlement(json!({"error": "dns"})), true),
        ("post", settle, settlement(json!({"status_code": 200, "error": "dns"})), false),
        ("post", create, endpoint("correct-horse-battery"), true),
        ("post", create, endpoint("sixteen--letters"), true),
        ("post", create, endpoint("fifteen-letters"), true),
        ("post", create, endpoint("1234567 12345678"), true),
        ("post", create, endpoint("whsec_1234567890123456"), true),
        ("post", create, endpoint("whsec_123456789012345"), true),
        ("post", create, endpoint(" correct-horse-battery"), true),
        ("post", create, endpoint("correct-horse-battery\n"), true),
        ("post", create, endpoint("correct horse battery"), true),
        ("post", create, endpoint("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), true),
        ("post", create, endpoint("whsec_"), true),
        ("post", create, endpoint("whsec_a==="), true),
        ("post", create, endpoint("===="), true),
        ("post", create, endpoint(" "), false),
        ("post", create, fields(json!({"url": "https://example.com/", "headers": null})), true),
        ("post", create, fields(json!({"url": "https://example.com/", "headers": {}})), true),
        ("post", create, fields(json!({"url": "https://example.com/", "headers": []})), false),
        ("post", create, fields(json!({"url": "https://example.com/", "headers": {"a": 7}})), false),
        ("post", create, with("Authorization", "Bearer x"), true),
        ("post", create, with("x-webhooks", "x"), true),
        ("post", create, with("hosts", "x"), true),
        ("post", create, with("Host", "x"), false),
        ("post", create, with("CONTENT-x", "x"), false),
        ("post", create, with("X-Event-Type", "x"), false),
        ("post", create, with("a b", "x"), false),
        ("post", create, with(&"a".repeat(64), "x"), true),
        ("post", create, with(&"a".repeat(65), "x"), false),
        ("post", create, with("a", ""), false),
        ("post", create, with("a", " x"), false),
        ("post", create, with("a", "x\r\ny"), false),
        ("post", create, with("a", &"x".repeat(1024)), true),
        ("post", create, with("a", &"x".repeat(1025)), false),
        ("post", key, json!({"name": "Zoë 👩\u{200d}🚀"}), true),
        ("post", key, json!({"name": "Zoë\nof Acme"}), false),
        ("post", key, json!({"name": "Zo\u{85}ë"}), false),
        ("post", key, json!({"name": "Zoë\u{2028}of Acme"}), false),
        ("post", key, json!({"name": "\u{202e}Zoë"}), false),
        ("post", key, json!({"name": "Zoë", "expiresIn": 60}), true),
        ("post", key, json!({"name": "Zoë", "expiresIn": 59}), false),
        ("post", "/api/auth/revoke-session", json!({"token": "01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"}), true),
        ("post", "/api/auth/revoke-session", json!({"token": "mine"}), false),
        ("post", "/api/auth/organization/remove-member", json!({"memberIdOrEmail": "bo@example.com"}), true),
        ("post", "/api/auth/organization/remove-member", json!({"memberIdOrEmail": "bo"}), false),
        ("post", "/api/auth/organization/leave", json!({"organizationId": "a b"}), false),
        ("post", "/api/auth/revoke-other-sessions", json!({}), true),
        ("post", "/api/auth/revoke-other-sessions", json!(null), true),
        ("post", "/api/auth/revoke-session", json!(null), false),
        ("post", "/api/auth/revoke-other-sessions", json!([]), false),
        ("get", members, json!({"limit": 1, "offset": 0}), true),
        ("get", members, json!({"limit": 100, "offset": 65_535}), true),
        ("get", members, json!({"limit": 0}), false),
        ("get", members, json!({"limit": 101}), false),
        ("get", members, json!({"offset": 65_536}), false),
        ("get", "/api/auth/organization/list-invitations", json!({"limit": 101}), false),
    ] {
        let url = world.url(path);
        let request =
            if method == "post" { world.http.post(url).json(&input) } else { world.http.get(url).query(&input) };
        let answer = world.send(request.header("cookie", &tenant.cookie).header("origin", world.stack.api())).await;
        assert_eq!(answer.status != 400, is_taken, "{method} {path} {input}: {answer:?}");
        assert_eq!(is_described(&document, method, path, &input), is_taken, "{method} {path} {input}");
    }
}
