//! The webhook routes.

use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World};

async fn list(world: &World, tenant: &Tenant) -> Vec<Value> {
    let answer = world.rpc(&tenant.key, "webhooks/list", json!({})).await;
    answer.ok()["webhook_endpoints"].as_array().expect("a list").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_created_endpoint_is_listed_without_its_secret() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let answer = world.rpc(&tenant.key, "webhooks/create", json!({
        "url": "https://example.com/hook?a=b", "signing_secret": "canary", "description": "ours", "active": false,
    })).await;
    let created = answer.ok();
    assert_eq!(created["success"], true);
    assert!(created["message"].is_string());
    let listed = list(&world, &tenant).await;
    assert_eq!(listed.len(), 1);
    let (created_at, updated_at) = (&listed[0]["created_at"], &listed[0]["updated_at"]);
    assert_eq!(
        listed[0],
        json!({
            "webhook_endpoint_id": created["webhook_endpoint_id"], "url": "https://example.com/hook?a=b",
            "description": "ours", "active": false, "created_at": created_at, "updated_at": updated_at,
        })
    );
    let time = created_at.as_str().expect("a time");
    assert!(time.len() == 24 && time.ends_with('Z') && time.parse::<common::timestamp::Timestamp>().is_ok(), "{time}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_left_out_is_made_and_answered_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let create = async |fields| world.rpc(&tenant.key, "webhooks/create", fields).await.ok().clone();
    assert_eq!(
        create(json!({"url": "https://example.com", "signing_secret": "ours"})).await.get("signing_secret"),
        None
    );
    let created = create(json!({"url": receiver.url("/")})).await;
    let secret = created["signing_secret"].as_str().expect("a secret");
    world.enqueue("job-events", crate::deliveries::audience::event(&tenant, "job").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    let delivery = receiver.received().await.remove(0);
    let webhook = standardwebhooks::Webhook::new(secret).expect("the library takes it");
    webhook.verify(&delivery.body, &delivery.headers).expect("it is signed with the secret that was made");
    assert!(!format!("{:?}", list(&world, &tenant).await).contains(&secret["whsec_".len()..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_optional_and_endpoints_are_active_by_default() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for description in [json!({}), json!({"description": null})] {
        let mut fields = json!({"url": "https://example.com", "signing_secret": "s"});
        fields.as_object_mut().expect("fields").extend(description.as_object().expect("fields").clone());
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    for endpoint in list(&world, &tenant).await {
        assert_eq!(endpoint.get("description"), None);
        assert_eq!(endpoint["active"], true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_that_an_endpoint_wants_are_set_kept_and_cleared() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let create = json!({
        "url": "https://example.com", "signing_secret": "s", "events": ["job.failed", "job.failed"],
    });
    let id = world.rpc(&tenant.key, "webhooks/create", create).await.ok()["webhook_endpoint_id"].clone();
    assert_eq!(list(&world, &tenant).await[0]["events"], json!(["job.failed"]));
    for (fields, events) in [
        (json!({"description": "ours"}), Some(json!(["job.failed"]))),
        (json!({"events": ["job.failed", "job.completed"]}), Some(json!(["job.completed", "job.failed"]))),
        (json!({"events": null}), None),
        (json!({"events": ["job.completed"]}), Some(json!(["job.completed"]))),
    ] {
        let mut update = fields.clone();
        update["id"] = id.clone();
        world.rpc(&tenant.key, "webhooks/update", update).await.ok();
        assert_eq!(list(&world, &tenant).await[0].get("events"), events.as_ref(), "{fields}");
    }
    let all = json!({"url": "https://example.com", "signing_secret": "s", "events": null});
    world.rpc(&tenant.key, "webhooks/create", all).await.ok();
    assert_eq!(list(&world, &tenant).await[1].get("events"), None);
    let bad = json!({"id": id, "events": [7, "job.failed", "canary", null]});
    let answer = world.rpc(&tenant.key, "webhooks/update", bad).await;
    let issues = answer.json()["data"]["issues"].as_array().expect("issues");
    let paths: Vec<_> = issues.iter().map(|issue| &issue["path"]).collect();
    assert_eq!(paths, [&json!(["events", "0"]), &json!(["events", "2"]), &json!(["events", "3"])]);
}

/// DynamoDB reads 1 MB of items at a time, including attributes that the response leaves out.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_longer_than_a_page_is_complete() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com", "s").await;
    let items = world.items("webhook-endpoints").await;
    let endpoint = items.into_iter().find(|item| item["webhook_endpoint_id"].as_s() == Ok(&id)).expect("an endpoint");
    for _ in 0..11 {
        let mut item = endpoint.clone();
        item.insert("webhook_endpoint_id".to_owned(), AttributeValue::S(uuid::Uuid::now_v7().to_string()));
        item.insert("padding".to_owned(), AttributeValue::S("x".repeat(300_000)));
        let put = world.stack.dynamodb_client().put_item().table_name("webhook-endpoints").set_item(Some(item));
        put.send().await.expect("it is stored");
    }
    assert_eq!(list(&world, &tenant).await.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_listed_oldest_first() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(world.endpoint(&tenant, &format!("https://example.com/{number}"), "s").await);
    }
    let listed: Vec<_> = list(&world, &tenant).await.iter().map(|e| e["webhook_endpoint_id"].clone()).collect();
    assert_eq!(listed, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_changes_only_the_given_fields() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let update = async |mut fields: Value| {
        let before = list(&world, &tenant).await.remove(0);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        fields["id"] = json!(id);
        let answer = world.rpc(&tenant.key, "webhooks/update", fields).await;
        assert_eq!(answer.ok()["success"], true);
        (before, list(&world, &tenant).await.remove(0))
    };
    let (before, after) = update(json!({})).await;
    assert_eq!(before, after);
    let (before, after) = update(json!({"description": "new", "url": "https://example.com/2", "active": false})).await;
    assert_eq!(after["description"], "new");
    assert_eq!(after["url"], "https://example.com/2");
    assert_eq!(after["active"], false);
    assert_eq!(after["created_at"], before["created_at"]);
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    let (_, after) = update(json!({"description": null})).await;
    assert_eq!(after.get("description"), None);
    assert_eq!(after["url"], "https://example.com/2");
    let (before, after) = update(json!({"signing_secret": "rotated"})).await;
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    assert!(format!("{:?}", world.items("webhook-endpoints").await).contains("rotated"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_endpoint_is_gone_and_makes_room() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "1")]).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let answer = world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await;
    assert_eq!(answer.ok()["success"], true);
    assert!(list(&world, &tenant).await.is_empty());
    let again = world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await;
    assert_eq!(again.error(), (404, "NOT_FOUND", ""));
    world.endpoint(&tenant, "https://example.com/2", "s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_16_deletes_at_once_one_succeeds_and_is_counted_once() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "2")]).await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, "https://example.com/1", "s").await;
    let id = world.endpoint(&tenant, "https://example.com/2", "s").await;
    let fields = json!({"id": id.to_uppercase()});
    let deletes = join_all((0..16).map(|_| world.rpc(&tenant.key, "webhooks/delete", fields.clone()))).await;
    assert_eq!(deletes.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(deletes.iter().filter(|answer| answer.status == 404).count(), 15);
    world.endpoint(&tenant, "https://example.com/3", "s").await;
    let fields = json!({"url": "https://example.com/4", "signing_secret": "s", "unknown": {"is": "ignored"}});
    assert_eq!(world.rpc(&tenant.key, "webhooks/create", fields).await.error(), (409, "CONFLICT", "endpoint_limit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_endpoint_does_not_block_the_others() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let broken = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let misled = world.endpoint(&tenant, "https://example.com/2", "s").await;
    let good = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let text = |value: &str| AttributeValue::S(value.to_owned());
    for (id, change) in [(&broken, "REMOVE active"), (&misled, "SET #url = tenant_id")] {
        let update = world.stack.dynamodb_client().update_item().table_name("webhook-endpoints");
        let update = update.key("tenant_id", text(&tenant.id)).key("webhook_endpoint_id", text(id));
        let update = if change.contains('#') { update.expression_attribute_names("#url", "url") } else { update };
        update.update_expression(change).send().await.expect("it is broken");
    }

    // The owner needs to see the one with an invalid URL, to fix it.
    let listed = list(&world, &tenant).await;
    let ids: Vec<_> = listed.iter().map(|endpoint| &endpoint["webhook_endpoint_id"]).collect();
    assert_eq!(ids, [&json!(misled), &json!(good)]);
    world.enqueue("job-events", crate::deliveries::audience::event(&tenant, "job").to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    assert_eq!(receiver.received().await.len(), 1);
    assert!(world.drain("job-events").await.is_empty());
    for id in [&broken, &misled] {
        assert!(tests::log::collected().lines().any(|line| line.contains(id) && line.contains("cannot be read")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_endpoint_is_not_found() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let id = world.endpoint(&theirs, "https://example.com/1", "s").await;
    let unknown = uuid::Uuid::now_v7().to_string();
    for route in ["webhooks/update", "webhooks/delete"] {
        for fields in [json!({"active": false}), json!({})] {
            let mut bodies = Vec::new();
            for id in [&id, &unknown, "#count"] {
                let mut fields = fields.clone();
                fields["id"] = json!(id);
                bodies.push(world.rpc(&ours.key, route, fields).await);
            }
            assert_eq!(bodies[0].error(), (404, "NOT_FOUND", ""));
            assert_eq!(bodies[0].body, bodies[1].body);
            assert_eq!(bodies[2].issues(), [("id", "invalid_format")]);
        }
    }
    assert!(list(&world, &ours).await.is_empty());
    assert_eq!(list(&world, &theirs).await[0]["active"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_key_gets_the_same_answer() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let unknown = format!("ak_{}", "a".repeat(43));
    let shorter = &tenant.key[..45];
    let mut bodies = Vec::new();
    for route in ["create", "list", "update", "delete"] {
        for key in ["", "x", &unknown, shorter, &tenant.cookie] {
            let answer = world.rpc(key, &format!("webhooks/{route}"), json!({})).await;
            assert_eq!(answer.error(), (401, "UNAUTHORIZED", ""), "{key}");
            bodies.push(answer.body);
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_stops_working_at_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    list(&world, &tenant).await;
    let keys = world.items("api-keys").await;
    let hash = keys.iter().find(|item| item.contains_key("key_id")).expect("the key")["key_hash"].clone();
    let dynamodb = world.stack.dynamodb_client();
    dynamodb.delete_item().table_name("api-keys").key("key_hash", hash).send().await.expect("it is revoked");
    assert_eq!(world.rpc(&tenant.key, "webhooks/list", json!({})).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_validated() {
    let world = World::with(&[("ALLOW_HTTP_DESTINATIONS", "false"), ("ALLOWED_DESTINATIONS", "")]).await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let long_url = format!("https://example.com/{}", "a".repeat(2048));
    for (field, value, code) in [
        ("url", json!(null), "invalid_type"),
        ("url", json!(7), "invalid_type"),
        ("url", json!("example.com"), "invalid_format"),
        ("url", json!("http://example.com"), "invalid_format"),
        ("url", json!("https://user@example.com"), "invalid_format"),
        ("url", json!("https://example.com/#x"), "invalid_format"),
        ("url", json!("https://127.0.0.1/"), "invalid_format"),
        ("url", json!("https://[::ffff:10.0.0.1]/"), "invalid_format"),
        ("url", json!("https://2130706433/"), "invalid_format"),
        ("url", json!(long_url), "too_big"),
        ("signing_secret", json!(null), "invalid_type"),
        ("signing_secret", json!(""), "too_small"),
        ("signing_secret", json!("  "), "invalid_format"),
        ("signing_secret", json!("x".repeat(257)), "too_big"),
        ("signing_secret", json!("whsec_"), "invalid_format"),
        ("signing_secret", json!("whsec_===="), "invalid_format"),
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
        let mut create = json!({"url": "https://example.com", "signing_secret": "s"});
        create[field] = value.clone();
        let mut update = json!({"id": id});
        update[field] = value.clone();
        for (route, fields) in [("webhooks/create", create), ("webhooks/update", update)] {
            let answer = world.rpc(&tenant.key, route, fields).await;
            assert_eq!(answer.error(), (400, "BAD_REQUEST", ""), "{route} {field} {value}");
            assert_eq!(answer.issues(), [(field, code)], "{route} {field} {value}");
        }
    }
    let nothing_right = json!({"signing_secret": " ", "active": 1});
    assert_eq!(world.rpc(&tenant.key, "webhooks/create", nothing_right).await.issues().len(), 3);
    assert_eq!(list(&world, &tenant).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_120_creates_by_24_clients_at_once_100_stand() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let clients = join_all((0..24).map(|client| {
        let (world, tenant) = (&world, &tenant);
        async move {
            let mut created = 0;
            for number in 0..5 {
                let fields = json!({"url": format!("https://example.com/{client}/{number}"), "signing_secret": "s"});
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
    assert_eq!(list(&world, &tenant).await.len(), 100);
}

/// A Lambda response has at most 6 MiB and 100 bytes, and contains the body as a JSON string.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_list_that_the_template_permits_fits_into_lambdas_answer() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    // No valid URL or description takes more bytes as JSON inside JSON.
    let url = format!("https://example.com/{}", "🦀".repeat(2028));
    let events = ["job.completed", "job.failed"];
    let largest = json!({
        "url": url, "signing_secret": "s", "description": "\u{1}".repeat(500), "active": false, "events": events,
    });
    let created = world.rpc(&tenant.key, "webhooks/create", largest).await.ok().clone();
    let rotation = json!({"id": created["webhook_endpoint_id"], "signing_secret": "t"});
    world.rpc(&tenant.key, "webhooks/update", rotation).await.ok();
    let items = world.items("webhook-endpoints").await;
    let largest = items.into_iter().find(|item| item.contains_key("url")).expect("the endpoint");
    let template = local::template(&[("MailFrom", "mail@example.com"), ("MailIdentity", "example.com")])
        .expect("every reference resolves");
    let most = template["Parameters"]["MaxEndpointsPerTenant"]["MaxValue"].as_u64().expect("a number");
    assert_eq!(most, u64::from(common::webhooks::endpoints::MAX_ENDPOINTS));
    for _ in 1..most {
        let mut item = largest.clone();
        item.insert("webhook_endpoint_id".to_owned(), AttributeValue::S(uuid::Uuid::now_v7().to_string()));
        let put = world.stack.dynamodb_client().put_item().table_name("webhook-endpoints").set_item(Some(item));
        put.send().await.expect("it is stored");
    }
    let mut event: Value =
        serde_json::from_str(include_str!("../../../../events/webhooks-list.json")).expect("an event");
    event["headers"]["x-api-key"] = json!(tenant.key);
    let answer = world.stack.invoke("webhooks-list", event).await.expect("an answer").to_string();
    for member in ["webhook_endpoint_id", "previous_secret_expires_at", "events"] {
        assert_eq!(answer.matches(member).count() as u64, most, "{member}");
    }
    assert!(answer.len() <= 6 * 1024 * 1024 + 100, "{}", answer.len());
}
