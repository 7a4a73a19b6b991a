//! Recoveries begin at once, of one endpoint or of all of them, and do not wait for each other. No test here sweeps
//! unless it says so.

use std::{collections::BTreeMap, ops::Range};

use common::{
    timestamp::Timestamp,
    webhooks::{delivery::Status, log::recovery::page::PAGE_SIZE},
};
use serde_json::{Value, json};
use tests::{
    Doomed, Receiver, Tenant, World, at_each_call, context, event, records,
    world::tables::{Item, item},
};
use tokio::time::timeout;

use super::{Book, DAY, Draft, HOUR, SECOND, read};

async fn recover(world: &World, tenant: &Tenant, fields: Value) -> String {
    let answer = world.rpc(&tenant.key, "deliveries/recover", fields).await;
    answer.ok()["recovery_id"].as_str().expect("an id").to_owned()
}

/// The recovery with this id, as `stats` shows it.
async fn progress(world: &World, tenant: &Tenant, id: &str) -> Value {
    let stats = read(world, tenant, "stats", json!({"since": "2026-01-01T00:00:00Z"})).await;
    let recoveries = stats.ok()["recoveries"].as_array().expect("a list").clone();
    recoveries.into_iter().find(|recovery| recovery["recovery_id"] == id).expect("it is listed")
}

/// Writes the number of failed deliveries to an endpoint.
async fn fail(book: &Book, tenant: &Tenant, endpoint: &str, number: usize) {
    let drafts = (0..number).map(|job| Draft::to(endpoint, book.ago(HOUR), job).status(Status::Failed));
    book.write(tenant, drafts).await;
}

