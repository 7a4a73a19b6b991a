//! `POST /v1/deliveries/resend`.

use std::time::Duration;

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DueAttempt, Status},
        log::due_rows::{Minute, PARTITIONS},
    },
};
use futures::{TryStreamExt, future::join_all};
use serde_json::{Value, json};
use tests::{Tenant, World};

use super::{Book, DAY, Draft, STATUSES, id, ids, read};

async fn get(world: &World, tenant: &Tenant, delivery: &Delivery) -> Value {
    read(world, tenant, "get", json!({"delivery_id": delivery.id})).await.ok().clone()
}

/// The attempts that are due after `from`, according to the due rows.
async fn due(book: &Book, from: Timestamp) -> Vec<DueAttempt> {
    let mut found = Vec::new();
    for minute in Minute::of(from.before(Duration::from_mins(1))).until(Minute::of(Timestamp::now())) {
        for partition in 0..PARTITIONS {
            let rows = book.log.all_due(minute, partition).try_concat().await.expect("the rows");
            found.extend(rows.into_iter().map(|row| row.attempt));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_of_any_status_becomes_due_again() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let (at, body) = (book.ago(DAY * 20), json!({"result": "é".repeat(800)}).to_string());
    for status in STATUSES {
        for draft in [Draft::to(&endpoint, at, status), Draft::to_callback(3, at, status)] {
            let delivery = book.write_one(&tenant, draft.status(status).body(&body)).await;
            let (before, start) = (get(&world, &tenant, &delivery).await, Timestamp::now().as_millisecond());
            let answer = world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery.id})).await;
            assert_eq!(answer.ok(), &json!({"success": true, "message": "Delivery will be resent"}));

            // The delivery is pending and due now, with the same webhook-id, payload and attempts.
            let after = get(&world, &tenant, &delivery).await;
            let known = book.log.known(&id(&tenant), &[delivery.id]).await.expect("the state");
            let next = known[&delivery.id].next_attempt_at.expect("it is due");
            assert!((start..=Timestamp::now().as_millisecond()).contains(&next.as_millisecond()), "{next}");
            let mut expected = before.clone();
            expected["delivery"]["status"] = json!("pending");
            expected["delivery"]["next_attempt_at"] = json!(next);
            assert_eq!(after, expected);
            // The full schedule starts over and lasts another three days.
            assert_eq!(known[&delivery.id].tries, 0);
            assert!(known[&delivery.id].fails_at.as_millisecond() >= start + 3 * 24 * 60 * 60 * 1000);

            let message = json!({"tenant_id": tenant.id, "delivery_id": delivery.id, "attempt": 2});
            assert_eq!(world.drain("deliveries").await, [message]);
            let wanted = DueAttempt { tenant: id(&tenant), id: delivery.id, attempt: 2 };
            assert!(due(&book, next).await.contains(&wanted), "the sweep also finds the attempt");
            for listed in STATUSES {
                let page = read(&world, &tenant, "list", json!({"status": listed})).await;
                assert_eq!(ids(page.ok()).contains(&delivery.id.to_string()), listed == Status::Pending, "{listed}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_resends_cause_one_series_of_attempts() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    for status in STATUSES {
        let delivery = book.write_one(&tenant, Draft::to_callback(0, book.now, status).status(status)).await;
        let fields = json!({"delivery_id": delivery.id});
        let resends = (0..8).map(|_| world.rpc(&tenant.key, "deliveries/resend", fields.clone()));
        for answer in join_all(resends).await {
            answer.ok();
        }
        world.rpc(&tenant.key, "deliveries/resend", fields).await.ok();
        // All messages carry the number of the same attempt, so once one of them is handled, the others are stale.
        let messages = world.drain("deliveries").await;
        let same = json!({"tenant_id": tenant.id, "delivery_id": delivery.id, "attempt": 2});
        assert_eq!(messages, vec![same; 9]);
        let after = get(&world, &tenant, &delivery).await;
        assert_eq!((&after["delivery"]["status"], &after["delivery"]["attempts"]), (&json!("pending"), &json!(1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_without_a_payload_cannot_be_resent() {
    let world = World::with(&[("KEPT_PAYLOAD_BYTES", "0")]).await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let delivery = book.write_one(&tenant, Draft::to_callback(0, book.now, "j")).await;
    let before = get(&world, &tenant, &delivery).await;
    let answer = world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery.id})).await;
    assert_eq!(answer.error(), (409, "CONFLICT", "payload_not_kept"));
    assert_eq!(get(&world, &tenant, &delivery).await, before);
    assert!(world.drain("deliveries").await.is_empty());
}

/// The state after a crash between the two writes for a late success, which store the state and delete the payload.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_left_by_a_crash_cannot_be_resent() {
    let world = World::with(&[("KEPT_PAYLOAD_BYTES", "0")]).await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let delivery = book.write_one(&tenant, Draft::to_callback(0, book.now, "j").status(Status::Failed)).await;
    assert!(get(&world, &tenant, &delivery).await.get("payload").is_some());
    world.set("deliveries", ("status", "failed"), json!({"status": "delivered"})).await;
    assert_eq!(get(&world, &tenant, &delivery).await.get("payload"), None);
    let answer = world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery.id})).await;
    assert_eq!(answer.error(), (409, "CONFLICT", "payload_not_kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_takes_effect_even_if_its_message_cannot_be_sent() {
    let world = World::with(&[("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1")]).await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let delivery = book.write_one(&tenant, Draft::to_callback(0, book.now, "j").status(Status::Failed)).await;
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery.id})).await.ok();
    assert_eq!(get(&world, &tenant, &delivery).await["delivery"]["status"], "pending");
    assert_eq!(due(&book, book.now).await, [DueAttempt { tenant: id(&tenant), id: delivery.id, attempt: 2 }]);
}
