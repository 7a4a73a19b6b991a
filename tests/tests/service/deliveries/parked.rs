//! Deliveries whose first attempt was parked. They are in the log at once, and every call accepts them.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use common::{
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, Status},
};
use serde_json::{Value, json};
use tests::{Manner, Moody, Receiver, Rough, Tenant, World, event};

use super::{
    DAY,
    isolation::{poll, send, silent, untried, waiting, world_with},
    read,
};

/// The number of a tenant's deliveries with this status, according to the API.
async fn counted(world: &World, tenant: &Tenant, status: Status) -> Value {
    let since = Timestamp::now().before(DAY);
    read(world, tenant, "stats", json!({"since": since})).await.ok()["total"][status.to_string()].clone()
}

/// A body that is small enough to be stored with the delivery's state, or one that needs a separate row.
fn small_or_large(tenant: &str, job: usize) -> Value {
    let mut event = event(tenant, job);
    event["result"] = json!("a word or two, ".repeat(if job.is_multiple_of(2) { 1 } else { 140 }));
    event
}

/// Fifty events of both sizes for an endpoint with a silent receiver.
async fn fifty_wait(settings: &[(&str, &str)]) -> (World, Tenant, String, Rough) {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, id) = silent(settings, receiver.url()).await;
    for job in 0..50 {
        world.enqueue("job-events", small_or_large(&tenant.id, job)).await;
    }
    poll(&world, "job-events", 50).await;
    assert_eq!((untried(&world, &tenant.id).await.len(), waiting(&world).await), (50, [0, 0, 0, 1]));
    assert_eq!(counted(&world, &tenant, Status::Pending).await, 50);
    (world, tenant, id, receiver)
}

/// A delivery's payload, according to the API.
async fn payload(world: &World, tenant: &Tenant, delivery: &Delivery) -> String {
    let got = read(world, tenant, "get", json!({"delivery_id": delivery.id})).await;
    got.ok()["payload"].as_str().expect("a payload").to_owned()
}

/// A delivery of each size.
async fn one_of_each_size(world: &World, tenant: &Tenant) -> [(Delivery, String); 2] {
    let mut found = [None, None];
    for delivery in world.log(&tenant.id).await {
        let job: usize = delivery.job_id.parse().expect("a number");
        if found[job % 2].is_none() {
            let payload = payload(world, tenant, &delivery).await;
            assert_eq!(payload.len() > 2000, job % 2 == 1, "{payload}");
            found[job % 2] = Some((delivery, payload));
        }
    }
    found.map(|found| found.expect("both sizes"))
}

#[tokio::test(flavor = "multi_thread")]
async fn events_for_a_silent_receiver_are_listed_at_once() {
    let receiver = Rough::start(Manner::Hangs).await;
    let (world, tenant, id) = silent(&[], receiver.url()).await;
    send(&world, &tenant, 0..200).await;
    assert_eq!((receiver.arrivals().await.len(), world.left().await), (0, 1));
    let (mut listed, mut fields) = (0, json!({"status": "pending", "webhook_endpoint_id": id, "limit": 100}));
    loop {
        let page = read(&world, &tenant, "list", fields.clone()).await.ok().clone();
        for delivery in page["deliveries"].as_array().expect("a list") {
            assert_eq!((&delivery["status"], &delivery["attempts"]), (&json!("pending"), &json!(0)), "{delivery}");
            assert!(delivery["next_attempt_at"].is_string() && delivery.get("last_attempt").is_none(), "{delivery}");
            listed += 1;
        }
        let Some(cursor) = page.get("next_cursor") else { break };
        fields["cursor"] = cursor.clone();
    }
    assert_eq!((listed, counted(&world, &tenant, Status::Pending).await), (200, json!(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_deliveries_are_held_or_ended_with_their_endpoint() {
    // Deliveries from before the endpoint became inactive are held, even if new events are not collected.
    for (route, mut fields, status, hold_for) in [
        ("delete", json!({}), Status::Ended, "604800"),
        ("update", json!({"active": false}), Status::Held, "604800"),
        ("update", json!({"active": false}), Status::Held, "0"),
    ] {
        let (world, tenant, id, hanging) = fifty_wait(&[("HOLD_FOR", hold_for)]).await;
        fields["id"] = json!(id);
        world.rpc(&tenant.key, &format!("webhooks/{route}"), fields).await.ok();
        world.handle_all().await;
        assert_eq!((world.log_of(&tenant.id, status).await.len(), world.left().await), (50, 0), "{status}");
        let counts = (counted(&world, &tenant, status).await, counted(&world, &tenant, Status::Pending).await);
        assert_eq!((counts, hanging.arrivals().await.len()), ((json!(50), json!(0)), 0));
        let kept = one_of_each_size(&world, &tenant).await;
        if status == Status::Ended {
            continue;
        }
        // A resend to a new URL does not change the payload.
        let receiver = Receiver::start().await;
        let fields = json!({"id": id, "active": true, "url": receiver.url("/")});
        world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
        for (held, payload) in kept {
            world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": held.id})).await.ok();
            poll(&world, "deliveries", 1).await;
            world.drain_late().await;
            assert_eq!(receiver.received().await.last().expect("it arrived").body, payload);
        }
        assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_at_a_new_url_gets_the_parked_deliveries() {
    let (world, tenant, id, hanging) = fifty_wait(&[]).await;
    let receiver = Receiver::start().await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "url": receiver.url("/")})).await.ok();
    world.handle_all().await;
    assert_eq!((receiver.count().await, world.left().await), (50, 0));
    assert_eq!(hanging.arrivals().await.len(), 0);
    let counts = (counted(&world, &tenant, Status::Delivered).await, counted(&world, &tenant, Status::Pending).await);
    assert_eq!(counts, (json!(50), json!(0)));
    let delivered = world.log_of(&tenant.id, Status::Delivered).await;
    assert!(delivered.iter().all(|delivery| delivery.attempts == 1), "{delivered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_delivery_keeps_its_payload_when_it_is_resent() {
    let (world, tenant, id, hanging) = fifty_wait(&[]).await;
    let waits = one_of_each_size(&world, &tenant).await;
    for (delivery, payload) in &waits {
        let before = Timestamp::now().as_millisecond();
        world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery.id})).await.ok();
        let logged = world.log(&tenant.id).await.into_iter().find(|found| found.id == delivery.id);
        let resent = logged.expect("it is in the log");
        let due = resent.next_attempt_at.expect("it is due").as_millisecond();
        assert!((before..=Timestamp::now().as_millisecond()).contains(&due), "{due}");
        assert_eq!((resent.status, resent.attempts), (Status::Pending, 0));
        assert_eq!(self::payload(&world, &tenant, delivery).await, *payload);
    }
    assert_eq!(waiting(&world).await, [0, 2, 0, 1]);
    poll(&world, "deliveries", 2).await;
    assert_eq!((waiting(&world).await, hanging.arrivals().await.len()), ([0, 0, 1, 1], 0));
    let receiver = Receiver::start().await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "url": receiver.url("/")})).await.ok();
    world.handle_all().await;
    assert_eq!(
        (receiver.count().await, world.left().await),
        (50, 0),
        "each one arrives once, although two were parked twice"
    );
    let received = receiver.received().await;
    for (delivery, payload) in &waits {
        let its = received.iter().find(|one| one.header("webhook-id") == delivery.webhook_id.to_string());
        assert_eq!(its.expect("it arrived").body, *payload);
        assert_eq!(self::payload(&world, &tenant, delivery).await, *payload, "the delivery can be sent again");
    }
}

