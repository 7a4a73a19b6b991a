//! `POST /v1/auth/acceptInviteAndSignup`.

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{World, world::cookie};

const ROUTE: &str = "auth/acceptInviteAndSignup";

fn fields(invitation: &str, slug: &str) -> Value {
    json!({"invitationId": invitation, "tenantSlug": slug, "name": "Al", "password": "correct horse battery"})
}

fn in_an_hour() -> i64 {
    common::timestamp::Timestamp::now().as_second() + 3600
}

#[tokio::test(flavor = "multi_thread")]
async fn accepting_an_invitation_creates_a_member() {
    let world = World::start().await;
    let organization = world.sign_up("acme").await;
    let id =
        world.invitation(organization["organizationId"].as_str().expect("an id"), "al@example.com", in_an_hour()).await;
    let answer = world.rpc("", ROUTE, fields(&id, "acme")).await;
    let account = answer.ok();
    assert_eq!(account["email"], "al@example.com");
    assert_eq!(account["organizationId"], organization["organizationId"]);
    assert_eq!(account["organizationSlug"], "acme");
    assert_eq!(account["emailVerified"], false);
    assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 1);
    assert_eq!(world.session(&cookie(account)).await.body["user"]["name"], "Al");
    assert_eq!(world.mail_to("al@example.com").await["subject"], "Webhooks: Confirm your email address");
    let invitation = &world.items("invitations").await[0];
    assert_eq!(invitation["status"].as_s().expect("a string"), "accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_id_and_another_organizations_slug_look_the_same() {
    let world = World::start().await;
    let organization = world.sign_up("acme").await;
    world.sign_up("other").await;
    let id =
        world.invitation(organization["organizationId"].as_str().expect("an id"), "al@example.com", in_an_hour()).await;
    let unknown = uuid::Uuid::now_v7().to_string();
    for (id, slug) in [(unknown.as_str(), "acme"), (&id, "other"), (&id, "nobodys"), (&unknown, "nobodys")] {
        let answer = world.rpc("", ROUTE, fields(id, slug)).await;
        assert_eq!(answer.error(), (404, "NOT_FOUND", ""));
        assert_eq!(answer.json()["message"], "Invitation not found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_used_and_superfluous_invitations_are_conflicts() {
    let world = World::start().await;
    let organization = world.sign_up("acme").await;
    let organization = organization["organizationId"].as_str().expect("an id");
    let expired =
        world.invitation(organization, "al@example.com", common::timestamp::Timestamp::now().as_second()).await;
    assert_eq!(world.rpc("", ROUTE, fields(&expired, "acme")).await.error(), (409, "CONFLICT", "invitation_expired"));
    let used = world.invitation(organization, "al@example.com", in_an_hour()).await;
    assert_eq!(world.rpc("", ROUTE, fields(&used, "acme")).await.status, 200);
    assert_eq!(world.rpc("", ROUTE, fields(&used, "acme")).await.error(), (409, "CONFLICT", "invitation_used"));
    let needless = world.invitation(organization, "jo@acme.example.com", in_an_hour()).await;
    assert_eq!(world.rpc("", ROUTE, fields(&needless, "acme")).await.error(), (409, "CONFLICT", "email_taken"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_four_fields_are_required() {
    let world = World::start().await;
    let answer = world.rpc("", ROUTE, json!({})).await;
    let required = ["invitationId", "tenantSlug", "name", "password"].map(|field| (field, "invalid_type"));
    assert_eq!(answer.issues(), required);
    let answer = world.rpc("", ROUTE, fields("not-an-id", "ACME")).await;
    assert_eq!(answer.issues(), [("invitationId", "invalid_format"), ("tenantSlug", "invalid_format")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_concurrent_calls_accepts() {
    let world = World::start().await;
    let organization = world.sign_up("acme").await;
    let id =
        world.invitation(organization["organizationId"].as_str().expect("an id"), "al@example.com", in_an_hour()).await;
    let answers = join_all((0..16).map(|_| world.rpc("", ROUTE, fields(&id, "acme")))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    for lost in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(lost.error(), (409, "CONFLICT", "invitation_used"));
    }
    // Two users with their guards, two sessions, two verifications, two known clients, and three counts of emails.
    assert_eq!(world.items("users").await.len(), 4);
    assert_eq!(world.items("tokens").await.len(), 9);
}
