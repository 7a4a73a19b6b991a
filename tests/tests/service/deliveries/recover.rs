//! `POST /v1/deliveries/recover`. The tests run the recoveries themselves, page by page.

use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{
    id::{RecoveryId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Status, Trigger},
        log::recovery::{Recovery, page::PAGE_SIZE},
    },
};
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, event, text, world::tables::item};

use super::{Book, DAY, Draft, HOUR, SECOND, id, pages, read};

async fn recover(world: &World, tenant: &Tenant, fields: Value) -> Value {
    let answer = world.rpc(&tenant.key, "deliveries/recover", fields).await;
    assert_eq!(
        (&answer.ok()["success"], &answer.ok()["message"]),
        (&json!(true), &json!("Deliveries will be recovered"))
    );
    answer.ok()["recovery_id"].clone()
}

/// Runs all recoveries of an endpoint to completion, and returns the resent deliveries.
pub(super) async fn run(book: &Book) -> Vec<Delivery> {
    let mut resent = Vec::new();
    for (tenant, mut recovery) in book.log.open_recoveries(|_| true).await.expect("the recoveries") {
        while !recovery.done {
            let page;
            (page, recovery) = resend(book, &tenant, recovery.id, Timestamp::now()).await;
            resent.extend(page);
            book.log.save_recovery(&tenant, &recovery).await.expect("the write succeeds");
        }
    }
    resent
}

/// Resends a page of a recovery, without saving it. The lease begins at `now`.
async fn resend(book: &Book, tenant: &TenantId, id: RecoveryId, now: Timestamp) -> (Vec<Delivery>, Recovery) {
    let mut recovery = book.log.take_recovery(tenant, id, now).await.expect("the write succeeds").expect("it is free");
    let now = Timestamp::now();
    let page = book.log.recovery_page(tenant, &recovery, &recovery.sources(&[]), now).await.expect("a page");
    let (resent, rest) = book.log.resend_missed(tenant, &mut recovery, &page.ids, || now, now).await;
    rest.expect("all of it");
    recovery.pass(page);
    (resent, recovery)
}

/// Resends a page of the only recovery in a process that dies before it saves the progress. Its lease has expired.
async fn die(book: &Book) -> Vec<Delivery> {
    let (owner, recovery) = book.log.open_recoveries(|_| true).await.expect("the recoveries").remove(0);
    resend(book, &owner, recovery.id, Timestamp::now().before(SECOND * 40)).await.0
}

