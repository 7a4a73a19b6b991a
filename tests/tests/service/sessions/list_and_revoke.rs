//! Listing and revoking sessions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Answer, Call, Switch, Tenant, World, world::faults::failure};

/// Signs in as the owner of an organization, and returns the cookie.
async fn sign_in(world: &World, tenant: &Tenant) -> String {
    let fields = json!({"email": tenant.email, "password": "correct horse battery"});
    let request = world.http.post(world.url("/api/auth/sign-in/email")).header("user-agent", "a browser").json(&fields);
    let answer = world.send(request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    format!("session_token={}", answer.body["token"].as_str().expect("a token"))
}

async fn listed(world: &World, cookie: &str) -> Vec<Value> {
    let listed = world.cli_get(cookie, "list-sessions").await;
    assert_eq!(listed.status, 200, "{listed:?}");
    listed.body.as_array().expect("sessions").clone()
}

async fn revoke(world: &World, cookie: &str, token: &Value) -> Answer {
    world.cli(cookie, "revoke-session", json!({"token": token})).await
}

async fn revoke_others(world: &World, cookie: &str) -> Answer {
    world.cli(cookie, "revoke-other-sessions", json!({})).await
}

/// The beginning of the current day, in the format of responses.
fn today() -> Value {
    json!(format!("{}T00:00:00.000Z", &common::timestamp::Timestamp::now().to_string()[..10]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_sees_their_own_sessions_and_no_secret() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let cookie = sign_in(&world, &tenant).await;
    let sessions = listed(&world, &cookie).await;
    assert_eq!(sessions.len(), 2, "newest first");
    let current = world.session(&cookie).await.body["session"].clone();
    let newest = &sessions[0];
    assert_eq!(
        *newest,
        json!({
            "id": current["id"], "token": current["id"], "userId": tenant.user, "createdAt": newest["createdAt"],
            "updatedAt": today(), "expiresAt": newest["expiresAt"], "ipAddress": "127.0.0.1", "userAgent": "a browser",
        })
    );
    assert_eq!(newest["expiresAt"].as_str().map(|at| &at[..19]), current["expiresAt"].as_str().map(|at| &at[..19]));
    assert_eq!(sessions[1]["userAgent"], Value::Null);
    assert_eq!(sessions[1]["id"], world.session(&tenant.cookie).await.body["session"]["id"]);
    let theirs = listed(&world, &other.cookie).await;
    assert_eq!(theirs.iter().map(|session| &session["userId"]).collect::<Vec<_>>(), [&json!(other.user)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_is_written_once_a_day_without_failing_calls() {
    let (writes, fails) = (Arc::new(AtomicUsize::new(0)), Switch::default());
    let (written, failing) = (Arc::clone(&writes), fails.clone());
    let world = World::answering(&[], move |call| {
        let is_note = call.operation == "UpdateItem" && call["UpdateExpression"] == "SET seen_on = :v0";
        written.fetch_add(usize::from(is_note), Ordering::SeqCst);
        (is_note && failing.is_on()).then(failure)
    })
    .await;
    let tenant = world.tenant("acme").await;
    assert_eq!(writes.load(Ordering::SeqCst), 0, "a new session was seen today");
    world.forget_uses().await;
    fails.on();
    assert_eq!(listed(&world, &tenant.cookie).await[0]["updatedAt"], "2026-01-31T00:00:00.000Z");
    fails.off();
    writes.store(0, Ordering::SeqCst);
    for _ in 0..5 {
        assert!(world.is_signed_in(&tenant.cookie).await);
    }
    assert_eq!(writes.load(Ordering::SeqCst), 1);
    assert_eq!(listed(&world, &tenant.cookie).await[0]["updatedAt"], today());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_of_an_ended_session_is_not_written() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let other = sign_in(&world, &tenant).await;
    let id = world.session(&tenant.cookie).await.body["session"]["id"].clone();
    world.forget_uses().await;
    let rival = Arc::clone(&world);
    let is_note = |call: &Call| call.operation == "UpdateItem" && call["UpdateExpression"] == "SET seen_on = :v0";
    race.before(is_note, async move { assert_eq!(revoke(&rival, &other, &id).await.status, 200) });
    world.session(&tenant.cookie).await;
    assert!(race.is_over());
    // The write has not restored a part of it.
    assert_eq!(world.tokens("session").await.len(), 1);
    let session = world.session(&tenant.cookie).await;
    assert_eq!((session.status, &session.body), (200, &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_session_ends_at_once() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let (one, two) = (sign_in(&world, &tenant).await, sign_in(&world, &tenant).await);
    let id = world.session(&one).await.body["session"]["id"].clone();
    for cookie in [&other.cookie, &other.cookie] {
        let refused = revoke(&world, cookie, &id).await;
        assert_eq!((refused.status, &refused.body["message"]), (404, &json!("Session not found")));
    }
    let secret = json!(two.trim_start_matches("session_token="));
    assert_eq!(revoke(&world, &other.cookie, &secret).await.status, 404);
    assert!(world.is_signed_in(&one).await && world.is_signed_in(&two).await);
    let revoked = revoke(&world, &tenant.cookie, &id).await;
    assert_eq!((revoked.status, &revoked.body), (200, &json!({"status": true})));
    assert!(!world.is_signed_in(&one).await);
    assert_eq!(world.rpc_by_session(&one, "webhooks/list", json!({})).await.status, 401);
    assert_eq!(revoke(&world, &tenant.cookie, &id).await.status, 404, "twice");
    // A client may send the secret instead of the id.
    assert_eq!(revoke(&world, &tenant.cookie, &secret).await.status, 200);
    assert!(!world.is_signed_in(&two).await);
    assert_eq!(listed(&world, &tenant.cookie).await.len(), 1);
    for bad in [json!("x"), json!(7), Value::Null] {
        assert_eq!(revoke(&world, &tenant.cookie, &bad).await.status, 400, "{bad}");
    }
    // The current session can also be revoked.
    let id = world.session(&tenant.cookie).await.body["session"]["id"].clone();
    assert_eq!(revoke(&world, &tenant.cookie, &id).await.status, 200);
    assert_eq!(world.cli_get(&tenant.cookie, "list-sessions").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_concurrent_revocations_succeeds() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.session(&sign_in(&world, &tenant).await).await.body["session"]["id"].clone();
    let answers = join_all((0..8).map(|_| revoke(&world, &tenant.cookie, &id))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404, 404, 404, 404, 404, 404, 404]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_other_sessions_end_at_once_and_keys_remain_valid() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let mut cookies = Vec::new();
    for _ in 0..8 {
        cookies.push(sign_in(&world, &tenant).await);
    }
    assert_eq!(revoke_others(&world, &tenant.cookie).await.body, json!({"status": true}));
    assert!(world.is_signed_in(&tenant.cookie).await);
    assert!(world.is_signed_in(&other.cookie).await);
    for cookie in &cookies {
        assert!(!world.is_signed_in(cookie).await);
        assert_eq!(world.rpc_by_session(cookie, "webhooks/list", json!({})).await.status, 401);
    }
    assert_eq!(listed(&world, &tenant.cookie).await.len(), 1);
    assert_eq!(world.rpc(&tenant.key, "webhooks/list", json!({})).await.status, 200);
    // A second call also ends a session that began after the first call.
    assert_eq!(revoke_others(&world, &tenant.cookie).await.status, 200);
    let new = sign_in(&world, &tenant).await;
    assert_eq!(revoke_others(&world, &new).await.status, 200);
    assert!(world.is_signed_in(&new).await && !world.is_signed_in(&tenant.cookie).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_sessions_that_revoke_each_other_stays() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut cookies = Vec::new();
    for _ in 0..6 {
        cookies.push(sign_in(&world, &tenant).await);
    }
    let answers = join_all(cookies.iter().map(|cookie| revoke_others(&world, cookie))).await;
    for (cookie, answer) in cookies.iter().zip(&answers) {
        // A call that loses the race is repeated, and then finds that its session has ended.
        assert!(matches!(answer.status, 200 | 401 | 503), "{answer:?}");
        assert_eq!(world.is_signed_in(cookie).await, answer.status == 200);
    }
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_session_sees_and_ends_sessions() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for (method, route) in [
        ("GET", "list-sessions"),
        ("POST", "revoke-session"),
        ("POST", "revoke-other-sessions"),
        ("POST", "revoke-sessions"),
    ] {
        let url = world.url(&format!("/api/auth/{route}"));
        let request = || world.http.request(method.parse().expect("a method"), &url).body("{}");
        let anonymous = world.send(request()).await;
        assert_eq!((anonymous.status, &anonymous.body["code"]), (401, &json!("UNAUTHORIZED")), "{route}");
        let by_key = world.send(request().header("x-api-key", &tenant.key)).await;
        assert_eq!(by_key.status, 401, "{route}");
        assert!(by_key.body["message"].as_str().is_some_and(|message| message.starts_with("Sign in first")));
    }
    let foreign = world.http.post(world.url("/api/auth/revoke-other-sessions")).header("cookie", &tenant.cookie);
    let foreign = world.send(foreign.header("origin", "https://evil.example.com")).await;
    assert_eq!((foreign.status, &foreign.body["code"]), (403, &json!("INVALID_ORIGIN")));
}

/// Otherwise, the session of the call would continue, although it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_meanwhile_cannot_end_the_others() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let other = sign_in(&world, &tenant).await;
    let (rival, cookie) = (Arc::clone(&world), other.clone());
    race.before_transaction(async move {
        assert_eq!(rival.cli(&cookie, "revoke-sessions", json!({})).await.status, 200);
    });
    assert_eq!(revoke_others(&world, &tenant.cookie).await.status, 503, "all sessions have ended");
    assert!(!world.is_signed_in(&tenant.cookie).await && !world.is_signed_in(&other).await);

    let (one, two) = (sign_in(&world, &tenant).await, sign_in(&world, &tenant).await);
    let id = world.session(&one).await.body["session"]["id"].clone();
    let (rival, cookie) = (Arc::clone(&world), two.clone());
    race.before_transaction(async move { assert_eq!(revoke(&rival, &cookie, &id).await.status, 200) });
    assert_eq!(revoke_others(&world, &one).await.status, 401, "only this session has ended");
    assert!(!world.is_signed_in(&one).await && world.is_signed_in(&two).await);
}

/// The call is a single transaction, so after a crash, either all sessions remain or only the current one does.
#[tokio::test(flavor = "multi_thread")]
async fn ending_the_others_is_atomic() {
    let (world, fails) = World::failing(|call| call.operation == "TransactWriteItems").await;
    let tenant = world.tenant("acme").await;
    let other = sign_in(&world, &tenant).await;
    fails.on();
    assert_eq!(revoke_others(&world, &tenant.cookie).await.status, 500);
    assert!(world.is_signed_in(&tenant.cookie).await && world.is_signed_in(&other).await);
    fails.off();
    assert_eq!(revoke_others(&world, &tenant.cookie).await.status, 200);
    assert!(world.is_signed_in(&tenant.cookie).await && !world.is_signed_in(&other).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_without_epoch_day_and_address_can_be_ended() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let other = sign_in(&world, &tenant).await;
    for (table, attributes) in [
        ("tokens", json!({"epoch": null, "seen_on": null, "address": null})),
        ("users", json!({"session_epoch": null})),
    ] {
        world.set_where(table, |_| true, &attributes).await;
    }
    let sessions = listed(&world, &tenant.cookie).await;
    assert_eq!(sessions.len(), 2);
    assert_eq!((&sessions[0]["updatedAt"], &sessions[0]["ipAddress"]), (&today(), &Value::Null));
    assert_eq!(revoke_others(&world, &tenant.cookie).await.status, 200);
    assert!(world.is_signed_in(&tenant.cookie).await && !world.is_signed_in(&other).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_sessions_end_with_the_current_one() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let elsewhere = sign_in(&world, &tenant).await;
    let ended = world.cli(&tenant.cookie, "revoke-sessions", json!({})).await;
    assert_eq!((ended.status, &ended.body), (200, &json!({"status": true})));
    assert!(ended.headers["set-cookie"].to_str().is_ok_and(|cookie| cookie.contains("Max-Age=0")), "{ended:?}");
    for cookie in [&tenant.cookie, &elsewhere] {
        assert!(!world.is_signed_in(cookie).await);
        assert_eq!(world.cli(cookie, "revoke-sessions", json!({})).await.status, 401);
    }
    assert!(world.is_signed_in(&other.cookie).await && world.key_works(&tenant.key).await);
    let again = sign_in(&world, &tenant).await;
    assert_eq!(world.cli_get(&again, "list-sessions").await.body.as_array().map(Vec::len), Some(1));
}

/// A token from an email or a browser login names no session, so it is unknown here.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_another_purpose_ends_no_session() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let fields = json!({"email": tenant.email, "role": "member", "organizationId": other.id});
    assert_eq!(world.cli(&other.cookie, "organization/invite-member", fields).await.status, 200);
    let invited = world.mail_to(&tenant.email).await["text"].to_string();
    world.cli("", "request-password-reset", json!({"email": tenant.email})).await;
    let reset = world.mail_to(&tenant.email).await["text"].to_string();
    let login = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok()["secret"].clone();
    let (_, stops) = invited.split_once("/email-preferences/").expect("a link to stop");
    for token in [&stops[..43], token_in(&invited), token_in(&reset), login.as_str().expect("a secret")] {
        let refused = revoke(&world, &tenant.cookie, &json!(token)).await;
        assert_eq!((refused.status, &refused.body["message"]), (404, &json!("Session not found")), "{token}");
    }
}

fn token_in(mail: &str) -> &str {
    &mail.split_once("token=").expect("a link with a token").1[..43]
}
