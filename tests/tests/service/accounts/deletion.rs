//! Deleting an account and, with the last one, the organization.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use common::timestamp::Timestamp;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{
    Answer, Doomed, Receiver, Tenant, World, at_each_call, callback, context, event, sample_event,
    world::{people::PASSWORD, tables::item},
};
use tokio::{runtime::Handle, task::block_in_place};

use crate::cli_logins::end_all_sessions;

const ALL: [&str; 7] =
    ["api-keys", "deliveries", "invitations", "organizations", "tokens", "users", "webhook-endpoints"];

pub(super) async fn delete(world: &World, who: &Tenant) -> Answer {
    world.cli(&who.cookie, "delete-user", json!({"password": PASSWORD})).await
}

/// An intruder who knows the old password must not delete an account that its owner takes back at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_stops_a_deletion_that_has_begun() {
    let switch = Arc::<Mutex<Option<Client>>>::default();
    let tables = Arc::clone(&switch);
    let world = World::answering(&[], move |call| {
        let dynamodb = tables.lock().expect("no panic").take_if(|_| call.operation == "TransactWriteItems");
        if let Some(dynamodb) = dynamodb {
            block_in_place(|| Handle::current().block_on(end_all_sessions(&dynamodb)));
        }
        None
    })
    .await;
    for has_other_owner in [true, false] {
        let tenant = world.tenant(&format!("acme-{has_other_owner}")).await;
        if has_other_owner {
            world.member(&tenant, "al@example.com", "owner").await;
        }
        *switch.lock().expect("no panic") = Some(world.stack.dynamodb_client());
        assert_eq!(delete(&world, &tenant).await.status, 401, "another owner: {has_other_owner}");
        assert!(switch.lock().expect("no panic").is_none(), "the sessions ended just before the deletion");
        assert_eq!(world.sign_in(&tenant.email, PASSWORD).await.status, 200);
    }
}

/// Runs the purge of deleted organizations, `minutes` from now.
pub(super) async fn purge(world: &World, minutes: u64) -> anyhow::Result<Value> {
    let time = Timestamp::now().after(Duration::from_secs(60 * minutes));
    world.stack.invoke("accounts-purge", json!({"time": time})).await
}

/// Runs the purge until no data remains, which takes one more pass after the pass that finds the last endpoint.
async fn purge_all(world: &World) {
    for _ in 0..2 {
        purge(world, 3).await.expect("a pass");
    }
}

/// Fails the test if a credential of this user still works.
async fn has_ended(world: &World, who: &Tenant) {
    world.is_shut_out(who).await;
    assert_eq!(world.sign_in(&who.email, PASSWORD).await.refused(), (401, "INVALID_EMAIL_OR_PASSWORD"));
}

/// The items that contain an organization's id, as table and key. Omits items that expire: tokens of its users, and due
/// rows.
pub(super) async fn left_of(world: &World, organization: &str) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    for table in ALL {
        for item in world.items(table).await {
            // The entries of a map are in random order.
            let attributes: BTreeMap<_, _> =
                item.iter().filter(|(name, value)| !value.is_m() && *name != "earlier").collect();
            let text = format!("{attributes:?}");
            if text.contains(organization) && !text.contains("S(\"due/") {
                left.insert(format!("{table}: {text}"));
            }
        }
    }
    left
}

