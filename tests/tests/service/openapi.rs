//! The OpenAPI description. `World` checks every response against it.

use serde_json::Value;
use tests::World;

#[test]
fn the_openapi_file_is_up_to_date() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap_or_default()).unwrap_or_default();
    let current = local::openapi().expect("the functions match the template");
    assert!(written == current, "docs/openapi.json is stale: run `cargo local openapi > docs/openapi.json`");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_api_serves_it() {
    let world = World::start().await;
    let answer = world.send(world.http.get(world.url("/openapi.json"))).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, local::openapi().expect("the functions match the template"));
}