/// Schedules the tenant's recoveries up to this time.
async fn pace(world: &World, tenant: &Tenant, until: Timestamp) {
    let stored = json!({
        "destination": format!("recovery/{}", tenant.id), "delivery": "#pace", "paced_until": until.as_millisecond(),
    });
    world.put("deliveries", item(&stored)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_begins_without_a_sweep() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let book = Book::of(&world);
    fail(&book, &tenant, &endpoint, PAGE_SIZE + 5).await;
    let fields = json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)});
    let id = recover(&world, &tenant, fields).await;
    world.handle_all().await;
    assert_eq!(receiver.count().await, PAGE_SIZE + 5);
    let recovery = progress(&world, &tenant, &id).await;
    assert_eq!((&recovery["resent"], &recovery["done"]), (&json!(PAGE_SIZE + 5), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_recovers_seventeen_endpoints() {
    let world = World::start().await;
    let (tenant, stranger) = (world.tenant("acme").await, world.tenant("other").await);
    let (receiver, theirs) = (Receiver::start().await, Receiver::start().await);
    let book = Book::of(&world);
    let mut wanted = Vec::new();
    for number in 0..17 {
        let endpoint = world.endpoint(&tenant, &receiver.url(&format!("/{number}")), "s").await;
        fail(&book, &tenant, &endpoint, 1 + number).await;
        book.write(&tenant, [Draft::to(&endpoint, book.ago(HOUR), "held").status(Status::Held)]).await;
        book.write(&tenant, [Draft::to(&endpoint, book.ago(DAY * 2), "too old").status(Status::Failed)]).await;
        wanted.push((format!("/{number}"), 2 + number));
    }
    // Their deliveries would be held again, or wait for a client anyway.
    let inactive = world.endpoint(&tenant, &receiver.url("/inactive"), "s").await;
    fail(&book, &tenant, &inactive, 2).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": inactive, "active": false})).await.ok();
    let pull = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let pull = pull.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    book.write(&tenant, [Draft::to(&pull, book.ago(HOUR), "to fetch").status(Status::Held)]).await;
    let foreign = world.endpoint(&stranger, &theirs.url("/"), "s").await;
    fail(&book, &stranger, &foreign, 2).await;

    let id = recover(&world, &tenant, json!({"since": book.ago(DAY)})).await;
    assert_eq!(world.poll("slow-deliveries").await, 1);
    let total: usize = wanted.iter().map(|(_, number)| number).sum();
    let mut recovery = progress(&world, &tenant, &id).await;
    // On a busy machine, two seconds are not enough, and a message continues.
    while recovery["done"] == false && world.poll("slow-deliveries").await == 1 {
        recovery = progress(&world, &tenant, &id).await;
    }
    assert_eq!((&recovery["resent"], &recovery["done"]), (&json!(total), &json!(true)));
    assert_eq!(recovery["webhook_endpoint_id"], Value::Null);
    for endpoint in [&inactive, &pull] {
        let stats =
            read(&world, &tenant, "stats", json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)})).await;
        let open = &stats.ok()["open"];
        assert_eq!((&open["pending"]["count"], &stats.ok()["recoveries"]), (&json!(0), &json!([])));
    }
    world.handle_all().await;
    let mut received = BTreeMap::<String, usize>::new();
    for request in receiver.received().await {
        *received.entry(request.path.clone()).or_default() += 1;
    }
    assert_eq!(received.into_iter().collect::<Vec<_>>(), {
        wanted.sort();
        wanted
    });
    let untouched = world.log_of(&stranger.id, Status::Failed).await;
    assert_eq!((theirs.count().await, untouched.len()), (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_of_all_endpoints_includes_callbacks() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let callbacks = (0..3).map(|shard| Draft::to_callback(shard, book.ago(HOUR), shard).status(Status::Failed));
    book.write(&tenant, callbacks).await;
    let id = recover(&world, &tenant, json!({"since": book.ago(DAY)})).await;
    world.poll("slow-deliveries").await;
    assert_eq!(progress(&world, &tenant, &id).await["resent"], json!(3));
    assert_eq!(world.log_of(&tenant.id, Status::Pending).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_selects_by_outcome_and_workflow() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let busy = Receiver::scripted(&[(500, &[]), (500, &[]), (400, &[]), (400, &[])]).await;
    world.endpoint(&tenant, &busy.url("/"), "s").await;
    for (job, workflow) in [("a", "nightly"), ("b", "weekly"), ("c", "nightly"), ("d", "weekly")] {
        let mut event = event(&tenant.id, job);
        event["workflow"] = json!(workflow);
        world.deliver(event).await;
    }
    let since = Timestamp::now().before(HOUR);
    let call = json!({"since": since, "status": "failed", "outcome": "status_5xx", "workflow": "weekly"});
    let id = recover(&world, &tenant, call.clone()).await;
    // Another selection does not join it, although the periods overlap.
    let others = json!({"since": since, "status": "failed", "outcome": "status_4xx"});
    assert_ne!(recover(&world, &tenant, others).await, id);
    assert_eq!(recover(&world, &tenant, call).await, id);
    world.poll_all("slow-deliveries").await;
    let recovery = progress(&world, &tenant, &id).await;
    assert_eq!((&recovery["outcome"], &recovery["workflow"]), (&json!("status_5xx"), &json!("weekly")));
    assert_eq!((&recovery["resent"], &recovery["done"]), (&json!(1), &json!(true)));
    let left = world.log_of(&tenant.id, Status::Failed).await;
    assert_eq!(left.iter().map(|delivery| &*delivery.job_id).collect::<Vec<_>>(), ["a"], "b, c and d are resent");
    let started = json!({"action": "recovery.started"});
    let entries = world.rpc_by_session(&tenant.cookie, "audit/list", started).await;
    let entries = entries.ok()["entries"].to_string();
    assert!(entries.contains(r#""field":"workflow","new":"weekly""#), "{entries}");
}

/// While an earlier recovery has scheduled more than a minute of attempts, a new one still sends its first page.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_recovery_does_not_wait_for_others() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    fail(&book, &tenant, &endpoint, PAGE_SIZE * 2).await;
    let now = Timestamp::now();
    pace(&world, &tenant, now.after(SECOND * 100)).await;
    let id = recover(&world, &tenant, json!({"since": book.ago(DAY)})).await;
    world.poll_all("slow-deliveries").await;
    let recovery = progress(&world, &tenant, &id).await;
    assert_eq!((&recovery["resent"], &recovery["done"]), (&json!(PAGE_SIZE), &json!(false)));
    let soon = now.after(SECOND * 30);
    let pending = world.log_of(&tenant.id, Status::Pending).await;
    assert!(pending.iter().all(|delivery| delivery.next_attempt_at.is_some_and(|at| at < soon)));
    // The pace has advanced by a second. The rest is sent by the sweep of a later minute, after what was scheduled.
    world.sweep(now.after(SECOND * 60)).await;
    assert_eq!(progress(&world, &tenant, &id).await["resent"], json!(PAGE_SIZE * 2));
    let last = world.log_of(&tenant.id, Status::Pending).await;
    assert!(last.iter().any(|delivery| delivery.next_attempt_at.is_some_and(|at| at >= now.after(SECOND * 101))));
}

#[tokio::test(flavor = "multi_thread")]
async fn recoveries_of_a_tenant_take_turns_in_a_sweep() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
        fail(&book, &tenant, &endpoint, PAGE_SIZE * 3).await;
        ids.push(recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)})).await);
    }
    // Both begin, and there is room for two more pages.
    let now = Timestamp::now();
    pace(&world, &tenant, now.after(SECOND * 132)).await;
    world.sweep(now.after(SECOND * 60)).await;
    for id in &ids {
        assert_eq!(progress(&world, &tenant, id).await["resent"], json!(PAGE_SIZE * 2), "{id}");
    }
}

