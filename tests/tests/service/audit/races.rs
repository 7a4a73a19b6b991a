//! Changes that race with a move, a demotion or another change.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use common::id::TenantId;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{
    Call, Receiver, Tenant, World, event, text,
    world::{people::PASSWORD, set_cookie},
};
use tokio::{runtime::Handle, task::block_in_place};

use super::{count, entries, records};

/// The client for the tables, set while the race is on.
type Switch = Arc<Mutex<Option<Client>>>;

/// A world in which, while the switch is on, an attribute of all users changes just before each write to the audit log.
async fn racing(attribute: &'static str, value: fn() -> String) -> (World, Switch) {
    let switch = Switch::default();
    let tables = Arc::clone(&switch);
    let world = World::answering(&[], move |call| {
        let dynamodb = tables.lock().expect("no panic").clone();
        if let Some(dynamodb) = dynamodb.filter(|_| records(call)) {
            block_in_place(|| Handle::current().block_on(change_users(&dynamodb, attribute, value())));
        }
        None
    })
    .await;
    (world, switch)
}

async fn change_users(dynamodb: &Client, attribute: &str, value: String) {
    let users = dynamodb.scan().table_name("users").send().await.expect("the users").items.expect("items");
    for user in users.into_iter().filter(|item| item.contains_key("password_hash")) {
        let update = dynamodb.update_item().table_name("users").key("pk", user["pk"].clone());
        let update =
            update.update_expression("SET #attribute = :value").expression_attribute_names("#attribute", attribute);
        let update = update.expression_attribute_values(":value", AttributeValue::S(value.clone()));
        update.send().await.expect("the user changes");
    }
}

async fn call(world: &World, cookie: &str, route: &str, fields: &Value) -> tests::Answer {
    if route.starts_with("auth/") || route.starts_with("tenant/") {
        world.rpc_by_session(cookie, route, fields.clone()).await
    } else {
        world.cli(cookie, route, fields.clone()).await
    }
}

