//! The template and the code say the same.

use tests::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_names_are_those_of_the_contract() {
    let world = World::start().await;
    let queues: Vec<_> = world.stack.queues().keys().map(String::as_str).collect();
    assert_eq!(queues, ["deliveries", "deliveries-dead", "job-events", "job-events-dead"]);
    let tables: Vec<_> = world.stack.tables().keys().map(String::as_str).collect();
    assert_eq!(tables, ["api-keys", "invitations", "organizations", "tokens", "users", "webhook-endpoints"]);
}
