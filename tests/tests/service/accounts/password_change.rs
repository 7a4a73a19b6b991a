//! Passwords: changing one.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Answer, Interceptor, Tenant, World};

const OLD: &str = "correct horse battery";
const NEW: &str = "a new long password";

async fn change(world: &World, cookie: &str, current: &str, new: &str) -> Answer {
    world.cli(cookie, "change-password", json!({"currentPassword": current, "newPassword": new})).await
}

async fn sign_in(world: &World, tenant: &Tenant, password: &str) -> Answer {
    world.cli("", "sign-in/email", json!({"email": tenant.email, "password": password})).await
}

fn cookie(answer: &Answer) -> String {
    format!("session_token={}", answer.body["token"].as_str().expect("a token"))
}

async fn is_signed_in(world: &World, cookie: &str) -> bool {
    world.session(cookie).await.body != Value::Null
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_ends_all_sessions_and_starts_one() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let second = cookie(&sign_in(&world, &tenant, OLD).await);
    let changed = change(&world, &tenant.cookie, OLD, NEW).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let user = json!({"id": tenant.user, "email": tenant.email, "name": "Jo Doe", "emailVerified": true});
    assert_eq!(changed.body, json!({"token": changed.body["token"], "user": user}));
    let set = changed.headers["set-cookie"].to_str().expect("a text");
    assert!(set.starts_with(&cookie(&changed)), "{set}");
    assert!(is_signed_in(&world, &cookie(&changed)).await && is_signed_in(&world, &other.cookie).await);
    for ended in [&tenant.cookie, &second] {
        assert!(!is_signed_in(&world, ended).await);
        assert_eq!(world.rpc_by_session(ended, "webhooks/list", json!({})).await.status, 401);
        assert_eq!(change(&world, ended, NEW, OLD).await.status, 401);
    }
    assert_eq!(world.cli_get(&cookie(&changed), "list-sessions").await.body.as_array().map(Vec::len), Some(1));
    assert_eq!(sign_in(&world, &tenant, OLD).await.status, 401);
    assert!(is_signed_in(&world, &cookie(&sign_in(&world, &tenant, NEW).await)).await);
    assert_eq!(sign_in(&world, &other, OLD).await.status, 200);
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
    assert!(is_signed_in(&world, &tenant.cookie).await);
    assert_eq!(sign_in(&world, &tenant, OLD).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_session_changes_a_password_and_only_to_a_good_one() {
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
    assert_eq!(sign_in(&world, &tenant, OLD).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_changes_at_once_one_succeeds() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let passwords: Vec<_> = (0..6).map(|number| format!("a new password {number}")).collect();
    let answers = join_all(passwords.iter().map(|new| change(&world, &tenant.cookie, OLD, new))).await;
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 400 | 401 | 503)), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    for (new, answer) in passwords.iter().zip(&answers) {
        assert_eq!(sign_in(&world, &tenant, new).await.status == 200, answer.status == 200);
    }
}

/// A session that an old password begins at the same time is of the old epoch, or was before the change.
#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_during_the_change_is_worth_nothing_with_the_old_password() {
    let world = World::start().await;
    for round in 0..4 {
        let tenant = world.tenant(&format!("acme{round}")).await;
        let (changed, signed_in) =
            tokio::join!(change(&world, &tenant.cookie, OLD, NEW), sign_in(&world, &tenant, OLD));
        assert_eq!(changed.status, 200, "{changed:?}");
        if signed_in.status == 200 {
            assert!(!is_signed_in(&world, &cookie(&signed_in)).await);
        }
    }
}

/// It is one transaction: a process that dies leaves the old password with its sessions, or the new one with none of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_fails_changes_nothing() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let tables = Interceptor::start(move |operation, _| {
        let is_it = operation == "TransactWriteItems" && failing.load(Ordering::SeqCst);
        is_it.then(|| (500, json!({"__type": "InternalServerError"})))
    })
    .await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", tables.address())]).await;
    tables.stand_before(world.stack.dynamodb());
    let tenant = world.tenant("acme").await;
    fails.store(true, Ordering::SeqCst);
    assert_eq!(change(&world, &tenant.cookie, OLD, NEW).await.status, 500);
    assert!(is_signed_in(&world, &tenant.cookie).await);
    assert_eq!(sign_in(&world, &tenant, OLD).await.status, 200);
    fails.store(false, Ordering::SeqCst);
    assert_eq!(change(&world, &tenant.cookie, OLD, NEW).await.status, 200);
    assert!(!is_signed_in(&world, &tenant.cookie).await);
}
