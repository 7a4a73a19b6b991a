//! Rehearses the disaster procedures in docs/operating.md. The embedded DynamoDB has no point-in-time recovery, so a
//! copy of all items serves as the restored table.

use std::{collections::BTreeMap, time::Duration};

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::{Value, json};
use tests::{
    Receiver, Tenant, World, event, sample_event,
    world::{cookie, link, log::due_message, people::PASSWORD, tables::Item},
};

use super::commands::run;
use crate::accounts::consent;

const NEW: &str = "a new long password";
/// The tables that the rehearsal restores: all except those that are never restored.
const RESTORED: [&str; 6] = ["users", "organizations", "invitations", "api-keys", "webhook-endpoints", "deliveries"];

/// A copy of these tables.
async fn copy(world: &World) -> BTreeMap<&'static str, Vec<Item>> {
    let mut tables = BTreeMap::new();
    for table in RESTORED {
        tables.insert(table, world.items(table).await);
    }
    tables
}

/// Replaces the items of tables.
async fn restore(world: &World, tables: BTreeMap<&'static str, Vec<Item>>) {
    let dynamodb = world.stack.dynamodb_client();
    for (table, items) in tables {
        let described = dynamodb.describe_table().table_name(table).send().await.expect("a description").table;
        let described = described.expect("a table");
        let keys: Vec<_> = described.key_schema().iter().map(|key| key.attribute_name().to_owned()).collect();
        for mut item in world.items(table).await {
            item.retain(|name, _| keys.contains(name));
            dynamodb.delete_item().table_name(table).set_key(Some(item)).send().await.expect("the deletion succeeds");
        }
        for item in items {
            world.put(table, item).await;
        }
    }
}

/// Repeats the changes made since the restored time. Returns the results by action and object.
async fn after_restore(world: &World, since: Timestamp) -> BTreeMap<(String, String), String> {
    let lines = run(world, &["operate", "after_restore", &since.as_second().to_string()]).await;
    lines.into_iter().map(|line| ((line[2].clone(), line[3].clone()), line[4].clone())).collect()
}

