//! API keys, from creation to deletion.

mod create;
mod delete;
mod list;
mod organization;
mod scopes;
mod validity;

use serde_json::{Value, json};
use tests::{Answer, World};

async fn create(world: &World, cookie: &str) -> Value {
    world.cli(cookie, "api-key/create", json!({"name": "spare"})).await.body
}

async fn delete(world: &World, cookie: &str, id: &Value) -> Answer {
    world.cli(cookie, "api-key/delete", json!({"keyId": id})).await
}
