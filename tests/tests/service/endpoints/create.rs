//! `POST /v1/webhooks/create`.

use futures::future::join_all;
use serde_json::json;
use tests::{Browser, Receiver, World, event};

#[tokio::test(flavor = "multi_thread")]
async fn a_created_endpoint_is_listed_without_its_secret() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let answer = world.rpc(&tenant.key, "webhooks/create", json!({
        "url": "https://example.com/hook?a=b", "signing_secret": "canary-horse-battery", "description": "ours", "active": false,
    })).await;
    let created = answer.ok();
    assert_eq!(created["success"], true);
    assert!(created["message"].is_string());
    let listed = world.endpoints(&tenant).await;
    assert_eq!(listed.len(), 1);
    let (created_at, updated_at) = (&listed[0]["created_at"], &listed[0]["updated_at"]);
    assert_eq!(
        listed[0],
        json!({
            "webhook_endpoint_id": created["webhook_endpoint_id"], "kind": "push", "url": "https://example.com/hook?a=b",
            "description": "ours", "active": false, "created_at": created_at, "updated_at": updated_at,
        })
    );
    let time = created_at.as_str().expect("a time");
    assert!(time.len() == 24 && time.ends_with('Z') && time.parse::<common::timestamp::Timestamp>().is_ok(), "{time}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_omitted_secret_is_generated_and_returned_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let create = async |fields| world.rpc(&tenant.key, "webhooks/create", fields).await.ok().clone();
    assert_eq!(
        create(json!({"url": "https://example.com", "signing_secret": "ours-horse-battery"}))
            .await
            .get("signing_secret"),
        None
    );
    let created = create(json!({"url": receiver.url("/")})).await;
    let secret = created["signing_secret"].as_str().expect("a secret");
    world.deliver(event(&tenant.id, "job")).await;
    let delivery = receiver.received().await.remove(0);
    let webhook = standardwebhooks::Webhook::new(secret).expect("the library accepts it");
    webhook.verify(&delivery.body, &delivery.headers).expect("it is signed with the generated secret");
    assert!(!format!("{:?}", world.endpoints(&tenant).await).contains(&secret["whsec_".len()..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_active_and_need_no_description() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for description in [json!({}), json!({"description": null})] {
        let mut fields = json!({"url": "https://example.com", "signing_secret": "correct-horse-battery"});
        fields.as_object_mut().expect("fields").extend(description.as_object().expect("fields").clone());
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    for endpoint in world.endpoints(&tenant).await {
        assert_eq!(endpoint.get("description"), None);
        assert_eq!(endpoint["active"], true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_validated() {
    let world = World::with(&[("ALLOW_HTTP_DESTINATIONS", "false"), ("ALLOWED_DESTINATIONS", "")]).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let long_url = format!("https://example.com/{}", "a".repeat(2048));
    for (field, value, code) in [
        ("url", json!(7), "invalid_type"),
        ("url", json!("example.com"), "invalid_format"),
        ("url", json!("http://example.com"), "invalid_format"),
        ("url", json!("https://user@example.com"), "invalid_format"),
        ("url", json!("https://example.com/#x"), "invalid_format"),
        ("url", json!("https://127.0.0.1/"), "invalid_format"),
        ("url", json!("https://[::ffff:10.0.0.1]/"), "invalid_format"),
        ("url", json!("https://2130706433/"), "invalid_format"),
        ("url", json!("https://a..b.example/"), "invalid_format"),
        ("url", json!("https://.example/"), "invalid_format"),
        ("url", json!(format!("https://{}.example/", "a".repeat(64))), "invalid_format"),
        ("url", json!("https://-a.example/"), "invalid_format"),
        ("url", json!("https://example.com:0/"), "invalid_format"),
        ("url", json!(long_url), "too_big"),
        ("signing_secret", json!(""), "too_small"),
        ("signing_secret", json!("  "), "invalid_format"),
        ("signing_secret", json!("x".repeat(257)), "too_big"),
        ("description", json!(false), "invalid_type"),
        ("description", json!("x".repeat(501)), "too_big"),
        ("active", json!(null), "invalid_type"),
        ("active", json!("true"), "invalid_type"),
        ("events", json!("job.failed"), "invalid_type"),
        ("events", json!({"0": "job.failed"}), "invalid_type"),
        ("events", json!([]), "too_small"),
        ("events", json!(vec!["job.failed"; 101]), "too_big"),
        ("events", json!(["job.failed", 7]), "invalid_type"),
        ("events", json!(["job.failed", ["job.failed"]]), "invalid_type"),
        ("events", json!(["job.started"]), "invalid_format"),
        ("events", json!(["Job.failed", "job.failed"]), "invalid_format"),
    ] {
        let mut create = json!({"url": "https://example.com", "signing_secret": "correct-horse-battery"});
        create[field] = value.clone();
        let mut update = json!({"id": id});
        update[field] = value.clone();
        for (route, fields) in [("webhooks/create", create), ("webhooks/update", update)] {
            let answer = world.rpc(&tenant.key, route, fields).await;
            assert_eq!(answer.error(), (400, "BAD_REQUEST", ""), "{route} {field} {value}");
            assert_eq!(answer.issues(), [(field, code)], "{route} {field} {value}");
        }
    }
    let nulls = json!({"url": null, "signing_secret": null, "rotation_overlap_seconds": null});
    let without_url = world.rpc(&tenant.key, "webhooks/create", nulls.clone()).await;
    assert_eq!(
        without_url.issues(),
        [("url", "invalid_type")],
        "null counts as absent, and a push endpoint needs a URL"
    );
    let mut unchanged = nulls;
    unchanged["id"] = json!(id);
    let before = world.endpoints(&tenant).await;
    world.rpc(&tenant.key, "webhooks/update", unchanged).await.ok();
    assert_eq!(world.endpoints(&tenant).await, before);
    let nothing_right = json!({"signing_secret": " ", "active": 1});
    assert_eq!(world.rpc(&tenant.key, "webhooks/create", nothing_right).await.issues().len(), 3);
    assert_eq!(world.endpoints(&tenant).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_may_choose_any_secret_and_get_its_flaws() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let short = "has fewer than 16 visible characters, so it can be guessed";
    let padded = "begins or ends with white space or an invisible character";
    let url = receiver.url("/");
    for (secret, flaws) in [
        ("s", short.to_owned()),
        ("fifteen-letters", short.to_owned()),
        ("correct-horse-battery\n", padded.to_owned()),
        ("whsec_====", "decodes to an empty key, which anyone can sign with".to_owned()),
        (" x", format!("{padded}, and {short}")),
    ] {
        let fields = json!({"url": url, "signing_secret": secret});
        let created = world.rpc(&tenant.key, "webhooks/create", fields).await.ok().clone();
        assert_eq!(created["message"], format!("Webhook endpoint created. The secret {flaws}"), "{secret:?}");
        let id = created["webhook_endpoint_id"].as_str().expect("an id");
        world.deliver(event(&tenant.id, id)).await;
        world.handle_all().await;
        receiver.received().await.pop().expect("a delivery").verify(secret);
        let page = Browser::new(&world, &tenant.cookie).open(&format!("/console/endpoints/{id}")).await;
        assert!(page.page().contains(&format!("The signing secret {flaws}. Rotate it below.")), "{}", page.page());
        let fields = json!({"id": id, "signing_secret": secret});
        let updated = world.rpc(&tenant.key, "webhooks/update", fields).await.ok().clone();
        assert_eq!(updated["message"], format!("Webhook endpoint updated. The secret {flaws}"), "{secret:?}");
        let fields = json!({"id": id, "signing_secret": "correct-horse-battery"});
        let updated = world.rpc(&tenant.key, "webhooks/update", fields).await.ok().clone();
        assert_eq!(updated["message"], "Webhook endpoint updated");
        world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_stop_at_100_endpoints() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let clients = join_all((0..24).map(|client| {
        let (world, tenant) = (&world, &tenant);
        async move {
            let mut created = 0;
            for number in 0..5 {
                let fields = json!({"url": format!("https://example.com/{client}/{number}"), "signing_secret": "correct-horse-battery"});
                let answer = world.rpc(&tenant.key, "webhooks/create", fields).await;
                match answer.status {
                    200 => created += 1,
                    _ => assert_eq!(answer.error(), (409, "CONFLICT", "endpoint_limit")),
                }
            }
            created
        }
    }))
    .await;
    assert_eq!(clients.iter().sum::<usize>(), 100);
    assert_eq!(world.endpoints(&tenant).await.len(), 100);
}