fn sorted(deliveries: &[Delivery]) -> Vec<String> {
    let mut ids: Vec<_> = deliveries.iter().map(|delivery| delivery.id.to_string()).collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_resends_failed_and_held_ones_of_its_period() {
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
        Draft::to(&endpoint, since.after(HOUR), "held").status(Status::Held),
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
        "recovery_id": id, "webhook_endpoint_id": endpoint, "since": since, "until": until, "status": "both",
        "resent": 0, "done": false,
    });
    assert_eq!(read(&world, &tenant, "stats", json!({"since": since})).await.ok()["recoveries"], json!([progress]));
    let resent = run(&book).await;
    assert_eq!(sorted(&resent), sorted(&wanted));
    for delivery in [resent, others].concat() {
        let now = read(&world, &tenant, "get", json!({"delivery_id": delivery.id})).await;
        assert_eq!(
            now.ok()["delivery"],
            json!(api::deliveries::Delivery::from(delivery)),
            "the other deliveries are unchanged"
        );
    }
    (progress["resent"], progress["done"]) = (json!(5), json!(true));
    for (endpoint, expected) in [(&endpoint, json!([progress])), (&other, json!([]))] {
        let stats = read(&world, &tenant, "stats", json!({"webhook_endpoint_id": endpoint, "since": since})).await;
        assert_eq!(stats.ok()["recoveries"], expected);
    }
    assert!(book.log.open_recoveries(|_| true).await.expect("the recoveries").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_survives_a_crash_and_resends_each_delivery_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    // There are several deliveries at each time, so some pages end between deliveries with the same time.
    let drafts = (0..PAGE_SIZE * 2).map(|job| {
        let at = book.ago(SECOND * (u32::try_from(job / 7).expect("it fits") + 1));
        Draft::to(&endpoint, at, job).status(Status::Failed)
    });
    let failed = book.write(&tenant, drafts).await;
    // Without `until`, the period ends now.
    recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)})).await;

    // The process dies before it saves its progress.
    let first = die(&book).await;
    assert_eq!(first.len(), PAGE_SIZE);
    assert_eq!(sorted(&[first, run(&book).await].concat()), sorted(&failed));
    assert!(pages(&world, &tenant, json!({"status": "failed"})).await.concat().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_page_is_completed_in_the_same_sweep() {
    // A batched write skips the due row of one delivery until the caller stops repeating it.
    let left_out = AtomicUsize::new(0);
    let world = World::answering(&[], move |call| {
        let is_it = call.operation == "BatchWriteItem" && call.body.to_string().contains("deadbeef");
        let is_throttled = is_it && left_out.fetch_add(1, Ordering::SeqCst) < 4;
        is_throttled.then(|| (200, json!({"UnprocessedItems": call["RequestItems"]})))
    })
    .await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let book = Book::of(&world);
    let drafts = (0..3).map(|job| Draft::to(&endpoint, book.ago(HOUR), job).status(Status::Failed));
    let mut deliveries: Vec<_> = drafts.map(|draft| draft.delivery(&id(&tenant))).collect();
    let webhook_id = "msg_deadbeefdeadbeefdeadbeefdeadbeef".parse().expect("an id");
    (deliveries[1].0.webhook_id, deliveries[1].0.id.webhook_id) = (webhook_id, webhook_id);
    let log = world.delivery_log();
    for (delivery, payload) in &deliveries {
        let rows = log.payload_rows(&id(&tenant), &delivery.id, payload, book.now);
        log.put_all(rows).await.expect("the write succeeds");
        let first = log.first_row(&id(&tenant), delivery, None, book.now);
        assert!(matches!(log.begin(vec![first]).await[..], [Ok(())]));
    }
    recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)})).await;
    world.sweep(Timestamp::now()).await;
    let delivered = async {
        while receiver.count().await < 3 {
            world.poll("deliveries").await;
        }
    };
    tokio::time::timeout(SECOND * 20, delivered).await.expect("all are resent");
    let recoveries = log.recoveries(&id(&tenant), None).await.expect("the recoveries");
    assert_eq!((recoveries[0].resent, recoveries[0].done), (3, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_tenant_does_not_block_another_recovery() {
    let throttled = Arc::new(OnceLock::<String>::new());
    let whose = Arc::clone(&throttled);
    let world = World::answering(&[], move |call| {
        let is_theirs = whose.get().is_some_and(|tenant| call.body.to_string().contains(tenant));
        (call.operation == "BatchWriteItem" && is_theirs)
            .then(|| (200, json!({"UnprocessedItems": call["RequestItems"]})))
    })
    .await;
    let (bad, good) = (world.tenant("bad").await, world.tenant("good").await);
    let book = Book::of(&world);
    for tenant in [&bad, &good] {
        let endpoint = world.endpoint(tenant, "https://example.com/", "s").await;
        let drafts = (0..PAGE_SIZE * 2).map(|job| Draft::to(&endpoint, book.ago(HOUR), job).status(Status::Failed));
        book.write(tenant, drafts).await;
        recover(&world, tenant, json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)})).await;
    }
    throttled.set(bad.id.clone()).expect("it is set once");
    let swept = world.stack.invoke("deliveries-wake", json!({})).await;
    assert!(swept.is_err(), "an operator has to investigate the error");
    let recovery =
        async |tenant: &Tenant| world.delivery_log().recoveries(&id(tenant), None).await.expect("the read succeeds");
    let (bad, good) = (recovery(&bad).await, recovery(&good).await);
    assert_eq!((bad[0].resent, bad[0].done), (0, false));
    assert_eq!((good[0].resent, good[0].done), (200, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_finishes_all_recoveries_of_a_tenant() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    for _ in 0..3 {
        let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
        let drafts = (0..=PAGE_SIZE).map(|job| Draft::to(&endpoint, book.ago(HOUR), job).status(Status::Failed));
        book.write(&tenant, drafts).await;
        recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)})).await;
    }
    world.stack.invoke("deliveries-wake", json!({})).await.expect("a sweep");
    assert!(unfinished(&book, &tenant).await.is_empty());
    let pending = world.log_of(&tenant.id, Status::Pending).await;
    assert_eq!(pending.len(), 3 * (PAGE_SIZE + 1));
}

