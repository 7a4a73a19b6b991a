//! Held deliveries for inactive endpoints.

use common::{
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, Status},
};
use serde_json::{Value, json};
use tests::{Receiver, Switch, Tenant, World, event, records, world::log::due_message};

use super::{Book, DAY, HOUR, ids, read, recover::run};

async fn set_active(world: &World, tenant: &Tenant, endpoint: &str, active: bool) {
    world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": active})).await.ok();
}

/// A world with a tenant, a receiver, and an inactive endpoint for the receiver.
async fn inactive(settings: &[(&str, &str)]) -> (World, Tenant, Receiver, String) {
    let world = World::with(settings).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    set_active(&world, &tenant, &endpoint, false).await;
    (world, tenant, receiver, endpoint)
}

/// Starts a recovery of all deliveries and runs it at once.
async fn recover(world: &World, tenant: &Tenant, endpoint: &str, status: &str) -> Vec<Delivery> {
    let book = Book::of(world);
    let fields = json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY), "status": status});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    let resent = run(&book).await;
    for delivery in &resent {
        world.enqueue("deliveries", due_message(&tenant.id, delivery)).await;
    }
    world.poll_all("deliveries").await;
    world.drain_late().await;
    resent
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_for_an_inactive_endpoint_is_held_with_its_payload() {
    let (world, tenant, receiver, endpoint) = inactive(&[]).await;
    world.endpoint(&tenant, &receiver.url("/active"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    let sent: Vec<_> = receiver.received().await.into_iter().map(|one| one.path).collect();
    assert_eq!((sent, world.left().await), (vec!["/active".to_owned()], 0));

    let page = read(&world, &tenant, "list", json!({"status": "held"})).await;
    let [id] = &ids(page.ok())[..] else { unreachable!("{:?}", page.body) };
    let held = read(&world, &tenant, "get", json!({"delivery_id": id})).await.ok().clone();
    let delivery = &held["delivery"];
    assert_eq!((&delivery["status"], &delivery["attempts"]), (&json!("held"), &json!(0)));
    assert_eq!((&delivery["webhook_endpoint_id"], &delivery["job_id"]), (&json!(endpoint), &json!("j")));
    assert_eq!((delivery.get("next_attempt_at"), delivery.get("last_attempt")), (None, None));
    assert_eq!(held["attempts"], json!([]));
    let payload: Value = serde_json::from_str(held["payload"].as_str().expect("a payload")).expect("JSON");
    assert_eq!(payload["job_id"], "j");
    let stats = read(&world, &tenant, "stats", json!({"since": Book::of(&world).ago(DAY)})).await;
    assert_eq!(stats.ok()["total"], json!({"pending": 0, "delivered": 1, "failed": 0, "held": 1, "ended": 0}));
    assert_eq!(stats.ok()["hours"][0]["held"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inactive_endpoint_collects_the_events_of_its_filter() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let gone = Receiver::scripted(&[(410, &[])]).await;
    world.endpoint(&tenant, &gone.url("/"), "s").await;
    world.deliver(event(&tenant.id, "gone")).await;
    for events in [json!(null), json!(["job.failed"])] {
        let fields =
            json!({"url": gone.url("/"), "signing_secret": "correct-horse-battery", "active": false, "events": events});
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    world.deliver(event(&tenant.id, "completed")).await;
    let mut failed = event(&tenant.id, "failed");
    failed["event"] = json!("job.failed");
    world.deliver(failed).await;
    let held = world.log_of(&tenant.id, Status::Held).await;
    let mut jobs: Vec<_> = held.iter().map(|delivery| delivery.job_id.as_str()).collect();
    jobs.sort_unstable();
    assert_eq!(jobs, ["completed", "completed", "failed", "failed", "failed"]);
    assert_eq!(gone.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_deliveries_stay_held_and_new_events_are_sent() {
    let (world, tenant, receiver, endpoint) = inactive(&[]).await;
    world.deliver(event(&tenant.id, "held")).await;
    set_active(&world, &tenant, &endpoint, true).await;
    world.deliver(event(&tenant.id, "new")).await;
    for minutes in [0, 20] {
        world.sweep(Timestamp::now().after(HOUR * minutes / 60)).await;
        world.handle_all().await;
    }
    let jobs: Vec<_> = receiver.received().await.iter().map(|one| one.json()["job_id"].clone()).collect();
    assert_eq!(jobs, ["new"]);
    assert_eq!(world.log_of(&tenant.id, Status::Held).await.len(), 1);
}

/// The first attempt shows that the receiver still wants no deliveries, so the others are held again.
#[tokio::test(flavor = "multi_thread")]
async fn a_410_costs_a_recovery_a_single_delivery() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(410, &[] as &[_]); 30]).await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    set_active(&world, &tenant, &endpoint, false).await;
    for job in 0..30 {
        world.deliver(event(&tenant.id, job)).await;
    }
    set_active(&world, &tenant, &endpoint, true).await;
    assert_eq!(recover(&world, &tenant, &endpoint, "held").await.len(), 30);
    assert_eq!((receiver.count().await, world.log_of(&tenant.id, Status::Failed).await.len()), (1, 1));
    assert_eq!((world.log_of(&tenant.id, Status::Held).await.len(), world.left().await), (29, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_delivery_is_held_and_keeps_its_attempts() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    let pending = world.only_logged(&tenant.id).await;
    set_active(&world, &tenant, &endpoint, false).await;
    world.poll("deliveries").await;
    let held = world.only_logged(&tenant.id).await;
    assert_eq!((held.status, held.attempts, held.next_attempt_at), (Status::Held, 1, None));
    assert_eq!(held.last_attempt, pending.last_attempt);
    assert_eq!((receiver.count().await, world.left().await), (1, 0));

    // If a delivery is resent while the endpoint is inactive, it is held again.
    for (active, status) in [(false, Status::Held), (true, Status::Delivered)] {
        set_active(&world, &tenant, &endpoint, active).await;
        world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": held.id})).await.ok();
        assert_eq!(world.poll("deliveries").await, 1);
        world.drain_late().await;
        assert_eq!(world.only_logged(&tenant.id).await.status, status);
    }
    let got = read(&world, &tenant, "get", json!({"delivery_id": held.id})).await;
    let triggers: Vec<_> =
        got.ok()["attempts"].as_array().expect("attempts").iter().map(|one| one["trigger"].clone()).collect();
    assert_eq!(triggers, ["event", "resend"]);
    assert_eq!(receiver.received().await[1].body, got.ok()["payload"].as_str().expect("a string"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_resends_failed_or_held_deliveries_or_both() {
    for (status, expected) in [("failed", vec!["failed"]), ("held", vec!["held"]), ("both", vec!["failed", "held"])] {
        let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
        let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
        let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
        world.deliver(event(&tenant.id, "failed")).await;
        set_active(&world, &tenant, &endpoint, false).await;
        world.deliver(event(&tenant.id, "held")).await;
        set_active(&world, &tenant, &endpoint, true).await;
        let mut resent: Vec<_> =
            recover(&world, &tenant, &endpoint, status).await.into_iter().map(|delivery| delivery.job_id).collect();
        resent.sort();
        assert_eq!(resent, expected);
        let left = 2 - resent.len();
        let delivered = world.log_of(&tenant.id, Status::Delivered).await.len();
        assert_eq!((delivered, receiver.count().await), (2 - left, 3 - left), "{status}");
        let stats = read(&world, &tenant, "stats", json!({"since": Book::of(&world).ago(DAY)})).await;
        let recovery = &stats.ok()["recoveries"][0];
        assert_eq!((&recovery["status"], &recovery["done"]), (&json!(status), &json!(true)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_joins_only_recoveries_of_the_same_status() {
    let (world, tenant, _receiver, endpoint) = inactive(&[]).await;
    let call = async |status: &str| {
        let fields = json!({"webhook_endpoint_id": endpoint, "since": "2026-01-01T00:00:00Z", "status": status});
        world.rpc(&tenant.key, "deliveries/recover", fields).await.ok()["recovery_id"].clone()
    };
    let (failed, held) = (call("failed").await, call("held").await);
    assert_ne!(failed, held, "the recovery did not include the held delivery from the first period");
    assert_eq!((call("failed").await, call("held").await), (failed, held));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inactive_endpoint_collects_events_for_hold_for() {
    let (world, tenant, _receiver, endpoint) = inactive(&[("HOLD_FOR", "3600")]).await;
    let inactive_for = async |milliseconds: i64| {
        let since = json!({"inactive_since": Timestamp::now().as_millisecond() - milliseconds});
        world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), since).await;
    };
    let hour = 60 * 60 * 1000;
    inactive_for(hour - 60_000).await;
    world.deliver(event(&tenant.id, "within")).await;
    inactive_for(hour).await;
    // Disabling it again changes nothing.
    set_active(&world, &tenant, &endpoint, false).await;
    world.deliver(event(&tenant.id, "after")).await;
    assert_eq!(world.only_logged(&tenant.id).await.job_id, "within");
    // After it is enabled and disabled again, the period starts over.
    set_active(&world, &tenant, &endpoint, true).await;
    set_active(&world, &tenant, &endpoint, false).await;
    world.deliver(event(&tenant.id, "anew")).await;
    assert_eq!(world.log_of(&tenant.id, Status::Held).await.len(), 2);
    // If an endpoint has no stored time, it counts as inactive since its last change.
    world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), json!({"inactive_since": null})).await;
    world.deliver(event(&tenant.id, "changed")).await;
    let long_ago = json!({"updated_at": "2026-01-31T12:00:00.000Z"});
    world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), long_ago).await;
    world.deliver(event(&tenant.id, "unchanged")).await;
    let held = world.log_of(&tenant.id, Status::Held).await;
    assert_eq!((held.len(), held[0].job_id.as_str()), (3, "changed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_collection_pending_is_held_and_new_is_not_recorded() {
    let world = World::with(&[("HOLD_FOR", "0"), ("RETRY_SCHEDULE", "0")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "pending")).await;
    set_active(&world, &tenant, &endpoint, false).await;
    world.deliver(event(&tenant.id, "new")).await;
    world.poll("deliveries").await;
    let logged = world.only_logged(&tenant.id).await;
    assert_eq!((logged.status, logged.job_id.as_str(), world.left().await), (Status::Held, "pending", 0));
}

/// A tenant may recover missed deliveries before enabling the endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn a_resend_is_held_regardless_of_how_long_it_was_inactive() {
    let (world, tenant, receiver, endpoint) = inactive(&[("HOLD_FOR", "3600")]).await;
    world.deliver(event(&tenant.id, "missed")).await;
    let since = json!({"inactive_since": Timestamp::now().as_millisecond() - 2 * 60 * 60 * 1000});
    world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), since).await;
    let recover = async || {
        let fields = json!({"webhook_endpoint_id": endpoint, "since": "2026-01-01T00:00:00Z"});
        world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
        world.sweep(Timestamp::now()).await;
        loop {
            world.poll_due().await;
            let status = world.only_logged(&tenant.id).await.status;
            if status != Status::Pending {
                return status;
            }
        }
    };
    assert_eq!((recover().await, receiver.count().await), (Status::Held, 0));
    set_active(&world, &tenant, &endpoint, true).await;
    assert_eq!((recover().await, receiver.count().await), (Status::Delivered, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_not_held_twice_or_after_its_delivery() {
    let (world, tenant, receiver, endpoint) = inactive(&[]).await;
    // The same events in one batch and in two, first new and then redelivered.
    let sent = Timestamp::now().as_millisecond().to_string();
    let batch = |job: &str, receives: &str| {
        let mut batch = records([event(&tenant.id, job), event(&tenant.id, job)]);
        for record in batch["Records"].as_array_mut().expect("records") {
            record["attributes"] = json!({"SentTimestamp": sent, "ApproximateReceiveCount": receives});
        }
        batch
    };
    let (held, delivered) = (batch("held", "1"), batch("delivered", "1"));
    let again = |batch: &Value| {
        let mut again = batch.clone();
        for record in again["Records"].as_array_mut().expect("records") {
            record["attributes"]["ApproximateReceiveCount"] = json!("2");
        }
        again
    };
    let handle = async |batch: &Value, left: usize| {
        let answer = world.stack.invoke("webhooks-deliver", batch.clone()).await.expect("an answer");
        assert_eq!(answer["batchItemFailures"].as_array().map(Vec::len), Some(left));
    };
    // The log rejects a copy that appears to be new. One of the two copies is redelivered, and this time the log is
    // read first.
    for (batch, left) in [(&held, 0), (&held, 1), (&again(&held), 0)] {
        handle(batch, left).await;
        assert_eq!(world.only_logged(&tenant.id).await.status, Status::Held);
        // The state of a copy that is handled within the same second is the same, and is not rejected.
        let another = json!({"expires_at": Timestamp::now().as_second() + 3600});
        world.set("deliveries", ("job_id", "held"), another).await;
    }
    set_active(&world, &tenant, &endpoint, true).await;
    handle(&again(&held), 0).await;
    assert_eq!(receiver.count().await, 0, "the delivery is listed, but not sent automatically");
    handle(&delivered, 0).await;
    world.drain_late().await;
    set_active(&world, &tenant, &endpoint, false).await;
    for (batch, left) in [(&delivered, 1), (&again(&delivered), 0)] {
        handle(batch, left).await;
        let statuses = world.log(&tenant.id).await.into_iter().map(|one| (one.job_id, one.status));
        let mut statuses: Vec<_> = statuses.collect();
        statuses.sort();
        assert_eq!(statuses, [("delivered".to_owned(), Status::Delivered), ("held".to_owned(), Status::Held)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_of_any_size_is_held_and_returned_unchanged() {
    let (world, tenant, receiver, endpoint) = inactive(&[("KEPT_PAYLOAD_BYTES", "0")]).await;
    for length in [0, 1_000, 20_000, 100_000] {
        let mut event = event(&tenant.id, length);
        let mut random = fastrand::Rng::with_seed(length);
        event["result"] =
            json!(std::iter::repeat_with(|| random.alphanumeric()).take(length as usize).collect::<String>());
        world.deliver(event).await;
    }
    let mut payloads = Vec::new();
    for delivery in world.log_of(&tenant.id, Status::Held).await {
        let got = read(&world, &tenant, "get", json!({"delivery_id": delivery.id})).await;
        payloads.push(got.ok()["payload"].as_str().expect("a payload").to_owned());
    }
    set_active(&world, &tenant, &endpoint, true).await;
    assert_eq!(recover(&world, &tenant, &endpoint, "held").await.len(), 4);
    let mut bodies: Vec<_> =
        receiver.received().await.iter().map(|one| String::from_utf8(one.body.to_vec()).expect("UTF-8")).collect();
    payloads.sort();
    bodies.sort();
    assert_eq!(payloads, bodies);
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 4);
}

/// The write uses one unit for the first kilobyte, and one for the index entry.
#[tokio::test(flavor = "multi_thread")]
async fn holding_an_event_takes_one_write_per_endpoint() {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let cost = async |job: &str| {
        let _before = world.units();
        world.deliver(event(&tenant.id, job)).await;
        world.units()
    };
    let fields = json!({"url": "https://example.com/", "signing_secret": "correct-horse-battery", "active": false});
    let without = cost("without").await;
    for endpoints in [1.0, 2.0] {
        world.rpc(&tenant.key, "webhooks/create", fields.clone()).await.ok();
        let used = cost(&endpoints.to_string()).await;
        assert_eq!(used.written - without.written, endpoints * 2.0);
        assert_eq!(used.calls, without.calls + 1, "all rows in one call");
    }
}

/// No attempts are made for an inactive endpoint, so only throttled writes can delay its events.
#[tokio::test(flavor = "multi_thread")]
async fn held_deliveries_spread_when_their_partition_is_throttled() {
    let throttled = Switch::default();
    let is_throttled = throttled.clone();
    let world = World::answering(&[], move |call| {
        let is_one = call.operation == "PutItem" && call["TableName"] == "deliveries" && is_throttled.is_on();
        is_one.then(|| (400, json!({"__type": "ProvisionedThroughputExceededException", "message": "slow down"})))
    })
    .await;
    let tenant = world.tenant("acme").await;
    let fields = json!({"url": "https://example.com/", "signing_secret": "correct-horse-battery", "active": false});
    world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    let mut batch = records([event(&tenant.id, "j")]);
    let sent = Timestamp::now().as_millisecond().to_string();
    for (receives, left) in [(1, 1), (2, 0), (3, 0)] {
        if left > 0 {
            throttled.on();
        } else {
            throttled.off();
        }
        batch["Records"][0]["attributes"] =
            json!({"SentTimestamp": sent, "ApproximateReceiveCount": receives.to_string()});
        let answer = world.stack.invoke("webhooks-deliver", batch.clone()).await.expect("an answer");
        assert_eq!(answer["batchItemFailures"].as_array().map(Vec::len), Some(left), "{receives}");
        let items = world.items("webhook-endpoints").await;
        assert!(
            items.iter().any(|item| item.get("log_shards").is_some_and(|shards| shards.as_n() == Ok(&"8".to_owned())))
        );
    }
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Held);
}
