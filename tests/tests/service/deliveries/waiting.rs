//! While many deliveries wait for a hanging receiver, all calls and pages of the running service respond at once.

use std::{collections::BTreeMap, time::Duration};

use common::timestamp::Timestamp;
use serde_json::{Value, json};
use tests::{Browser, Manner, Receiver, Rough, Tenant, World, event, size};
use tokio::time::Instant;

use super::{DAY, pages};

/// The time limit for the expected counts. The slower the machine, the longer the receiver has been silent, and waiting
/// deliveries are postponed for up to twice the duration of the silence.
const PATIENCE: Duration = Duration::from_mins(3);

/// Waits until the API counts this many of the endpoint's deliveries in each of these statuses, and none in others.
async fn counts(world: &World, tenant: &Tenant, endpoint: &str, expected: &[(&str, usize)]) {
    let all = ["pending", "delivered", "failed", "held", "ended"].map(|status| (status.to_owned(), 0));
    let mut totals = BTreeMap::from(all);
    totals.extend(expected.iter().map(|(status, count)| ((*status).to_owned(), *count)));
    let (totals, began) = (json!(totals), Instant::now());
    let fields = json!({"since": Timestamp::now().before(DAY), "webhook_endpoint_id": endpoint});
    loop {
        let stats = world.rpc(&tenant.key, "deliveries/stats", fields.clone()).await.ok().clone();
        if stats["total"] == totals {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{} instead of {totals}", stats["total"]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn update(world: &World, tenant: &Tenant, endpoint: &str, mut fields: Value) {
    fields["id"] = json!(endpoint);
    world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_works_while_many_deliveries_wait() {
    // More than one page of the list.
    let waiting = size(500, 120);
    // With the default schedule, a delivery with two failed attempts would stay pending for five minutes.
    let schedule = ["5"; 20].join(",");
    let world = World::live(&[("DELIVERY_TIMEOUT", "4"), ("RETRY_SCHEDULE", &schedule)]).await;
    let (tenant, hanging) = (world.tenant("acme").await, Rough::start(Manner::Hangs).await);
    let endpoint = world.endpoint(&tenant, hanging.url(), "first").await;
    for job in 0..waiting {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    counts(&world, &tenant, &endpoint, &[("pending", waiting)]).await;
    let listed: Vec<_> = pages(&world, &tenant, json!({"status": "pending", "limit": 100})).await.concat();
    assert_eq!(listed.len(), waiting);

    // Pages show these deliveries, and each delivery includes its payload.
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console/deliveries?status=pending").await;
    assert!(page.page().matches("href=\"/console/deliveries/").count() >= 20, "{}", page.page());
    for page in ["/console".to_owned(), format!("/console/endpoints/{endpoint}")] {
        assert!(browser.open(&page).await.page().to_lowercase().contains("pending"), "{page}");
    }
    let one = world.rpc(&tenant.key, "deliveries/get", json!({"delivery_id": listed[7]})).await.ok().clone();
    assert!(one["payload"].as_str().is_some_and(|payload| payload.contains("job_id")), "{one}");

    // A call to resend returns at once, and the delivery is counted as pending only once.
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": listed[7]})).await.ok();
    counts(&world, &tenant, &endpoint, &[("pending", waiting)]).await;

    // Disabling the endpoint holds new events at once, and the waiting ones when their messages are due.
    update(&world, &tenant, &endpoint, json!({"active": false})).await;
    world.enqueue("job-events", event(&tenant.id, "while inactive")).await;
    counts(&world, &tenant, &endpoint, &[("held", waiting + 1)]).await;

    // A rotated secret and a new URL apply to older deliveries: the resent delivery is signed with the new secret.
    let receiver = Receiver::start().await;
    let fields = json!({"url": receiver.url("/"), "signing_secret": "the-second-secret", "active": true});
    update(&world, &tenant, &endpoint, fields).await;
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": listed[7]})).await.ok();
    receiver.wait_for(1).await[0].verify("the-second-secret");
    counts(&world, &tenant, &endpoint, &[("delivered", 1), ("held", waiting)]).await;

    // A recovery resends all others with the next sweep.
    let fields = json!({"webhook_endpoint_id": endpoint, "since": Timestamp::now().before(DAY)});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    world.sweep(Timestamp::now().after(Duration::from_mins(1))).await;
    let held = pages(&world, &tenant, json!({"status": "held", "limit": 100})).await.concat();
    assert_eq!(held.len(), 0);

    // Once the endpoint is deleted, every waiting delivery ends, and the log keeps all of them.
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    world.enqueue("job-events", event(&tenant.id, "deleted")).await;
    let kept: Vec<_> = pages(&world, &tenant, json!({"limit": 100})).await.concat();
    assert_eq!(kept.len(), waiting + 1);
}
