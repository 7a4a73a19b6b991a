//! The demo tenant of `--demo-data`, and the link that signs in to it.

use std::collections::{BTreeMap, BTreeSet};

use ::local::Data;
use serde_json::{Value, json};
use tests::{Answer, World, text};

/// Opens the link as a user's browser would, and returns the session cookie.
async fn signed_in(world: &World) -> String {
    let answer = open(world, &[("sec-fetch-site", "none")]).await;
    assert_eq!((answer.status, &answer.headers["location"]), (303, &"/console".parse().expect("a path")));
    let cookie = answer.headers["set-cookie"].to_str().expect("a cookie");
    cookie.split(';').next().unwrap_or_default().to_owned()
}

async fn open(world: &World, headers: &[(&str, &str)]) -> Answer {
    let link = world.url("/demo");
    let request = headers.iter().fold(world.http.get(link), |request, (name, value)| request.header(*name, *value));
    world.send(request).await
}

/// All deliveries in the log.
async fn deliveries(world: &World, cookie: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), None::<Value>);
    loop {
        let mut fields = json!({"limit": 100});
        if let Some(cursor) = cursor {
            fields["cursor"] = cursor;
        }
        let page = world.rpc_by_session(cookie, "deliveries/list", fields).await.ok().clone();
        found.extend(page["deliveries"].as_array().expect("a list").iter().cloned());
        match page.get("next_cursor") {
            Some(next) => cursor = Some(next.clone()),
            None => return found,
        }
    }
}

