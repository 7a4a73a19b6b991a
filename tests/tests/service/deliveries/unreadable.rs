//! Items that are missing or unreadable, for instance after a partial restore, affect only their own deliveries.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use common::{
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, Status},
};
use serde_json::{Value, json};
use tests::{
    Receiver, World, callback, event,
    world::tables::{Item, item},
};

use super::{Book, DAY, Draft, HOUR, isolation::poll, log::noise, read, recover::run};

/// The items that store the payload of this job's delivery.
async fn payloads(world: &World, job: &str) -> Vec<Item> {
    let job = AttributeValue::S(job.to_owned());
    let items = world.items("deliveries").await;
    let state = items.iter().find(|item| item.get("job_id") == Some(&job)).expect("a delivery");
    let [shard, moment] = ["destination", "delivery"].map(|name| state[name].as_s().expect("a key"));
    let key = AttributeValue::S(format!("{shard}/{moment}"));
    items.into_iter().filter(|item| item["destination"] == key).collect()
}

/// Deletes the payload of this job's delivery.
async fn lose_payload(world: &World, job: &str) {
    for mut item in payloads(world, job).await {
        item.retain(|name, _| ["destination", "delivery"].contains(&name.as_str()));
        let delete = world.stack.dynamodb_client().delete_item().table_name("deliveries").set_key(Some(item));
        delete.send().await.expect("the write succeeds");
    }
}

/// Replaces the payload of this job's delivery by bytes that cannot be unpacked.
async fn break_payload(world: &World, job: &str) {
    for mut item in payloads(world, job).await {
        item.remove("payload");
        item.insert("payload_lz4".to_owned(), AttributeValue::B(Blob::new([0xff; 9])));
        world.put("deliveries", item).await;
    }
}

fn job(delivery: &Delivery) -> &str {
    &delivery.job_id
}

fn of_job(deliveries: &Value) -> Vec<&str> {
    deliveries.as_array().expect("a list").iter().map(|one| one["job_id"].as_str().expect("a job")).collect()
}

