//! The organization's settings: access, changes, and the emails about changes.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use tests::{
    Answer, Call, Tenant, World,
    world::{cookie, tables::Item},
};

const ROUTE: &str = "tenant/settings";
/// The address in every sign-up of a [`World`].
const FIRST: &str = "ops@example.com";
const SUBJECT: &str = "Webhooks: The email address for notifications has changed";
const TO_OLD: &str = "instead of this address";
const TO_NEW: &str = "now go to this address";

async fn by_key(world: &World, who: &Tenant, fields: Value) -> Answer {
    world.rpc(&who.key, ROUTE, fields).await
}

async fn by_session(world: &World, who: &Tenant, fields: Value) -> Answer {
    world.rpc_by_session(&who.cookie, ROUTE, fields).await
}

/// Changes the address for notifications.
async fn notify(world: &World, who: &Tenant, address: &str) -> Answer {
    by_key(world, who, json!({"debug_notification_email": address})).await
}

fn settings(address: &str, is_disabled: bool) -> Value {
    let status = if address == FIRST { "ok" } else { "unconfirmed" };
    json!({
        "code_sharing_enabled": false, "disable_job_failure_notifications": is_disabled,
        "debug_notification_email": address, "notification_email_status": status, "require_two_factor": false,
    })
}

/// The settings, as returned to any member of the organization.
async fn read(world: &World, who: &Tenant) -> Value {
    by_key(world, who, json!({})).await.ok().clone()
}

/// The emails about changes, oldest first: the recipient of each, and whether it is the one for the new address.
async fn notified(world: &World) -> Vec<(String, bool)> {
    let mails = world.mails().await.into_iter().filter(|mail| mail["subject"] == SUBJECT);
    let notified = mails.map(|mail| {
        let (to, text) = (mail["to"][0].as_str().expect("an address"), mail["text"].as_str().expect("a text part"));
        assert_ne!(text.contains(TO_OLD), text.contains(TO_NEW), "{text}");
        (to.to_owned(), text.contains(TO_NEW))
    });
    notified.collect()
}