/// The endpoints, by the path of their URL.
async fn endpoints(world: &World, cookie: &str) -> BTreeMap<String, Value> {
    let listed = world.rpc_by_session(cookie, "webhooks/list", json!({})).await.ok().clone();
    let listed = listed["webhook_endpoints"].as_array().expect("a list").clone();
    let by_path = listed.into_iter().map(|it| {
        let path = text(&it["url"]).strip_prefix(world.stack.inbox()).expect("the inbox").to_owned();
        (path, it)
    });
    by_path.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_tenant_has_every_state_and_a_day_of_deliveries() {
    let world = World::with_demo_data(Data::Memory).await;
    let cookie = signed_in(&world).await;
    let endpoints = endpoints(&world, &cookie).await;
    let of = |path: &str| &endpoints[path];
    assert_eq!(endpoints.len(), 6);
    for (path, is_active) in
        [("/orders", true), ("/crm", true), ("/billing", false), ("/reports", false), ("/alerts", true)]
    {
        assert_eq!(of(path)["active"], is_active, "{path}");
    }
    assert!(of("/orders").get("failing_since").is_none());
    assert!(of("/crm")["failing_since"].is_string() && of("/crm").get("disabled_at").is_none());
    assert_eq!(of("/billing")["disabled_reason"], "gone");
    assert!(of("/reports").get("disabled_at").is_none());
    assert_eq!(of("/alerts")["events"], json!(["job.failed"]));
    assert_eq!(of("/alerts")["header_names"], json!(["authorization", "x-team"]));
    assert!(of("/warehouse")["previous_secret_expires_at"].is_string());
    assert!(endpoints.values().all(|it| !text(&it["description"]).is_empty()));

    let found = deliveries(&world, &cookie).await;
    let count = |path: &str, status: &str| {
        let is_it =
            |it: &&Value| it["webhook_endpoint_id"] == of(path)["webhook_endpoint_id"] && it["status"] == *status;
        found.iter().filter(is_it).count()
    };
    for (path, status) in [
        ("/orders", "delivered"),
        ("/crm", "failed"),
        ("/crm", "pending"),
        ("/billing", "failed"),
        ("/billing", "held"),
        ("/reports", "held"),
        ("/alerts", "delivered"),
        ("/warehouse", "delivered"),
    ] {
        assert!(count(path, status) > 0, "{path} {status}");
    }
    let most = found.iter().filter(|it| it["status"] == "failed").map(|it| it["attempts"].as_u64());
    assert_eq!(most.max().flatten(), Some(10));
    let recovered = |it: &Value| it["status"] == "delivered" && it["attempts"].as_u64() > Some(1);
    assert!(found.iter().any(recovered), "an outage has ended");
    let mut waiting = found.iter().filter(|it| it["status"] == "pending");
    assert!(waiting.all(|it| it["next_attempt_at"].as_str() > it["created_at"].as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_hours_differ_and_new_jobs_reach_the_inbox() {
    let world = World::with_demo_data(Data::Memory).await;
    let cookie = signed_in(&world).await;
    let stats = world.rpc_by_session(&cookie, "deliveries/stats", json!({})).await.ok().clone();
    let statuses = ["pending", "delivered", "failed", "held"];
    let sum = |counts: &Value| statuses.iter().filter_map(|status| counts[*status].as_u64()).sum::<u64>();
    assert!((300..400).contains(&sum(&stats["total"])), "{}", stats["total"]);
    let hours = stats["hours"].as_array().expect("hours");
    assert!(hours.len() >= 20, "{hours:?}");
    assert!(hours.iter().map(sum).collect::<BTreeSet<_>>().len() > 5, "{hours:?}");

    // The page of sent emails shows only new ones.
    let inbox = || async { world.open(world.stack.inbox()).await.page().to_owned() };
    let mut page = inbox().await;
    assert!(page.contains("No requests yet."));
    let come = ["/orders", "/warehouse"].map(|path| format!("<code>{path}</code> job.completed"));
    while !come.iter().all(|it| page.contains(it)) {
        world.poll_each().await;
        page = inbox().await;
    }
    assert!(page.contains("<strong>verified</strong>") && !page.contains("<strong>not verified</strong>"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_tenant_has_members_invitations_and_keys() {
    let world = World::with_demo_data(Data::Memory).await;
    let cookie = signed_in(&world).await;
    let organization = world.cli_get(&cookie, "organization/get-full-organization").await.body;
    assert_eq!(organization["name"], "Northwind Automations");
    let members = organization["members"].as_array().expect("members");
    assert_eq!(members.iter().map(|it| text(&it["role"])).collect::<Vec<_>>(), ["owner", "member"]);
    let invitations = organization["invitations"].as_array().expect("invitations");
    assert_eq!(invitations.iter().map(|it| text(&it["status"])).collect::<Vec<_>>(), ["pending", "accepted"]);
    let keys = world.cli_get(&cookie, "api-key/list").await.body;
    let used: Vec<_> = keys.as_array().expect("keys").iter().map(|it| it["lastRequest"].is_string()).collect();
    assert_eq!(used, [true, false]);
    let session = world.session(&cookie).await.body;
    assert_eq!(session["user"]["emailVerified"], true);
    let demo = world.stack.demo_tenant().expect("a demo tenant");
    assert_eq!(session["user"]["email"], demo.email);
    assert!(world.is_signed_in(&world.signed_in(demo.email, demo.password).await).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_keeps_the_demo_tenant_and_its_receivers() {
    let directory = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let first = World::with_demo_data(Data::Directory(directory.clone())).await;
    assert!(first.stack.demo_tenant().expect("a demo tenant").is_new);
    let before = deliveries(&first, &signed_in(&first).await).await.len();
    first.stack.stop().await;

    let second = World::with_demo_data(Data::Directory(directory.clone())).await;
    assert!(!second.stack.demo_tenant().expect("a demo tenant").is_new);
    assert_eq!(deliveries(&second, &signed_in(&second).await).await.len(), before);
    for (path, status) in [("/orders", 204), ("/crm", 500), ("/billing", 410)] {
        let posted = second.http.post(format!("{}{path}", second.stack.inbox())).body("{}");
        assert_eq!(second.send(posted).await.status, status, "{path}");
    }
    second.stack.stop().await;
    std::fs::remove_dir_all(directory).expect("the removal succeeds");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_link_signs_in_its_visitor_on_the_console_only() {
    let world = World::with_demo_data(Data::Memory).await;
    for refused in [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("host", "demo.example.com")] {
        let answer = open(&world, &[refused]).await;
        assert_eq!(answer.status, 403, "{refused:?}");
        assert!(!answer.headers.contains_key("set-cookie"), "{refused:?}");
    }
    let answer = world.send(world.http.get(world.url("/demo?callbackURL=https://example.com"))).await;
    assert_eq!((answer.status, &answer.headers["location"]), (303, &"/console".parse().expect("a path")));
    assert_eq!(world.send(world.http.post(world.url("/demo"))).await.status, 405);
    let line = world.stack.ready_line();
    assert_eq!(line["demo"], world.url("/demo"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_demo_data_there_is_no_link() {
    let world = World::start().await;
    assert_eq!(world.send(world.http.get(world.url("/demo"))).await.status, 404);
    assert!(world.stack.demo_tenant().is_none() && world.stack.ready_line().get("demo").is_none());
}
