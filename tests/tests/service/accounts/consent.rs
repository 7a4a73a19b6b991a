//! Consent to an organization's emails: what an address gets before its owner agrees, and how they stop the emails.

use serde_json::{Value, json};
use tests::{Answer, Browser, Receiver, World, event, text};

use crate::{
    job_failures::{failed, later},
    notices::sweep,
};

pub(crate) const STRANGER: &str = "bystander@example.net";

/// A verified owner whose organization sends notifications to this address, which its owner has not agreed to.
pub(crate) struct Owner {
    organization: String,
    slug: String,
    pub(crate) cookie: String,
    key: String,
}

pub(crate) async fn owner(world: &World, slug: &str, address: &str) -> Owner {
    let mut fields = World::sign_up_fields(slug);
    fields["debugNotificationEmail"] = json!(address);
    let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
    let cookie = tests::world::cookie(&account);
    let own = text(&account["email"]);
    assert_eq!(world.confirm(&tests::world::link(&world.mail_to(own).await)).await.status, 200);
    let key = world.key(&cookie, json!({})).await;
    Owner { organization: text(&account["organizationId"]).to_owned(), slug: slug.to_owned(), cookie, key }
}

/// Makes a job of this workflow fail, and reports it.
pub(crate) async fn fail(world: &World, by: &Owner, workflow: &str) {
    let mut job = failed(&by.organization, workflow, format!("{workflow}-job-canary"));
    (job["error"], job["mapped_stack"]) = (json!("Pay at canary.example"), json!("canary"));
    job["deployment_id"] = json!("canary");
    world.deliver(job).await;
    sweep(world, later(0)).await;
}

/// The emails to an address, oldest first.
async fn mails(world: &World, to: &str) -> Vec<Value> {
    let mut mails = world.mails().await;
    mails.retain(|mail| mail["to"] == json!([to]));
    mails
}

/// The page of the `List-Unsubscribe` header, as a path.
pub(crate) fn page(world: &World, mail: &Value) -> String {
    let raw = text(&mail["raw"]);
    assert!(raw.contains("\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"), "{raw}");
    assert!(raw.contains("\r\nAuto-Submitted: auto-generated\r\n"), "{raw}");
    let (_, link) = raw.split_once("\r\nList-Unsubscribe:").expect("a header");
    let link = link.trim_start().strip_prefix('<').and_then(|link| link.split_once('>')).expect("an address").0;
    for part in ["text", "html"] {
        assert!(text(&mail[part]).contains(link), "the reader sees the same link");
    }
    link.strip_prefix(world.stack.api()).expect("a page of the service").to_owned()
}

pub(crate) async fn status(world: &World, by: &Owner) -> Value {
    world.rpc(&by.key, "tenant/settings", json!({})).await.ok()["notification_email_status"].clone()
}

/// Presses a button on the page at this path, without an account.
pub(crate) async fn press(world: &World, path: &str, button: &str) -> Answer {
    let browser = Browser::new(world, "");
    let page = browser.open(path).await;
    browser.press(path, &page, button, &[]).await
}