/// The process that handles a recovery's message dies at this call. Returns whether it got there.
async fn live_through(calls: Range<u64>, takes_effect: bool) -> (bool, Result<(), String>) {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let book = Book::of(&world);
    for number in 0..2 {
        let endpoint = world.endpoint(&tenant, &receiver.url(&format!("/{number}")), "s").await;
        fail(&book, &tenant, &endpoint, 1).await;
    }
    recover(&world, &tenant, json!({"since": book.ago(DAY)})).await;
    let case = format!("call {}, which takes effect: {takes_effect}", calls.start);
    let messages = world.drain("slow-deliveries").await;
    let mut records = records(&messages);
    records["Records"][0]["eventSourceARN"] = json!("arn:aws:sqs:eu-central-1:123456789012:slow-deliveries");
    let doomed = Doomed::function(&world, "webhooks-deliver", calls, takes_effect).await;
    doomed.process.clone().call(records, context(30)).await.ok();
    // The lease expires, and the sweep continues. Later, it finds due deliveries whose message was not sent.
    let is_taken = |item: &Item| item.contains_key("taken_until") && item.contains_key("since");
    world.set_where("deliveries", is_taken, &json!({"taken_until": 0})).await;
    world.sweep(Timestamp::now()).await;
    world.handle_all().await;
    world.forget_sweeps().await;
    world.sweep(Timestamp::now().after(HOUR / 3)).await;
    world.handle_all().await;
    let (received, left) = (receiver.received().await, world.log_of(&tenant.id, Status::Delivered).await.len());
    let mut ids: Vec<_> = received.iter().map(|request| request.header("webhook-id").to_owned()).collect();
    ids.sort();
    ids.dedup();
    let end = match (ids.len(), received.len(), left) {
        (2, 2, 2) => Ok(()),
        counts => Err(format!("{case}: {counts:?}")),
    };
    (doomed.has_died(), end)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_survives_a_process_that_dies_at_any_call() {
    for takes_effect in [false, true] {
        let lives = at_each_call(0.., |call: u64| live_through(call..u64::MAX, takes_effect)).await;
        let failed: Vec<_> = lives.all.iter().filter_map(|(_, end)| end.as_ref().err()).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        assert!(lives.calls() > 8, "{}", lives.calls());
    }
}

/// The receiver was silent for hours, and has restarted. Without the recovery, its next attempt is minutes away.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_reaches_a_silent_receiver_that_is_back() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let now = Timestamp::now();
    let [since, tried_at] = [HOUR * 5, SECOND * 40].map(|time| now.before(time).as_millisecond());
    let is_it = |item: &Item| item.get("webhook_endpoint_id").and_then(|id| id.as_s().ok()) == Some(&endpoint);
    world.set_where("webhook-endpoints", is_it, &json!({"gate": format!("silent.{since}.{tried_at}")})).await;
    let book = Book::of(&world);
    let drafts = (0..40).map(|job| Draft::to(&endpoint, book.ago(HOUR), job).status(Status::Pending));
    book.write(&tenant, drafts).await;
    let call = json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY), "status": "pending"});
    let id = recover(&world, &tenant, call).await;
    timeout(SECOND * 30, world.handle_all()).await.expect("none waits for minutes");
    assert_eq!(progress(&world, &tenant, &id).await["resent"], json!(40));
    assert_eq!(receiver.count().await, 40);
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 40);
}