/// Otherwise, the previous organization's log would contain a change that is missing from the current organization's
/// log.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_races_with_a_move_is_refused() {
    let (world, switch) = racing("organization_id", || TenantId::generate().to_string()).await;
    let jo = world.tenant("acme").await;
    let other = world.signed_in(&jo.email, PASSWORD).await;
    let login = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    world.rpc_by_session(&jo.cookie, "auth/cliLoginApprove", login.clone()).await.ok();
    let password = json!({"password": PASSWORD});
    let refused = async |cookie: &str, routes: &[(&str, Value)]| {
        let before = count(&world).await;
        *switch.lock().expect("no panic") = Some(world.stack.dynamodb_client());
        for (route, fields) in routes {
            let answer = call(&world, cookie, route, fields).await;
            // The session continues, so a client must not mistake the rejection for a sign-out.
            assert_eq!(
                (answer.status, &answer.headers["retry-after"]),
                (503, &"1".parse().expect("a value")),
                "{route}"
            );
        }
        *switch.lock().expect("no panic") = None;
        assert_eq!(count(&world).await, before, "nothing is recorded");
    };
    let routes = [
        ("update-user", json!({"name": "Another"})),
        ("change-email", json!({"newEmail": "new@example.com"})),
        ("change-password", json!({"currentPassword": PASSWORD, "newPassword": "another horse battery"})),
        ("sign-in/email", json!({"email": jo.email, "password": PASSWORD})),
        ("revoke-session", json!({"token": other.split('=').nth(1)})),
        ("revoke-other-sessions", json!({})),
        ("api-key/create", json!({"name": "new"})),
        ("organization/update", json!({"data": {"name": "New"}})),
        ("revoke-sessions", json!({})),
        ("sign-out", json!({})),
        ("auth/cliLoginPoll", login),
    ];
    refused(&jo.cookie, &routes).await;
    assert!(world.is_signed_in(&jo.cookie).await && world.is_signed_in(&other).await);
    assert_eq!(world.sign_in(&jo.email, PASSWORD).await.status, 200, "the password is unchanged");

    let protected = world.protect(&jo).await;
    refused(&protected.cookie, &[("two-factor/generate-backup-codes", password)]).await;
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    let code = json!({"code": protected.backup_codes[0]});
    refused(&pending, &[("two-factor/verify-backup-code", code)]).await;
    // The code is not used up, so the call can be repeated.
    let finished = world.enter_backup_code(&pending, &protected.backup_codes[0]).await;
    assert!(world.is_signed_in(&set_cookie(&finished, "session_token")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_is_demoted_meanwhile_changes_nothing() {
    let (world, switch) = racing("role", || "member".to_owned()).await;
    let owner = world.tenant("acme").await;
    let invitation = json!({"email": "new@example.com", "role": "owner"});
    let invited = world.cli(&owner.cookie, "organization/invite-member", invitation.clone()).await.body;
    let before = count(&world).await;
    for (route, fields) in [
        ("organization/invite-member", invitation),
        ("organization/cancel-invitation", json!({"invitationId": invited["id"]})),
        ("organization/update", json!({"data": {"name": "New"}})),
        ("api-key/create", json!({"name": "key", "kind": "organization"})),
        ("tenant/settings", json!({"disable_job_failure_notifications": true})),
    ] {
        *switch.lock().expect("no panic") = Some(world.stack.dynamodb_client());
        let answer = call(&world, &owner.cookie, route, &fields).await;
        *switch.lock().expect("no panic") = None;
        assert!([403, 503].contains(&answer.status), "{route}: {answer:?}");
        world.set("users", ("pk", &format!("user#{}", owner.user)), json!({"role": "owner"})).await;
    }
    assert_eq!(count(&world).await, before, "nothing is recorded");
    let listed = world.cli_get(&owner.cookie, "organization/list-invitations").await.body;
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(listed[0]["status"], "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_names_of_a_user_are_recorded_in_order() {
    let world = World::start().await;
    let jo: Tenant = world.tenant("acme").await;
    let renamed = join_all((0..6).map(async |number| {
        world.cli(&jo.cookie, "update-user", json!({"name": format!("Name {number}")})).await.status
    }));
    let renamed = renamed.await;
    assert!(renamed.iter().all(|status| [200, 503].contains(status)), "{renamed:?}");
    let found = entries(&world, &jo, json!({"action": "user.renamed"})).await;
    assert_eq!(found.len(), renamed.iter().filter(|status| **status == 200).count());
    // The old name in each entry is the new name in another one.
    let mut steps: BTreeMap<&str, &str> =
        found.iter().map(|entry| (text(&entry["changes"][0]["old"]), text(&entry["changes"][0]["new"]))).collect();
    let mut name = "Jo Doe";
    for _ in 0..found.len() {
        name = steps.remove(name).expect("the next name");
    }
    assert_eq!(world.session(&jo.cookie).await.body["user"]["name"], name);
}

/// Otherwise, the log would not say who enabled an endpoint that the service had disabled.
#[tokio::test(flavor = "multi_thread")]
async fn an_enabling_that_races_with_a_410_is_recorded() {
    let (world, race) = World::racing().await;
    let jo = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    let endpoint = world.endpoint(&jo, &receiver.url("/"), "s").await;
    let (rival, tenant) = (Arc::clone(&world), jo.id.clone());
    let is_update = |call: &Call| call.function == "webhooks-update" && call.operation == "TransactWriteItems";
    race.before(is_update, async move { rival.deliver(event(&tenant, "j")).await });
    world.rpc(&jo.key, "webhooks/update", json!({"id": endpoint, "active": true})).await.ok();
    assert!(race.is_over());
    assert_eq!(world.only_endpoint(&jo).await["active"], true);
    let found = entries(&world, &jo, json!({"action": "webhook.updated"})).await;
    assert_eq!(found[0]["changes"], json!([{"field": "active", "old": "false", "new": "true"}]));
}
