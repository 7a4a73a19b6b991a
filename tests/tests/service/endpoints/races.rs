//! Calls and attempts that race with a deletion or a change of their endpoint.

use std::{sync::Arc, time::Duration};

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Failure, Outcome, Trigger},
        endpoints::{EndpointAttempts, Evidence, Gate, GateOwner, Health},
        event::EventName,
    },
};
use serde_json::json;
use tests::{World, text, world::tables::Item};

/// The items of an endpoint, without that of its deletion.
async fn items(world: &World, endpoint: &str) -> Vec<Item> {
    let mut items = world.items("webhook-endpoints").await;
    items.retain(|item| item["webhook_endpoint_id"].as_s().is_ok_and(|id| id == endpoint));
    items
}

fn timeout(began: Timestamp) -> Attempt {
    Attempt::new(began, 1, Outcome::Failed(Failure::Timeout), None, Trigger::Event)
}

/// An attempt, or a call that receives deliveries, may end after the deletion of its endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_does_not_restore_a_deleted_endpoint() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let id = text(&created.ok()["webhook_endpoint_id"]).to_owned();
    let (owner, endpoint) = (tenant.id.parse().expect("a tenant"), id.parse().expect("an id"));
    let (endpoints, now) = (world.stored_endpoints(), Timestamp::now());
    let before = endpoints.find(&owner, endpoint).await.expect("it is read").expect("it exists");
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();
    let (failed, mut attempts) = (timeout(now), EndpointAttempts::default());
    attempts.add(EventName::Completed, &failed);
    endpoints.note_attempts(&owner, endpoint, Health::default(), &attempts, now).await.expect("the call succeeds");
    endpoints.note_answered(&owner, endpoint, now).await.expect("the call succeeds");
    let (gate_owner, shown) = (GateOwner::Endpoint(endpoint), Evidence::Nothing);
    endpoints.shift_gate(&owner, gate_owner, Gate::New, shown, now, now).await.expect("the call succeeds");
    endpoints.spread_log(&owner, endpoint).await.expect("the call succeeds");
    endpoints.note_pulled(&owner, &before, true, now).await.expect("the call succeeds");
    assert_eq!(items(&world, &id).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_attempt_counts_against_no_newer_success_or_url() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let [healthy, moved] = [
        world.new_endpoint(&tenant, "https://example.com/1", "correct-horse-battery").await,
        world.new_endpoint(&tenant, "https://example.com/2", "correct-horse-battery").await,
    ];
    let (owner, endpoints, began) = (tenant.id.parse().expect("a tenant"), world.stored_endpoints(), Timestamp::now());
    let (first, late) = (timeout(began), timeout(began.after(Duration::from_millis(1))));
    let note = async |endpoint: &str, attempt: &Attempt| {
        let (id, mut attempts) = (endpoint.parse().expect("an id"), EndpointAttempts::default());
        attempts.add(EventName::Completed, attempt);
        let noted = endpoints.note_attempts(&owner, id, Health::default(), &attempts, Timestamp::now());
        noted.await.expect("the call succeeds");
    };
    note(&healthy, &first).await;
    assert!(items(&world, &healthy).await[0].contains_key("streak"));
    tokio::time::sleep(Duration::from_millis(3)).await;
    endpoints.note_answered(&owner, healthy.parse().expect("an id"), Timestamp::now()).await.expect("a call");
    let new_url = json!({"id": moved, "url": "https://example.com/3"});
    world.rpc(&tenant.key, "webhooks/update", new_url).await.ok();
    for endpoint in [&healthy, &moved] {
        note(endpoint, &late).await;
        assert!(!items(&world, endpoint).await[0].contains_key("streak"));
    }
    let (of, now) = (GateOwner::Endpoint(moved.parse().expect("an id")), Timestamp::now());
    endpoints.shift_gate(&owner, of, Gate::New, Evidence::Nothing, late.at, now).await.expect("the call succeeds");
    assert_eq!(world.gate(&tenant, &moved).await, Gate::New, "the attempt was made at the former URL");
}

/// Deliveries in a shard that the deleted endpoint's item does not name would neither be listed nor erased.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_spread_during_a_deletion_is_found() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/", "s").await;
    let (owner, endpoint) = (tenant.id.parse().expect("a tenant"), id.parse().expect("an id"));
    let (endpoints, spread) = (world.stored_endpoints(), Arc::clone(&world));
    let (of, to) = (tenant.id.clone(), endpoint);
    race.before_transaction(async move {
        let owner = of.parse().expect("a tenant");
        spread.stored_endpoints().spread_log(&owner, to).await.expect("the call succeeds");
    });
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();
    assert!(race.is_over());
    assert_eq!(endpoints.shards(&owner, Some(endpoint)).await.expect("its shards").len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_races_with_a_deletion_is_refused() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/", "s").await;
    let (rival, key, fields) = (Arc::clone(&world), tenant.key.clone(), json!({"id": id}));
    race.before_transaction(async move { assert_eq!(rival.rpc(&key, "webhooks/delete", fields).await.status, 200) });
    let test = world.rpc(&tenant.key, "webhooks/test", json!({"id": id})).await;
    assert_eq!(test.error(), (404, "NOT_FOUND", ""));
    assert_eq!((items(&world, &id).await.len(), world.log(&tenant.id).await.len()), (0, 0));
}
