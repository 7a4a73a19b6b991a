//! The items that a `receive` reads.

use std::{collections::BTreeSet, time::Duration};

use common::webhooks::delivery::{AttemptResult, SHARDS};
use serde_json::json;
use tests::{Tenant, World, event};

use super::{jobs, pull_endpoint, receive, settle, take, with_endpoint};
use crate::deliveries::{Book, Draft, HOUR, id};

/// Deliveries to a pull endpoint, stored as `webhooks-deliver` stores them. Some are available, and others were settled
/// long ago.
async fn fill(book: &Book, tenant: &Tenant, endpoint: &str, settled: u32, waiting: u32) {
    let tenant_id = id(tenant);
    book.write(tenant, (0..settled).map(|number| Draft::to(endpoint, book.ago(HOUR * 2), number))).await;
    let waiting = (0..waiting).map(|number| {
        let at = book.ago(HOUR).after(Duration::from_millis(number.into()));
        let (delivery, payload) = Draft::to(endpoint, at, format!("waiting {number}")).delivery(&tenant_id);
        let delivery = common::webhooks::delivery::Delivery::new(delivery.id, delivery.event, delivery.job_id);
        (delivery.after(&AttemptResult::ToBeTaken, &[], || 0.0, book.now), payload)
    });
    let waiting: Vec<_> = waiting.collect();
    let firsts: Vec<_> = waiting
        .iter()
        .map(|(delivery, payload)| book.log.first_row(&tenant_id, delivery, Some(payload), book.now))
        .collect();
    assert!(book.log.begin(firsts).await.iter().all(Result::is_ok));
}

async fn reads_little(settled: u32, waiting: u32) {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    fill(&Book::of(&world), &tenant, &endpoint, settled, waiting).await;
    for limit in [1, 10, 100] {
        let _before = world.units();
        let taken = receive(&world, &tenant, &endpoint, limit).await;
        let taken = taken["deliveries"].as_array().expect("deliveries").len();
        let items = world.units().items;
        assert_eq!(taken, limit as usize);
        // One read each: the key, its user, the endpoint, and the index entry of each delivery.
        assert!(items <= 3 + taken, "{taken} read {items}");
    }
    let settled = take(&world, &tenant, &endpoint).await;
    settle(&world, &tenant, &settled, json!({"status_code": 204})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receive_does_not_read_settled_deliveries() {
    reads_little(1_000, 220).await;
}

/// `cargo test -p tests --test service behind_200_000 -- --ignored`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_delivery_behind_200_000_is_received_without_reading_them() {
    reads_little(200_000, 1_000).await;
}

/// The shards for the other deliveries are derived from a first delivery.
#[tokio::test(flavor = "multi_thread")]
async fn a_spread_log_is_received_oldest_first() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "before")).await;
    world.stored_endpoints().spread_log(&id(&tenant), endpoint.parse().expect("an id")).await.expect("it is spread");
    for job in 0..20 {
        world.deliver(event(&tenant.id, job)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let shards: BTreeSet<_> = world.log(&tenant.id).await.iter().map(|delivery| delivery.id.shard).collect();
    assert!(shards.len() > 1 && shards.iter().all(|shard| *shard < SHARDS), "{shards:?}");
    let mut taken = Vec::new();
    while taken.len() < 21 {
        taken.extend(receive(&world, &tenant, &endpoint, 4).await["deliveries"].as_array().expect("some").clone());
    }
    let expected: Vec<_> = ["before".to_owned()].into_iter().chain((0..20).map(|job| job.to_string())).collect();
    assert_eq!(jobs(&taken), expected);
}

/// The figures for polls and events in docs/performance.md.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_poll_reads_four_small_items_and_writes_nothing() {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    receive(&world, &tenant, &endpoint, 10).await;
    let _before = world.units();
    assert_eq!(receive(&world, &tenant, &endpoint, 10).await["poll_after_ms"], 3_000);
    let idle = world.units();
    eprintln!("an idle poll: {idle:?}");
    assert!(idle.calls <= 4 && idle.read <= 3.5 && idle.written == 0.0, "{idle:?}");

    world.deliver(event(&tenant.id, "warm")).await;
    settle(&world, &tenant, &take(&world, &tenant, &endpoint).await, json!({"status_code": 204})).await;
    for job in 0..10 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    let _before = world.units();
    world.poll("job-events").await;
    let recorded = world.units();
    let taken = take(&world, &tenant, &endpoint).await;
    let leased = world.units();
    settle(&world, &tenant, &taken, json!({"status_code": 204})).await;
    let settled = world.units();
    eprintln!("ten events: recorded {recorded:?}, taken {leased:?}, settled {settled:?}");
    let written = recorded.written + leased.written + settled.written;
    assert!(taken.len() == 10 && written <= 100.0, "{written}");
    assert!(leased.calls + settled.calls <= 17, "{leased:?} {settled:?}");
}
