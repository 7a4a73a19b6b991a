//! The reads that routes perform: failures are found without reading successes, and a list reads each destination once.

use std::time::Duration;

use common::webhooks::delivery::{SHARDS, Status};
use serde_json::json;
use tests::{World, proxy::Units};

use super::{Book, DAY, Draft, SECOND, ids, newest_first, pages, recover::run};

async fn three_failures_among(deliveries: u32) {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let draft = |number: u32| Draft::to(&endpoint, book.ago(Duration::from_millis(10) * (number + 1)), number);
    let is_failed = |number: &u32| [1, deliveries / 2, deliveries - 1].contains(number);
    let failed = (0..deliveries).filter(is_failed).map(|number| draft(number).status(Status::Failed));
    let failed = book.write(&tenant, failed).await;
    book.write(&tenant, (0..deliveries).filter(|number| !is_failed(number)).map(draft)).await;

    for fields in [
        json!({"status": "failed"}),
        json!({"status": "failed", "event": "job.completed"}),
        json!({"status": "failed", "webhook_endpoint_id": endpoint}),
    ] {
        let _before = world.units();
        assert_eq!(pages(&world, &tenant, fields.clone()).await, [newest_first(&failed)]);
        let items = world.units().items;
        assert!(items < 50, "{fields} read {items}");
    }
    let fields = json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    assert_eq!(run(&book).await.len(), 3);
    let items = world.units().items;
    assert!(items < 50, "recover read {items}");
    // By contrast, an unfiltered list also reads successful deliveries.
    world.rpc(&tenant.key, "deliveries/list", json!({"limit": 100})).await.ok();
    assert!(world.units().items > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_reads_only_3_failures_among_2000_deliveries() {
    three_failures_among(2000).await;
}

/// `cargo test -p tests --test service 3_failures_among_200_000 -- --ignored`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_filter_reads_only_3_failures_among_200_000_deliveries() {
    three_failures_among(200_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_20_of_100_endpoints_take_one_query_of_each() {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let mut deliveries = Vec::new();
    for number in 0..100 {
        let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
        let drafts = [number % 10, number % 10 + 20].map(|back| Draft::to(&endpoint, book.ago(SECOND * back), back));
        deliveries.extend(book.write(&tenant, drafts).await);
    }
    let _before = world.units();
    let first = world.rpc(&tenant.key, "deliveries/list", json!({})).await;
    assert_eq!(ids(first.ok()), newest_first(&deliveries)[..20]);
    // The call reads the key, its user, all endpoints, deleted endpoints, each endpoint's log, and each callback shard.
    let Units { calls, items, .. } = world.units();
    assert_eq!(calls, 2 + 2 + 100 + usize::from(SHARDS));
    assert!(items <= 2 + 100 + 200, "{items}");
}
