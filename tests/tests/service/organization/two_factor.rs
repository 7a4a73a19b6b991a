//! Organizations that require their members to have a second factor.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{
    Answer, Authenticator, Browser, Tenant, World, description, text,
    world::{BROWSER, cookie, faults::failure, link, people::PASSWORD, set_cookie},
};

/// Routes that a session can call while it lacks a required second factor.
const OPEN: [&str; 11] = [
    "GET /api/auth/get-session",
    "POST /api/auth/two-factor/enable",
    "POST /api/auth/two-factor/disable",
    "POST /api/auth/two-factor/get-totp-uri",
    "POST /api/auth/two-factor/verify-totp",
    "POST /api/auth/two-factor/verify-backup-code",
    "GET /signin",
    "GET /console/two-factor",
    "POST /console/two-factor",
    "GET /console/welcome",
    "POST /console/welcome",
];

async fn require(world: &World, cookie: &str, is_required: bool) -> Answer {
    world.rpc_by_session(cookie, "tenant/settings", json!({"require_two_factor": is_required})).await
}

/// Whether a session can only set up a second factor.
async fn is_restricted(world: &World, cookie: &str) -> bool {
    let answer = world.rpc_by_session(cookie, "webhooks/list", json!({})).await;
    if answer.status == 200 {
        return false;
    }
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(answer.json()["data"], json!({"reason": "two_factor_required"}), "{answer:?}");
    true
}

