//! `auth/inviteDetails` and `auth/acceptInviteForCurrentUser`: invitations on a site with its own page for them.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use common::timestamp::Timestamp;
use futures::future::join_all;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests::{Answer, Tenant, World, text, world::tables::item};

const DETAILS: &str = "auth/inviteDetails";
const ACCEPT: &str = "auth/acceptInviteForCurrentUser";

async fn invite(world: &World, by: &Tenant, email: &str, role: &str) -> Value {
    let fields = json!({"email": email, "role": role});
    let invited = world.cli(&by.cookie, "organization/invite-member", fields).await;
    assert_eq!(invited.status, 200, "{invited:?}");
    invited.body
}

fn link(id: &Value, slug: &str) -> Value {
    json!({"invitationId": id, "tenantSlug": slug})
}

async fn accept(world: &World, user: &Tenant, id: &Value, slug: &str) -> Answer {
    world.rpc_by_session(&user.cookie, ACCEPT, link(id, slug)).await
}

async fn organization(world: &World, user: &Tenant) -> Value {
    world.cli_get(&user.cookie, "organization/list").await.body[0]["id"].clone()
}

fn refusal(answer: &Answer) -> (u16, &Value) {
    let error = &answer.body["json"];
    (answer.status, if error["data"]["reason"].is_null() { &error["message"] } else { &error["data"]["reason"] })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_is_shown_in_each_of_its_states() {
    let world = World::start().await;
    let acme = world.tenant("acme").await;
    let shown = async |invited: &Value| {
        let details = world.rpc("", DETAILS, link(&invited["id"], "acme")).await.ok().clone();
        let same = json!({
            "invitationId": invited["id"], "email": invited["email"], "organizationName": "Doe & Co",
            "organizationSlug": "acme", "status": details["status"], "expiresAt": invited["expiresAt"],
        });
        assert_eq!(details, same);
        text(&details["status"]).to_owned()
    };
    let first = invite(&world, &acme, "Bo@Example.com", "owner").await;
    assert_eq!(shown(&first).await, "pending");
    let second = invite(&world, &acme, "bo@example.com", "member").await;
    assert_eq!((shown(&first).await, shown(&second).await), ("canceled".to_owned(), "pending".to_owned()));
    let bo = world.tenant("bo").await;
    let third = invite(&world, &acme, &bo.email, "member").await;
    world.cli(&bo.cookie, "organization/reject-invitation", json!({"invitationId": third["id"]})).await;
    assert_eq!(shown(&third).await, "rejected");
    let accepting = json!({
        "invitationId": second["id"], "tenantSlug": "acme", "name": "Bo", "password": "correct horse battery",
    });
    world.rpc("", "auth/acceptInviteAndSignup", accepting).await.ok();
    assert_eq!(shown(&second).await, "accepted");

    let expired = json!(world.invitation(&acme.id, "al@example.com", Timestamp::now().as_second() - 1).await);
    let details = world.rpc("", DETAILS, link(&expired, "acme")).await.ok().clone();
    assert_eq!(details["status"], "pending");
    let expires: Timestamp = text(&details["expiresAt"]).parse().expect("a time");
    assert!(expires < Timestamp::now());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_slug_is_like_an_unknown_invitation() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let id = invite(&world, &acme, &other.email, "member").await["id"].clone();
    let unknown = json!("01890f3e-7b5a-7cc0-8000-000000000000");
    for (id, slug) in [(&id, "other"), (&id, "free"), (&unknown, "acme")] {
        assert_eq!(refusal(&world.rpc("", DETAILS, link(id, slug)).await), (404, &json!("Invitation not found")));
        assert_eq!(refusal(&accept(&world, &other, id, slug).await), (404, &json!("Invitation not found")));
    }
    for (fields, issues) in [(json!({}), 2), (json!({"invitationId": "x", "tenantSlug": "A"}), 3)] {
        for answer in
            [world.rpc("", DETAILS, fields.clone()).await, world.rpc_by_session(&other.cookie, ACCEPT, fields).await]
        {
            assert_eq!(answer.body["json"]["data"]["issues"].as_array().map(Vec::len), Some(issues), "{answer:?}");
        }
    }
    // The slug of a deleted organization belongs to a new one.
    world.cli(&acme.cookie, "delete-user", json!({"password": tests::world::people::PASSWORD})).await;
    assert_eq!(world.rpc("", DETAILS, link(&id, "acme")).await.status, 404);
    world.sign_up("acme").await;
    assert_eq!(world.rpc("", DETAILS, link(&id, "acme")).await.status, 404);
    assert_eq!(accept(&world, &other, &id, "acme").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_are_limited_for_each_client() {
    let world = World::start().await;
    let acme = world.tenant("acme").await;
    let id = invite(&world, &acme, "bo@example.com", "member").await["id"].clone();
    world.rpc("", DETAILS, link(&id, "acme")).await.ok();
    let subject = URL_SAFE_NO_PAD.encode(Sha256::digest("127.0.0.1"));
    let full = json!({
        "token_hash": format!("invite_details_client#{subject}"), "kind": "invite_details_client", "attempts": 600,
        "expires_at": Timestamp::now().as_second() + 60,
    });
    world.put("tokens", item(&full)).await;
    assert_eq!(world.rpc("", DETAILS, link(&id, "acme")).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_in_user_accepts() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let id = invite(&world, &acme, "bo@example.com", "owner").await["id"].clone();
    let joined = json!({"organizationId": acme.id, "organizationName": "Doe & Co", "organizationSlug": "acme"});
    for _repeated in 0..2 {
        assert_eq!(accept(&world, &bo, &id, "acme").await.ok(), &joined);
    }
    assert_eq!(organization(&world, &bo).await, acme.id);
    assert!(!world.key_works(&bo.key).await);
    let mail = world.mail_to("bo@example.com").await;
    assert!(text(&mail["text"]).contains("Doe & Co"), "{mail}");
    let log = world.rpc_by_session(&acme.cookie, "audit/list", json!({"action": "member.joined"})).await;
    assert_eq!(log.ok()["entries"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_member_accepts_only_with_permission_to_delete() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let id = invite(&world, &acme, &other.email, "member").await["id"].clone();
    assert_eq!(refusal(&accept(&world, &other, &id, "acme").await), (409, &json!("last_member")));
    assert_eq!(organization(&world, &other).await, other.id);
    let mut fields = link(&id, "acme");
    fields["deleteOrganization"] = json!(true);
    world.rpc_by_session(&other.cookie, ACCEPT, fields).await.ok();
    assert_eq!(organization(&world, &other).await, acme.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_verified_recipient_with_a_session_accepts() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let id = invite(&world, &acme, "jo@new.example.com", "member").await["id"].clone();
    assert_eq!(accept(&world, &other, &id, "acme").await.status, 403);
    assert_eq!(world.rpc("", ACCEPT, link(&id, "acme")).await.status, 401);
    assert_eq!(world.rpc(&other.key, ACCEPT, link(&id, "acme")).await.status, 401);
    let unverified = tests::world::cookie(&world.sign_up("new").await);
    assert_eq!(world.rpc_by_session(&unverified, ACCEPT, link(&id, "acme")).await.status, 403);
    // Another site's page cannot move the user.
    let foreign = world.http.post(world.url(&format!("/v1/{ACCEPT}"))).header("cookie", &other.cookie);
    let foreign = foreign.header("origin", "https://evil.example").json(&json!({"json": link(&id, "acme")}));
    assert_eq!(world.send(foreign).await.status, 403);
    assert_eq!(world.rpc("", DETAILS, link(&id, "acme")).await.ok()["status"], "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_acceptances_by_both_routes_move_once() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let id = invite(&world, &acme, "bo@example.com", "member").await["id"].clone();
    let calls = (0..6).map(async |number| match number % 2 {
        0 => accept(&world, &bo, &id, "acme").await,
        _ => world.cli(&bo.cookie, "organization/accept-invitation", json!({"invitationId": id})).await,
    });
    for answer in join_all(calls).await {
        assert!([200, 503].contains(&answer.status), "{answer:?}");
    }
    assert_eq!(organization(&world, &bo).await, acme.id);
    let log = world.rpc_by_session(&acme.cookie, "audit/list", json!({"action": "member.joined"})).await;
    assert_eq!(log.ok()["entries"].as_array().map(Vec::len), Some(1));
}
