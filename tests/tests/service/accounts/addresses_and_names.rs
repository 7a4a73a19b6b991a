//! Validation of email addresses and names.

use serde_json::{Value, json};
use tests::{World, world::cookie};

const SIGN_UP: &str = "auth/signupAndCreateOrg";

async fn sign_up_with(world: &World, slug: &str, field: &str, value: &str) -> tests::Answer {
    let mut fields = World::sign_up_fields(slug);
    fields[field] = json!(value);
    world.rpc("", SIGN_UP, fields).await
}

/// Overwrites an attribute in all of a table's items that have it.
async fn overwrite(world: &World, table: &str, attribute: &str, value: &str) {
    world.set_where(table, |item| item.contains_key(attribute), &json!({attribute: value})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeliverable_address_is_refused() {
    let world = World::start().await;
    for email in
        [".@.", "ü@example.com", "jo@localhost", "jo@127.0.0.1", "jo..doe@example.com", "jo\u{200b}@example.com"]
    {
        for field in ["email", "debugNotificationEmail"] {
            let refused = sign_up_with(&world, "acme", field, email).await;
            assert_eq!(refused.issues(), [(field, "invalid_format")], "{email:?}");
        }
    }
    let tenant = world.tenant("acme").await;
    let invitation = json!({"email": "ü@example.com", "role": "member", "organizationId": tenant.id});
    assert_eq!(world.cli(&tenant.cookie, "organization/invite-member", invitation).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_mailbox_has_one_spelling() {
    let world = World::start().await;
    let account = sign_up_with(&world, "acme", "email", " Jo@MÜNCHEN.Example. ").await;
    assert_eq!(account.ok()["email"], "jo@xn--mnchen-3ya.example");
    for (slug, spelling) in [
        ("a1", "jo@xn--mnchen-3ya.example"),
        ("a2", "jo@mu\u{308}nchen。example"),
        ("a3", "JO@xn--MNCHEN-3YA.EXAMPLE."),
    ] {
        let taken = sign_up_with(&world, slug, "email", spelling).await;
        assert_eq!(taken.error(), (409, "CONFLICT", "email_taken"), "{spelling}");
        let sign_in = json!({"email": spelling, "password": "correct horse battery"});
        assert_eq!(world.cli("", "sign-in/email", sign_in).await.status, 200, "{spelling}");
    }
    assert_eq!(world.mail_to("jo@xn--mnchen-3ya.example").await["subject"], "Webhooks: Confirm your email address");
}

#[tokio::test(flavor = "multi_thread")]
async fn invisible_and_bidirectional_names_are_refused() {
    let world = World::start().await;
    let mut number = 0;
    for name in [
        "\u{200b}",
        "\u{2800}\u{2800}",
        "\u{3164}",
        "\u{ad}\u{200d}",
        "\u{202e}eman",
        "a\u{2066}b",
        "\u{200f}a",
        "a\u{2028}b",
    ] {
        for field in ["name", "organizationName"] {
            let refused = sign_up_with(&world, "acme", field, name).await;
            assert_eq!(refused.issues(), [(field, "invalid_format")], "{name:?}");
        }
    }
    for name in ["👩\u{200d}🚀", "שלום", "Nguyễn", "क\u{94d}\u{200d}ष", "!"] {
        number += 1;
        assert_eq!(sign_up_with(&world, &format!("a{number}"), "name", name).await.status, 200, "{name:?}");
    }
    let tenant = world.tenant("acme").await;
    assert_eq!(world.cli(&tenant.cookie, "api-key/create", json!({"name": "\u{200b}"})).await.status, 400);
    let invitation =
        world.invitation(&tenant.id, "al@example.com", common::timestamp::Timestamp::now().as_second() + 3600).await;
    let fields = json!({
        "invitationId": invitation, "tenantSlug": "acme", "name": "\u{202e}lA", "password": "correct horse battery",
    });
    let refused = world.rpc("", "auth/acceptInviteAndSignup", fields).await;
    assert_eq!(refused.issues(), [("name", "invalid_format")]);
}

/// Values that were stored under older rules remain readable.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_rule_does_not_break_existing_accounts() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    overwrite(&world, "users", "name", "\u{202e}oJ").await;
    overwrite(&world, "users", "email", "ü@localhost").await;
    overwrite(&world, "organizations", "name", "\u{200b}").await;
    overwrite(&world, "organizations", "debug_notification_email", "ü@localhost").await;
    overwrite(&world, "api-keys", "name", "\u{2800}").await;
    assert_eq!(world.session(&tenant.cookie).await.body["user"]["email"], "ü@localhost");
    for route in ["organization/list", "api-key/list"] {
        assert_eq!(world.cli_get(&tenant.cookie, route).await.status, 200, "{route}");
    }
    let invitation = json!({"email": "al@example.com", "role": "member", "organizationId": tenant.id});
    assert_eq!(world.cli(&tenant.cookie, "organization/invite-member", invitation).await.status, 200);
}

/// A user with an invalid address could never sign in, and would not receive any email. The invited person therefore
/// sees an expired invitation. If the inviter sends it again, the error explains the problem with the address.
#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_to_an_invalid_address_is_expired() {
    let world = World::start().await;
    let organization = world.sign_up("acme").await["organizationId"].as_str().expect("an id").to_owned();
    let in_an_hour = common::timestamp::Timestamp::now().as_second() + 3600;
    let accept = |id: String| {
        let fields =
            json!({"invitationId": id, "tenantSlug": "acme", "name": "Al", "password": "correct horse battery"});
        world.rpc("", "auth/acceptInviteAndSignup", fields)
    };
    let refused = accept(world.invitation(&organization, "ü@localhost", in_an_hour).await).await;
    assert_eq!(refused.error(), (409, "CONFLICT", "invitation_expired"));
    let other_spelling = accept(world.invitation(&organization, "al@münchen.example", in_an_hour).await).await;
    assert_eq!(other_spelling.ok()["email"], "al@xn--mnchen-3ya.example");
    let session = world.session(&cookie(other_spelling.ok())).await.body;
    assert_ne!(session, Value::Null);
}
