//! An endpoint's custom headers, sent with each attempt.

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, event};

const FIRST: &str = "Bearer canary-first-5d1f";
const SECOND: &str = "canary-second-8a41";

/// Creates an endpoint with headers, and returns its id.
async fn create(world: &World, tenant: &Tenant, url: &str, headers: Value) -> String {
    let fields = json!({"url": url, "signing_secret": "correct-horse-battery", "headers": headers});
    let created = world.rpc(&tenant.key, "webhooks/create", fields).await;
    created.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned()
}

/// The header names of a tenant's only endpoint, as returned by the list.
async fn names(world: &World, tenant: &Tenant) -> Option<Value> {
    world.only_endpoint(tenant).await.get("header_names").cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_attempts_to_the_endpoint_have_its_headers() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let (receiver, other) = (Receiver::scripted(&[(500, &[])]).await, Receiver::start().await);
    create(&world, &tenant, &receiver.url("/"), json!({"Authorization": FIRST, "X-Tenant": SECOND})).await;
    world.endpoint(&tenant, &other.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    world.poll("deliveries").await;
    let received = receiver.received().await;
    assert_eq!(received.len(), 2);
    for attempt in &received {
        assert_eq!((attempt.header("authorization"), attempt.header("x-tenant")), (FIRST, SECOND));
        attempt.verify("correct-horse-battery");
    }
    let mut to_callback = event(&tenant.id, "k");
    to_callback["callback_url"] = json!(other.url("/callback"));
    to_callback["callback_secret"] = json!("s");
    world.deliver(to_callback).await;
    let others = other.received().await;
    assert_eq!(others.len(), 2);
    for attempt in &others {
        // The headers of every delivery.
        let ours: Vec<_> = attempt.headers.keys().collect();
        assert_eq!(ours.len(), attempt.headers.len());
        assert_eq!(attempt.headers.len() + 2, received[0].headers.len(), "{ours:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_resends_and_tests_have_the_current_headers() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let id = create(&world, &tenant, &receiver.url("/"), json!({"authorization": FIRST})).await;
    let change = async |headers| {
        world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "headers": headers})).await.ok();
    };
    world.deliver(event(&tenant.id, "j")).await;
    change(json!({"x-a": "1", "authorization": SECOND})).await;
    world.poll("deliveries").await;
    change(json!({"x-b": "2"})).await;
    let delivery = world.only_logged(&tenant.id).await.id;
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery})).await.ok();
    world.poll("deliveries").await;
    change(json!({"x-c": "3"})).await;
    world.rpc(&tenant.key, "webhooks/test", json!({"id": id})).await.ok();
    world.poll("deliveries").await;
    let received = receiver.wait_for(4).await;
    let sent = |name: &str| received.iter().map(|attempt| attempt.header(name).to_owned()).collect::<Vec<_>>();
    assert_eq!(sent("authorization"), [FIRST, SECOND, "", ""]);
    assert_eq!(sent("x-a"), ["", "1", "", ""]);
    assert_eq!(sent("x-b"), ["", "", "2", ""]);
    assert_eq!(sent("x-c"), ["", "", "", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_sort_names_and_updates_keep_replace_or_remove_all() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let id = create(&world, &tenant, &receiver.url("/"), json!({"X-Tenant": "a", "Authorization": "Bearer x"})).await;
    assert_eq!(names(&world, &tenant).await, Some(json!(["authorization", "x-tenant"])));
    for (fields, expected) in [
        (json!({"description": "ours"}), Some(json!(["authorization", "x-tenant"]))),
        (json!({"headers": {"X-Other": "b"}}), Some(json!(["x-other"]))),
        (json!({"headers": null}), None),
        (json!({"headers": {"a": "b"}}), Some(json!(["a"]))),
        (json!({"headers": {}}), None),
    ] {
        let mut update = fields.clone();
        update["id"] = json!(id);
        world.rpc(&tenant.key, "webhooks/update", update).await.ok();
        assert_eq!(names(&world, &tenant).await, expected, "{fields}");
    }
    world.deliver(event(&tenant.id, "j")).await;
    let received = receiver.received().await.remove(0);
    for name in ["authorization", "x-tenant", "x-other", "a"] {
        assert_eq!(received.header(name), "");
    }
    for none in [json!(null), json!({})] {
        create(&world, &tenant, &receiver.url("/"), none).await;
    }
    assert!(world.endpoints(&tenant).await.iter().all(|endpoint| endpoint.get("header_names").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_header_has_an_issue_without_its_value() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/", "s").await;
    let eleven: serde_json::Map<_, _> = (0..11).map(|number| (format!("n{number}"), json!("canary"))).collect();
    for (headers, issues) in [
        (json!("canary"), vec![(json!(["headers"]), "invalid_type")]),
        (json!(["canary"]), vec![(json!(["headers"]), "invalid_type")]),
        (json!({"Host": "canary"}), vec![(json!(["headers", "host"]), "invalid_format")]),
        (json!({"Content-Type": "canary"}), vec![(json!(["headers", "content-type"]), "invalid_format")]),
        (json!({"webhook-canar": "canary"}), vec![(json!(["headers", "webhook-canar"]), "invalid_format")]),
        // An invalid name may be a header value in the wrong place.
        (json!({"Authorization: canary": "x"}), vec![(json!(["headers"]), "invalid_format")]),
        (json!({"canary\r\nhost": "x"}), vec![(json!(["headers"]), "invalid_format")]),
        (json!({"": "canary"}), vec![(json!(["headers"]), "invalid_format")]),
        (json!({"a": "canary", "A": "canary"}), vec![(json!(["headers", "a"]), "invalid_format")]),
        (json!({"a": ""}), vec![(json!(["headers", "a"]), "too_small")]),
        (json!({"a": "canary".repeat(171)}), vec![(json!(["headers", "a"]), "too_big")]),
        (json!({"a": "canary\r\nhost: x"}), vec![(json!(["headers", "a"]), "invalid_format")]),
        (json!({"a": ["canary"]}), vec![(json!(["headers", "a"]), "invalid_type")]),
        (json!({"a": null}), vec![(json!(["headers", "a"]), "invalid_type")]),
        (json!(eleven), vec![(json!(["headers"]), "too_big")]),
        (
            json!({"b": " canary", "cookie": 7, "a": "ca\u{df}nary"}),
            vec![
                (json!(["headers", "a"]), "invalid_format"),
                (json!(["headers", "b"]), "invalid_format"),
                (json!(["headers", "cookie"]), "invalid_format"),
                (json!(["headers", "cookie"]), "invalid_type"),
            ],
        ),
    ] {
        let (create, update) =
            (json!({"url": "https://example.com", "headers": headers}), json!({"id": id, "headers": headers}));
        for (route, fields) in [("webhooks/create", create), ("webhooks/update", update)] {
            let answer = world.rpc(&tenant.key, route, fields).await;
            assert_eq!(answer.error(), (400, "BAD_REQUEST", ""), "{route} {headers}");
            let found = answer.json()["data"]["issues"].as_array().expect("issues").iter();
            let found: Vec<_> =
                found.map(|issue| (issue["path"].clone(), issue["code"].as_str().expect("a code"))).collect();
            assert_eq!(found, issues, "{route} {headers}");
            assert!(!answer.body.to_string().contains("canary"), "{answer:?}");
        }
    }
    // A JSON object can contain the same member twice.
    let twice = br#"{"json": {"url": "https://example.com", "headers": {"a": "1", "a": "2"}}}"#;
    let answer = world.post(&tenant.key, "/v1/webhooks/create", twice.to_vec()).await;
    assert_eq!(answer.issues(), [("headers", "invalid_format")]);
    assert_eq!(names(&world, &tenant).await, None);
}

/// Otherwise, the holder of a leaked key could change the URL and receive the values.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_url_gets_only_headers_sent_with_it() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let here = receiver.url("/here");
    let id = create(&world, &tenant, &here, json!({"authorization": FIRST})).await;
    let update = async |fields: Value| {
        let mut update = fields;
        update["id"] = json!(id);
        world.rpc(&tenant.key, "webhooks/update", update).await
    };
    let before = world.only_endpoint(&tenant).await;
    for refused in [
        json!({"url": receiver.url("/there")}),
        json!({"url": receiver.url("/there"), "signing_secret": "correct-horse-battery"}),
        json!({"url": receiver.url("/there"), "signing_secret": "another-horse-battery", "description": "new", "active": false}),
    ] {
        assert_eq!(update(refused).await.error(), (409, "CONFLICT", "headers_needed"));
        assert_eq!(world.only_endpoint(&tenant).await, before);
    }
    for fine in [json!({"url": here}), json!({"url": here, "signing_secret": "correct-horse-battery"})] {
        update(fine).await.ok();
    }
    world.deliver(event(&tenant.id, "j")).await;
    update(json!({"url": receiver.url("/there"), "headers": {"authorization": SECOND}})).await.ok();
    world.deliver(event(&tenant.id, "j")).await;
    update(json!({"url": receiver.url("/nowhere"), "headers": null})).await.ok();
    world.deliver(event(&tenant.id, "j")).await;
    // Without headers, the URL can be changed on its own.
    update(json!({"url": here})).await.ok();
    let received = receiver.received().await;
    let got: Vec<_> = received.iter().map(|one| (one.path.as_str(), one.header("authorization"))).collect();
    assert_eq!(got, [("/here", FIRST), ("/there", SECOND), ("/nowhere", "")]);
    received.iter().for_each(|attempt| attempt.verify("correct-horse-battery"));
    let unknown = json!({"id": uuid::Uuid::now_v7(), "url": here, "signing_secret": "correct-horse-battery"});
    assert_eq!(world.rpc(&tenant.key, "webhooks/update", unknown).await.error(), (404, "NOT_FOUND", ""));
}

/// The condition is part of the write, so it also applies to concurrent writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_url_change_does_not_receive_the_headers() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/here", "s").await;
    let update = async |fields: Value| {
        let mut update = fields;
        update["id"] = json!(id);
        world.rpc(&tenant.key, "webhooks/update", update).await
    };
    for round in 0..8 {
        update(json!({"url": "https://example.com/here", "headers": null})).await.ok();
        let headers =
            update(json!({"url": "https://example.com/here", "headers": {"a": "b"}, "description": "headers"}));
        let urls = (0..4).map(|number| {
            update(json!({"url": format!("https://example.com/{round}/{number}"), "description": "url"}))
        });
        let (headers, urls) = tokio::join!(headers, join_all(urls));
        headers.ok();
        for url in &urls {
            assert!(url.status == 200 || url.error() == (409, "CONFLICT", "headers_needed"), "{url:?}");
        }
        let endpoint = world.only_endpoint(&tenant).await;
        // Once the headers are stored, the URL can no longer be changed on its own.
        assert_eq!(
            (&endpoint["description"], &endpoint["url"]),
            (&json!("headers"), &json!("https://example.com/here"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_create_with_other_header_values_is_rejected() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let fields = |value: &str| json!({"url": "https://example.com/", "headers": {"a": value, "b": "1"}});
    let create = async |fields| world.rpc_once(&tenant.key, "webhooks/create", "once", fields).await;
    let first = create(fields("x")).await.ok().clone();
    assert_eq!(*create(fields("x")).await.ok(), first);
    assert_eq!(create(fields("y")).await.error(), (409, "CONFLICT", "idempotency_key_reused"));
    assert_eq!(world.endpoints(&tenant).await.len(), 1);
}

/// Checks everything that tenants and operators can see, after each step in the life of a header.
#[tokio::test(flavor = "multi_thread")]
async fn header_values_appear_in_no_response_log_email_or_item() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let tenant = world.tenant("acme").await;
    let key = &tenant.key;
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 8]).await;
    let mut answers = Vec::new();
    let values = [FIRST, SECOND, "canary-third-c2e7"];
    let fields = json!({"url": receiver.url("/echo"), "signing_secret": "correct-horse-battery", "headers": {"authorization": FIRST}});
    for once in ["a", "a", "b"] {
        answers.push(world.rpc_once(key, "webhooks/create", once, fields.clone()).await);
    }
    let mut reused = fields.clone();
    reused["headers"]["x"] = json!(values[2]);
    answers.push(world.rpc_once(key, "webhooks/create", "a", reused).await);
    let id = answers[0].ok()["webhook_endpoint_id"].clone();
    let update = json!({"id": id, "headers": {"authorization": FIRST, "x-second": SECOND}});
    answers.push(world.rpc(key, "webhooks/update", update).await);
    for wrong in [
        json!({"id": id, "url": receiver.url("/"), "description": FIRST.repeat(99)}),
        json!({"id": id, "url": receiver.url("/")}),
        json!({"id": id, "headers": {"host": values[2], "a": format!("{}\n", values[2]), values[2].repeat(9): values[2]}}),
        json!({"id": id, "headers": values[2]}),
        json!({"id": FIRST, "headers": {"a": values[2]}}),
    ] {
        let answer = world.rpc(key, "webhooks/update", wrong).await;
        assert_ne!(answer.status, 200);
        answers.push(answer);
    }
    world.deliver(event(&tenant.id, "j")).await;
    world.poll_due().await;
    answers.push(world.rpc(key, "webhooks/test", json!({"id": id})).await);
    world.poll_due().await;
    assert!(receiver.count().await >= 4);
    assert!(receiver.received().await.iter().any(|attempt| attempt.header("x-second") == SECOND));

    let mut kept = 0;
    for delivery in world.log(&tenant.id).await {
        let shown = world.rpc(key, "deliveries/get", json!({"delivery_id": delivery.id})).await;
        // If a receiver's response repeats the header values, it is stored without them.
        for attempt in shown.ok()["attempts"].as_array().expect("a list") {
            let response = attempt["response"].as_str().expect("a response");
            assert!(response.contains(r#""authorization": "Bearer [secret]""#), "{response}");
            kept += 1;
        }
        answers.push(shown);
        answers.push(world.rpc(key, "deliveries/resend", json!({"delivery_id": delivery.id})).await);
    }
    assert!(kept >= 4, "{kept}");
    for (route, fields) in [
        ("webhooks/list", json!({})),
        ("deliveries/list", json!({})),
        ("deliveries/stats", json!({})),
        ("deliveries/recover", json!({"webhook_endpoint_id": id, "since": "2026-01-01T00:00:00Z"})),
    ] {
        answers.push(world.rpc(key, route, fields).await);
    }
    let messages = world.drain_due().await;
    world.sweep(common::timestamp::Timestamp::now()).await;
    let mail = world.mail_to("ops@example.com").await;
    assert!(mail["text"].as_str().expect("a string").contains("is failing"));
    let mut seen: Vec<_> = answers.iter().map(|answer| (format!("{answer:?}"), "an answer")).collect();
    seen.extend(messages.iter().map(|message| (message.to_string(), "a message")));
    seen.push((mail.to_string(), "a mail"));
    let mut stored = 0;
    for table in world.stack.tables().keys() {
        for mut item in world.items(table).await {
            // Only this attribute of the endpoint's item contains the values.
            if table == "webhook-endpoints" && item.remove("headers").is_some() {
                stored += 1;
            }
            seen.push((format!("{item:?}"), "a row"));
        }
    }
    assert_eq!(stored, 2);
    answers.push(world.rpc(key, "webhooks/delete", json!({"id": id})).await);
    assert!(seen.len() > 40);
    for (text, what) in seen {
        assert!(!text.contains("canary"), "{what}: {text}");
    }
    let log = tests::log::collected();
    assert!(log.contains(&tenant.id), "the log was collected");
    for value in values.map(|value| value.trim_start_matches("Bearer ")) {
        assert_eq!(log.lines().find(|line| line.contains(value)), None);
    }
}
