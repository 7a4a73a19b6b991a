//! The complete command-line flow of a real client.

use serde_json::{Value, json};
use tests::{
    World,
    world::{cookie, link},
};

#[tokio::test(flavor = "multi_thread")]
async fn from_sign_up_to_a_teammate_and_out_again() {
    let world = World::start().await;
    // Sign up, and poll the session until the email is verified.
    let jo = world.sign_up("acme").await;
    let jo_cookie = cookie(&jo);
    assert_eq!(world.session(&jo_cookie).await.body["user"]["emailVerified"], false);
    world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await;
    assert_eq!(world.session(&jo_cookie).await.body["user"]["emailVerified"], true);

    // Issue two keys, list them, and revoke one, which is invalid at once.
    let laptop = world.cli(&jo_cookie, "api-key/create", json!({"name": "laptop"})).await.body;
    let ci = world.cli(&jo_cookie, "api-key/create", json!({"name": "ci"})).await.body;
    let keys = world.cli_get(&jo_cookie, "api-key/list").await.body;
    assert_eq!(keys.as_array().expect("keys").len(), 2);
    for (key, issued) in [(&keys[0], &laptop), (&keys[1], &ci)] {
        for field in ["id", "name", "prefix", "start", "enabled", "createdAt"] {
            assert_eq!(key[field], issued[field], "{field}");
        }
        assert_eq!(key.get("key"), None);
    }
    let deleted = world.cli(&jo_cookie, "api-key/delete", json!({"keyId": laptop["id"]})).await;
    assert_eq!((deleted.status, deleted.body), (200, json!({"success": true})));
    assert_eq!(world.rpc(laptop["key"].as_str().expect("a key"), "webhooks/list", json!({})).await.status, 401);
    assert_eq!(world.rpc(ci["key"].as_str().expect("a key"), "webhooks/list", json!({})).await.status, 200);

    // Invite a teammate, who signs up with the data in the email.
    let organizations = world.cli_get(&jo_cookie, "organization/list").await.body;
    let organization = &organizations[0]["id"];
    let invite = json!({"email": "al@example.com", "role": "member", "organizationId": organization});
    let invited = world.cli(&jo_cookie, "organization/invite-member", invite).await;
    assert_eq!(invited.status, 200, "{invited:?}");
    let mail = world.mail_to("al@example.com").await;
    let text = mail["text"].as_str().expect("a text part");
    let after =
        |label: &str| text.lines().find_map(|line| line.strip_prefix(label)).expect("it is in the email").to_owned();
    let accept = json!({
        "invitationId": after("Invitation ID: "), "tenantSlug": after("Organization slug: "), "name": "Al",
        "password": "another long password",
    });
    let al = world.rpc("", "auth/acceptInviteAndSignup", accept).await.ok().clone();
    assert_eq!(&al["organizationId"], organization);
    world.confirm(&link(&world.mail_to("al@example.com").await)).await;

    // Sign in again, and sign out: the new session ends, but the first one continues.
    let credentials = json!({"email": " AL@example.com ", "password": "another long password"});
    let signed_in = world.cli("", "sign-in/email", credentials).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    let user = json!({"id": al["userId"], "email": "al@example.com", "name": "Al", "emailVerified": true, "twoFactorEnabled": false});
    assert_eq!(signed_in.body["user"], user);
    let new_cookie = format!("session_token={}", signed_in.body["token"].as_str().expect("a token"));
    let header = signed_in.headers["set-cookie"].to_str().expect("a string");
    assert_eq!(header, format!("{new_cookie}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000"));
    assert_eq!(world.session(&new_cookie).await.body["user"], user);
    let out = world.cli(&new_cookie, "sign-out", Value::Null).await;
    assert_eq!((out.status, out.body), (200, json!({"success": true})));
    assert!(out.headers["set-cookie"].to_str().expect("a string").contains("session_token=; "));
    assert_eq!(world.session(&new_cookie).await.body, Value::Null);
    assert_eq!(world.session(&cookie(&al)).await.body["user"], user);
}