/// Makes the state of this job's delivery unreadable.
async fn break_state(world: &World, job: &str) {
    let is_it = |item: &Item| item.get("job_id") == Some(&AttributeValue::S(job.to_owned()));
    assert_eq!(world.set_where("deliveries", is_it, &json!({"event": "unheard.of"})).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_delivery_without_its_payload_fails() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let endpoint = world.new_endpoint(&tenant, &receiver.url("/"), "s").await;
    world.make_late(&tenant, &endpoint).await;
    for job in ["lost", "broken", "whole"] {
        let mut event = event(&tenant.id, job);
        event["result"] = noise(2000).into();
        world.enqueue("job-events", event).await;
        let mut event = callback(&tenant.id, format!("{job} callback"), receiver.url("/"));
        event["result"] = noise(2000).into();
        world.enqueue("job-events", event).await;
    }
    poll(&world, "job-events", 6).await;
    for kind in ["", " callback"] {
        lose_payload(&world, &format!("lost{kind}")).await;
        break_payload(&world, &format!("broken{kind}")).await;
    }
    world.handle_all().await;
    assert_eq!((receiver.count().await, world.left().await), (2, 0));
    let mut failed = world.log_of(&tenant.id, Status::Failed).await;
    failed.sort_by_key(|delivery| delivery.job_id.clone());
    assert_eq!(failed.iter().map(job).collect::<Vec<_>>(), ["broken", "broken callback", "lost", "lost callback"]);
    let outcome = |delivery: &Delivery| delivery.last_attempt.as_ref().map(|last| last.outcome.clone().into_owned());
    assert!(failed.iter().all(|it| it.attempts == 0 && outcome(it).as_deref() == Some("unanswered")), "{failed:?}");
    assert_eq!(tests::log::of_this_test().metric("DeliveryFailed").len(), 4);
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 2);
    assert_eq!(world.only_endpoint(&tenant).await.get("failing_since"), None, "its receiver is not at fault");
    let parked = world.items("deliveries").await;
    assert!(!parked.iter().any(|item| item["destination"].as_s().is_ok_and(|key| key.starts_with("parked/"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_without_its_payload_is_the_end() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0,0")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[]), (500, &[])]).await);
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for job in ["lost", "broken"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let before = world.log_of(&tenant.id, Status::Pending).await;
    lose_payload(&world, "lost").await;
    break_payload(&world, "broken").await;
    world.handle_all().await;
    let failed = world.log_of(&tenant.id, Status::Failed).await;
    assert_eq!((failed.len(), receiver.count().await, world.dead_letters().await.len()), (2, 2, 0));
    let attempts = |deliveries: &[Delivery]| deliveries.iter().map(|it| it.last_attempt.clone()).collect::<Vec<_>>();
    assert_eq!(attempts(&failed), attempts(&before), "the attempts stay in the log");
    let answer = world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": failed[0].id})).await;
    assert_eq!(answer.error().2, "payload_not_kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_delivery_is_left_out_of_lists() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    let book = Book::of(&world);
    let draft = |status: Status, job| Draft::to(&endpoint, book.ago(HOUR), format!("{status} {job}")).status(status);
    for status in [Status::Delivered, Status::Failed, Status::Pending] {
        book.write(&tenant, ["good", "bad"].map(|job| draft(status, job))).await;
        break_state(&world, &format!("{status} bad")).await;
    }
    for status in ["delivered", "failed", "pending"] {
        let page = read(&world, &tenant, "list", json!({"status": status})).await;
        assert_eq!(of_job(&page.ok()["deliveries"]), [format!("{status} good")]);
    }
    assert_eq!(read(&world, &tenant, "list", json!({})).await.ok()["deliveries"].as_array().map(Vec::len), Some(3));
    let found = read(&world, &tenant, "list", json!({"job_id": "failed good"})).await;
    assert_eq!(of_job(&found.ok()["deliveries"]), ["failed good"]);
    let stats = read(&world, &tenant, "stats", json!({"since": book.ago(DAY)})).await;
    assert_eq!(stats.ok()["failures"], json!([{"reason": "status_5xx", "count": 1}]));
    let page = world.send(world.http.get(world.url("/console")).header("cookie", &tenant.cookie)).await;
    assert_eq!(page.status, 200, "{}", page.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_delivery_does_not_stop_a_recovery() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    let book = Book::of(&world);
    let draft = |job: &str| Draft::to(&endpoint, book.ago(HOUR), job).status(Status::Failed);
    book.write(&tenant, ["good", "bad"].map(draft)).await;
    break_state(&world, "bad").await;
    let fields = json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    assert_eq!(run(&book).await.iter().map(job).collect::<Vec<_>>(), ["good"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_recovery_does_not_hide_others() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    let since = Timestamp::now().before(DAY);
    let id = uuid::Uuid::now_v7().to_string();
    let broken = json!({"destination": format!("recovery/{}", tenant.id), "delivery": id, "open": "recovery"});
    world.put("deliveries", item(&broken)).await;
    let fields = json!({"webhook_endpoint_id": endpoint, "since": since});
    let id = world.rpc(&tenant.key, "deliveries/recover", fields).await.ok()["recovery_id"].clone();
    let stats = read(&world, &tenant, "stats", json!({"since": since})).await;
    assert_eq!(stats.ok()["recoveries"][0]["recovery_id"], id);
    assert_eq!(stats.ok()["recoveries"].as_array().map(Vec::len), Some(1));
}

/// An erasure must not miss a delivery.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_delivery_is_not_reported_as_erased() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
    let book = Book::of(&world);
    book.write(&tenant, ["good", "bad"].map(|job| Draft::to(&endpoint, book.ago(HOUR), job))).await;
    break_state(&world, "bad").await;
    for (fields, status) in
        [(json!({"job_id": "good"}), 200), (json!({"since": book.ago(DAY)}), 500), (json!({"job_id": "bad"}), 500)]
    {
        let answer = world.rpc(&tenant.key, "deliveries/erase", fields).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_endpoint_fails_no_sweep() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenants = [world.tenant("acme").await, world.tenant("other").await];
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let mut ids = Vec::new();
    for tenant in &tenants {
        ids.push(world.endpoint(tenant, &receiver.url("/"), "s").await);
        world.deliver(event(&tenant.id, "j")).await;
    }
    for (tenant, id) in tenants.iter().zip(&ids) {
        let fields = json!({"webhook_endpoint_id": id, "since": Timestamp::now().before(DAY)});
        world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    }
    let broken = ("webhook_endpoint_id", ids[0].as_str());
    world.set("webhook-endpoints", broken, json!({"kind": "unheard-of"})).await;
    let ending = json!({
        "destination": format!("ending/{}", tenants[0].id), "delivery": ids[0], "open": "ending",
        "noted_at": 0, "look_at": 0,
    });
    world.put("deliveries", item(&ending)).await;
    let sweep = async || crate::notices::sweep(&world, Timestamp::now()).await;
    sweep().await;
    let mails =
        async || world.mails().await.iter().filter(|mail| mail["subject"].to_string().contains("is failing")).count();
    let pending = async |tenant: &str| world.log_of(tenant, Status::Pending).await.len();
    assert_eq!((mails().await, pending(&tenants[0].id).await, pending(&tenants[1].id).await), (1, 0, 1));
    assert!(!tests::log::of_this_test().metric("UnreadableEndpoint").is_empty());
    // Once the endpoint is repaired, its notice and its recovery go on.
    world.set("webhook-endpoints", broken, json!({"kind": null})).await;
    sweep().await;
    assert_eq!((mails().await, pending(&tenants[0].id).await), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_index_item_hides_no_delivery() {
    for prefix in ["total/", "#"] {
        let world = World::start().await;
        let tenant = world.tenant("acme").await;
        let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
        let book = Book::of(&world);
        for job in ["1", "2"] {
            book.write(&tenant, [Draft::to(&endpoint, book.ago(HOUR), job)]).await;
        }
        let shards = super::lookup::shards(&world, &tenant).await;
        book.index(&super::id(&tenant), &shards, book.now).await.expect("it is written");
        let is_it = |item: &Item| {
            let text = |name: &str| item[name].as_s().expect("a key").as_str();
            text("destination").starts_with("index/") && text("delivery").starts_with(prefix)
        };
        assert_eq!(world.set_where("deliveries", is_it, &json!({"until": null})).await, 1, "{prefix}");
        let found = read(&world, &tenant, "list", json!({"job_id": "1"})).await;
        assert_eq!(of_job(&found.ok()["deliveries"]), ["1"]);
        let stats = read(&world, &tenant, "stats", json!({"since": book.ago(DAY)})).await;
        assert_eq!((&stats.ok()["total"]["delivered"], &stats.ok()["complete"]), (&json!(2), &json!(true)));
        let logged = tests::log::collected();
        let is_logged = |line: &str| line.contains("log.index_unreadable") && line.contains(&tenant.id);
        assert!(logged.lines().any(is_logged), "{prefix}");
    }
}
