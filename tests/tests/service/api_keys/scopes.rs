//! The scopes of keys. Each route declares its scope, and the description includes it.

use std::sync::{Arc, OnceLock};

use api::{ClosedSet, account::Scope};
use serde_json::{Value, json};
use tests::{Answer, Switch, Tenant, World, text};

use super::create;

/// The routes that accept a key, with the scope in the description, if any.
fn routes() -> Vec<(String, Option<Scope>)> {
    let routes = tests::description::routes().into_iter().filter_map(|(name, route)| {
        let scopes = route["security"].as_array()?.iter().find_map(|one| one["key"].as_array())?;
        let scope = scopes.first().map(|scope| scope.as_str().expect("a string").parse());
        // If a route does not declare its scope, the description contains an invalid scope for the route.
        Some((name.clone(), scope.map(|scope| scope.expect("a declared scope"))))
    });
    routes.collect()
}

fn names(scopes: impl Iterator<Item = Scope>) -> Vec<&'static str> {
    scopes.map(Scope::as_str).collect()
}

/// Calls a route with a key and without fields.
async fn call(world: &World, name: &str, key: &str) -> Answer {
    let (method, path) = name.split_once(' ').expect("a method");
    let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
    let request = world.http.request(method, world.url(path)).header("x-api-key", key);
    world.send(request).await
}

/// The reason and the missing scope from an error in either format.
fn missing(answer: &Answer) -> Option<(&str, &str)> {
    let error = if answer.body["json"].is_object() { &answer.body["json"]["data"] } else { &answer.body };
    Some((error["reason"].as_str()?, error["scope"].as_str()?))
}

