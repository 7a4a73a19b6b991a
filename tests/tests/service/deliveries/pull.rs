//! Pull endpoints: deliveries are received with a lease, and settled.

mod deletion;
mod reads;
mod receiving;
mod settling;

use std::time::Duration;

use common::timestamp::Timestamp;
use serde_json::{Value, json};
use tests::{Tenant, World};

/// A pull endpoint of `tenant`, with a secret chosen by the tenant.
async fn pull_endpoint(world: &World, tenant: &Tenant, secret: &str) -> String {
    let fields = json!({"kind": "pull", "signing_secret": secret});
    let answer = world.rpc(&tenant.key, "webhooks/create", fields).await;
    answer.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned()
}

/// A world with a tenant and a pull endpoint.
async fn with_endpoint(settings: &[(&str, &str)]) -> (World, Tenant, String) {
    let world = World::with(settings).await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    (world, tenant, endpoint)
}

async fn receive(world: &World, tenant: &Tenant, endpoint: &str, limit: u32) -> Value {
    let fields = json!({"webhook_endpoint_id": endpoint, "limit": limit});
    world.rpc(&tenant.key, "deliveries/receive", fields).await.ok().clone()
}

/// Receives once, and returns the deliveries, which must include all available ones.
async fn take(world: &World, tenant: &Tenant, endpoint: &str) -> Vec<Value> {
    receive(world, tenant, endpoint, 100).await["deliveries"].as_array().expect("deliveries").clone()
}

async fn take_one(world: &World, tenant: &Tenant, endpoint: &str) -> Value {
    let taken = take(world, tenant, endpoint).await;
    let [taken] = &taken[..] else { unreachable!("{taken:?}") };
    taken.clone()
}

fn settlement(taken: &Value, outcome: Value) -> Value {
    let mut settlement = json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"]});
    let members = outcome.as_object().expect("an object").clone();
    settlement.as_object_mut().expect("an object").extend(members);
    settlement
}

/// Settles these deliveries, all with the same outcome, and returns the results.
async fn settle(world: &World, tenant: &Tenant, taken: &[Value], outcome: Value) -> Vec<Value> {
    let settlements: Vec<_> = taken.iter().map(|taken| settlement(taken, outcome.clone())).collect();
    let answer = world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": settlements})).await;
    answer.ok()["settlements"].as_array().expect("settlements").clone()
}

async fn settle_one(world: &World, tenant: &Tenant, taken: &Value, outcome: Value) -> Value {
    settle(world, tenant, std::slice::from_ref(taken), outcome).await.remove(0)
}

fn result(delivery: &Value, result: &str, status: Option<&str>) -> Value {
    let mut expected = json!({"delivery_id": delivery["delivery_id"], "result": result});
    if let Some(status) = status {
        expected["status"] = json!(status);
    }
    expected
}

fn jobs(taken: &[Value]) -> Vec<&str> {
    taken.iter().filter_map(|taken| taken["job_id"].as_str()).collect()
}

async fn ends_of_lease() {
    tokio::time::sleep(Duration::from_millis(1_050)).await;
}

/// The numbers of pending and held deliveries in the statistics.
async fn open(world: &World, tenant: &Tenant) -> [u64; 2] {
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({})).await.ok().clone();
    ["pending", "held"].map(|status| stats["open"][status]["count"].as_u64().expect("a count"))
}

/// Sweeps this long after now.
async fn sweep_after(world: &World, seconds: u64) {
    crate::notices::sweep(world, Timestamp::now().after(Duration::from_secs(seconds))).await;
}