/// Waits for the next second, so that the restored copy contains all earlier changes and no later ones.
async fn next_second() -> Timestamp {
    let now = Timestamp::now();
    let next = Timestamp::from_second(now.as_second() + 1).expect("a time");
    tokio::time::sleep(next.since(now)).await;
    next
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_gives_no_ended_access_back() {
    let world = World::start().await;
    let (ada, gone) = (world.tenant("acme").await, world.tenant("gone").await);
    let removed = world.member(&ada, "removed@acme.example.com", "member").await;
    let demoted = world.member(&ada, "demoted@acme.example.com", "owner").await;
    let moved = world.member(&ada, "old@acme.example.com", "member").await;
    let reset = world.member(&ada, "reset@acme.example.com", "member").await;
    let quiet = world.member(&ada, "quiet@acme.example.com", "member").await;
    let protected = world.member(&ada, "protected@acme.example.com", "member").await;
    let protection = world.protect(&protected).await;
    let invite = json!({"email": "later@acme.example.com", "role": "owner", "organizationId": ada.id});
    let invitation = world.cli(&ada.cookie, "organization/invite-member", invite).await.body["id"].clone();
    let issued = world.cli(&ada.cookie, "api-key/create", json!({"name": "deleted later"})).await.body;
    let (key_id, key) = (issued["id"].clone(), issued["key"].as_str().expect("a key").to_owned());

    let (since, tables) = (next_second().await, copy(&world).await);
    let ok = |answer: tests::world::Answer| assert_eq!(answer.status, 200, "{answer:?}");
    ok(world.cli(&ada.cookie, "api-key/delete", json!({"keyId": key_id})).await);
    ok(world.cli(&ada.cookie, "organization/remove-member", json!({"memberIdOrEmail": removed.email})).await);
    let role = json!({"memberId": demoted.user, "role": "member"});
    ok(world.cli(&ada.cookie, "organization/update-member-role", role).await);
    ok(world.cli(&ada.cookie, "organization/cancel-invitation", json!({"invitationId": invitation})).await);
    ok(world.cli("", "request-password-reset", json!({"email": reset.email})).await);
    let token = link(&world.mail_to(&reset.email).await).split_once("?token=").expect("a token").1.to_owned();
    ok(world.cli("", "reset-password", json!({"token": token, "newPassword": NEW})).await);
    ok(world.cli(&moved.cookie, "change-email", json!({"newEmail": "new@acme.example.com"})).await);
    assert_eq!(world.confirm(&link(&world.mail_to("new@acme.example.com").await)).await.status, 200);
    ok(world.cli(&protection.cookie, "two-factor/disable", json!({"password": PASSWORD})).await);
    ok(world.cli(&gone.cookie, "delete-user", json!({"password": PASSWORD})).await);
    let stolen = ada.cookie.clone();
    let change = json!({"currentPassword": PASSWORD, "newPassword": NEW, "revokeOtherSessions": true});
    ok(world.cli(&ada.cookie, "change-password", change).await);
    let added = world.cli(&quiet.cookie, "api-key/create", json!({"name": "created later"})).await.body;

    restore(&world, tables).await;
    // Until the changes are repeated, the deleted key works again.
    assert!(world.key_works(&key).await);
    let results = after_restore(&world, since).await;
    let result = |action: &str, object: &Value| {
        let object = object.as_str().expect("an id").to_owned();
        results.get(&(action.to_owned(), object)).map(String::as_str)
    };
    let of = |user: &Tenant| json!(user.user);
    assert_eq!(result("key.deleted", &key_id), Some("repeated"), "{results:?}");
    assert_eq!(result("member.removed", &of(&removed)), Some("repeated"));
    assert_eq!(result("member.role_changed", &of(&demoted)), Some("repeated"));
    assert_eq!(result("invitation.canceled", &json!("later@acme.example.com")), Some("repeated"));
    assert_eq!(result("password.reset", &of(&reset)), Some("repeated"));
    assert_eq!(result("password.changed", &of(&ada)), Some("repeated"));
    assert_eq!(result("email.changed", &of(&moved)), Some("repeated"));
    assert_eq!(result("two_factor.disabled", &of(&protected)), Some("repeated"));
    assert_eq!(result("organization.deleted", &json!(gone.id)), Some("repeated"));
    assert_eq!(result("key.created", &added["id"]), Some("undone"));

    // All sessions have ended.
    for user in [&ada, &removed, &demoted, &moved, &reset, &quiet, &protected, &gone] {
        assert!(!world.is_signed_in(&user.cookie).await, "{}", user.email);
    }
    assert!(!world.is_signed_in(&stolen).await && !world.is_signed_in(&protection.cookie).await);
    // Keys still work if their user's account has not changed.
    for (user, works) in [
        (&ada, true),
        (&quiet, true),
        (&demoted, true),
        (&removed, false),
        (&moved, false),
        (&reset, false),
        (&gone, false),
    ] {
        assert_eq!(world.key_works(&user.key).await, works, "{}", user.email);
    }
    assert!(!world.key_works(&key).await && !world.key_works(added["key"].as_str().expect("a key")).await);
    // Passwords.
    for (email, status) in [
        (&ada.email, 401),
        (&reset.email, 401),
        (&protected.email, 401),
        (&removed.email, 401),
        (&gone.email, 401),
        (&moved.email, 401),
        (&quiet.email, 200),
        (&"new@acme.example.com".to_owned(), 200),
    ] {
        assert_eq!(world.sign_in(email, PASSWORD).await.status, status, "{email}");
    }
    // A locked-out user resets the password by email, and is not asked for the second factor, which was disabled.
    ok(world.cli("", "request-password-reset", json!({"email": protected.email})).await);
    let token = link(&world.mail_to(&protected.email).await).split_once("?token=").expect("a token").1.to_owned();
    ok(world.cli("", "reset-password", json!({"token": token, "newPassword": NEW})).await);
    let session = world.signed_in(&protected.email, NEW).await;
    assert_eq!(world.is_protected(&session).await, false);
    // The demoted owner cannot manage members anymore, and the canceled invitation cannot be accepted.
    let session = world.signed_in(&demoted.email, PASSWORD).await;
    let removal = json!({"memberIdOrEmail": quiet.email});
    assert_eq!(world.cli(&session, "organization/remove-member", removal).await.status, 403);
    let accept = json!({"invitationId": invitation, "tenantSlug": ada.slug, "name": "Eve", "password": PASSWORD});
    let accepted = world.rpc("", "auth/acceptInviteAndSignup", accept).await;
    assert_eq!(accepted.error().0, 409, "{accepted:?}");
    // The purge deletes the organization's remaining data.
    assert_eq!(run(&world, &["deleted"]).await, [[gone.id.clone()]]);

    // A second run changes nothing.
    let again = after_restore(&world, since).await;
    assert_eq!(again[&("key.deleted".to_owned(), key_id.as_str().expect("an id").to_owned())], "absent");
    assert!(world.key_works(&quiet.key).await);
}

/// Recipients who have stopped an organization's emails do not get them again, and their links still work.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_keeps_the_answers_of_recipients() {
    let world = World::start().await;
    let by = consent::owner(&world, "acme", consent::STRANGER).await;
    consent::fail(&world, &by, "nightly").await;
    let path = consent::page(&world, &world.mail_to(consent::STRANGER).await);
    assert_eq!(consent::one_click(&world, &path).await, 200);
    assert_eq!(consent::status(&world, &by).await, "stopped");
    let mut bounce = sample_event("accounts-bounces");
    bounce["detail"]["bounce"]["bounceType"] = json!("Transient");
    bounce["detail"]["bounce"]["bouncedRecipients"][0]["status"] = json!("5.1.1");
    world.stack.invoke("accounts-bounces", bounce).await.expect("it is stored");
    let kept = async || {
        let kinds = ["consent", "consent_link", "passing_bounces"];
        futures::future::join_all(kinds.map(async |kind| world.tokens(kind).await.len())).await
    };
    let before = kept().await;
    assert!(before.iter().all(|count| *count > 0), "{before:?}");

    after_restore(&world, next_second().await).await;
    assert!(!world.is_signed_in(&by.cookie).await);
    assert_eq!(consent::status(&world, &by).await, "stopped");
    assert_eq!(kept().await, before);
    consent::press(&world, &path, "Receive emails again").await;
    assert_eq!(consent::status(&world, &by).await, "ok");
}