/// Gives an organization data of every kind: two members (one of whom is removed), invitations, keys, endpoints, stored
/// idempotent calls, all kinds of deliveries, an index of them, and a recovery.
pub(super) async fn furnish(world: &World, owner: &Tenant, receiver: &Receiver) {
    let slug = &owner.slug;
    let al = world.member(owner, &format!("al@{slug}.example.com"), "member").await;
    let removed = json!({"memberIdOrEmail": al.user});
    assert_eq!(world.cli(&owner.cookie, "organization/remove-member", removed).await.status, 200);
    for _ in 0..2 {
        let invited = json!({"email": format!("bo@{slug}.example.com"), "role": "owner", "organizationId": owner.id});
        assert_eq!(world.cli(&owner.cookie, "organization/invite-member", invited).await.status, 200);
    }
    assert_eq!(world.cli(&owner.cookie, "api-key/create", json!({"name": "second"})).await.status, 200);
    let works = world.endpoint(owner, &receiver.url("/"), "s").await;
    let gone = world.endpoint(owner, &receiver.url("/"), "s").await;
    let broken = json!({"url": "http://127.0.0.1:9/", "signing_secret": "correct-horse-battery"});
    let broken = world.rpc_once(&owner.key, "webhooks/create", "once", broken).await;
    let broken = &broken.ok()["webhook_endpoint_id"];
    for job in 0..3 {
        world.enqueue("job-events", event(&owner.id, job)).await;
    }
    world.enqueue("job-events", callback(&owner.id, "called back", "http://127.0.0.1:9/")).await;
    world.poll_all("job-events").await;
    world.rpc(&owner.key, "webhooks/delete", json!({"id": gone})).await.ok();
    world.rpc_once(&owner.key, "webhooks/test", "once", json!({"id": broken})).await.ok();
    let since = json!({"webhook_endpoint_id": broken, "since": "2026-01-01T00:00:00Z"});
    world.rpc(&owner.key, "deliveries/recover", since).await.ok();
    let delivered = json!({"webhook_endpoint_id": works, "status": "delivered"});
    let listed = world.rpc(&owner.key, "deliveries/list", delivered).await;
    let delivered = &listed.ok()["deliveries"][0]["delivery_id"];
    world.rpc(&owner.key, "deliveries/resend", json!({"delivery_id": delivered})).await.ok();
    let tenant = owner.id.parse().expect("an id");
    let shards = world.stored_endpoints().shards(&tenant, None).await.expect("the shards");
    let later = Timestamp::now().after(Duration::from_mins(10));
    world.delivery_log().index(&tenant, &shards, later).await.expect("an index");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_the_last_member_deletes_the_organization() {
    // Retries are due at once.
    let world = World::with(&[("RETRY_SCHEDULE", "0,0,0")]).await;
    let (receiver, others_receiver) = (Receiver::start().await, Receiver::start().await);
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    furnish(&world, &jo, &receiver).await;
    furnish(&world, &other, &others_receiver).await;
    // Each organization has three events for three endpoints, a callback and a test, with and without attempts.
    for tenant in [&jo, &other] {
        assert_eq!(world.log(&tenant.id).await.len(), 11);
    }
    assert!(world.poll("slow-deliveries").await > 0);
    let others = left_of(&world, &other.id).await;
    let taken = receiver.count().await;

    let deleted = delete(&world, &jo).await;
    assert_eq!((deleted.status, &deleted.body), (200, &json!({"success": true, "message": "User deleted"})));
    assert!(deleted.headers["set-cookie"].to_str().expect("a string").contains("session_token=;"), "{deleted:?}");
    has_ended(&world, &jo).await;
    assert_eq!(delete(&world, &jo).await.refused(), (401, "UNAUTHORIZED"));
    assert!(world.stored_endpoints().list(&jo.id.parse().expect("an id")).await.expect("a list").is_empty());
    // A late event reaches no receiver.
    world.enqueue("job-events", event(&jo.id, "late")).await;
    world.poll_all("job-events").await;
    assert!(world.log(&jo.id).await.iter().all(|delivery| delivery.job_id != "late"));
    // The address and the slug are available, and the new organization contains no data from the old one.
    let again = world.tenant("acme").await;
    assert_ne!((&again.id, &again.user), (&jo.id, &jo.user));
    assert_eq!(world.rpc(&again.key, "webhooks/list", json!({})).await.ok()["webhook_endpoints"], json!([]));
    assert_eq!(world.cli_get(&again.cookie, "api-key/list").await.body.as_array().map(Vec::len), Some(1));
    assert_eq!(world.cli_get(&again.cookie, "organization/list-invitations").await.body, json!([]));

    // The organization is purged at once, and checked again before its id leaves the list.
    purge(&world, 0).await.expect("a pass");
    let listed = world.items("organizations").await;
    assert!(listed.iter().any(|item| item.contains_key("organizations")), "{listed:?}");
    purge(&world, 3).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
    assert!(world.items("organizations").await.iter().all(|item| !item.contains_key("organizations")));
    purge(&world, 3).await.expect("nothing is left to do");
    assert_eq!(left_of(&world, &other.id).await, others);
    assert_eq!(world.rpc(&again.key, "webhooks/list", json!({})).await.status, 200);

    // Deliveries in progress are dropped without an error.
    let mut dropped = 0;
    while let handled @ 1.. = world.poll_due().await {
        dropped += handled;
    }
    assert!(dropped >= 10, "{dropped}");
    assert_eq!(receiver.count().await, taken);
    assert!(others_receiver.count().await > taken, "other organizations get their deliveries");
    assert_eq!(world.left().await, 0);
    let letters = world.dead_letters().await;
    assert!(letters.is_empty(), "{letters:?}");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_members_leaves_without_the_organization() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let (al, bo) =
        (world.member(&jo, "al@example.com", "member").await, world.member(&jo, "bo@example.com", "owner").await);
    for leaver in [&al, &jo] {
        let deleted = delete(&world, leaver).await;
        assert_eq!((deleted.status, &deleted.body["message"]), (200, &json!("User deleted")));
        has_ended(&world, leaver).await;
        purge(&world, 3).await.expect("nothing to do");
    }
    let members = world.cli_get(&bo.cookie, "organization/list-members").await.body;
    assert_eq!((&members["total"], &members["members"][0]["userId"]), (&json!(1), &json!(bo.user)));
    let keys = world.cli_get(&bo.cookie, "api-key/list").await.body;
    assert_eq!(keys.as_array().map(Vec::len), Some(1), "the credentials of the user are gone");
    // Leaving an organization does not delete it, and the error explains how to do so.
    let left = world.cli(&bo.cookie, "organization/leave", json!({"organizationId": bo.id})).await;
    assert_eq!(left.refused(), (409, "LAST_OWNER"));
    assert!(left.body["message"].as_str().expect("a string").contains("delete your account"), "{left:?}");
    assert_eq!(delete(&world, &bo).await.status, 200);
    purge(&world, 3).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_needs_a_session_and_password_and_counts_tries() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let path = world.url("/api/auth/delete-user");
    let by_key = world.http.post(&path).header("x-api-key", &jo.key).json(&json!({"password": PASSWORD}));
    assert_eq!(world.send(by_key).await.refused(), (401, "UNAUTHORIZED"));
    let foreign = world.http.post(&path).header("cookie", &jo.cookie).header("origin", "https://evil.example.com");
    let foreign = world.send(foreign.json(&json!({"password": PASSWORD}))).await;
    assert_eq!(foreign.refused(), (403, "INVALID_ORIGIN"));
    assert_eq!(world.cli("", "delete-user", json!({"password": PASSWORD})).await.refused(), (401, "UNAUTHORIZED"));
    for fields in [json!({}), json!({"password": null}), json!({"token": "t", "callbackURL": "/"})] {
        assert_eq!(world.cli(&jo.cookie, "delete-user", fields).await.refused(), (400, "BAD_REQUEST"));
    }
    for _ in 0..9 {
        let wrong = world.cli(&jo.cookie, "delete-user", json!({"password": "a wrong password"})).await;
        assert_eq!(wrong.refused(), (400, "INVALID_PASSWORD"));
    }
    // Password changes count toward the same limit.
    let change = json!({"currentPassword": "a wrong password", "newPassword": "another password"});
    assert_eq!(world.cli(&jo.cookie, "change-password", change).await.refused(), (400, "INVALID_PASSWORD"));
    assert_eq!(delete(&world, &jo).await.refused(), (429, "TOO_MANY_REQUESTS"));
    assert_eq!(world.rpc(&jo.key, "webhooks/list", json!({})).await.status, 200);
    let fields = json!({"password": PASSWORD, "token": "t", "callbackURL": "/"});
    let other = world.tenant("other").await;
    assert_eq!(world.cli(&other.cookie, "delete-user", fields).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_owner_must_appoint_another_owner_first() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "member").await;
    assert_eq!(delete(&world, &jo).await.refused(), (409, "LAST_OWNER"));
    assert_eq!(world.rpc(&jo.key, "webhooks/list", json!({})).await.status, 200);
    let role = json!({"memberId": al.user, "role": "owner"});
    assert_eq!(world.cli(&jo.cookie, "organization/update-member-role", role).await.status, 200);
    assert_eq!(delete(&world, &jo).await.status, 200);
    assert_eq!(world.rpc(&al.key, "webhooks/list", json!({})).await.status, 200);
}

/// The index of users never shows the new member.
#[tokio::test(flavor = "multi_thread")]
async fn a_recent_member_prevents_the_deletion_of_the_organization() {
    let (world, index) = World::lagging("users").await;
    let jo = world.tenant("acme").await;
    let key = |who: &Tenant| json!({"pk": {"S": format!("user#{}", who.user)}, "organization_id": {"S": who.id}});
    *index.lock().expect("no panic") = vec![key(&jo)];
    let (al, bo) =
        (world.member(&jo, "al@example.com", "member").await, world.member(&jo, "bo@example.com", "member").await);
    for (leaver, status) in [(&al, 409), (&bo, 409)] {
        assert_eq!(delete(&world, &jo).await.status, status);
        assert_eq!(delete(&world, leaver).await.status, 200);
    }
    // Only members are listed.
    let joined: Vec<_> =
        world.items("organizations").await.iter().filter_map(|item| item.get("joined").cloned()).collect();
    assert_eq!(joined, [AttributeValue::Ss(vec![jo.user.clone()])]);
    // The index does not show the founder yet.
    let owner = world.member(&jo, "cy@example.com", "owner").await;
    *index.lock().expect("no panic") = vec![key(&owner)];
    assert_eq!(delete(&world, &owner).await.status, 409);
    assert_eq!(world.rpc(&jo.key, "webhooks/list", json!({})).await.status, 200);
    *index.lock().expect("no panic") = vec![key(&jo), key(&owner)];
    assert_eq!(delete(&world, &owner).await.status, 200);
    assert_eq!(delete(&world, &jo).await.status, 200);
}

/// Either the new member joins and the organization remains, or the organization is deleted and the user does not join.
#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_deletion_prevents_joining_the_organization() {
    let world = World::start().await;
    let mut outcomes = BTreeSet::new();
    for round in 0..24_u64 {
        let jo = world.tenant(&format!("acme{round}")).await;
        let email = format!("al{round}@example.com");
        let fields = json!({"email": email, "role": "member", "organizationId": jo.id});
        let invited = world.cli(&jo.cookie, "organization/invite-member", fields).await.body;
        let fields =
            json!({"invitationId": invited["id"], "tenantSlug": jo.slug, "name": "Al", "password": "correct horse"});
        let join = async {
            // The transactions of the two calls differ.
            for _ in 0..round % 8 {
                world.session("").await;
            }
            world.rpc("", "auth/acceptInviteAndSignup", fields).await
        };
        let (deleted, joined) = tokio::join!(delete(&world, &jo), join);
        match (deleted.status, joined.status) {
            (200, 404) => has_ended(&world, &jo).await,
            (409, 200) => assert_eq!(world.rpc(&jo.key, "webhooks/list", json!({})).await.status, 200),
            _ => unreachable!("{deleted:?} {joined:?}"),
        }
        outcomes.insert(deleted.status);
        // No user remains without an organization.
        let members = world.items("users").await.iter().filter(|item| format!("{item:?}").contains(&jo.id)).count();
        assert_eq!(members, if deleted.status == 200 { 0 } else { 2 });
    }
    eprintln!("outcomes: {outcomes:?}");
}