/// Posts as an email program does.
pub(crate) async fn one_click(world: &World, path: &str) -> u16 {
    let request = world.http.post(world.url(path)).form(&[("List-Unsubscribe", "One-Click")]);
    world.send(request).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_have_no_details_until_the_recipient_agrees() {
    let world = World::start().await;
    let by = owner(&world, "acme", STRANGER).await;
    assert_eq!(mails(&world, STRANGER).await, [json!(null); 0], "a sign-up sends no email to this address");
    assert_eq!(status(&world, &by).await, "unconfirmed");
    fail(&world, &by, "nightly").await;
    let first = mails(&world, STRANGER).await.pop().expect("a report");
    assert_eq!(first["subject"], "Webhooks: 1 job failed");
    for part in ["Workflow: nightly\n", "New failures: 1\n", "Choose emails:\n", "You have not agreed"] {
        assert!(text(&first["text"]).contains(part), "{part} is missing from {first:#}");
    }
    assert!(!first.to_string().contains("canary"), "{first:#}");

    // Scanners open links, which changes nothing.
    let path = page(&world, &first);
    for _ in 0..2 {
        assert_eq!(Browser::new(&world, "").open(&path).await.status, 200);
        assert_eq!(world.send(world.http.head(world.url(&path))).await.status, 200);
    }
    assert_eq!(status(&world, &by).await, "unconfirmed");
    let agreed = press(&world, &path, "Receive emails with details").await;
    assert!(agreed.page().contains("You receive emails"), "{agreed:?}");
    assert_eq!(status(&world, &by).await, "ok");
    let later = Browser::new(&world, "").open(&path).await;
    assert!(later.page().contains("contain details, because you agreed"), "{later:?}");
    fail(&world, &by, "hourly").await;
    let second = mails(&world, STRANGER).await.pop().expect("a report");
    assert_eq!(second["subject"], "Webhooks: Workflow hourly: 1 job failed");
    assert!(text(&second["text"]).contains("> Pay at canary. example\n"), "{second:#}");
    page(&world, &second);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoints_email_has_no_details_without_consent() {
    let world = World::start().await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    let by = owner(&world, "acme", STRANGER).await;
    let fields = json!({
        "url": receiver.url("/canary"), "description": "canary", "signing_secret": "hidden-horse-battery",
    });
    let created = world.rpc(&by.key, "webhooks/create", fields).await.ok().clone();
    world.deliver(event(&by.organization, "canary")).await;
    sweep(&world, later(0)).await;
    let mail = mails(&world, STRANGER).await.pop().expect("a notice");
    let id = text(&created["webhook_endpoint_id"]);
    assert_eq!(mail["subject"], json!(format!("Webhooks: Endpoint {id} has been disabled")));
    assert!(!mail.to_string().contains("canary") && text(&mail["text"]).contains("Choose emails:\n"), "{mail:#}");
    assert_eq!(one_click(&world, &page(&world, &mail)).await, 200);
    assert_eq!(status(&world, &by).await, "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_address_gets_no_email_of_the_organization() {
    let world = World::start().await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    let (by, other) = (owner(&world, "acme", STRANGER).await, owner(&world, "other", STRANGER).await);
    fail(&world, &by, "a").await;
    let path = page(&world, &mails(&world, STRANGER).await[0]);
    // Email programs repeat the call.
    for _ in 0..2 {
        assert_eq!(one_click(&world, &path).await, 200);
    }
    let stopped = mails(&world, STRANGER).await.len();
    fail(&world, &by, "b").await;
    let fields = json!({"url": receiver.url("/"), "signing_secret": "hidden-horse-battery"});
    world.rpc(&by.key, "webhooks/create", fields).await.ok();
    world.deliver(event(&by.organization, "1")).await;
    sweep(&world, later(0)).await;
    for address in ["ops@example.net", STRANGER] {
        world.rpc(&by.key, "tenant/settings", json!({"debug_notification_email": address})).await.ok();
    }
    let invited =
        world.cli(&by.cookie, "organization/invite-member", json!({"email": STRANGER, "role": "member"})).await;
    assert_eq!(invited.body["reason"], "email_suppressed", "{invited:?}");
    assert_eq!(mails(&world, STRANGER).await.len(), stopped);
    assert_eq!(status(&world, &by).await, "stopped");
    let settings = Browser::new(&world, &by.cookie).open("/console/settings").await;
    assert!(settings.page().contains("stopped the emails of this organization"), "{settings:?}");

    assert_eq!(status(&world, &other).await, "unconfirmed", "the answer concerns one organization");
    fail(&world, &other, "a").await;
    assert_eq!(mails(&world, STRANGER).await.len(), stopped + 1);

    press(&world, &path, "Receive emails again").await;
    assert_eq!(status(&world, &by).await, "ok");
    fail(&world, &by, "c").await;
    assert_eq!(mails(&world, STRANGER).await.len(), stopped + 2);
    let entries = world.rpc(&by.key, "audit/list", json!({"action": "settings.changed"})).await.ok().clone();
    let answers = entries["entries"].as_array().expect("entries").iter().flat_map(|entry| {
        let changes = entry["changes"].as_array().expect("changes").iter();
        changes.filter(|change| change["field"] == "consent").map(|change| change["new"].clone())
    });
    assert_eq!(answers.collect::<Vec<_>>(), ["agreed", "stopped"], "each answer is recorded once");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_click_works_with_every_body_and_without_a_page() {
    let world = World::start().await;
    for (number, (kind, body)) in [
        ("application/x-www-form-urlencoded", "List-Unsubscribe=One-Click"),
        (
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n",
        ),
        ("text/plain", ""),
        ("application/x-www-form-urlencoded", "action=other&token=x"),
    ]
    .into_iter()
    .enumerate()
    {
        let address = format!("bystander-{number}@example.net");
        let by = owner(&world, &format!("acme-{number}"), &address).await;
        fail(&world, &by, "a").await;
        let path = page(&world, &mails(&world, &address).await[0]);
        let request = world.http.post(world.url(&path)).header("content-type", kind).body(body);
        assert_eq!(world.send(request).await.status, 200, "{kind}");
        assert_eq!(status(&world, &by).await, "stopped", "{kind} {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_can_be_stopped_too() {
    let world = World::start().await;
    let by = owner(&world, "acme", "jo@acme.example.com").await;
    let invite = async || {
        world.cli(&by.cookie, "organization/invite-member", json!({"email": STRANGER, "role": "member"})).await
    };
    let invited = invite().await.body;
    let path = page(&world, &mails(&world, STRANGER).await[0]);
    press(&world, &path, "Stop all emails").await;
    assert_eq!(invite().await.body["reason"], "email_suppressed");
    assert_eq!(mails(&world, STRANGER).await.len(), 1);
    let accept = json!({"invitationId": invited["id"], "tenantSlug": by.slug, "name": "Al", "password": tests::world::people::PASSWORD});
    world.rpc("", "auth/acceptInviteAndSignup", accept).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verified_members_address_is_confirmed_at_once() {
    let world = World::start().await;
    let by = owner(&world, "acme", "jo@acme.example.com").await;
    assert_eq!(status(&world, &by).await, "ok");
    fail(&world, &by, "a").await;
    let mail = world.mail_to("jo@acme.example.com").await;
    assert!(text(&mail["text"]).contains("> Pay at canary. example\n"), "{mail:#}");
    // A member can stop these emails as well, and agree again in the settings.
    assert_eq!(one_click(&world, &page(&world, &mail)).await, 200);
    assert_eq!(status(&world, &by).await, "stopped");
    let browser = Browser::new(&world, &by.cookie);
    let settings = browser.open("/console/settings").await;
    let unchanged = [("debugNotificationEmail", "jo@acme.example.com"), ("jobFailureMails", "on")];
    browser.press("/console/settings", &settings, "Save settings", &unchanged).await;
    assert_eq!(status(&world, &by).await, "stopped", "saving the form is no answer");
    let settings = browser.press("/console/settings", &settings, "Receive emails again", &[]).await;
    assert!(settings.page().contains("You receive emails again."), "{settings:?}");
    assert_eq!(status(&world, &by).await, "ok");
    one_click(&world, &page(&world, &mail)).await;
    let own = json!({"debug_notification_email": "jo@acme.example.com"});
    assert_eq!(world.rpc(&by.key, "tenant/settings", own).await.ok()["notification_email_status"], "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_stored_by_an_earlier_version_has_agreed() {
    let world = World::start().await;
    let by = owner(&world, "acme", STRANGER).await;
    let key = format!("org#{}", by.organization);
    world.set("organizations", ("pk", &key), json!({"asks_recipient": null})).await;
    assert_eq!(status(&world, &by).await, "ok");
    fail(&world, &by, "a").await;
    let mail = world.mail_to(STRANGER).await;
    assert!(text(&mail["text"]).contains("> Pay at canary. example\n"), "{mail:#}");
    one_click(&world, &page(&world, &mail)).await;
    assert_eq!(status(&world, &by).await, "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_link_of_an_email_answers_for_its_recipient() {
    let world = World::start().await;
    let by = owner(&world, "acme", STRANGER).await;
    world.cli("", "request-password-reset", json!({"email": "jo@acme.example.com"})).await;
    let reset = tests::world::link(&world.mail_to("jo@acme.example.com").await);
    let (_, reset) = reset.split_once("token=").expect("a token");
    let random = "A".repeat(43);
    for token in [reset, &random, "x", "%00", &format!("{random}.{random}")] {
        let path = format!("/email-preferences/{token}");
        let refused = Browser::new(&world, "").open(&path).await.status;
        assert_eq!((refused, one_click(&world, &path).await), (400, 400), "{token}");
    }
    fail(&world, &by, "a").await;
    let path = page(&world, &mails(&world, STRANGER).await[0]);
    let (_, token) = path.rsplit_once('/').expect("a token");
    let (token, address) = token.split_once('.').expect("an address");
    let other = format!("/email-preferences/{token}.{}", &address[..address.len() - 4]);
    assert_eq!(one_click(&world, &other).await, 400, "the link is for one address");
    let items = world.items("tokens").await;
    assert!(!format!("{items:?}").contains(STRANGER), "no item has the address");
    assert_eq!(world.open(&world.url(&format!("/verify-email?token={token}"))).await.status, 400);
    assert_eq!(world.open(&world.url(&format!("/reset-password?token={token}"))).await.status, 400);
    // The link concerns the address that it was sent to.
    world.rpc(&by.key, "tenant/settings", json!({"debug_notification_email": "ops@example.net"})).await.ok();
    press(&world, &path, "Receive emails with details").await;
    assert_eq!(status(&world, &by).await, "unconfirmed");
    let foreign = world.http.post(world.url(&path)).header("origin", "https://evil.example");
    assert_eq!(world.send(foreign).await.status, 403);
    let now = common::timestamp::Timestamp::now().as_second();
    for (expires_at, expected) in [(now, 400), (now + 60, 200)] {
        world.set("tokens", ("kind", "consent_link"), json!({"expires_at": expires_at})).await;
        assert_eq!(
            (Browser::new(&world, "").open(&path).await.status, one_click(&world, &path).await),
            (expected, expected)
        );
    }
    world.cli(&by.cookie, "delete-user", json!({"password": tests::world::people::PASSWORD})).await;
    assert_eq!(Browser::new(&world, "").open(&path).await.status, 400, "the organization was deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_gets_ten_emails_a_day_of_all_organizations() {
    let world = World::start().await;
    for number in 0..3 {
        let by = owner(&world, &format!("acme-{number}"), STRANGER).await;
        for workflow in ["a", "b", "c"] {
            fail(&world, &by, workflow).await;
        }
    }
    // The sign-ups chose the address, and count as well. Emails about jobs leave the last three to others.
    assert_eq!(mails(&world, STRANGER).await.len(), 5);
    let by = owner(&world, "failing", STRANGER).await;
    let receiver = Receiver::scripted(&[(410, &[]), (410, &[])]).await;
    for _ in 0..2 {
        let fields = json!({"url": receiver.url("/"), "signing_secret": "hidden-horse-battery"});
        world.rpc(&by.key, "webhooks/create", fields).await.ok();
    }
    world.deliver(event(&by.organization, "job")).await;
    sweep(&world, later(0)).await;
    assert_eq!(mails(&world, STRANGER).await.len(), 6, "with the sign-ups, ten");
    let by = owner(&world, "another", "agreed@example.net").await;
    fail(&world, &by, "a").await;
    press(&world, &page(&world, &mails(&world, "agreed@example.net").await[0]), "Receive emails with details").await;
    for workflow in 0..12 {
        fail(&world, &by, &format!("workflow {workflow}")).await;
    }
    assert_eq!(mails(&world, "agreed@example.net").await.len(), 13, "a recipient who agreed has no such limit");
}