/// An owner with a second factor, and a member without.
async fn owner_and_member(world: &World) -> (Tenant, Tenant) {
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let cookie = world.protect(&owner).await.cookie;
    (Tenant { cookie, ..owner }, member)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_factor_restricts_sessions_begun_before() {
    let world = World::start().await;
    let (owner, member) = owner_and_member(&world).await;
    let other = world.tenant("other").await;
    assert!(!is_restricted(&world, &member.cookie).await);
    let required = require(&world, &owner.cookie, true).await;
    assert_eq!(required.ok()["require_two_factor"], true);
    assert!(is_restricted(&world, &member.cookie).await && !is_restricted(&world, &owner.cookie).await);
    assert!(is_restricted(&world, &world.signed_in(&member.email, PASSWORD).await).await);
    assert!(!is_restricted(&world, &other.cookie).await);
    // Keys are not affected.
    for key in [&owner.key, &member.key] {
        assert!(world.key_works(key).await);
    }
    // The member can see their own account and set up a second factor.
    assert_eq!(world.is_protected(&member.cookie).await, false);
    let enrolled = world.cli(&member.cookie, "two-factor/enable", json!({"password": PASSWORD})).await;
    assert!(is_restricted(&world, &member.cookie).await, "a setup that is not finished does not count");
    let app = Authenticator::new(text(&enrolled.body["totpURI"]));
    let session = set_cookie(&world.enter_code(&member.cookie, &app.code(0)).await, "session_token");
    assert!(!is_restricted(&world, &session).await);
    // Without the second factor, the member is restricted again.
    let disabled = world.cli(&session, "two-factor/disable", json!({"password": PASSWORD})).await;
    let session = set_cookie(&disabled, "session_token");
    assert!(is_restricted(&world, &session).await);
    require(&world, &owner.cookie, false).await.ok();
    assert!(!is_restricted(&world, &session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_route_refuses_a_restricted_session() {
    let world = World::start().await;
    let (owner, member) = owner_and_member(&world).await;
    require(&world, &owner.cookie, true).await.ok();
    let (mut refused, mut redirected) = (0, 0);
    for (name, operation) in description::routes() {
        let (method, path) = name.split_once(' ').expect("a method and a path");
        let has_session = |way: &Value| way.get("session").is_some();
        if !operation["security"].as_array().expect("credentials").iter().any(has_session)
            || OPEN.contains(&name.as_str())
            || name == "POST /signin"
        {
            continue;
        }
        let url = world.url(&path.replace("{id}", "01890f3e-7b5a-7cc0-8000-000000000000"));
        let request = if method == "GET" { world.http.get(url) } else { world.http.post(url) };
        let request = request.header("cookie", &member.cookie).header("origin", world.stack.api());
        if operation["tags"][0] == "pages" {
            let answer = world.send(request.header("accept", BROWSER)).await;
            assert_eq!(
                (answer.status, &answer.headers["location"]),
                (303, &"/console/two-factor".parse().expect("a value")),
                "{name}"
            );
            redirected += 1;
        } else {
            let answer = world.send(request).await;
            let error = if path.starts_with("/v1/") { &answer.json()["data"] } else { &answer.body };
            assert_eq!((answer.status, &error["reason"]), (403, &json!("two_factor_required")), "{name}: {answer:?}");
            refused += 1;
        }
    }
    assert!(refused > 40 && redirected > 15, "{refused} {redirected}");
    for name in &OPEN[..1] {
        assert_eq!(world.cli_get(&member.cookie, name.rsplit('/').next().expect("a route")).await.status, 200);
    }
    // A restricted session can sign out, but cannot approve a client.
    let login = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    let form = [
        ("action", "approve"),
        ("cliLoginId", text(&login["requestId"])),
        ("cliLoginSecret", text(&login["secret"])),
        ("userId", &member.user),
        ("sure", "yes"),
    ];
    let approve = world.http.post(world.url("/signin")).header("origin", world.stack.api()).form(&form);
    let approved = world.send(approve.header("cookie", &member.cookie).header("accept", BROWSER)).await;
    assert_eq!(approved.headers["location"], "/console/two-factor");
    assert_eq!(world.cli(&member.cookie, "sign-out", Value::Null).await.status, 200);
    assert!(!world.is_signed_in(&member.cookie).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_protected_owner_can_require_it() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let refused = require(&world, &owner.cookie, true).await;
    assert_eq!((refused.status, &refused.json()["data"]["reason"]), (403, &json!("two_factor_required")));
    let session = world.protect(&owner).await.cookie;
    let member_session = world.protect(&member).await.cookie;
    assert_eq!(require(&world, &member_session, true).await.status, 403);
    let organization_key = world.key(&session, json!({"kind": "organization"})).await;
    for key in [&owner.key, &organization_key] {
        for is_required in [true, false] {
            let by_key = world.rpc(key, "tenant/settings", json!({"require_two_factor": is_required})).await;
            assert_eq!(by_key.status, 401, "{by_key:?}");
        }
    }
    assert_eq!(world.rpc(&owner.key, "tenant/settings", json!({})).await.ok()["require_two_factor"], false);
    require(&world, &session, true).await.ok();
    assert_eq!(world.rpc(&owner.key, "tenant/settings", json!({})).await.ok()["require_two_factor"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_who_join_later_are_restricted() {
    let world = World::start().await;
    let (owner, member) = owner_and_member(&world).await;
    let mover = world.tenant("other").await;
    require(&world, &owner.cookie, true).await.ok();
    let invite = async |email: &str| {
        let fields = json!({"email": email, "role": "member"});
        text(&world.cli(&owner.cookie, "organization/invite-member", fields).await.body["id"]).to_owned()
    };
    let id = invite("bo@example.com").await;
    let fields = json!({"invitationId": id, "tenantSlug": owner.slug, "name": "Bo", "password": PASSWORD});
    let joined = world.rpc("", "auth/acceptInviteAndSignup", fields).await.ok().clone();
    let answer = world.rpc_by_session(&cookie(&joined), "auth/status", json!({})).await;
    assert_eq!(answer.json()["data"]["reason"], "two_factor_required");

    let id = invite(&mover.email).await;
    let accept = json!({"invitationId": id, "deleteOrganization": true});
    assert_eq!(world.cli(&mover.cookie, "organization/accept-invitation", accept).await.status, 200);
    assert!(is_restricted(&world, &mover.cookie).await);
    // All sessions are unrestricted once the second factor is optional again.
    require(&world, &owner.cookie, false).await.ok();
    assert!(!is_restricted(&world, &mover.cookie).await && !is_restricted(&world, &member.cookie).await);
    assert_eq!(world.rpc_by_session(&cookie(&joined), "auth/status", json!({})).await.status, 200);
}

/// The second factor requires a verified address, so the address has to be verified first.
#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_member_verifies_and_sets_up_a_factor() {
    let world = World::start().await;
    let (owner, _) = owner_and_member(&world).await;
    require(&world, &owner.cookie, true).await.ok();
    let email = "bo@example.com";
    let fields = json!({"email": email, "role": "member"});
    let id = world.cli(&owner.cookie, "organization/invite-member", fields).await.body["id"].clone();
    let fields = json!({"invitationId": id, "tenantSlug": owner.slug, "name": "Bo", "password": PASSWORD});
    let account = world.rpc("", "auth/acceptInviteAndSignup", fields).await.ok().clone();
    let cookie = cookie(&account);
    let browser = Browser::new(&world, &cookie);
    for path in ["/console", "/console/keys"] {
        assert_eq!(browser.open(path).await.headers["location"], "/console/two-factor", "{path}");
    }
    assert_eq!(browser.open("/console/two-factor").await.headers["location"], "/console/welcome");
    let page = browser.open("/console/welcome").await;
    let sent = browser.press("/console/welcome", &page, "Resend confirmation email", &[]).await;
    assert!(sent.status == 200 && sent.page().contains("Email sent."), "{sent:?}");
    assert_eq!(world.confirm(&link(&world.mail_to(email).await)).await.status, 200);
    assert_eq!(browser.open("/console/welcome").await.headers["location"], "/console");
    assert_eq!(browser.open("/console/two-factor").await.status, 200);
    let bo = Tenant { cookie, email: email.to_owned(), user: text(&account["userId"]).to_owned(), ..owner };
    assert!(!is_restricted(&world, &world.protect(&bo).await.cookie).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_settings_and_joins_leave_members_alike() {
    let world = World::start().await;
    let (owner, member) = owner_and_member(&world).await;
    for round in 0..4 {
        let email = format!("bo-{round}@example.com");
        let fields = json!({"email": email, "role": "member"});
        let id = world.cli(&owner.cookie, "organization/invite-member", fields).await.body["id"].clone();
        let fields = json!({"invitationId": id, "tenantSlug": owner.slug, "name": "Bo", "password": PASSWORD});
        let settings = join_all([true, false, true].map(|is_required| require(&world, &owner.cookie, is_required)));
        let (joined, settings) = tokio::join!(world.rpc("", "auth/acceptInviteAndSignup", fields), settings);
        assert!(settings.iter().all(|answer| answer.status == 200), "{settings:?}");
        assert_eq!(joined.status, 200, "{joined:?}");
        let is_required = world.rpc(&owner.key, "tenant/settings", json!({})).await.ok()["require_two_factor"].clone();
        let status = world.rpc_by_session(&cookie(joined.json()), "auth/status", json!({})).await.status;
        assert_eq!(json!(status == 403), is_required);
        assert_eq!(json!(is_restricted(&world, &member.cookie).await), is_required);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_requirement_is_completed_by_a_repeat() {
    let (world, fails) =
        World::failing(|call| call.function == "tenant-settings" && call.operation == "TransactWriteItems").await;
    let (owner, member) = owner_and_member(&world).await;
    fails.on();
    assert_eq!(require(&world, &owner.cookie, true).await.status, 500);
    fails.off();
    assert!(!is_restricted(&world, &member.cookie).await);
    require(&world, &owner.cookie, true).await.ok();
    assert!(is_restricted(&world, &member.cookie).await);
}

/// A call may end before it has reached all members of a large organization.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_requirement_continues_where_it_stopped() {
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let budget = Arc::clone(&left);
    let world = World::answering(&[], move |call| {
        let is_counted = call.function == "tenant-settings" && call.operation == "TransactWriteItems";
        let spent =
            budget.fetch_update(SeqCst, SeqCst, |left| if is_counted { left.checked_sub(1) } else { Some(left) });
        spent.err().map(|_| failure())
    })
    .await;
    let (owner, _) = owner_and_member(&world).await;
    let mut last = None;
    for number in 0..3 {
        last = Some(world.member(&owner, &format!("bo-{number}@example.com"), "member").await);
    }
    let last = last.expect("a member").cookie;
    for status in [500, 200] {
        // The setting, and the copies of three of the five members.
        left.store(4, SeqCst);
        assert_eq!(require(&world, &owner.cookie, true).await.status, status);
    }
    assert!(is_restricted(&world, &last).await);
}
