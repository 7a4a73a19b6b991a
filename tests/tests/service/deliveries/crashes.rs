//! A process dies, or a call fails, at each point of an event's way: nothing is lost, and nothing is left waiting.

use std::ops::Range;

use aws_sdk_sqs::types::QueueAttributeName;
use common::timestamp::Timestamp;
use futures::future::join_all;
use local::Worker;
use serde_json::json;
use tests::{CutOff, Proxy, Receiver, World};

/// More calls than an event takes that is delivered to one endpoint at once and to another at the second attempt,
/// receiving and deleting its messages included.
const CALLS: u64 = 26;
/// The same where the second endpoint did not answer before, so that the event is parked for it.
const CALLS_PARKED: u64 = 39;

/// Sends an event to an endpoint that takes it and to one that fails once, through a worker whose calls fail from
/// `fails.start` to `fails.end`, and then through a healthy one. Returns what went wrong.
async fn live_through(fails: Range<u64>, takes_effect: bool, is_parked: bool) -> Result<bool, String> {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (good, flaky) = (Receiver::start().await, Receiver::scripted(&[(500, &[])]).await);
    world.endpoint(&tenant, &good.url("/"), "s").await;
    let id = world.endpoint(&tenant, &flaky.url("/"), "s").await;
    if is_parked {
        let (owner, id) = (tenant.id.parse().expect("an id"), id.parse().expect("an id"));
        world.stored_endpoints().unanswered(&owner, id, Timestamp::now(), true).await.expect("it is noted");
    }
    for queue in ["job-events", "deliveries"] {
        let visibility = world.stack.sqs_client().set_queue_attributes().queue_url(&world.stack.queues()[queue]);
        visibility.attributes(QueueAttributeName::VisibilityTimeout, "1").send().await.expect("it is set");
    }
    world
        .enqueue("job-events", json!({"event": "job.completed", "tenant_id": tenant.id, "job_id": "j"}).to_string())
        .await;

    let cut_off = CutOff::new(fails.clone(), takes_effect);
    let dynamodb = Proxy::cut_off(world.stack.dynamodb(), &cut_off).await;
    let sqs = Proxy::cut_off(world.stack.sqs(), &cut_off).await;
    let settings = [("RETRY_SCHEDULE", "0,0"), ("DELIVERY_TIMEOUT", "1")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let doomed = Worker::new(dynamodb.address(), sqs.address(), &settings).expect("a worker");
    let healthy = Worker::new(world.stack.dynamodb(), world.stack.sqs(), &settings).expect("a worker");
    for _ in 0..4 {
        for queue in ["job-events", "deliveries"] {
            if !cut_off.is_reached() {
                // It may fail: that is the point.
                doomed.poll(queue).await.ok();
            }
        }
    }
    let case = format!("calls {fails:?} fail, the first takes effect: {takes_effect}, parked: {is_parked}");
    for _ in 0..12 {
        let states = world.items("deliveries").await;
        let is = |status: &str| {
            states
                .iter()
                .filter(|item| item.get("status").is_some_and(|is| is.as_s().is_ok_and(|is| is == status)))
                .count()
        };
        if is("delivered") == 2 && is("pending") == 0 {
            let (good, flaky) = (good.received().await, flaky.received().await);
            for received in [&good, &flaky] {
                assert!(
                    received.iter().all(|one| one.header("webhook-id") == received[0].header("webhook-id")),
                    "{case}"
                );
            }
            // The endpoint that fails once may have had its success repeated, or its failure.
            if good.len() > 2 || flaky.len() > 3 {
                return Err(format!("{case}: {} and {} came", good.len(), flaky.len()));
            }
            return Ok(cut_off.is_reached());
        }
        for queue in ["job-events", "deliveries"] {
            healthy.poll(queue).await.map_err(|error| format!("{case}: {error:#}"))?;
        }
    }
    Err(format!("{case}: {:?}", world.items("deliveries").await))
}

/// Every point, a few worlds at a time.
async fn live_through_all(length: u64, takes_effect: bool, is_parked: bool) {
    let points: Vec<u64> = (1..if is_parked { CALLS_PARKED } else { CALLS }).collect();
    let mut reached = Vec::new();
    for points in points.chunks(13) {
        let lives =
            points.iter().map(|point| live_through(*point..point.saturating_add(length), takes_effect, is_parked));
        reached.extend(join_all(lives).await);
    }
    let failed: Vec<_> = reached.iter().filter_map(|life| life.as_ref().err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    // The last points are behind the end of the event's way.
    assert_eq!(reached.last(), Some(&Ok(false)));
    assert!(reached.iter().filter(|life| **life == Ok(true)).count() > 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_before_any_of_its_calls() {
    live_through_all(u64::MAX, false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_after_any_of_its_calls() {
    live_through_all(u64::MAX, true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_may_fail_with_its_repetitions() {
    live_through_all(3, false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_after_any_of_its_calls_for_a_parked_event() {
    live_through_all(u64::MAX, true, true).await;
}
