//! Listing entries: permissions, filters and pages.

use common::timestamp::Timestamp;
use serde_json::{Value, json};
use tests::World;

use super::entries;

const YEAR: u64 = 365 * 24 * 60 * 60;

#[tokio::test(flavor = "multi_thread")]
async fn only_owners_and_keys_with_the_scope_read_the_log() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let id = world.endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    let issue = async |fields: Value| {
        let issued = world.cli(&tenant.cookie, "api-key/create", fields).await;
        issued.body["key"].as_str().expect("a key").to_owned()
    };
    let scoped = issue(json!({"name": "audit", "kind": "organization", "scopes": ["audit:read"]})).await;
    let by_session = world.rpc_by_session(&tenant.cookie, "audit/list", json!({})).await;
    for answer in [by_session, world.rpc(&scoped, "audit/list", json!({})).await] {
        let entries = answer.ok()["entries"].as_array().expect("a list");
        assert!(entries.iter().any(|entry| entry["target"]["id"] == id), "{entries:?}");
    }
    let unscoped = issue(json!({"name": "webhooks", "scopes": ["webhooks:read"]})).await;
    let refused = world.rpc(&unscoped, "audit/list", json!({})).await;
    assert_eq!(refused.error(), (403, "FORBIDDEN", "scope_missing"));
    assert_eq!(refused.json()["data"]["scope"], "audit:read");
    let member = world.member(&tenant, "member@example.com", "member").await;
    for refused in [
        world.rpc_by_session(&member.cookie, "audit/list", json!({})).await,
        world.rpc(&member.key, "audit/list", json!({})).await,
    ] {
        assert_eq!((refused.status, refused.error().1), (403, "FORBIDDEN"));
    }
    assert_eq!(world.rpc("", "audit/list", json!({})).await.status, 401);
    let theirs = entries(&world, &other, json!({"limit": 100})).await;
    assert!(theirs.iter().all(|entry| entry["target"]["id"] != id), "{theirs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_filters_find_each_entry_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for number in 0..5 {
        let id = world.endpoint(&tenant, &format!("http://127.0.0.1:9/{number}"), "s").await;
        if number % 2 == 0 {
            world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();
        }
    }
    let all = entries(&world, &tenant, json!({"limit": 100})).await;
    assert!(all.is_sorted_by(|one, next| one["at"].as_str() >= next["at"].as_str()), "newest first");
    let key = &all[0]["actor"]["id"];
    for filter in [
        json!({}),
        json!({"action": "webhook.created"}),
        json!({"actor": key}),
        json!({"actor": key, "action": "webhook.deleted"}),
        json!({"target": all[0]["target"]["id"]}),
        json!({"target": all[0]["target"]["id"], "action": "webhook.created"}),
        // The user's id is in every entry of their key, but only some entries are about the user.
        json!({"target": tenant.user}),
        json!({"target": "unknown"}),
    ] {
        let is_wanted = |entry: &&Value| {
            let is = |name: &str, value: &Value| filter[name].is_null() || filter[name] == *value;
            is("action", &entry["action"]) && is("actor", &entry["actor"]["id"]) && is("target", &entry["target"]["id"])
        };
        let wanted: Vec<_> = all.iter().filter(is_wanted).cloned().collect();
        let (mut found, mut fields) = (Vec::new(), filter.clone());
        fields["limit"] = json!(2);
        loop {
            let page = world.rpc(&tenant.key, "audit/list", fields.clone()).await.ok().clone();
            let entries = page["entries"].as_array().expect("a list");
            assert!(entries.len() <= 2);
            found.extend(entries.iter().cloned());
            let Some(cursor) = page.get("next_cursor") else { break };
            fields["cursor"] = cursor.clone();
        }
        assert_eq!(found, wanted, "{filter}");
    }
    let third = &all[2]["at"];
    let since = entries(&world, &tenant, json!({"since": third, "limit": 100})).await;
    let until = entries(&world, &tenant, json!({"until": third, "limit": 100})).await;
    assert_eq!([since, until].concat(), all);
    for (since, until, is_found) in [
        ("0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", true),
        ("1969-12-31T23:59:59Z", "7018-09-23T00:00:00Z", true),
        ("2286-11-20T17:46:40Z", "2286-11-20T17:46:39Z", false),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", false),
        ("9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", false),
    ] {
        let found = entries(&world, &tenant, json!({"since": since, "until": until})).await;
        assert_eq!(!found.is_empty(), is_found, "{since} {until}");
    }
    let invalid = json!({"since": "now", "until": "now", "action": "x", "limit": 101, "cursor": "x"});
    let answer = world.rpc(&tenant.key, "audit/list", invalid).await;
    let fields: Vec<_> = answer.issues().into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["since", "until", "action", "limit", "cursor"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_more_than_a_year_ago_are_not_listed() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    let newest = entries(&world, &tenant, json!({"limit": 1})).await.remove(0);
    let stored = world.items("audit").await;
    let mut item = stored.into_iter().find(|item| item["tenant_id"].as_s() == Ok(&tenant.id)).expect("an entry");
    let now = Timestamp::now().as_second();
    let year = i64::try_from(YEAR).expect("a year");
    for (age, is_listed) in [(year - 60, true), (year + 60, false)] {
        let key = format!("{:013}.{:032x}", (now - age) * 1000, 7);
        item.insert("entry".to_owned(), aws_sdk_dynamodb::types::AttributeValue::S(key.clone()));
        world.put("audit", item.clone()).await;
        let until = Timestamp::from_second(now - age + 1).expect("a time");
        let found = entries(&world, &tenant, json!({"until": until})).await;
        assert_eq!(!found.is_empty(), is_listed, "{age}");
    }
    let expires: i64 = item["expires_at"].as_n().expect("a number").parse().expect("a number");
    assert!((expires - now - year).abs() < 60, "the table's TTL deletes it after a year");
    assert_eq!(entries(&world, &tenant, json!({"limit": 1})).await, [newest]);
}