/// The address of the sign-up was a stranger's, by mistake.
#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_address_does_not_come_back() {
    let (world, new) = (World::start().await, "new@acme.example.com");
    let account = world.sign_up("acme").await;
    let user = account["userId"].as_str().expect("an id").to_owned();
    let cookie = cookie(&account);
    let (since, tables) = (next_second().await, copy(&world).await);
    assert_eq!(world.cli(&cookie, "change-email", json!({"newEmail": new})).await.status, 200);
    assert_eq!(world.confirm(&link(&world.mail_to(new).await)).await.status, 200);
    restore(&world, tables).await;
    let results = after_restore(&world, since).await;
    assert_eq!(results[&("email.verified".to_owned(), user)], "repeated", "{results:?}");
    let old = "jo@acme.example.com";
    assert_eq!((world.sign_in(old, PASSWORD).await.status, world.sign_in(new, PASSWORD).await.status), (401, 200));
}

/// The table of users was not restored, and another person has the address that was changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_change_of_an_address_moves_its_account_only() {
    let (world, old, new) = (World::start().await, "old@acme.example.com", "new@acme.example.com");
    let ada = world.tenant("acme").await;
    let moved = world.member(&ada, old, "member").await;
    let since = next_second().await;
    assert_eq!(world.cli(&moved.cookie, "change-email", json!({"newEmail": new})).await.status, 200);
    assert_eq!(world.confirm(&link(&world.mail_to(new).await)).await.status, 200);
    // The old address is no longer reserved, and the new one is available again.
    world.set("users", ("pk", &format!("email#{old}")), json!({"reserved_until": 0})).await;
    assert_eq!(world.cli(&ada.cookie, "organization/remove-member", json!({"memberIdOrEmail": new})).await.status, 200);
    let other = world.member(&ada, old, "member").await;

    let results = after_restore(&world, since).await;
    assert_eq!(results[&("email.changed".to_owned(), moved.user.clone())], "absent", "{results:?}");
    assert_eq!(world.sign_in(old, PASSWORD).await.status, 200);
    assert!(world.key_works(&other.key).await);
}

/// Changes an address, and returns the link that undoes the change.
async fn change_address(world: &World, who: &Tenant, from: &str, to: &str) -> String {
    assert_eq!(world.cli(&who.cookie, "change-email", json!({"newEmail": to})).await.status, 200);
    assert_eq!(world.confirm(&link(&world.mail_to(to).await)).await.status, 200);
    link(&world.mail_to(from).await)
}