/// A payload is written once, and is deleted once it has been delivered if it is too large to be kept.
#[tokio::test(flavor = "multi_thread")]
async fn the_payload_of_a_parked_delivery_is_stored_once() {
    for (kept, answer, payloads) in [("0", 500, 1), ("0", 200, 0), ("350000", 200, 1)] {
        for (words, is_with_state) in [(1, kept != "0"), (1000, false)] {
            let receiver = Moody::start(move |_| (Duration::ZERO, answer)).await;
            let (world, tenant, id) = world_with(&[("KEPT_PAYLOAD_BYTES", kept)], receiver.url()).await;
            world.make_late(&tenant, &id).await;
            let mut event = event(&tenant.id, "j");
            event["result"] = json!("a word or two, ".repeat(words));
            world.enqueue("job-events", event).await;
            poll(&world, "job-events", 1).await;
            let stored = async || {
                let mut items = world.items("deliveries").await;
                items.retain(|item| item.keys().any(|name| name.starts_with("payload")));
                (items.len(), items.iter().filter(|item| item.contains_key("status")).count())
            };
            let apart = usize::from(is_with_state);
            assert_eq!((stored().await, waiting(&world).await), ((1, apart), [0, 0, 1, 0]), "{kept} {words}");
            world.drain_late().await;
            let delivery = world.only_logged(&tenant.id).await;
            assert_eq!((receiver.requests(), stored().await.0), (1, payloads), "{delivery:?}");
            // A process may have died before its message was deleted.
            let message = json!({"tenant_id": tenant.id, "delivery_id": delivery.id, "attempt": 1});
            world.enqueue("deliveries", message).await;
            poll(&world, "deliveries", 1).await;
            assert_eq!((receiver.requests(), stored().await.0), (1, payloads), "the attempt is not repeated");
        }
    }
}

/// A drain makes the attempt, so the delivery has no due row, and the sweep ignores the row of the time before.
#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_leaves_parked_deliveries_to_their_drain() {
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let (world, tenant, id) = world_with(&[("RETRY_SCHEDULE", "0")], &receiver.url("/")).await;
    let due = async || {
        let items = world.items("deliveries").await;
        let is_due = |key: &AttributeValue| key.as_s().is_ok_and(|key| key.starts_with("check/"));
        items.iter().filter(|item| is_due(&item["delivery"])).count()
    };
    send(&world, &tenant, 0..1).await;
    assert_eq!((receiver.count().await, due().await), (1, 1));
    world.make_late(&tenant, &id).await;
    send(&world, &tenant, 1..2).await;
    poll(&world, "deliveries", 1).await;
    assert_eq!((receiver.count().await, due().await, waiting(&world).await), (1, 1, [0, 0, 1, 0]));
    world.sweep(Timestamp::now().after(DAY / 48)).await;
    assert_eq!(waiting(&world).await, [0, 0, 1, 0]);
    world.drain_late().await;
    assert_eq!((receiver.count().await, world.log_of(&tenant.id, Status::Delivered).await.len()), (3, 2));
}