/// The slug is read before the organization is deleted, but the accepting transaction runs afterward.
#[tokio::test(flavor = "multi_thread")]
async fn an_acceptance_in_progress_finds_the_organization_deleted() {
    let world = World::start().await;
    for is_purged in [false, true] {
        let jo = world.tenant("acme").await;
        let deleted = delete(&world, &jo).await;
        assert_eq!(deleted.status, 200);
        if is_purged {
            purge(&world, 3).await.expect("a pass");
        }
        world.put("organizations", item(&json!({"pk": "slug#acme", "organization_id": jo.id}))).await;
        let id = world.invitation(&jo.id, "al@example.com", i64::MAX / 2).await;
        let fields = json!({"invitationId": id, "tenantSlug": "acme", "name": "Al", "password": PASSWORD});
        let joined = world.rpc("", "auth/acceptInviteAndSignup", fields).await;
        assert_eq!(joined.error(), (404, "NOT_FOUND", ""));
        assert!(world.items("users").await.is_empty());
        let guard = world.stack.dynamodb_client().delete_item().table_name("organizations");
        guard.key("pk", AttributeValue::S("slug#acme".to_owned())).send().await.expect("the deletion succeeds");
    }
}

/// In each case, a member joins between the last read of the organization and its deletion.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_in_progress_notices_a_new_member() {
    let before = Arc::new(Mutex::new(Value::Null));
    let stale = Arc::clone(&before);
    let world = World::answering(&[], move |call| {
        let organization = stale.lock().expect("no panic").clone();
        let is_read =
            call.operation == "GetItem" && call["Key"]["pk"] == organization["pk"] && organization.is_object();
        let is_index = call.operation == "Query" && call["TableName"] == "users" && organization.is_object();
        let empty = json!({"Items": [], "Count": 0, "ScannedCount": 0});
        is_read.then(|| (200, json!({"Item": organization}))).or_else(|| is_index.then_some((200, empty)))
    })
    .await;
    let jo = world.tenant("acme").await;
    let organization = json!({"pk": {"S": format!("org#{}", jo.id)}, "slug": {"S": "acme"}});
    // Either no other member has ever joined, or one has joined and was removed.
    let mut joined = organization.clone();
    joined["joined"] = json!({"SS": ["01890f3e-7b5a-7cc0-8000-000000000000"]});
    world.member(&jo, "al@example.com", "member").await;
    for organization in [organization, joined] {
        *before.lock().expect("no panic") = organization;
        assert_eq!(delete(&world, &jo).await.refused(), (503, "SERVICE_UNAVAILABLE"));
    }
    *before.lock().expect("no panic") = Value::Null;
    assert_eq!(delete(&world, &jo).await.refused(), (409, "LAST_OWNER"));
    assert_eq!(world.rpc(&jo.key, "webhooks/list", json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_owner_deletions_remove_the_organization() {
    let world = World::start().await;
    for round in 0..6 {
        let jo = world.tenant(&format!("acme{round}")).await;
        let al = world.member(&jo, &format!("al{round}@example.com"), "owner").await;
        let (one, two) = tokio::join!(delete(&world, &jo), delete(&world, &al));
        assert_eq!([one.status, two.status], [200, 200], "{one:?} {two:?}");
        has_ended(&world, &jo).await;
        has_ended(&world, &al).await;
        purge(&world, 3).await.expect("a pass");
        assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_concurrent_account_deletions_succeeds() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let answers = join_all((0..4).map(|_| delete(&world, &jo))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401, 401, 401], "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn items_created_during_the_deletion_are_deleted_too() {
    let world = World::start().await;
    for round in 0..6 {
        let jo = world.tenant(&format!("acme{round}")).await;
        let endpoint = json!({"url": "http://127.0.0.1:9/", "signing_secret": "correct-horse-battery"});
        let invited = json!({"email": format!("bo{round}@example.com"), "role": "owner", "organizationId": jo.id});
        let (deleted, created, issued, invited) = tokio::join!(
            delete(&world, &jo),
            world.rpc_once(&jo.key, "webhooks/create", "once", endpoint),
            world.cli(&jo.cookie, "api-key/create", json!({"name": "late"})),
            world.cli(&jo.cookie, "organization/invite-member", invited),
        );
        assert_eq!(deleted.status, 200);
        // If a call finds that the account has changed, it is repeated, and then finds that the account is deleted. An
        // invitation is written only while its author is an owner; otherwise, the response is 403.
        let answers = [created, issued, invited];
        assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 401 | 403 | 503)), "{answers:?}");
        purge_all(&world).await;
        assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
    }
}