/// The restored time is between a change and its undo: the earlier address is reserved for the account.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_repeats_the_undo_of_an_address_change() {
    let (world, thief, other) = (World::start().await, "thief@example.com", "other@example.com");
    let (ada, bo) = (world.tenant("acme").await, world.tenant("bo").await);
    let undo = change_address(&world, &ada, &ada.email, thief).await;
    let issued = world.cli(&ada.cookie, "api-key/create", json!({"name": "the thief's"})).await.body;
    let key = issued["key"].as_str().expect("a key");

    let (since, tables) = (next_second().await, copy(&world).await);
    assert_eq!(world.confirm(&undo).await.status, 303);
    // This user has changed the address back before the undo.
    let undo = change_address(&world, &bo, &bo.email, other).await;
    change_address(&world, &bo, other, &bo.email).await;
    assert_eq!(world.confirm(&undo).await.status, 303);

    restore(&world, tables).await;
    let results = after_restore(&world, since).await;
    for user in [&ada.user, &bo.user] {
        assert_eq!(results[&("email.restored".to_owned(), user.clone())], "repeated", "{results:?}");
    }
    assert!(!world.key_works(key).await && !world.key_works(&bo.key).await);
    for owner in [&ada, &bo] {
        let ask = json!({"email": owner.email});
        assert_eq!(world.cli("", "request-password-reset", ask).await.status, 200);
        let token = link(&world.mail_to(&owner.email).await).split_once("?token=").expect("a token").1.to_owned();
        let reset = json!({"token": token, "newPassword": NEW});
        assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
        assert_eq!(world.sign_in(&owner.email, NEW).await.body["user"]["id"], owner.user);
    }
    let before = world.mails().await.len();
    assert_eq!(world.cli("", "request-password-reset", json!({"email": thief})).await.status, 200);
    assert_eq!(world.mails().await.len(), before, "the other address has no account");
}

/// Before the reset, a stranger had signed up with the address and requested their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_repeats_a_reset_with_its_other_effects() {
    let (world, thief) = (World::start().await, "thief@example.com");
    let fields = World::sign_up_fields("acme");
    let email = fields["email"].clone();
    let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
    let cookie = tests::world::cookie(&account);
    assert_eq!(world.cli(&cookie, "change-email", json!({"newEmail": thief})).await.status, 200);
    let (since, mut tables) = (next_second().await, copy(&world).await);
    tables.retain(|table, _| *table == "users");
    assert_eq!(world.cli("", "request-password-reset", json!({"email": email})).await.status, 200);
    let mail = world.mail_to(email.as_str().expect("an address")).await;
    let token = link(&mail).split_once("?token=").expect("a token").1.to_owned();
    assert_eq!(world.cli("", "reset-password", json!({"token": token, "newPassword": NEW})).await.status, 200);

    restore(&world, tables).await;
    let results = after_restore(&world, since).await;
    let user = account["userId"].as_str().expect("an id").to_owned();
    assert_eq!(results[&("password.reset".to_owned(), user)], "repeated", "{results:?}");
    assert_eq!(world.cli("", "send-verification-email", json!({"email": email})).await.status, 200);
    assert_eq!(world.mails().await.pop().expect("a mail")["to"], json!([email]));
}

/// The invitation was accepted after the restored time, so it is pending again.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_does_not_let_a_removed_member_rejoin() {
    let world = World::start().await;
    let (ada, email) = (world.tenant("acme").await, "bo@acme.example.com");
    let invite = json!({"email": email, "role": "owner", "organizationId": ada.id});
    let invitation = world.cli(&ada.cookie, "organization/invite-member", invite).await.body["id"].clone();
    let (since, tables) = (next_second().await, copy(&world).await);
    let accept = json!({"invitationId": invitation, "tenantSlug": ada.slug, "name": "Bo", "password": PASSWORD});
    let joined = world.rpc("", "auth/acceptInviteAndSignup", accept.clone()).await.ok()["userId"].clone();
    let removal = json!({"memberIdOrEmail": email});
    assert_eq!(world.cli(&ada.cookie, "organization/remove-member", removal).await.status, 200);

    restore(&world, tables).await;
    let results = after_restore(&world, since).await;
    let user = joined.as_str().expect("an id").to_owned();
    assert_eq!(results[&("member.removed".to_owned(), user)], "repeated", "{results:?}");
    let again = world.rpc("", "auth/acceptInviteAndSignup", accept).await;
    assert_eq!(again.error(), (409, "CONFLICT", "invitation_used"), "{again:?}");
}