/// The items of organizations, except for slug guards.
async fn organizations(world: &World) -> Vec<Item> {
    let mut items = world.items("organizations").await;
    items.retain(|item| item["pk"].as_s().is_ok_and(|key| key.starts_with("org#")));
    items
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_and_members_read_the_settings_by_session_and_by_key() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    for who in [&owner, &member] {
        for answer in [by_key(&world, who, json!({})).await, by_session(&world, who, json!({})).await] {
            assert_eq!(*answer.ok(), settings(FIRST, false));
        }
        for body in ["", "{}", r#"{"json": null}"#, r#"{"json": {"code_sharing_enabled": true}}"#] {
            let answer = world.post(&who.key, "/v1/tenant/settings", body.as_bytes().to_vec()).await;
            assert_eq!(*answer.ok(), settings(FIRST, false), "{body}");
        }
    }
    notify(&world, &owner, "alerts@example.com").await.ok();
    for who in [&owner, &member] {
        assert_eq!(read(&world, who).await, settings("alerts@example.com", false));
    }
    assert_eq!(world.rpc("", ROUTE, json!({})).await.error(), (401, "UNAUTHORIZED", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_changes_given_settings_by_session_and_by_key() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let disable = |disable: bool| json!({"disable_job_failure_notifications": disable});
    // Repeating the call succeeds.
    for _ in 0..2 {
        assert_eq!(*by_key(&world, &owner, disable(true)).await.ok(), settings(FIRST, true));
    }
    for _ in 0..2 {
        let address = json!({"debug_notification_email": " Alerts@MÜNCHEN.Example. "});
        let changed = by_session(&world, &owner, address).await;
        assert_eq!(*changed.ok(), settings("alerts@xn--mnchen-3ya.example", true));
    }
    assert_eq!(
        *by_session(&world, &owner, disable(false)).await.ok(),
        settings("alerts@xn--mnchen-3ya.example", false)
    );
    let both = json!({
        "debug_notification_email": FIRST, "disable_job_failure_notifications": true, "code_sharing_enabled": true,
    });
    assert_eq!(*by_key(&world, &owner, both).await.ok(), settings(FIRST, true));
    assert_eq!(read(&world, &owner).await, settings(FIRST, true));
    let stored = organizations(&world).await;
    assert_eq!(stored[0]["disable_job_failure_notifications"], AttributeValue::Bool(true));
    assert_eq!(stored[0]["name"], AttributeValue::S("Doe & Co".to_owned()), "no other attribute has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_cannot_change_settings_until_made_an_owner() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let changes = [
        json!({"disable_job_failure_notifications": true}),
        json!({"debug_notification_email": "alerts@example.com"}),
        // Even the current settings are rejected.
        json!({"disable_job_failure_notifications": false, "debug_notification_email": FIRST}),
    ];
    for fields in &changes {
        for answer in [by_key(&world, &member, fields.clone()).await, by_session(&world, &member, fields.clone()).await]
        {
            assert_eq!(answer.error(), (403, "FORBIDDEN", ""), "{fields}");
            assert_eq!(answer.json()["message"], "Only an owner of the organization may do this");
        }
    }
    assert_eq!(read(&world, &member).await, settings(FIRST, false));
    assert!(notified(&world).await.is_empty());
    let role = |role: &str| json!({"memberId": member.user, "role": role});
    assert_eq!(world.cli(&owner.cookie, "organization/update-member-role", role("owner")).await.status, 200);
    for fields in &changes {
        by_key(&world, &member, fields.clone()).await.ok();
    }
    assert_eq!(world.cli(&owner.cookie, "organization/update-member-role", role("member")).await.status, 200);
    assert_eq!(by_key(&world, &member, changes[0].clone()).await.status, 403);
}

/// Otherwise, a caller could make the service send emails to any address.
#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_owner_cannot_cause_an_email() {
    let world = World::start().await;
    let unverified = cookie(&world.sign_up("acme").await);
    let fields = json!({"debug_notification_email": "stranger@example.com"});
    let refused = world.rpc_by_session(&unverified, ROUTE, fields).await;
    assert_eq!(refused.error(), (403, "FORBIDDEN", ""));
    assert_eq!(refused.json()["message"], "Verify your email address first");
    assert!(notified(&world).await.is_empty());
    assert_eq!(organizations(&world).await[0]["debug_notification_email"], AttributeValue::S(FIRST.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_input_is_a_named_issue_and_changes_nothing() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let (address, disable) = ("debug_notification_email", "disable_job_failure_notifications");
    for value in [json!("true"), json!(1), json!([true]), json!({})] {
        // The other setting stays unchanged, too.
        let refused = by_key(&world, &owner, json!({disable: value, address: "alerts@example.com"})).await;
        assert_eq!(refused.issues(), [(disable, "invalid_type")], "{value}");
    }
    let long = format!("{}@example.com", "a".repeat(254));
    for (value, code) in [
        (json!(7), "invalid_type"),
        (json!(["alerts@example.com"]), "invalid_type"),
        (json!(""), "invalid_format"),
        (json!("alerts"), "invalid_format"),
        (json!("alerts@localhost"), "invalid_format"),
        (json!("ü@example.com"), "invalid_format"),
        (json!("alerts@example.com\r\nBcc: stranger@example.com"), "invalid_format"),
        (json!(long), "too_big"),
    ] {
        let refused = by_key(&world, &owner, json!({address: value, disable: true})).await;
        assert!(refused.issues().contains(&(address, code)), "{value}: {refused:?}");
        assert!(refused.issues().iter().all(|(field, _)| *field == address), "{value}: {refused:?}");
    }
    let nothing = by_key(&world, &owner, json!({address: null, disable: null, "require_two_factor": null})).await;
    assert_eq!(nothing.status, 200, "null counts as absent");
    let both = by_key(&world, &owner, json!({address: 7, disable: "yes"})).await;
    assert_eq!(both.error(), (400, "BAD_REQUEST", ""));
    assert_eq!(both.issues(), [(address, "invalid_type"), (disable, "invalid_type")]);
    assert_eq!(read(&world, &owner).await, settings(FIRST, false));
    assert!(notified(&world).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_address_sends_an_email_to_the_old_and_the_new() {
    let world = World::start().await;
    let mut fields = World::sign_up_fields("acme");
    fields["organizationName"] = json!("<b>Doe</b> & Co");
    let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
    let cookie = cookie(&account);
    world.confirm(&tests::world::link(&world.mail_to("jo@acme.example.com").await)).await;
    let before = world.mails().await.len();
    let change = async |fields: Value| world.rpc_by_session(&cookie, ROUTE, fields).await.ok().clone();
    change(json!({})).await;
    change(json!({"debug_notification_email": " Ops@Example.com."})).await;
    change(json!({"disable_job_failure_notifications": true})).await;
    assert_eq!(world.mails().await.len(), before);

    change(json!({"debug_notification_email": "alerts@example.com", "disable_job_failure_notifications": false})).await;
    let mut notified = notified(&world).await;
    notified.sort();
    assert_eq!(notified, [("alerts@example.com".to_owned(), true), (FIRST.to_owned(), false)]);
    assert_eq!(world.mails().await.len(), before + 2);
    let (old, new) = (world.mail_to(FIRST).await, world.mail_to("alerts@example.com").await);
    for mail in [&old, &new] {
        let (text, html) = (mail["text"].as_str().expect("a text part"), mail["html"].as_str().expect("an HTML part"));
        assert!(text.contains("organization <b>Doe</b> & Co "), "{text}");
        assert!(html.contains("organization &lt;b&gt;Doe&lt;/b&gt; &amp; Co ") && !html.contains("<b>"), "{html}");
        assert!(
            text.lines().count() < 20
                && text.contains("You received this email because")
                && text.matches("http").count() == 2,
            "{text}"
        );
    }
    // Both may belong to strangers.
    assert!(old["text"].as_str().expect("a text part").contains(&format!("now go elsewhere {TO_OLD}.")), "{old}");
    assert!(!old.to_string().contains("alerts@"), "{old}");
    // The new address may belong to a stranger.
    assert!(!new.to_string().contains(FIRST) && !new.to_string().contains("jo@acme.example.com"), "{new}");

    change(json!({"debug_notification_email": "ALERTS@example.com"})).await;
    assert_eq!(world.mails().await.len(), before + 2);
    // The address of a verified member.
    for address in ["jo@acme.example.com", "next@example.com"] {
        change(json!({"debug_notification_email": address})).await;
    }
    let own = world.mail_to("jo@acme.example.com").await;
    assert!(own["text"].as_str().expect("a text part").contains(&format!("now go to next@ example. com {TO_OLD}.")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsendable_email_is_counted_and_the_change_stays() {
    let world = World::with(&[("AWS_ENDPOINT_URL_SES", "http://127.0.0.1:1")]).await;
    let account = world.sign_up("acme").await;
    for mut user in world.items("users").await.into_iter().filter(|item| item.contains_key("email_verified")) {
        user.insert("email_verified".to_owned(), AttributeValue::Bool(true));
        world.put("users", user).await;
    }
    let fields = json!({"debug_notification_email": "alerts@example.com"});
    let changed = world.rpc_by_session(&cookie(&account), ROUTE, fields).await;
    assert_eq!(*changed.ok(), settings("alerts@example.com", false));
    let log = tests::log::collected();
    let organization = account["organizationId"].as_str().expect("an id");
    let unsent = log.lines().filter(|line| line.contains("email.failed") && line.contains(organization));
    assert_eq!(unsent.count(), 2, "{log}");
    assert!(log.lines().any(|line| line.starts_with("{\"") && line.contains("\"MailFailed\":1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_settings_are_not_written_and_errors_change_nothing() {
    let is_it = |call: &Call| {
        let mut writes = call["TransactItems"].as_array().into_iter().flatten();
        writes.any(|write| write["Update"]["TableName"] == "organizations")
    };
    let (world, fails) = World::failing(is_it).await;
    let owner = world.tenant("acme").await;
    let same = json!({"debug_notification_email": FIRST, "disable_job_failure_notifications": false});
    let other = json!({"debug_notification_email": "alerts@example.com", "disable_job_failure_notifications": true});
    fails.on();
    by_key(&world, &owner, same).await.ok();
    assert_eq!(by_key(&world, &owner, other.clone()).await.status, 500);
    assert_eq!(read(&world, &owner).await, settings(FIRST, false));
    assert!(notified(&world).await.is_empty(), "no email is sent about a rejected change");
    fails.off();
    assert_eq!(*by_key(&world, &owner, other).await.ok(), settings("alerts@example.com", true));
    assert_eq!(notified(&world).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_has_its_own_settings() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    // No field selects a different organization.
    let fields = json!({
        "tenant_id": theirs.id, "organizationId": theirs.id, "tenantSlug": "theirs",
        "debug_notification_email": "alerts@example.com", "disable_job_failure_notifications": true,
    });
    assert_eq!(*by_key(&world, &ours, fields).await.ok(), settings("alerts@example.com", true));
    assert_eq!(read(&world, &theirs).await, settings(FIRST, false));
    assert_eq!(by_session(&world, &theirs, json!({})).await.json(), &settings(FIRST, false));
    assert_eq!(notified(&world).await.len(), 2);
}

/// Each replaced address is notified, even if the changes are close together.
#[tokio::test(flavor = "multi_thread")]
async fn one_concurrent_change_remains_and_all_addresses_are_notified() {
    let world = World::start().await;
    for round in 0..8 {
        let owner = world.tenant(&format!("acme{round}")).await;
        let before = notified(&world).await.len();
        let addresses = ["one", "two", "three"].map(|name| format!("{name}{round}@example.com"));
        let [one, two, three] = &addresses;
        let (one, two, three) =
            tokio::join!(notify(&world, &owner, one), notify(&world, &owner, two), notify(&world, &owner, three));
        for (answer, address) in [one, two, three].iter().zip(&addresses) {
            assert_eq!(*answer.ok(), settings(address, false));
        }
        let last = read(&world, &owner).await["debug_notification_email"].as_str().expect("an address").to_owned();
        assert!(addresses.contains(&last), "{last}");
        let mut notified = notified(&world).await.split_off(before);
        let mut expected: Vec<_> = addresses.iter().map(|address| (address.clone(), true)).collect();
        expected.extend(addresses.iter().filter(|address| **address != last).map(|address| (address.clone(), false)));
        expected.push((FIRST.to_owned(), false));
        notified.sort();
        expected.sort();
        assert_eq!(notified, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_of_different_settings_both_take_effect() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    for round in 0..8 {
        let (address, disable) = (format!("alerts{round}@example.com"), round % 2 == 0);
        let disabling = by_key(&world, &owner, json!({"disable_job_failure_notifications": disable}));
        let (notified, disabled) = tokio::join!(notify(&world, &owner, &address), disabling);
        notified.ok();
        disabled.ok();
        assert_eq!(read(&world, &owner).await, settings(&address, disable));
    }
}

/// The caller has moved, or was deleted together with the organization. If the call is repeated, its error says so.
const BUSY: (u16, &str, &str) = (503, "SERVICE_UNAVAILABLE", "");

/// A process may have read the organization just before it was deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_organization_stays_deleted() {
    let outdated = Arc::<Mutex<Option<Value>>>::default();
    let read = Arc::clone(&outdated);
    let world = World::answering(&[], move |call| {
        let mut outdated = read.lock().expect("no panic");
        let is_ours = call.function == "tenant-settings";
        // After a write is rejected, the next read returns the current data.
        if is_ours && call.operation == "TransactWriteItems" {
            *outdated = None;
        }
        let is_it = is_ours && call.operation == "GetItem" && call["TableName"] == "organizations";
        let item = outdated.clone().filter(|_| is_it)?;
        Some((200, json!({ "Item": item })))
    })
    .await;
    let owner = world.tenant("acme").await;
    let stored = organizations(&world).await.remove(0);
    let key = ("pk", stored["pk"].as_s().expect("a key").as_str());
    world.set("organizations", key, json!({"deleted_at": "2026-01-31T12:00:00.000Z"})).await;
    let other = json!({"debug_notification_email": "alerts@example.com", "disable_job_failure_notifications": true});
    let refused = async || {
        for fields in [json!({}), other.clone()] {
            assert_eq!(by_key(&world, &owner, fields).await.error(), BUSY);
        }
    };
    refused().await;
    let texts = stored.iter().filter_map(|(name, value)| Some((name.clone(), json!({"S": value.as_s().ok()?}))));
    let texts: Value = texts.collect();
    *outdated.lock().expect("no panic") = Some(texts.clone());
    assert_eq!(by_key(&world, &owner, other.clone()).await.error(), BUSY);
    assert!(outdated.lock().expect("no panic").is_none(), "a write was tried");
    let marked = organizations(&world).await.remove(0);
    assert_eq!(marked["debug_notification_email"], AttributeValue::S(FIRST.to_owned()));
    assert!(marked.contains_key("deleted_at") && !marked.contains_key("disable_job_failure_notifications"));
    // A change after the purge does not create the item again.
    let purge = world.stack.dynamodb_client().delete_item().table_name("organizations");
    purge.key("pk", stored["pk"].clone()).send().await.expect("the deletion succeeds");
    *outdated.lock().expect("no panic") = Some(texts);
    assert_eq!(by_key(&world, &owner, other.clone()).await.error(), BUSY);
    assert!(organizations(&world).await.is_empty());
    assert!(outdated.lock().expect("no panic").is_none(), "a write was tried");
    refused().await;
    assert!(notified(&world).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_changes_the_address_ten_times_an_hour() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    for number in 0..10 {
        let address = format!("alerts{number}@example.com");
        // Rejected calls, and calls that change nothing, do not count.
        assert_eq!(notify(&world, &ours, "alerts").await.status, 400);
        notify(&world, &ours, &address).await.ok();
        notify(&world, &ours, &address).await.ok();
    }
    let refused = notify(&world, &ours, "more@example.com").await;
    assert_eq!(refused.error(), (429, "TOO_MANY_REQUESTS", ""));
    let wait: i64 = refused.headers["retry-after"].to_str().expect("a string").parse().expect("seconds");
    assert!((3_500..=3_600).contains(&wait), "{wait}");
    assert_eq!(notified(&world).await.len(), 20);
    let disabled = by_key(&world, &ours, json!({"disable_job_failure_notifications": true})).await;
    assert_eq!(*disabled.ok(), settings("alerts9@example.com", true), "changes without an email are not limited");
    notify(&world, &theirs, "more@example.com").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_gets_ten_emails_a_day_from_all_organizations() {
    let world = World::start().await;
    let mut tenants = Vec::new();
    for number in 0..3 {
        tenants.push(world.tenant(&format!("acme{number}")).await);
    }
    for number in 0..10 {
        let tenant = &tenants[number % 2];
        notify(&world, tenant, "busy@example.com").await.ok();
        if number < 8 {
            notify(&world, tenant, &format!("{number}@example.com")).await.ok();
        }
    }
    // The change succeeds, and reveals nothing about the other organizations.
    let before = notified(&world).await;
    notify(&world, &tenants[2], "Busy@example.com").await.ok();
    assert_eq!(
        notified(&world).await[before.len()..],
        [(FIRST.to_owned(), false)],
        "only the old address gets an email"
    );
    assert_eq!(read(&world, &tenants[2]).await, settings("busy@example.com", false));
    let before = notified(&world).await.len();
    notify(&world, &tenants[2], "quiet@example.com").await.ok();
    let quiet = [("quiet@example.com".to_owned(), true)];
    assert_eq!(notified(&world).await[before..], quiet, "emails to an old address count, too");
    notify(&world, &tenants[0], "quiet@example.com").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_cannot_use_up_the_emails_to_a_member() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let member = world.member(&ours, "busy@example.com", "member").await;
    notify(&world, &theirs, &member.email).await.ok();
    world.set("tokens", ("kind", "notified"), json!({"attempts": 10})).await;
    let before = notified(&world).await.len();
    assert_eq!(notify(&world, &ours, &member.email).await.ok()["notification_email_status"], "ok");
    assert!(notified(&world).await[before..].contains(&(member.email, true)), "a member has agreed");
}
