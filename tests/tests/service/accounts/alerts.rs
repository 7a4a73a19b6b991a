//! Emails about security-relevant changes to an account.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use tests::{
    World, sample_event, text,
    world::{link, people::PASSWORD},
};

const NEW: &str = "another horse battery";

/// The emails to an address, except for the first `before` emails sent in this world.
async fn told(world: &World, email: &str, before: usize) -> Vec<Value> {
    let mails = world.mails().await.into_iter().skip(before);
    mails.filter(|mail| mail["to"] == json!([email])).collect()
}

fn says(mail: &Value, subject: &str, parts: &[&str]) {
    assert_eq!(mail["subject"], format!("Webhooks: {subject}"));
    let (plain, html) = (text(&mail["text"]), text(&mail["html"]));
    for part in parts {
        assert!(plain.contains(part), "{part} is missing from {plain}");
    }
    assert!(
        plain.contains("You received this email because") && html.matches("class=\"button\"").count() < 2,
        "{html}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_is_reported() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let before = world.mails().await.len();
    let change = json!({"currentPassword": PASSWORD, "newPassword": NEW});
    assert_eq!(world.cli(&tenant.cookie, "change-password", change).await.status, 200);
    let mails = told(&world, &tenant.email, before).await;
    let reset = format!("Reset password:\n{}/reset-password\n", world.stack.api());
    assert_eq!(mails.len(), 1);
    says(&mails[0], "Your password was changed", &["IP address: 127.0.0.1\n", "Your API keys keep working.", &reset]);

    assert_eq!(world.cli("", "request-password-reset", json!({"email": tenant.email})).await.status, 200);
    let token = link(&world.mail_to(&tenant.email).await).split_once("?token=").expect("a token").1.to_owned();
    let choose = json!({"token": token, "newPassword": PASSWORD});
    assert_eq!(world.cli("", "reset-password", choose.clone()).await.status, 200);
    assert_eq!(world.cli("", "reset-password", choose).await.status, 400);
    let mails = told(&world, &tenant.email, before).await;
    assert_eq!(mails.len(), 3, "the link, and one email about the new password");
    says(&mails[2], "Your password was changed", &["A link from an email was used", &reset]);
    for secret in [PASSWORD, NEW, &token] {
        assert!(!mails[2].to_string().contains(secret) && !mails[0].to_string().contains(secret));
    }
}

/// People look the address up, so the email does not break it up like untrusted text.
#[tokio::test(flavor = "multi_thread")]
async fn an_alert_shows_the_address_of_the_client_unchanged() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut event = sample_event("auth-account");
    event["rawPath"] = json!("/api/auth/change-password");
    event["requestContext"]["http"]["sourceIp"] = json!("2001:db8:beef:cafe::1");
    event["headers"]["origin"] = json!(world.stack.api());
    event["cookies"] = json!([tenant.cookie]);
    event["body"] = json!(json!({"currentPassword": PASSWORD, "newPassword": NEW}).to_string());
    let answer = world.stack.invoke("auth-account", event).await.expect("an answer");
    assert_eq!(answer["statusCode"], 200, "{answer}");
    let address = "IP address: 2001:db8:beef:cafe::\n";
    says(&world.mail_to(&tenant.email).await, "Your password was changed", &[address]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_reported_without_its_secret() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let before = world.mails().await.len();
    let issued = world.cli(&tenant.cookie, "api-key/create", json!({"name": "<build>", "expiresIn": 3600})).await.body;
    let (key, start) = (text(&issued["key"]), text(&issued["start"]));
    let mails = told(&world, &tenant.email, before).await;
    assert_eq!(mails.len(), 1);
    let page = format!("View API keys:\n{}/console/keys\n", world.stack.api());
    let start = format!("Key: {start}…\n");
    says(
        &mails[0],
        "An API key was created",
        &["Name: <build>\n", &start, "Expires: 20", "IP address: 127.0.0.1\n", &page],
    );
    assert!(!mails[0].to_string().contains(key) && text(&mails[0]["html"]).contains("&lt;build&gt;"), "{}", mails[0]);
    // A rejected change does not send an email.
    assert_eq!(world.cli(&tenant.cookie, "api-key/create", json!({"name": ""})).await.status, 400);
    assert_eq!(told(&world, &tenant.email, before).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_sign_in_is_reported_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let before = world.mails().await.len();
    let create = world
        .http
        .post(world.url("/v1/auth/cliLoginCreate"))
        .header("user-agent", "<b>fanfare/9 (linux)")
        .json(&json!({}));
    let login = world.send(create).await.json().clone();
    let fields = json!({"requestId": login["requestId"], "secret": login["secret"]});
    for _ in 0..2 {
        world.rpc_by_session(&tenant.cookie, "auth/cliLoginApprove", fields.clone()).await.ok();
    }
    assert_eq!(told(&world, &tenant.email, before).await.len(), 0, "no client is signed in yet");
    assert_eq!(world.rpc("", "auth/cliLoginPoll", fields.clone()).await.ok()["status"], "approved");
    assert_eq!(world.rpc("", "auth/cliLoginPoll", fields).await.ok()["status"], "expired");
    let mails = told(&world, &tenant.email, before).await;
    assert_eq!(mails.len(), 1);
    let page = format!("View sessions:\n{}/console/account\n", world.stack.api());
    says(&mails[0], "A command-line client signed in", &["Client: <b>fanfare 9\n", "IP address: 127.0.0.1\n", &page]);
    assert!(!mails[0].to_string().contains(text(&login["secret"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_members_get_an_email_and_leaving_members_do_not() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let (al, bo) = (
        world.member(&owner, "al@example.com", "member").await,
        world.member(&owner, "bo@example.com", "member").await,
    );
    let before = world.mails().await.len();
    let remove = world.http.post(world.url("/api/auth/organization/remove-member")).header("x-api-key", &owner.key);
    assert_eq!(world.send(remove.json(&json!({"memberIdOrEmail": al.email}))).await.status, 200);
    assert_eq!(world.cli(&bo.cookie, "organization/leave", json!({"organizationId": owner.id})).await.status, 200);
    let mails = told(&world, &al.email, before).await;
    assert_eq!(mails.len(), 1);
    says(&mails[0], "You were removed from an organization", &["organization Doe & Co.", "Removed by: Jo Doe\n"]);
    assert_eq!(world.mails().await.len(), before + 1);
}

/// Otherwise, an organization could send a message to a stranger by inviting the address, accepting the invitation and
/// removing the member.
#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_address_gets_no_email_about_its_account() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let invite = json!({"email": "stranger@example.com", "role": "member", "organizationId": owner.id});
    let invited = world.cli(&owner.cookie, "organization/invite-member", invite).await.body;
    let accept = json!({"invitationId": invited["id"], "tenantSlug": "acme", "name": "Al", "password": PASSWORD});
    let cookie = tests::world::cookie(world.rpc("", "auth/acceptInviteAndSignup", accept).await.ok());
    let before = world.mails().await.len();
    let change = json!({"currentPassword": PASSWORD, "newPassword": NEW});
    assert_eq!(world.cli(&cookie, "change-password", change).await.status, 200);
    let remove = json!({"memberIdOrEmail": "stranger@example.com"});
    assert_eq!(world.cli(&owner.cookie, "organization/remove-member", remove).await.status, 200);
    assert_eq!(world.mails().await.len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn emails_about_an_account_are_limited_without_rejected_calls() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let before = world.mails().await.len();
    world.set("tokens", ("kind", "credential_alert"), json!({"attempts": 19})).await;
    for _ in 0..3 {
        assert_eq!(world.cli(&tenant.cookie, "api-key/create", json!({"name": "k"})).await.status, 200);
    }
    assert_eq!(told(&world, &tenant.email, before).await.len(), 1);
    let log = tests::log::collected();
    assert_eq!(
        log.lines().filter(|line| line.contains("email.withheld") && line.contains(&tenant.user)).count(),
        2,
        "{log}"
    );
    // An intruder who makes many keys does not keep other news from the owner.
    let change = json!({"currentPassword": PASSWORD, "newPassword": NEW});
    assert_eq!(world.cli(&tenant.cookie, "change-password", change).await.status, 200);
    assert_eq!(told(&world, &tenant.email, before).await.len(), 2);
}

/// An intruder with a stolen session could otherwise join, and remove the owner, without an email.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_gets_an_email_about_an_invited_owner() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let before = world.mails().await.len();
    for role in ["member", "owner"] {
        let invitation = json!({"email": format!("{role}@example.com"), "role": role});
        assert_eq!(world.cli(&owner.cookie, "organization/invite-member", invitation).await.status, 200);
    }
    let mails = told(&world, &owner.email, before).await;
    let page = format!("View team:\n{}/console/team\n", world.stack.api());
    assert_eq!(mails.len(), 1);
    says(&mails[0], "You invited an owner", &["Invited: owner@ example. com\n", "can remove other owners.", &page]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsent_email_about_an_account_is_logged() {
    let world = World::with(&[("AWS_ENDPOINT_URL_SES", "http://127.0.0.1:1")]).await;
    let account = world.sign_up("acme").await;
    for mut user in world.items("users").await.into_iter().filter(|item| item.contains_key("email_verified")) {
        user.insert("email_verified".to_owned(), AttributeValue::Bool(true));
        world.put("users", user).await;
    }
    let cookie = tests::world::cookie(&account);
    assert_eq!(world.cli(&cookie, "api-key/create", json!({"name": "k"})).await.status, 200);
    let log = tests::log::collected();
    let unsent = log.lines().filter(|line| line.contains("email.failed") && line.contains(text(&account["userId"])));
    assert_eq!(unsent.count(), 2, "the sign-up email, and the email about the key: {log}");
}