/// The tables of users and invitations were not restored, so they contain later changes.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_changes_spare_later_members_and_invitations() {
    let world = World::start().await;
    let (ada, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&ada, "bo@acme.example.com", "member").await;
    let invite = async |by: &Tenant, email: &str, role: &str| {
        let fields = json!({"email": email, "role": role, "organizationId": by.id});
        world.cli(&by.cookie, "organization/invite-member", fields).await.body["id"].clone()
    };
    let since = next_second().await;
    let promotion = json!({"memberId": bo.user, "role": "owner"});
    assert_eq!(world.cli(&ada.cookie, "organization/update-member-role", promotion).await.status, 200);
    // The member moves to another organization and comes back, and an invitation is replaced.
    for by in [&other, &ada] {
        let accept = json!({"invitationId": invite(by, &bo.email, "member").await});
        assert_eq!(world.cli(&bo.cookie, "organization/accept-invitation", accept).await.status, 200);
    }
    invite(&ada, "cy@acme.example.com", "member").await;
    let newest = invite(&ada, "cy@acme.example.com", "member").await;

    let results = after_restore(&world, since).await;
    assert_eq!(results[&("member.left".to_owned(), bo.user.clone())], "absent", "{results:?}");
    assert_eq!(results[&("member.role_changed".to_owned(), bo.user.clone())], "absent");
    assert_eq!(results[&("invitation.canceled".to_owned(), "cy@acme.example.com".to_owned())], "absent");
    let session = world.signed_in(&bo.email, PASSWORD).await;
    let member = world.cli_get(&session, "organization/get-active-member").await.body;
    assert_eq!((&member["organizationId"], &member["role"]), (&json!(ada.id), &json!("member")));
    let accept = json!({"invitationId": newest, "tenantSlug": ada.slug, "name": "Cy", "password": PASSWORD});
    world.rpc("", "auth/acceptInviteAndSignup", accept).await.ok();
}