/// Makes the process die at this call during the deletion. Returns whether the process reached that call, and whether
/// the account is gone.
async fn delete_and_die(call: u64, takes_effect: bool) -> (bool, bool) {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    world.endpoint(&jo, "http://127.0.0.1:9/", "s").await;
    world.deliver(event(&jo.id, "1")).await;
    let doomed = Doomed::function(&world, "auth-delete-user", call..u64::MAX, takes_effect).await;
    let mut request = sample_event("auth-delete-user");
    request["headers"] = json!({"host": "x", "origin": world.stack.api()});
    request["cookies"] = json!([jo.cookie]);
    request["body"] = json!(json!({"password": PASSWORD}).to_string());
    // The call may fail, which is expected.
    let answer = doomed.process.clone().call(request, context(60)).await.expect("an answer");
    let is_gone = world.session(&jo.cookie).await.body == Value::Null;
    assert!(is_gone || answer["statusCode"] != 200, "{answer}");
    if is_gone {
        has_ended(&world, &jo).await;
        purge_all(&world).await;
        assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
    } else {
        assert_eq!(world.rpc(&jo.key, "webhooks/list", json!({})).await.ok()["webhook_endpoints"][0]["active"], true);
        purge(&world, 3).await.expect("nothing to do");
        assert_eq!(delete(&world, &jo).await.status, 200);
    }
    (doomed.has_died(), is_gone)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_leaves_a_deletion_complete_or_not_begun() {
    for takes_effect in [false, true] {
        let lives = at_each_call(0.., |call| delete_and_die(call, takes_effect)).await;
        assert_eq!((lives.all.first(), lives.all.last()), (Some(&(true, false)), Some(&(false, true))));
        // The call that makes the deletion final is followed by others.
        assert!(!lives.are_complete() || lives.all.contains(&(true, true)), "{:?}", lives.all);
    }
}