/// A tenant's unfinished recoveries, oldest first.
async fn unfinished(book: &Book, tenant: &Tenant) -> Vec<Recovery> {
    let mut recoveries = book.log.recoveries(&id(tenant), None).await.expect("the recoveries");
    recoveries.retain(|recovery| !recovery.done);
    recoveries.reverse();
    recoveries
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_calls_start_one_recovery() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    // Each call has its own connection, so no call has a head start.
    join_all((0..50).map(|_| read(&world, &tenant, "recover", json!({})))).await;
    let mut begun = Vec::new();
    for _ in 0..2 {
        // Each recovery covers the deliveries created before it.
        let fields = json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY)});
        let ids = join_all((0..50).map(|_| recover(&world, &tenant, fields.clone()))).await;
        let last = Timestamp::now();
        assert!(ids.iter().all(|id| *id == ids[0] && !begun.contains(id)), "{ids:?}");
        assert_eq!(recover(&world, &tenant, fields.clone()).await, ids[0]);
        let [recovery] = &unfinished(&book, &tenant).await[..] else { unreachable!("one") };
        let Range { start, end } = recovery.selection.time;
        assert!(start == book.ago(DAY) && end >= last, "{recovery:?}");
        run(&book).await;
        begun.push(ids[0].clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_joins_only_an_overlapping_recovery_of_its_endpoint() {
    let world = World::start().await;
    let (tenant, stranger) = (world.tenant("acme").await, world.tenant("other").await);
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let (second, foreign) = (
        world.endpoint(&tenant, "https://example.com/2", "s").await,
        world.endpoint(&stranger, "https://a.b/", "s").await,
    );
    let book = Book::of(&world);
    let call = async |by: &Tenant, to: &str, hours: [u32; 2]| {
        let [since, until] = hours.map(|hours| book.ago(HOUR * hours));
        recover(&world, by, json!({"webhook_endpoint_id": to, "since": since, "until": until})).await
    };
    let first = call(&tenant, &endpoint, [6, 4]).await;
    for others in [
        call(&tenant, &second, [6, 4]).await,
        call(&stranger, &foreign, [6, 4]).await,
        // The hour between the two periods was not requested.
        call(&tenant, &endpoint, [3, 2]).await,
    ] {
        assert_ne!(others, first);
    }
    for joining in [[6, 4], [5, 5], [7, 5], [5, 4]] {
        assert_eq!(call(&tenant, &endpoint, joining).await, first, "{joining:?}");
    }
    let range = |recovery: &Recovery| (recovery.selection.time.start, recovery.selection.time.end);
    let mut ranges: Vec<_> = unfinished(&book, &tenant).await.iter().map(range).collect();
    ranges.sort();
    assert_eq!(ranges, [[7, 4], [6, 4], [3, 2]].map(|hours| hours.map(|hours| book.ago(HOUR * hours)).into()));
}

/// Otherwise, failures after the last page of the recovery would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_has_begun_is_not_joined() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let failed = |hours: u32| Draft::to(&endpoint, book.ago(HOUR * hours), hours).status(Status::Failed);
    let since = |hours: u32| json!({"webhook_endpoint_id": endpoint, "since": book.ago(HOUR * hours)});
    let early = book.write(&tenant, [failed(9), failed(4)]).await;
    let first = recover(&world, &tenant, since(5)).await;

    // A call that arrives while a sweep runs the recovery is not lost, either.
    let (owner, recovery) = book.log.open_recoveries(|_| true).await.expect("the recoveries").remove(0);
    assert_eq!(recover(&world, &tenant, since(10)).await, first);
    let (resent, recovery) = resend(&book, &owner, recovery.id, Timestamp::now()).await;
    assert_eq!(sorted(&resent), sorted(&early));

    // The page is not saved yet, and the recovery has already passed these deliveries.
    let late = book.write(&tenant, [failed(8), failed(3)]).await;
    let second = recover(&world, &tenant, since(10)).await;
    assert_ne!(second, first);
    assert_eq!(recover(&world, &tenant, since(10)).await, second);
    book.log.save_recovery(&owner, &recovery).await.expect("the write succeeds");
    assert_eq!(recover(&world, &tenant, since(10)).await, second);
    let resent = [run(&book).await, run(&book).await].concat();
    assert_eq!(sorted(&resent), sorted(&late));
    assert!(unfinished(&book, &tenant).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_a_hundred_unfinished_recoveries_at_most() {
    let world = World::start().await;
    let (tenant, stranger) = (world.tenant("acme").await, world.tenant("other").await);
    let book = Book::of(&world);
    let fields = |endpoint: &str, hours: u32| {
        let [since, until] = [hours * 2 + 1, hours * 2].map(|hours| book.ago(HOUR * hours));
        json!({"webhook_endpoint_id": endpoint, "since": since, "until": until})
    };
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    for hours in 0..100 {
        recover(&world, &tenant, fields(&endpoint, hours)).await;
    }
    assert_eq!(
        read(&world, &tenant, "recover", fields(&endpoint, 100)).await.error(),
        (409, "CONFLICT", "recovery_limit")
    );
    recover(&world, &tenant, fields(&endpoint, 50)).await;
    let foreign = world.endpoint(&stranger, "https://example.com/1", "s").await;
    recover(&world, &stranger, fields(&foreign, 100)).await;
    run(&book).await;
    recover(&world, &tenant, fields(&endpoint, 100)).await;
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

/// An operator without the tenant's key stores the item from docs/operating.md.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_store_a_recovery() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    let now = Timestamp::now().as_second();
    let recovery = uuid::Uuid::new_v4().to_string();
    let stored = json!({
        "destination": format!("recovery/{}", tenant.id), "delivery": recovery, "open": "recovery", "endpoint": endpoint,
        "since": (now - 60) * 1000, "until": (now + 60) * 1000, "expires_at": now + 2_592_000,
    });
    world.put("deliveries", item(&stored)).await;
    let mut minute = tests::sample_event("deliveries-wake");
    minute["time"] = json!(Timestamp::now());
    world.stack.invoke("deliveries-wake", minute).await.expect("it sweeps");
    // Lists do not include the trigger of the next attempt.
    let (id, owner) = (world.only_logged(&tenant.id).await.id, tenant.id.parse().expect("an id"));
    let pending =
        world.delivery_log().known(&owner, &[id]).await.expect("the read succeeds").remove(&id).expect("a delivery");
    assert_eq!((pending.status, pending.trigger), (Status::Pending, Trigger::Recovery));
    let due = pending.next_attempt_at.expect("a time").as_second();
    assert!((now..=now + 62).contains(&due), "the attempt is due within the next minute");
    let recoveries =
        world.delivery_log().recoveries(&tenant.id.parse().expect("an id"), None).await.expect("the read succeeds");
    assert_eq!((recoveries[0].id.to_string(), recoveries[0].resent, recoveries[0].done), (recovery, 1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_of_pending_deliveries_sends_them_now() {
    let world = World::with(&[("RETRY_SCHEDULE", "7200,7200,7200")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[]), (204, &[]), (500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let since = Timestamp::now();
    for job in 0..3 {
        world.deliver(event(&tenant.id, job)).await;
    }
    let book = Book::of(&world);
    let waiting = async || world.log_of(&tenant.id, Status::Pending).await;
    // One delivery is already due: it is waiting for its turn, or its attempt is in progress.
    let due = waiting().await.remove(0);
    world.make_due(&tenant.id, &due, Timestamp::now()).await;
    recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": since, "status": "failed"})).await;
    assert!(run(&book).await.is_empty(), "a recovery of failed deliveries leaves pending ones alone");
    let id =
        recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": since, "status": "pending"})).await;
    // The process dies before it saves its progress.
    let resent = die(&book).await;
    assert_eq!(resent.len(), 2);
    assert!(resent.iter().all(|delivery| delivery.id != due.id));
    assert!(run(&book).await.is_empty(), "none is resent twice");
    for delivery in &resent {
        let is_due = delivery.next_attempt_at.is_some_and(|at| at <= Timestamp::now());
        assert_eq!((is_due, delivery.tries, delivery.attempts), (true, 0, 1));
        world.enqueue("deliveries", tests::world::log::due_message(&tenant.id, delivery)).await;
    }
    world.handle_all().await;
    // The message for the scheduled attempt of one delivery also arrives, but it is dropped, because the attempt was
    // already made.
    world.enqueue("deliveries", tests::world::log::due_message(&tenant.id, &resent[0])).await;
    world.handle_all().await;
    assert_eq!(receiver.count().await, 5);
    let left = waiting().await;
    let failed: Vec<_> = left.iter().filter(|delivery| delivery.attempts == 2).collect();
    assert_eq!((left.len(), failed.len()), (2, 1), "one delivery succeeded, and one failed again and waits");
    assert_eq!(failed[0].last_attempt.as_ref().map(|last| last.trigger), Some(Trigger::Recovery));
    let stats = read(&world, &tenant, "stats", json!({"since": since})).await;
    assert_eq!(stats.ok()["recoveries"][0]["recovery_id"], id);
    assert_eq!(stats.ok()["recoveries"][0]["status"], json!("pending"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recovery_that_has_resent_the_fewest_is_first() {
    let world = World::start().await;
    let book = Book::of(&world);
    let mut tenants = Vec::new();
    for name in ["acme", "globex"] {
        let tenant = world.tenant(name).await;
        let endpoint = world.endpoint(&tenant, "https://example.com/", "s").await;
        recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": book.ago(HOUR)})).await;
        tenants.push(id(&tenant));
    }
    let order = async || {
        let open = book.log.open_recoveries(|_| true).await.expect("the recoveries");
        open.into_iter().map(|(tenant, _)| tenant).collect::<Vec<_>>()
    };
    assert_eq!(order().await, tenants, "the older one");
    let (tenant, oldest) = book.log.open_recoveries(|_| true).await.expect("the recoveries").remove(0);
    let now = Timestamp::now();
    let mut oldest = book.log.take_recovery(&tenant, oldest.id, now).await.expect("it is read").expect("it is free");
    oldest.resent = 100;
    book.log.save_recovery(&tenant, &oldest).await.expect("it is saved");
    tenants.reverse();
    assert_eq!(order().await, tenants);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_continues_if_a_response_is_lost() {
    let world = World::repeating(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "j")).await;
    let since = Timestamp::now().before(HOUR);
    recover(&world, &tenant, json!({"webhook_endpoint_id": endpoint, "since": since})).await;
    while world.poll_due().await > 0 {}
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Delivered);
}

/// Otherwise, the recovery would have passed deliveries that the call added, or would forget those of another call.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_widens_only_what_it_has_read() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let (book, owner) = (Book::of(&world), id(&tenant));
    let fields = |hours: [u32; 2]| {
        let [since, until] = hours.map(|hours| book.ago(HOUR * hours));
        json!({"webhook_endpoint_id": endpoint, "since": since, "until": until})
    };
    let first = recover(&world, &tenant, fields([4, 2])).await;
    let (log, of) = (book.log.clone(), text(&first).parse().expect("an id"));
    race.before_transaction(async move {
        log.take_recovery(&owner, of, Timestamp::now()).await.expect("the write succeeds").expect("it is free");
    });
    let second = recover(&world, &tenant, fields([5, 2])).await;
    assert_ne!(second, first, "it has begun");
    let (rival, who, later) = (Arc::clone(&world), tenant.clone(), fields([3, 1]));
    race.before_transaction(async move { drop(recover(&rival, &who, later).await) });
    assert_eq!(recover(&world, &tenant, fields([6, 3])).await, second);
    assert!(race.is_over());
    let unfinished = unfinished(&book, &tenant).await;
    assert_eq!(unfinished[1].selection.time, book.ago(HOUR * 6)..book.ago(HOUR));
}
