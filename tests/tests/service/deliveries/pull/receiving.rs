//! Deliveries of a pull endpoint are received with a lease.

use std::{collections::BTreeSet, time::Duration};

use common::{
    timestamp::Timestamp,
    webhooks::delivery::{AttemptResult, Status},
};
use futures::future::join_all;
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tests::{Receiver, Tenant, World, event, records};

use super::{jobs, pull_endpoint, receive, result, settle, settle_one, take, take_one, with_endpoint};
use crate::deliveries::{Book, DAY, Draft, HOUR, id, read, recover::run};

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_endpoint_has_no_url_and_is_listed_with_its_kind() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let create = async |fields| world.rpc(&tenant.key, "webhooks/create", fields).await;
    for (fields, path) in [
        (json!({"kind": "pull", "url": "https://example.com"}), "url"),
        (json!({"kind": "push"}), "url"),
        (json!({}), "url"),
        (json!({"kind": "poll"}), "kind"),
    ] {
        let refused = create(fields).await;
        assert_eq!((refused.status, refused.issues()[0].0), (400, path), "{refused:?}");
    }
    let answer = create(json!({"kind": "pull", "description": "a laptop", "events": ["job.failed"]})).await;
    assert!(answer.ok()["signing_secret"].is_string());
    let listed = world.only_endpoint(&tenant).await;
    assert_eq!((&listed["kind"], listed.get("url")), (&json!("pull"), None));
    assert_eq!((listed.get("last_asked_at"), listed.get("last_taken_at")), (None, None));
    let update = json!({"id": listed["webhook_endpoint_id"], "url": "https://example.com/"});
    let refused = world.rpc(&tenant.key, "webhooks/update", update).await;
    assert_eq!(refused.error(), (409, "CONFLICT", "pull_endpoint"));
    world.endpoint(&tenant, "https://example.com/", "correct-horse-battery").await;
    let kinds: Vec<_> = world.endpoints(&tenant).await.iter().map(|endpoint| endpoint["kind"].clone()).collect();
    assert_eq!(kinds, ["pull", "push"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_delivery_equals_its_post() {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let tenant = world.tenant("acme").await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";
    for kind in [json!({"url": receiver.url("/")}), json!({"kind": "pull"})] {
        let mut fields = json!({"signing_secret": secret, "headers": {"authorization": "Bearer t"}});
        fields.as_object_mut().expect("an object").extend(kind.as_object().expect("an object").clone());
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    let mut told = event(&tenant.id, "jöb \u{1F600}");
    told["result"] = json!({"text": "a \"quote\"", "number": 1.10});
    world.deliver(told).await;
    let endpoint = world.endpoints(&tenant).await[1]["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    let posted = receiver.received().await.remove(0);
    let taken = take_one(&world, &tenant, &endpoint).await;
    assert_eq!(taken["body"].as_str().expect("a body").as_bytes(), posted.body);
    assert_eq!((&taken["attempt"], &taken["event"]), (&json!(1), &json!("job.completed")));
    let headers = taken["headers"].as_object().expect("headers");
    let names: BTreeSet<_> = headers.keys().map(String::as_str).collect();
    let of_connection = ["content-length", "host", "connection"];
    let sent: BTreeSet<_> =
        posted.headers.keys().map(HeaderName::as_str).filter(|name| !of_connection.contains(name)).collect();
    assert_eq!(names, sent);
    for same in ["content-type", "user-agent", "x-event-type", "x-event-time", "x-webhook-signature", "authorization"] {
        assert_eq!(headers[same], json!(posted.headers[same].to_str().expect("text")), "{same}");
    }
    assert_ne!(headers["webhook-id"], json!(posted.headers["webhook-id"].to_str().expect("text")));
    let verified: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, value.as_str().expect("text").parse().expect("a value"))
        })
        .collect();
    let body = taken["body"].as_str().expect("a body").as_bytes();
    Webhook::new(secret).expect("a secret").verify(body, &verified).expect("a signature");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_share_the_deliveries() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in 0..60 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    world.handle_all().await;
    let takers = (0..6).map(async |_| {
        let mut all = Vec::new();
        loop {
            let answer = receive(&world, &tenant, &endpoint, 7).await;
            let taken = answer["deliveries"].as_array().expect("deliveries").clone();
            if taken.is_empty() && answer["poll_after_ms"] != 0 {
                break all;
            }
            all.extend(settle(&world, &tenant, &taken, json!({"status_code": 200})).await);
        }
    });
    let all: Vec<Value> = join_all(takers).await.concat();
    assert!(all.iter().all(|settled| settled["result"] == "settled"), "{all:?}");
    let ids: BTreeSet<_> = all.iter().map(|settled| settled["delivery_id"].to_string()).collect();
    assert_eq!((all.len(), ids.len()), (60, 60));
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_tenant_receives_from_its_active_pull_endpoints() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    let other = world.tenant("other").await;
    world.deliver(event(&tenant.id, "j")).await;
    let ask = async |who: &Tenant, endpoint: &str| {
        world.rpc(&who.key, "deliveries/receive", json!({"webhook_endpoint_id": endpoint})).await
    };
    assert_eq!(ask(&other, &endpoint).await.error(), (404, "NOT_FOUND", ""));
    let taken = take_one(&world, &tenant, &endpoint).await;
    let theirs = settle_one(&world, &other, &taken, json!({"status_code": 200})).await;
    assert_eq!(theirs, result(&taken, "not_found", None));
    settle_one(&world, &tenant, &taken, json!({})).await;
    let push = world.endpoint(&tenant, "https://example.com/", "correct-horse-battery").await;
    assert_eq!(ask(&tenant, &push).await.error(), (409, "CONFLICT", "not_a_pull_endpoint"));
    let set_active = async |active: bool| {
        world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": active})).await.ok();
    };
    set_active(false).await;
    // Long ago: newer times are accurate to within ten minutes only.
    world
        .set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), json!({"asked_at": 1_700_000_000_000_i64}))
        .await;
    assert_eq!(ask(&tenant, &endpoint).await.error(), (409, "CONFLICT", "endpoint_inactive"));
    let listed = world.endpoints(&tenant).await;
    let listed = listed.iter().find(|listed| listed["webhook_endpoint_id"] == endpoint.as_str());
    let asked_at = &listed.expect("the endpoint")["last_asked_at"];
    assert!(asked_at.as_str().is_some_and(|at| !at.starts_with("2023")), "a refused call counts as well: {asked_at}");
    world.deliver(event(&tenant.id, "k")).await;
    set_active(true).await;
    let both = take(&world, &tenant, &endpoint).await;
    assert_eq!(jobs(&both).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["j", "k"]));
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    assert_eq!(ask(&tenant, &endpoint).await.error(), (404, "NOT_FOUND", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_can_be_received_at_once_and_ends_a_lease() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let first = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &first, json!({"status_code": 200})).await;
    let resend = json!({"delivery_id": first["delivery_id"]});
    world.rpc(&tenant.key, "deliveries/resend", resend.clone()).await.ok();
    assert_eq!(world.left().await, 0, "the delivery does not need a message");
    let second = take_one(&world, &tenant, &endpoint).await;
    assert_eq!((&second["attempt"], &second["body"]), (&json!(2), &first["body"]));
    assert_eq!(second["headers"]["webhook-id"], first["headers"]["webhook-id"]);
    world.rpc(&tenant.key, "deliveries/resend", resend).await.ok();
    assert_eq!(settle_one(&world, &tenant, &second, json!({"status_code": 200})).await["result"], "lease_expired");
    let third = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &third, json!({"status_code": 200})).await;
    let logged = world.only_logged(&tenant.id).await;
    assert_eq!((logged.status, logged.attempts), (Status::Delivered, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_secrets_sign_after_a_rotation_until_the_announced_end() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    assert_eq!(receive(&world, &tenant, &endpoint, 1).await.get("previous_secret_expires_at"), None);
    world
        .rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "signing_secret": "another-horse-battery"}))
        .await
        .ok();
    world.deliver(event(&tenant.id, "k")).await;
    let answer = receive(&world, &tenant, &endpoint, 10).await;
    assert!(answer["previous_secret_expires_at"].is_string(), "{answer}");
    let signatures = answer["deliveries"][0]["headers"]["webhook-signature"].as_str().expect("signatures");
    assert!(signatures.split(' ').count() >= 2, "{signatures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_of_a_pull_endpoint_waits_until_it_is_received() {
    let (world, tenant, endpoint) = with_endpoint(&[("RETRY_SCHEDULE", "0")]).await;
    let answer = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await;
    world.poll_all("deliveries").await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    assert_eq!((&taken["delivery_id"], &taken["event"]), (&answer.ok()["delivery_id"], &json!("webhook.test")));
    let settled = settle_one(&world, &tenant, &taken, json!({"status_code": 500})).await;
    assert_eq!(settled["status"], "failed", "a test has only one attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreceived_delivery_fails_and_can_be_recovered() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    let book = Book::of(&world);
    // The sweep checks the minute in which the delivery expires.
    over_age(&world, &tenant, &endpoint).await;
    world.sweep(Timestamp::now()).await;
    // No message was sent for this delivery, but the later check wakes it.
    world.sweep(Timestamp::now().after(HOUR)).await;
    world.handle_all().await;
    let failed = world.only_logged(&tenant.id).await;
    assert_eq!((failed.status, failed.attempts), (Status::Failed, 0));
    assert_eq!(failed.last_attempt.expect("why").outcome, "untaken");
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new());
    assert!(world.only_endpoint(&tenant).await["failing_since"].is_string());
    let fields = json!({"webhook_endpoint_id": endpoint, "since": book.ago(DAY * 4)});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    assert_eq!(run(&book).await.len(), 1);
    let taken = take_one(&world, &tenant, &endpoint).await;
    let settled = settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await;
    assert_eq!(settled["status"], "delivered");
}

