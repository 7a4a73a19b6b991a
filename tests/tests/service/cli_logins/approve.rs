//! Approving a login in the browser.

use futures::future::join_all;
use serde_json::json;
use tests::{
    Tenant, World,
    world::{cookie, link, people::PASSWORD},
};

use super::{approve, approved, create, expired, pending, poll};

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_up_in_the_browser_completes_after_verification() {
    let world = World::start().await;
    let login = create(&world).await;
    let account = world.sign_up("acme").await;
    let done = approve(&world, &cookie(&account), &login).await;
    assert_eq!(done.ok(), &json!({"status": "pending_verification", "email": "jo@acme.example.com"}));
    for _ in 0..2 {
        assert_eq!(poll(&world, &login).await, pending());
    }
    assert_eq!(world.tokens("session").await.len(), 1);
    let status = world.rpc_by_session(&cookie(&account), "auth/status", json!({})).await;
    assert_eq!(status.ok()["emailVerified"], false);
    assert_eq!(world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await.status, 200);
    let answer = poll(&world, &login).await;
    assert_eq!((&answer["status"], &answer["emailVerified"]), (&json!("approved"), &json!(true)));
    assert!(world.is_signed_in(answer["cookieHeader"].as_str().expect("a cookie")).await);
    assert_eq!(poll(&world, &login).await, expired());
    // Ending all sessions ends pending logins, too.
    let (login, account) = (create(&world).await, world.sign_up("other").await);
    assert_eq!(approve(&world, &cookie(&account), &login).await.status, 200);
    assert_eq!(world.cli(&cookie(&account), "revoke-other-sessions", json!({})).await.status, 200);
    assert_eq!(poll(&world, &login).await, expired());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_concurrent_approvals_succeeds() {
    let world = World::start().await;
    let mut tenants = Vec::new();
    for slug in ["acme", "other", "third"] {
        tenants.push(world.tenant(slug).await);
    }
    for _ in 0..8 {
        let login = create(&world).await;
        let answers = join_all(tenants.iter().map(|tenant| approve(&world, &tenant.cookie, &login))).await;
        let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        let winner = statuses.iter().position(|status| *status == 200).expect("one of them");
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 404, 404]);
        for (place, tenant) in tenants.iter().enumerate() {
            assert_eq!(approve(&world, &tenant.cookie, &login).await.status == 200, place == winner, "again");
        }
        assert_eq!(poll(&world, &login).await["userId"], tenants[winner].user);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_all_sessions_ends_an_approval() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let member = world.member(&tenant, "al@example.com", "member").await;
    let others = approved(&world, &other.cookie).await;

    let login = approved(&world, &tenant.cookie).await;
    assert_eq!(world.cli(&tenant.cookie, "revoke-other-sessions", json!({})).await.status, 200);
    assert_eq!(poll(&world, &login).await, expired());
    // A second approval succeeds.
    assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200);

    let changed = json!({"currentPassword": PASSWORD, "newPassword": "a longer password"});
    let changed = world.cli(&tenant.cookie, "change-password", changed).await;
    assert_eq!(poll(&world, &login).await, expired());
    let cookie = format!("session_token={}", changed.body["token"].as_str().expect("a token"));
    assert_eq!(approve(&world, &cookie, &login).await.status, 200);

    world.rpc("", "auth/requestPasswordReset", json!({"email": tenant.email})).await.ok();
    let mail = link(&world.mail_to(&tenant.email).await);
    let reset = json!({"token": mail.rsplit('=').next(), "newPassword": "a new long password"});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
    assert_eq!(poll(&world, &login).await, expired());
    assert_eq!(
        approve(&world, &other.cookie, &login).await.status,
        404,
        "the approval is not transferred to another user"
    );

    let login = approved(&world, &member.cookie).await;
    let cookie = world.signed_in(&tenant.email, "a new long password").await;
    let removed = json!({"memberIdOrEmail": member.email});
    assert_eq!(world.cli(&cookie, "organization/remove-member", removed).await.status, 200);
    assert_eq!(poll(&world, &login).await, expired());
    // The approval is also invalid for the new holder of the address.
    world.member(&Tenant { cookie, ..tenant }, "al@example.com", "member").await;
    assert_eq!(poll(&world, &login).await, expired());

    assert_eq!(poll(&world, &others).await["userId"], other.user);
}

/// Signing out ends only the session that approved the login.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_outlives_the_session_that_gave_it() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let login = approved(&world, &tenant.cookie).await;
    assert_eq!(world.cli(&tenant.cookie, "sign-out", json!({})).await.status, 200);
    let answer = poll(&world, &login).await;
    assert!(world.is_signed_in(answer["cookieHeader"].as_str().expect("a cookie")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_session_from_a_trusted_page_approves() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let login = create(&world).await;
    for (route, fields) in [("auth/cliLoginApprove", &login), ("auth/status", &json!({}))] {
        assert_eq!(world.rpc("", route, fields.clone()).await.error(), (401, "UNAUTHORIZED", ""));
        let by_key = world.rpc(&tenant.key, route, fields.clone()).await;
        assert_eq!(by_key.error(), (401, "UNAUTHORIZED", ""));
        assert!(by_key.json()["message"].as_str().is_some_and(|message| message.starts_with("Sign in first")));
        let request = || world.http.post(world.url(&format!("/v1/{route}"))).json(&json!({"json": fields}));
        for origin in [Some("https://evil.example.com"), Some("null"), None] {
            let request = request().header("cookie", &tenant.cookie);
            let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
            assert_eq!(world.send(request).await.error(), (403, "FORBIDDEN", ""), "{route}: {origin:?}");
        }
        // A page on another site cannot bypass the check by sending a key.
        for key in ["ak_x", &tenant.key] {
            let both = request().header("cookie", &tenant.cookie).header("x-api-key", key);
            let both = both.header("origin", "https://evil.example.com");
            assert_eq!(world.send(both).await.error(), (403, "FORBIDDEN", ""), "{route}");
        }
    }
    assert_eq!(poll(&world, &login).await, pending());
    assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200);
    // Pages on other sites can neither make requests from a visitor's address nor fetch sessions.
    for (route, fields) in [("auth/cliLoginCreate", json!({})), ("auth/cliLoginPoll", login.clone())] {
        let request = world.http.post(world.url(&format!("/v1/{route}"))).json(&json!({"json": fields}));
        let foreign = world.send(request.header("origin", "https://evil.example.com")).await;
        assert_eq!(foreign.error(), (403, "FORBIDDEN", ""), "{route}");
    }
    assert_eq!(poll(&world, &login).await["status"], "approved");
}
