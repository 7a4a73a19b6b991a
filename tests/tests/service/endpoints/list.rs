//! `POST /v1/webhooks/list`.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use tests::{Receiver, World, event, sample_event};

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_listed_oldest_first() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(world.endpoint(&tenant, &format!("https://example.com/{number}"), "s").await);
    }
    let listed: Vec<_> = world.endpoints(&tenant).await.iter().map(|e| e["webhook_endpoint_id"].clone()).collect();
    assert_eq!(listed, ids);
}

/// DynamoDB reads 1 MB of items at a time, including attributes that the response omits.
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
        world.put("webhook-endpoints", item).await;
    }
    assert_eq!(world.endpoints(&tenant).await.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_endpoint_does_not_block_the_others() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let broken = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let misled = world.endpoint(&tenant, "https://example.com/2", "s").await;
    let good = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for (id, change) in [(&broken, json!({"active": null})), (&misled, json!({"url": tenant.id}))] {
        world.set("webhook-endpoints", ("webhook_endpoint_id", id), change).await;
    }

    // The owner has to see the endpoint with the invalid URL to be able to fix it.
    let listed = world.endpoints(&tenant).await;
    let ids: Vec<_> = listed.iter().map(|endpoint| &endpoint["webhook_endpoint_id"]).collect();
    assert_eq!(ids, [&json!(misled), &json!(good)]);
    world.deliver(event(&tenant.id, "job")).await;
    assert_eq!(receiver.received().await.len(), 1);
    assert!(world.drain("job-events").await.is_empty());
    for id in [&broken, &misled] {
        assert!(tests::log::collected().lines().any(|line| line.contains(id) && line.contains("endpoint.unreadable")));
    }
}

/// A Lambda response is at most 6 MiB and 100 bytes long, and contains the body as a JSON string.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_list_fits_into_lambdas_response() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    // This is the longest valid URL and description as JSON inside JSON.
    let url = format!("https://example.com/{}", "🦀".repeat(2028));
    let events = ["job.completed", "job.failed"];
    let name = |number: u8| (format!("{}{number}", "n".repeat(63)), json!("v"));
    let headers: serde_json::Map<_, _> = (0..10).map(name).collect();
    let workflows: Vec<_> = (0..20).map(|number| format!("{number:02}{}", "\"".repeat(98))).collect();
    let largest = json!({
        "url": url, "signing_secret": "correct-horse-battery", "description": "\u{1}".repeat(500), "active": false, "events": events,
        "headers": headers, "workflows": workflows,
    });
    let created = world.rpc(&tenant.key, "webhooks/create", largest).await.ok().clone();
    let rotation = json!({"id": created["webhook_endpoint_id"], "signing_secret": "another-horse-battery"});
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
        world.put("webhook-endpoints", item).await;
    }
    let mut event = sample_event("webhooks-list");
    event["headers"]["x-api-key"] = json!(tenant.key);
    let answer = world.stack.invoke("webhooks-list", event).await.expect("an answer").to_string();
    for member in ["webhook_endpoint_id", "previous_secret_expires_at", "events", "workflows", "header_names"] {
        assert_eq!(answer.matches(member).count() as u64, most, "{member}");
    }
    assert!(answer.len() <= 6 * 1024 * 1024 + 100, "{}", answer.len());
}
