//! Pull deliveries of an endpoint that is deleted.

use std::sync::Arc;

use common::webhooks::delivery::Status;
use serde_json::json;
use tests::{Call, World, event, world::tables::Item};

use super::{ends_of_lease, open, pull_endpoint, result, settle_one, sweep_after, take, take_one, with_endpoint};
use crate::deliveries::{Book, Draft, HOUR};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_deleted_endpoint_can_be_settled() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in ["good", "bad"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let taken = take(&world, &tenant, &endpoint).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    let good = settle_one(&world, &tenant, &taken[0], json!({"status_code": 200})).await;
    assert_eq!(good, result(&taken[0], "settled", Some("delivered")));
    let bad = settle_one(&world, &tenant, &taken[1], json!({"status_code": 500})).await;
    assert_eq!(bad, result(&taken[1], "settled", Some("ended")), "the delivery cannot be received again");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_pull_endpoint_ends_its_deliveries() {
    let (world, tenant, endpoint) = with_endpoint(&[("LEASE_TIME", "3600"), ("RETRY_SCHEDULE", "600")]).await;
    let other = world.tenant("other").await;
    pull_endpoint(&world, &other, "correct-horse-battery").await;
    world.deliver(event(&other.id, "theirs")).await;
    let mut taken = Vec::new();
    for (job, status) in [("retried", Some(500)), ("resent", Some(200)), ("leased", None)] {
        world.deliver(event(&tenant.id, job)).await;
        let one = take_one(&world, &tenant, &endpoint).await;
        if let Some(status) = status {
            settle_one(&world, &tenant, &one, json!({"status_code": status})).await;
        }
        taken.push(one);
    }
    let resend = json!({"delivery_id": taken[1]["delivery_id"]});
    world.rpc(&tenant.key, "deliveries/resend", resend.clone()).await.ok();
    world.deliver(event(&tenant.id, "held")).await;
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok();
    world.handle_all().await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    for _repeated in 0..2 {
        sweep_after(&world, 10).await;
    }
    let log = world.log(&tenant.id).await;
    let left = log.iter().filter(|delivery| delivery.status != Status::Ended).map(|delivery| delivery.job_id.as_str());
    assert_eq!((log.len(), left.collect::<Vec<_>>()), (5, vec!["leased"]));
    assert_eq!(open(&world, &tenant).await, [0, 1]);
    assert_eq!((open(&world, &other).await, world.log(&other.id).await.len()), ([0, 1], 1));
    let settled = settle_one(&world, &tenant, &taken[2], json!({"status_code": 200})).await;
    assert_eq!(settled["status"], "delivered");
    assert_eq!(open(&world, &tenant).await, [0, 0]);

    // A client may resend a delivery to the deleted endpoint.
    world.rpc(&tenant.key, "deliveries/resend", resend).await.ok();
    assert_eq!(open(&world, &tenant).await, [1, 0]);
    sweep_after(&world, 60).await;
    assert_eq!(open(&world, &tenant).await, [0, 0]);
    sweep_after(&world, 16 * 60).await;
    let items = world.items("deliveries").await;
    let is_left = |item: &&Item| item.get("open").is_some_and(|open| open.as_s().is_ok_and(|open| open == "ending"));
    assert_eq!(items.iter().filter(is_left).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_endpoints_delivery_ends_with_its_lease() {
    let (world, tenant, endpoint) = with_endpoint(&[("LEASE_TIME", "1")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    take_one(&world, &tenant, &endpoint).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    ends_of_lease().await;
    sweep_after(&world, 10).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_deliveries_of_a_deleted_endpoint_end() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": false})).await.ok();
    world.deliver(event(&tenant.id, "early")).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    sweep_after(&world, 10).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Ended);
    // A process that had read the endpoint before holds a delivery afterwards.
    let book = Book::of(&world);
    book.write_one(&tenant, Draft::to(&endpoint, book.ago(HOUR), "late").status(Status::Held)).await;
    assert_eq!(open(&world, &tenant).await, [0, 1]);
    sweep_after(&world, 16 * 60).await;
    assert_eq!(open(&world, &tenant).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_to_an_existing_endpoint_stays_available() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let first = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &first, json!({"status_code": 200})).await;
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": first["delivery_id"]})).await.ok();
    sweep_after(&world, 10).await;
    sweep_after(&world, 16 * 60).await;
    take_one(&world, &tenant, &endpoint).await;
}

/// The sweep that looks after a resend finds the endpoint, and its owner deletes it before the sweep's next call.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_ends_if_its_endpoint_is_deleted_during_a_sweep() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await;
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": taken["delivery_id"]})).await.ok();
    let passes = |call: &Call| {
        let partition = call["Key"]["destination"]["S"].as_str();
        call.operation == "UpdateItem" && partition.is_some_and(|partition| partition.starts_with("ending/"))
    };
    let (rival, key) = (Arc::clone(&world), tenant.key.clone());
    race.before(passes, async move {
        assert_eq!(rival.rpc(&key, "webhooks/delete", json!({"id": endpoint})).await.status, 200);
    });
    sweep_after(&world, 10).await;
    assert!(race.is_over());
    sweep_after(&world, 60).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Ended);
}
