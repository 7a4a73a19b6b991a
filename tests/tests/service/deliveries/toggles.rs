//! An endpoint is disabled and enabled while events arrive. No event is lost, or sent to an inactive endpoint.

use std::{collections::BTreeMap, time::Duration};

use common::webhooks::delivery::Status;
use futures::future::join_all;
use serde_json::json;
use tests::{Receiver, World, event, size};
use tokio::time::{Instant, sleep};

use super::{Book, DAY};

/// Waits until the queues are empty and no message is being handled.
async fn quiet(world: &World) {
    while world.left().await > 0 {
        sleep(Duration::from_millis(20)).await;
    }
}

async fn toggles_under_events(toggles: usize, events: usize) {
    let world = World::live(&[("RETRY_SCHEDULE", "0,0,0")]).await;
    let tenant = world.tenant("acme").await;
    // Some attempts fail, so some deliveries are pending when the endpoint becomes inactive.
    let script: Vec<_> = (0..events).map(|number| (if number % 5 == 0 { 500 } else { 200 }, &[] as &[_])).collect();
    let receiver = Receiver::scripted(&script).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let mut jobs = 0..events;
    let send = async |jobs: Vec<usize>| {
        join_all(jobs.into_iter().map(|job| world.enqueue("job-events", event(&tenant.id, job)))).await;
    };
    // Some arrive before the first toggle, however busy the machine is.
    send(jobs.by_ref().take(events / toggles / 2).collect()).await;
    quiet(&world).await;
    for toggle in 1..=toggles {
        let active = toggle % 2 == 0;
        let switch = world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": active}));
        let share = jobs.by_ref().take(events / toggles).collect();
        let (switched, ()) = tokio::join!(switch, send(share));
        switched.ok();
        if toggle % 10 == 5 {
            // All attempts that were in progress when the endpoint was disabled have ended.
            quiet(&world).await;
            let before = receiver.count().await;
            let some = jobs.by_ref().take(events / toggles / 2).collect();
            send(some).await;
            quiet(&world).await;
            assert_eq!(receiver.count().await, before, "an inactive endpoint gets nothing");
        }
    }
    send(jobs.collect()).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": true})).await.ok();
    quiet(&world).await;

    let logged = world.log(&tenant.id).await;
    let mut statuses = BTreeMap::new();
    for delivery in &logged {
        *statuses.entry(delivery.status).or_insert(0) += 1;
    }
    let by_job: BTreeMap<_, _> = logged.iter().map(|delivery| (delivery.job_id.clone(), delivery)).collect();
    assert_eq!((logged.len(), by_job.len()), (events, events), "each event has a delivery: {statuses:?}");
    let known = [Status::Delivered, Status::Held, Status::Failed];
    assert!(statuses.keys().all(|status| known.contains(status)), "{statuses:?}");
    let [delivered, held] = [Status::Delivered, Status::Held].map(|status| statuses.get(&status).copied().unwrap_or(0));
    assert!(delivered > 0 && held > 0, "{statuses:?}");

    let since = json!({"webhook_endpoint_id": endpoint, "since": Book::of(&world).ago(DAY)});
    let deadline = Instant::now() + Duration::from_mins(3);
    loop {
        // A delivery can fail again, four times in a row, and is then recovered again.
        world.rpc(&tenant.key, "deliveries/recover", since.clone()).await.ok();
        quiet(&world).await;
        let left = events - world.log_of(&tenant.id, Status::Delivered).await.len();
        if left == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{left} of {} were not recovered", events - delivered);
    }
    let mut got: Vec<_> = receiver.received().await.iter().map(|one| one.json()["job_id"].to_string()).collect();
    got.sort();
    got.dedup();
    assert_eq!(got.len(), events);
}

#[tokio::test(flavor = "multi_thread")]
async fn toggles_of_an_endpoint_lose_no_event() {
    toggles_under_events(size(20, 8), size(300, 120)).await;
}

/// `cargo test -p tests --test service two_hundred_toggles -- --ignored`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a while"]
async fn two_hundred_toggles_of_an_endpoint_lose_none_of_5_000_events() {
    toggles_under_events(200, 5_000).await;
}