/// Deliveries that wait for a client, or that one has leased, have not been missed.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_does_not_end_leases() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in ["leased", "waiting"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let leased = receive(&world, &tenant, &endpoint, 1).await["deliveries"][0].clone();
    let fields = json!({"webhook_endpoint_id": endpoint, "since": Book::of(&world).ago(HOUR)});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    world.handle_all().await;
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({"webhook_endpoint_id": endpoint})).await;
    let recovery = &stats.ok()["recoveries"][0];
    assert_eq!((&recovery["resent"], &recovery["done"]), (&json!(0), &json!(true)), "{recovery}");
    assert_eq!(jobs(&take(&world, &tenant, &endpoint).await), ["waiting"]);
    let settled = settle_one(&world, &tenant, &leased, json!({"status_code": 200})).await;
    assert_eq!(settled, result(&leased, "settled", Some("delivered")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_without_its_payload_fails_at_its_deadline() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    store_over_age(&world, &tenant, &endpoint, false).await;
    for later in [0, 1] {
        world.sweep(Timestamp::now().after(HOUR * later)).await;
    }
    world.poll_all("deliveries").await;
    let failed = world.only_logged(&tenant.id).await;
    assert_eq!((failed.status, failed.attempts), (Status::Failed, 0));
    assert_eq!(failed.last_attempt.expect("why").outcome, "untaken");
}

/// A delivery to a pull endpoint that is past its deadline, with the due row for the deadline.
async fn over_age(world: &World, tenant: &Tenant, endpoint: &str) {
    store_over_age(world, tenant, endpoint, true).await;
}

async fn store_over_age(world: &World, tenant: &Tenant, endpoint: &str, has_payload: bool) {
    let book = Book::of(world);
    let (mut old, payload) = Draft::to(endpoint, book.ago(DAY * 3), "old").delivery(&id(tenant));
    (old.attempts, old.tries, old.last_attempt, old.next_attempt_at) = (0, 0, None, None);
    let old = old.after(&AttemptResult::ToBeTaken, &[], || 0.0, book.now);
    book.put(vec![book.log.due_row(&id(tenant), &old, book.now)]).await;
    let first = book.log.first_row(&id(tenant), &old, has_payload.then_some(&payload), book.now);
    assert!(matches!(book.log.begin(vec![first]).await[..], [Ok(())]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_delivery_fails_only_when_its_lease_ends() {
    let (world, tenant, endpoint) = with_endpoint(&[("LEASE_TIME", "3600")]).await;
    over_age(&world, &tenant, &endpoint).await;
    take_one(&world, &tenant, &endpoint).await;
    let delivery = world.only_logged(&tenant.id).await;
    let known = world.delivery_log().known(&id(&tenant), &[delivery.id]).await.expect("the log is read");
    let lease = known[&delivery.id].pull.as_ref().and_then(|pull| pull.lease?.ends).expect("a lease");
    world.enqueue("deliveries", json!({"tenant_id": tenant.id, "delivery_id": delivery.id, "attempt": 0})).await;
    world.poll_all("deliveries").await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Held);
    // The lease ends too late for a message, so the sweep wakes the delivery.
    world.forget_sweeps().await;
    world.sweep(lease.after(Duration::from_mins(1))).await;
    let woken = world.drain("deliveries").await;
    assert_eq!(woken, [json!({"tenant_id": tenant.id, "delivery_id": delivery.id, "attempt": 0})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_when_a_failed_delivery_is_available_again() {
    let (world, tenant, endpoint) = with_endpoint(&[("RETRY_SCHEDULE", "600")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &taken, json!({"status_code": 500})).await;
    let next = world.log_of(&tenant.id, Status::Pending).await[0].next_attempt_at.expect("a time");
    let list = read(&world, &tenant, "list", json!({})).await.ok().clone();
    assert_eq!(list["deliveries"][0]["next_attempt_at"], json!(next));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_are_received_one_by_one_and_none_is_lost() {
    let (world, tenant, endpoint) = with_endpoint(&[("KEPT_PAYLOAD_BYTES", "100000")]).await;
    let sizes = [100, 700, 60_000, 220_000, 240_000, 240_000, 240_000, 240_000, 240_000, 240_000];
    for (number, size) in sizes.into_iter().enumerate() {
        let mut told = event(&tenant.id, number);
        // Quotes and backslashes take the most space in JSON.
        told["result"] = json!("\"\\".repeat(size / 4));
        world.deliver(told).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut taken = Vec::new();
    loop {
        let answer = receive(&world, &tenant, &endpoint, 100).await;
        let some = answer["deliveries"].as_array().expect("deliveries").clone();
        let size = serde_json::to_string(&json!({"body": answer.to_string()})).expect("JSON").len();
        assert!(size < 6_291_556, "{size}");
        taken.extend(some);
        if answer["poll_after_ms"] != 0 {
            break;
        }
    }
    let numbers: Vec<_> = (0..sizes.len()).map(|number| number.to_string()).collect();
    assert_eq!(jobs(&taken), numbers);
    settle(&world, &tenant, &taken, json!({"status_code": 200})).await;
    for taken in &taken {
        let got = read(&world, &tenant, "get", json!({"delivery_id": taken["delivery_id"]})).await.ok().clone();
        assert_eq!(got["delivery"]["status"], "delivered");
        assert!(got.get("payload").is_none_or(|payload| *payload == taken["body"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicated_event_waits_once() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    let sent_at = Timestamp::now().as_millisecond().to_string();
    let message = async |receives: &str| {
        let mut records = records([event(&tenant.id, "j")]);
        records["Records"][0]["attributes"] = json!({"SentTimestamp": sent_at, "ApproximateReceiveCount": receives});
        let answer = world.stack.invoke("webhooks-deliver", records).await.expect("an answer");
        assert_eq!(answer["batchItemFailures"], json!([]));
    };
    message("1").await;
    message("2").await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    message("3").await;
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new(), "it is leased");
    settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await;
}

/// Each call to the tables loses its response in turn, and is repeated by the SDK.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_received_although_a_response_is_lost() {
    let (world, cut_off) = World::cut_off_with(&[]).await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    for lost in 0.. {
        world.deliver(event(&tenant.id, lost)).await;
        cut_off.fail(lost..lost + 1, true);
        let taken = take(&world, &tenant, &endpoint).await;
        let is_over = !cut_off.is_reached();
        cut_off.fail(0..0, false);
        assert_eq!(taken.len(), 1, "call {lost}");
        settle(&world, &tenant, &taken, json!({"status_code": 200})).await;
        if is_over {
            assert!(lost > 3, "{lost}");
            break;
        }
    }
}
