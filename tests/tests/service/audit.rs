//! The audit log.

use serde_json::{Value, json};
use tests::{Call, Tenant, World};

mod actions;
mod deliveries;
mod endpoints;
mod list;
mod races;
mod routes;
mod writes;

/// The entries of an organization, newest first.
async fn entries(world: &World, tenant: &Tenant, filter: Value) -> Vec<Value> {
    let listed = world.rpc(&tenant.key, "audit/list", filter).await;
    listed.ok()["entries"].as_array().expect("a list").clone()
}

/// The newest entry with this action.
async fn latest(world: &World, tenant: &Tenant, action: &str) -> Value {
    let found = entries(world, tenant, json!({"action": action, "limit": 1})).await;
    found.into_iter().next().unwrap_or_else(|| unreachable!("{action} is not recorded"))
}

/// Whether a call to the tables writes an audit log entry.
fn records(call: &Call) -> bool {
    let mut writes = call["TransactItems"].as_array().into_iter().flatten();
    writes.any(|write| write["Put"]["TableName"] == "audit")
}

/// The number of entries across all organizations.
async fn count(world: &World) -> usize {
    world.items("audit").await.len()
}