/// The table of organizations was not restored, and the organization had been purged from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_ends_a_purged_organization_again() {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let gone = world.tenant("gone").await;
    world.endpoint(&gone, &receiver.url("/"), "s").await;
    let issue = json!({"name": "the organization's", "kind": "organization"});
    let issued = world.cli(&gone.cookie, "api-key/create", issue).await.body;
    let key = issued["key"].as_str().expect("a key");
    let purge = async || {
        for _ in 0..3 {
            let time = Timestamp::now().after(Duration::from_mins(3));
            world.stack.invoke("accounts-purge", json!({"time": time})).await.expect("a pass");
        }
    };
    let (since, mut tables) = (next_second().await, copy(&world).await);
    tables.retain(|table, _| ["api-keys", "webhook-endpoints"].contains(table));
    assert_eq!(world.cli(&gone.cookie, "delete-user", json!({"password": PASSWORD})).await.status, 200);
    purge().await;
    assert_eq!(world.items("webhook-endpoints").await.len(), 0);

    restore(&world, tables).await;
    let status = async || world.rpc(key, "webhooks/list", json!({})).await.status;
    assert_eq!(status().await, 200);
    let results = after_restore(&world, since).await;
    assert_eq!(results[&("organization.deleted".to_owned(), gone.id.clone())], "repeated", "{results:?}");
    assert_eq!(status().await, 401);
    purge().await;
    assert_eq!((world.items("webhook-endpoints").await.len(), world.items("api-keys").await.len()), (0, 0));
    let left = world.items("organizations").await;
    assert!(left.iter().all(|item| item["pk"].as_s().is_ok_and(|key| key == "deleted")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_log_sends_its_pending_deliveries_again() {
    let world = World::with(&[("RETRY_SCHEDULE", "1800,1800")]).await;
    let tenant = world.tenant("acme").await;
    let statuses: Vec<(u16, &[(&str, &str)])> = vec![(204, &[]), (500, &[]), (204, &[]), (204, &[]), (500, &[])];
    let receiver = Receiver::scripted(&statuses).await;
    let removed = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "delivered")).await;
    world.deliver(event(&tenant.id, "pending")).await;
    let other = world.endpoint(&tenant, &removed.url("/"), "s").await;
    let pending = world.log_of(&tenant.id, Status::Pending).await.remove(0);

    let (since, tables) = (next_second().await, copy(&world).await);
    // The pending delivery succeeds, one event is delivered and another fails, and an endpoint is deleted. The queues
    // contain an event and the message for the failed delivery.
    let made = Timestamp::now();
    world.make_due(&tenant.id, &pending, made).await;
    world.enqueue("deliveries", due_message(&tenant.id, &pending)).await;
    world.poll_due().await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": other})).await.ok();
    world.deliver(event(&tenant.id, "delivered later")).await;
    world.deliver(event(&tenant.id, "pending later")).await;
    assert_eq!(receiver.count().await, 5);
    let later = world.log_of(&tenant.id, Status::Pending).await.remove(0);
    world.enqueue("deliveries", due_message(&tenant.id, &later)).await;
    world.enqueue("job-events", event(&tenant.id, "in the queue")).await;

    restore(&world, tables).await;
    let results = after_restore(&world, since).await;
    assert_eq!(results[&("webhook.deleted".to_owned(), other)], "repeated");
    // The event in the queue is delivered. A message about a delivery that is missing from the log is dropped.
    world.poll_all("job-events").await;
    world.poll_due().await;
    assert_eq!((receiver.count().await, removed.count().await, world.left().await), (6, 0, 0));
    // The sweep wakes the pending delivery, which arrives again with the same id.
    let due = world.log_of(&tenant.id, Status::Pending).await.remove(0).next_attempt_at.expect("a time");
    world.make_due(&tenant.id, &pending, made).await;
    world.sweep(due.after(Duration::from_mins(20))).await;
    while receiver.count().await < 7 {
        world.poll_due().await;
    }
    let received = receiver.received().await;
    let ids: Vec<_> = received.iter().map(|request| request.header("webhook-id").to_owned()).collect();
    let jobs: Vec<_> = received.iter().map(|request| request.json()["job_id"].clone()).collect();
    let expected = ["delivered", "pending", "pending", "delivered later", "pending later", "in the queue", "pending"];
    assert_eq!(jobs, expected);
    assert!(ids[1] == ids[2] && ids[2] == ids[6], "{ids:?}");
    // Only events since the restored time are missing from the log.
    let mut logged: Vec<_> = world.log(&tenant.id).await.into_iter().map(|delivery| delivery.job_id).collect();
    logged.sort();
    assert_eq!(logged, ["delivered", "in the queue", "pending"]);
    // The producer sends a lost event again: the receiver recognizes it.
    world.deliver(event(&tenant.id, "pending later")).await;
    let last = receiver.received().await.pop().expect("a request");
    assert_eq!(last.header("webhook-id"), ids[4]);
    assert_eq!(world.endpoints(&tenant).await.len(), 1);
    assert_eq!(world.only_endpoint(&tenant).await["webhook_endpoint_id"], json!(endpoint));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_held_delivery_ends_with_its_endpoint() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": false})).await.ok();
    world.deliver(event(&tenant.id, "1")).await;
    let (since, tables) = (next_second().await, copy(&world).await);
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();

    restore(&world, tables).await;
    let results = after_restore(&world, since).await;
    assert_eq!(results[&("webhook.deleted".to_owned(), endpoint)], "repeated");
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Held);
    world.sweep(Timestamp::now()).await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Ended);
}

/// A version that fails on every event does not lose any: after the rollback, the dead letters are delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_delivers_the_letters_of_a_poisoned_version() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.come_back_after(0).await;
    world.enqueue("job-events", event(&tenant.id, "1")).await;
    // This version expects a table that does not exist in the stack. It does not know the queue either, so its messages
    // come back at once instead of after seconds.
    let poisoned = world.worker(&[("WEBHOOK_ENDPOINTS_TABLE", "absent"), ("JOB_EVENTS_QUEUE_URL", "absent")]);
    while world.counts("job-events-dead").await[0] == 0 {
        poisoned.poll("job-events").await.expect("a step");
    }
    assert_eq!((receiver.count().await, world.left().await), (0, 0));
    let letters = run(&world, &["letters", "JobEventsDead"]).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    run(&world, &["redrive", "JobEventsDead"]).await;
    world.poll_all("job-events").await;
    assert_eq!((receiver.count().await, world.dead_letters().await.len()), (1, 0));
}
