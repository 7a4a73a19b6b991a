//! Browser logins by command-line clients, and the route `auth/status`.

mod approve;
mod limits;
mod poll;

pub(crate) use self::poll::end_all_sessions;
use serde_json::{Value, json};
use tests::{Answer, World};

/// Creates a login request, and returns its id and secret.
async fn create(world: &World) -> Value {
    let created = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    json!({"requestId": created["requestId"], "secret": created["secret"]})
}

async fn poll(world: &World, login: &Value) -> Value {
    world.rpc("", "auth/cliLoginPoll", login.clone()).await.ok().clone()
}

async fn approve(world: &World, cookie: &str, login: &Value) -> Answer {
    world.rpc_by_session(cookie, "auth/cliLoginApprove", login.clone()).await
}

/// A login request that the session of `cookie` has approved.
async fn approved(world: &World, cookie: &str) -> Value {
    let login = create(world).await;
    assert_eq!(approve(world, cookie, &login).await.ok()["status"], "approved");
    login
}

fn expired() -> Value {
    json!({"status": "expired"})
}

fn pending() -> Value {
    json!({"status": "pending"})
}
