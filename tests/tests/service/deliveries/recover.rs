//! `POST /v1/deliveries/recover`. The test runs the recoveries itself, page by page.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Status, Trigger},
        log::recovery::PAGE,
    },
};
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World};

use super::{Book, DAY, Draft, HOUR, SECOND, pages, read};

async fn recover(world: &World, tenant: &Tenant, fields: Value) -> Value {
    let answer = world.rpc(&tenant.key, "deliveries/recover", fields).await;
    assert_eq!(
        (&answer.ok()["success"], &answer.ok()["message"]),
        (&json!(true), &json!("Failed deliveries will be sent again"))
    );
    answer.ok()["recovery_id"].clone()
}

/// Runs all recoveries to their end, and returns what they resent.
pub(super) async fn run(book: &Book) -> Vec<Delivery> {
    let mut resent = Vec::new();
    for (tenant, mut recovery) in book.log.open_recoveries().await.expect("the recoveries") {
        while !recovery.done {
            let now = Timestamp::now();
            resent.extend(book.log.recover_page(&tenant, &mut recovery, || now, now).await.expect("a page"));
            book.log.save_recovery(&tenant, &recovery).await.expect("it is saved");
        }
    }
    resent
}

fn sorted(entries: &[Delivery]) -> Vec<String> {
    let mut ids: Vec<_> = entries.iter().map(|entry| entry.id.to_string()).collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_in_that_time_at_that_endpoint_is_sent_again() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let other = world.endpoint(&tenant, "https://example.com/2", "s").await;
    let book = Book::of(&world);
    let (since, until, ms) = (book.ago(HOUR * 3), book.ago(HOUR), Duration::from_millis(1));
    let failed = |to: &str, at, job: &str| Draft::to(to, at, job).status(Status::Failed);
    let in_shard_7 = Draft { shard: 7, ..failed(&endpoint, since.after(HOUR), "middle-7") };
    let wanted = [
        failed(&endpoint, since, "first"),
        failed(&endpoint, since.after(HOUR), "middle"),
        failed(&endpoint, until.before(ms), "last"),
        in_shard_7,
    ];
    let wanted = book.write(&tenant, wanted).await;
    let others = [
        failed(&endpoint, since.before(ms), "too early"),
        failed(&endpoint, until, "too late"),
        failed(&other, since, "elsewhere"),
        Draft::to_callback(0, since, "callback").status(Status::Failed),
        Draft::to(&endpoint, since, "pending").status(Status::Pending),
        Draft::to(&endpoint, since, "delivered"),
        Draft::to(&endpoint, since, "ended").status(Status::Ended),
    ];
    let others = book.write(&tenant, others).await;

    let fields = json!({"webhook_endpoint_id": endpoint, "since": since, "until": until});
    let id = recover(&world, &tenant, fields).await;
    let mut progress = json!({
        "recovery_id": id, "webhook_endpoint_id": endpoint, "since": since, "until": until, "resent": 0, "done": false,
    });
    assert_eq!(read(&world, &tenant, "stats", json!({"since": since})).await.ok()["recoveries"], json!([progress]));
    let resent = run(&book).await;
    assert_eq!(sorted(&resent), sorted(&wanted));
    for entry in [resent, others].concat() {
        let now = read(&world, &tenant, "get", json!({"delivery_id": entry.id})).await;
        assert_eq!(now.ok()["delivery"], json!(entry), "what was not resent is as it was");
    }
    (progress["resent"], progress["done"]) = (json!(4), json!(true));
    for (endpoint, expected) in [(&endpoint, json!([progress])), (&other, json!([]))] {
        let stats = read(&world, &tenant, "stats", json!({"webhook_endpoint_id": endpoint, "since": since})).await;
        assert_eq!(stats.ok()["recoveries"], expected);
    }
    assert!(book.log.open_recoveries().await.expect("the recoveries").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_goes_on_after_a_crash_and_resends_each_delivery_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    // Several at each time, so that pages end between them.
    let drafts = (0..PAGE * 2).map(|job| {
        let at = book.ago(SECOND * (u32::try_from(job / 7).expect("it fits") + 1));
        Draft::to(&endpoint, at, job).status(Status::Failed)
    });
    let failed = book.write(&tenant, drafts).await;
    // Without `until`, up to now.
    recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)})).await;

    // The process dies before it saves how far it is.
    let (owner, mut recovery) = book.log.open_recoveries().await.expect("the recoveries").remove(0);
    let now = Timestamp::now();
    let first = book.log.recover_page(&owner, &mut recovery, || now, now).await.expect("a page");
    assert_eq!(first.len(), PAGE);
    assert_eq!(sorted(&[first, run(&book).await].concat()), sorted(&failed));
    assert!(pages(&world, &tenant, json!({"status": "failed"})).await.concat().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_endpoint_cannot_be_recovered() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    let fields = json!({"webhook_endpoint_id": endpoint, "since": "2026-01-01T00:00:00Z"});
    assert_eq!(read(&world, &tenant, "recover", fields).await.error(), (404, "NOT_FOUND", ""));
}

/// As docs/operating.md has it, for whoever has no key of the tenant.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_store_a_recovery() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let event = json!({"event": "job.completed", "tenant_id": tenant.id, "job_id": "j"});
    world.enqueue("job-events", event.to_string()).await;
    world.stack.poll("job-events").await.expect("a step");
    let now = Timestamp::now().as_second();
    let recovery = uuid::Uuid::new_v4().to_string();
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let second = |value: i64| AttributeValue::N(format!("{value}000"));
    let put = world.stack.dynamodb_client().put_item().table_name("deliveries");
    let put = put
        .item("destination", text(&format!("recovery/{}", tenant.id)))
        .item("delivery", text(&recovery))
        .item("open", text("recovery"))
        .item("endpoint", text(&endpoint))
        .item("since", second(now - 60))
        .item("until", second(now + 60))
        .item("expires_at", AttributeValue::N((now + 2_592_000).to_string()));
    put.send().await.expect("it is stored");
    let mut minute = tests::sample_event("deliveries-wake");
    minute["time"] = json!(Timestamp::now());
    world.stack.invoke("deliveries-wake", minute).await.expect("it sweeps");
    // A list does not say what an attempt will be made for.
    let (id, owner) = (world.only_logged(&tenant.id).await.id, tenant.id.parse().expect("an id"));
    let pending = world.delivery_log().known(&owner, &[id]).await.expect("it is read").remove(&id).expect("a delivery");
    assert_eq!((pending.status, pending.trigger), (Status::Pending, Trigger::Recovery));
    let due = pending.next_attempt_at.expect("a time").as_second();
    assert!((now..=now + 62).contains(&due), "it is spread over the next minute");
    let recoveries =
        world.delivery_log().recoveries(&tenant.id.parse().expect("an id"), None).await.expect("they are read");
    assert_eq!((recoveries[0].id.to_string(), recoveries[0].resent, recoveries[0].done), (recovery, 1, true));
}
