//! Changing a password.

use futures::future::join_all;
use serde_json::json;
use tests::{Answer, World, world::people::PASSWORD as OLD};

const NEW: &str = "a new long password";

async fn change(world: &World, cookie: &str, current: &str, new: &str) -> Answer {
    world.cli(cookie, "change-password", json!({"currentPassword": current, "newPassword": new})).await
}

fn cookie(answer: &Answer) -> String {
    format!("session_token={}", answer.body["token"].as_str().expect("a token"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_ends_all_sessions_and_starts_one() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let second = cookie(&world.sign_in(&tenant.email, OLD).await);
    let changed = change(&world, &tenant.cookie, OLD, NEW).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let user = json!({"id": tenant.user, "email": tenant.email, "name": "Jo Doe", "emailVerified": true, "twoFactorEnabled": false});
    assert_eq!(changed.body, json!({"token": changed.body["token"], "user": user}));
    let set = changed.headers["set-cookie"].to_str().expect("a string");
    assert!(set.starts_with(&cookie(&changed)), "{set}");
    assert!(world.is_signed_in(&cookie(&changed)).await && world.is_signed_in(&other.cookie).await);
    for ended in [&tenant.cookie, &second] {
        assert!(!world.is_signed_in(ended).await);
        assert_eq!(world.rpc_by_session(ended, "webhooks/list", json!({})).await.status, 401);
        assert_eq!(change(&world, ended, NEW, OLD).await.status, 401);
    }
    assert_eq!(world.cli_get(&cookie(&changed), "list-sessions").await.body.as_array().map(Vec::len), Some(1));
    assert_eq!(world.sign_in(&tenant.email, OLD).await.status, 401);
    assert!(world.is_signed_in(&cookie(&world.sign_in(&tenant.email, NEW).await)).await);
    assert_eq!(world.sign_in(&other.email, OLD).await.status, 200);
    assert_eq!(world.rpc(&tenant.key, "webhooks/list", json!({})).await.status, 200, "keys stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_changes_nothing_and_is_counted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for _ in 0..9 {
        let refused = change(&world, &tenant.cookie, "a wrong password", NEW).await;
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("INVALID_PASSWORD")));
        assert_eq!(refused.body["message"], "This is not your current password");
    }
    assert_eq!(change(&world, &tenant.cookie, "", NEW).await.body["code"], "INVALID_PASSWORD");
    assert_eq!(change(&world, &tenant.cookie, OLD, NEW).await.status, 429);
    assert!(world.is_signed_in(&tenant.cookie).await);
    assert_eq!(world.sign_in(&tenant.email, OLD).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_change_needs_a_session_and_a_valid_password() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    assert_eq!(change(&world, "", OLD, NEW).await.status, 401);
    let by_key = world.http.post(world.url("/api/auth/change-password")).header("x-api-key", &tenant.key);
    let by_key = world.send(by_key.json(&json!({"currentPassword": OLD, "newPassword": NEW}))).await;
    assert_eq!(by_key.status, 401);
    let foreign = world.http.post(world.url("/api/auth/change-password")).header("cookie", &tenant.cookie);
    assert_eq!(world.send(foreign.header("origin", "https://evil.example.com")).await.status, 403);
    let short = change(&world, &tenant.cookie, OLD, "short").await;
    assert_eq!((short.status, &short.body["code"]), (400, &json!("BAD_REQUEST")));
    assert_eq!(short.body["issues"][0]["path"], json!(["newPassword"]));
    let nothing = world.cli(&tenant.cookie, "change-password", json!({})).await;
    assert_eq!(nothing.body["issues"].as_array().map(Vec::len), Some(2));
    assert_eq!(world.sign_in(&tenant.email, OLD).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_concurrent_changes_succeeds() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let passwords: Vec<_> = (0..6).map(|number| format!("a new password {number}")).collect();
    let answers = join_all(passwords.iter().map(|new| change(&world, &tenant.cookie, OLD, new))).await;
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 400 | 401 | 503)), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    for (new, answer) in passwords.iter().zip(&answers) {
        assert_eq!(world.sign_in(&tenant.email, new).await.status == 200, answer.status == 200);
    }
}

/// A session that was started with the old password during the change belongs to the old epoch.
#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_sign_in_with_the_old_password_is_void() {
    let world = World::start().await;
    for round in 0..4 {
        let tenant = world.tenant(&format!("acme{round}")).await;
        let (changed, signed_in) =
            tokio::join!(change(&world, &tenant.cookie, OLD, NEW), world.sign_in(&tenant.email, OLD));
        assert_eq!(changed.status, 200, "{changed:?}");
        if signed_in.status == 200 {
            assert!(!world.is_signed_in(&cookie(&signed_in)).await);
        }
    }
}

/// The change is one transaction: if a process dies, the user has either the old password with its sessions, or the new
/// password without sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_fails_changes_nothing() {
    let (world, fails) = World::failing(|call| call.operation == "TransactWriteItems").await;
    let tenant = world.tenant("acme").await;
    fails.on();
    assert_eq!(change(&world, &tenant.cookie, OLD, NEW).await.status, 500);
    assert!(world.is_signed_in(&tenant.cookie).await);
    fails.off();
    assert_eq!(world.sign_in(&tenant.email, OLD).await.status, 200);
    assert_eq!(change(&world, &tenant.cookie, OLD, NEW).await.status, 200);
    assert!(!world.is_signed_in(&tenant.cookie).await);
}