async fn issue(world: &World, tenant: &Tenant, scopes: &[&str]) -> String {
    world.key(&tenant.cookie, json!({"scopes": scopes})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_refuses_exactly_keys_without_its_scope() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let routes = routes();
    assert!(routes.len() >= 25, "{routes:?}");
    for scope in Scope::ALL {
        let with = issue(&world, &tenant, &[scope.as_str()]).await;
        let others = names(Scope::ALL.iter().filter(|other| *other != scope).copied());
        let without = issue(&world, &tenant, &others).await;
        for (route, needed) in &routes {
            let (with, without) = (call(&world, route, &with).await, call(&world, route, &without).await);
            let needs = needed.as_ref() == Some(scope);
            // The handler checks the scope for deleting another key.
            let allowed = needed.is_none_or(|needed| needed == *scope);
            assert_eq!(missing(&with).is_none(), allowed, "{route} with {scope}: {with:?}");
            match missing(&without) {
                Some(missing) => assert_eq!(missing, ("scope_missing", scope.as_str()), "{route} without {scope}"),
                None => assert!(!needs, "{route} without {scope}: {without:?}"),
            }
            for refused in [with, without].iter().filter(|answer| missing(answer).is_some()) {
                assert_eq!(refused.status, 403, "{route}");
                let error = if refused.body["json"].is_object() { refused.json() } else { &refused.body };
                assert_eq!(error["code"], "FORBIDDEN", "{route}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_and_changing_settings_need_different_scopes() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let reads = issue(&world, &tenant, &["settings:read"]).await;
    let both = issue(&world, &tenant, &["settings:read", "settings:write"]).await;
    let change = json!({"disable_job_failure_notifications": true});
    assert_eq!(world.rpc(&reads, "tenant/settings", json!({})).await.ok()["disable_job_failure_notifications"], false);
    let refused = world.rpc(&reads, "tenant/settings", change.clone()).await;
    assert_eq!(refused.error(), (403, "FORBIDDEN", "scope_missing"));
    assert_eq!(refused.json()["data"]["scope"], "settings:write");
    assert_eq!(world.rpc(&both, "tenant/settings", change).await.ok()["disable_job_failure_notifications"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_deletes_itself_and_others_only_with_the_scope() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let other = create(&world, &tenant.cookie).await;
    let fields = |kind: &str| json!({"name": "x", "kind": kind, "scopes": ["webhooks:read"]});
    for kind in ["personal", "organization"] {
        let own = world.cli(&tenant.cookie, "api-key/create", fields(kind)).await.body;
        let delete =
            async |id: &Value| world.post_by_key(text(&own["key"]), "api-key/delete", json!({"keyId": id})).await;
        let refused = delete(&other["id"]).await;
        assert_eq!((refused.refused(), &refused.body["reason"]), ((403, "FORBIDDEN"), &json!("scope_missing")));
        assert_eq!(delete(&own["id"]).await.status, 200, "{kind}");
        assert_eq!(delete(&own["id"]).await.status, 401, "{kind}");
    }
    let deletes = issue(&world, &tenant, &["members:write"]).await;
    assert_eq!(world.post_by_key(&deletes, "api-key/delete", json!({"keyId": other["id"]})).await.status, 200);
}

/// Every process reads the key on every call.
#[tokio::test(flavor = "multi_thread")]
async fn changed_scopes_apply_from_the_next_call_on() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let key = issue(&world, &tenant, &["webhooks:read"]).await;
    for _ in 0..2 {
        world.rpc(&key, "webhooks/list", json!({})).await.ok();
    }
    let is_it = |item: &tests::world::tables::Item| item.contains_key("scopes");
    assert_eq!(world.set_where("api-keys", is_it, &json!({"scopes": ["deliveries:read"]})).await, 1);
    let refused = world.rpc(&key, "webhooks/list", json!({})).await;
    assert_eq!(refused.error(), (403, "FORBIDDEN", "scope_missing"));
    world.rpc(&key, "deliveries/list", json!({})).await.ok();
}

/// Earlier versions did not store a kind or scopes.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_earlier_version_is_personal_with_all_scopes() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let stored = world.items("api-keys").await;
    assert!(!stored.iter().any(|item| item.contains_key("kind") || item.contains_key("scopes")), "{stored:?}");
    for (route, _) in &routes() {
        // The last call may delete the user.
        let answer = call(&world, route, &tenant.key).await;
        assert!(missing(&answer).is_none(), "{route}: {answer:?}");
    }
}

/// The caller is identified once, at the start of a call.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_changes_during_a_call_counts_from_the_next() {
    for change in ["scopes", "member", "key"] {
        let (world, changed) = (Arc::new(OnceLock::<(World, Tenant, Tenant)>::new()), Switch::default());
        let (of_proxy, is_on) = (Arc::clone(&world), changed.clone());
        let proxied = World::answering(&[], move |call| {
            // The endpoint is stored after the caller was identified.
            let is_call = call.function == "webhooks-create" && call.operation == "TransactWriteItems";
            if is_call && is_on.is_on() {
                is_on.off();
                let (world, owner, member) = of_proxy.get().expect("a world");
                let made = async {
                    match change {
                        "scopes" => {
                            let is_theirs = |item: &tests::world::tables::Item| item.contains_key("scopes");
                            let scopes = json!({"scopes": ["deliveries:read"]});
                            assert_eq!(world.set_where("api-keys", is_theirs, &scopes).await, 1);
                        }
                        "member" => {
                            let removal = json!({"memberIdOrEmail": member.user});
                            let removed = world.cli(&owner.cookie, "organization/remove-member", removal).await;
                            assert_eq!(removed.status, 200, "{removed:?}");
                        }
                        _ => {
                            let keys = world.cli_get(&owner.cookie, "api-key/list").await.body;
                            let key = keys.as_array().expect("keys").iter().find(|key| !key["scopes"].is_null());
                            let deletion = json!({"keyId": key.expect("the key")["id"]});
                            assert_eq!(world.cli(&owner.cookie, "api-key/delete", deletion).await.status, 200);
                        }
                    }
                };
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(made));
            }
            None
        })
        .await;
        let owner = proxied.tenant("acme").await;
        let member = proxied.member(&owner, "bo@example.com", "member").await;
        let key = proxied.key(&member.cookie, json!({"scopes": ["webhooks:read", "webhooks:write"]})).await;
        assert!(world.set((proxied, owner, member)).is_ok());
        let (world, ..) = world.get().expect("a world");
        changed.on();
        let created = json!({"url": "https://example.com/hook"});
        assert_eq!(world.rpc(&key, "webhooks/create", created.clone()).await.status, 200, "{change}");
        assert!(!changed.is_on(), "{change}: it happened during the call");
        let next = world.rpc(&key, "webhooks/create", created).await;
        let expected = match change {
            "scopes" => (403, "FORBIDDEN", "scope_missing"),
            _ => (401, "UNAUTHORIZED", ""),
        };
        assert_eq!(next.error(), expected, "{change}");
    }
}
