//! Lists that name endpoints.

use serde_json::json;
use tests::{Receiver, World, event};

use super::Machine;

/// Such a key cannot read the list of endpoints, so it does not know which of them were deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_deliveries_shows_the_ids_of_endpoints() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "job-1")).await;
    let machine = Machine::new(&world);
    let key = world.key(&tenant.cookie, json!({"scopes": ["deliveries:read"]})).await;
    let (list, get) = (["deliveries", "list"], ["deliveries", "get", "--job", "job-1"]);
    let environment = [("FANFARE_API_KEY", key.as_str())];
    // The id of a delivery begins with that of its endpoint.
    let ids = |listed: &super::Output| listed.out.matches(&endpoint).count();
    let listed = machine.run_in(&environment, &list).await;
    assert!(ids(&listed) == 2 && !listed.out.contains("(deleted)"), "{listed:?}");
    let shown = machine.run_in(&environment, &get).await;
    assert!(shown.out.contains(&format!("Endpoint: {endpoint}\n")), "{shown:?}");
    // A key that can read the list shows the URL, and later that the endpoint was deleted.
    let environment = [("FANFARE_API_KEY", tenant.key.as_str())];
    let listed = machine.run_in(&environment, &list).await;
    assert!(listed.out.contains(&receiver.url("/")), "{listed:?}");
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    let listed = machine.run_in(&environment, &list).await;
    assert!(listed.out.contains("(deleted)") && ids(&listed) == 1, "{listed:?}");
    let shown = machine.run_in(&environment, &get).await;
    assert!(shown.out.contains(&format!("Endpoint: (deleted) ({endpoint})")), "{shown:?}");
}
