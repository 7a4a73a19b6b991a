//! A process dies, or a call fails, at each point of an event's way: nothing is lost, and nothing is left waiting.

use std::{ops::Range, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use common::timestamp::Timestamp;
use futures::future::try_join_all;
use local::Worker;
use tests::{Doomed, Receiver, World, at_each_call, event};
use tokio::time::Instant;

/// How long a process has for all that follows from an event. It may have to wait until messages come back, and what is put
/// off for a silent receiver waits for as long as the silence has lasted, or twice that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends an event to an endpoint that takes it and to one that fails once, through a worker whose calls with these numbers fail,
/// and then through a healthy one. If it `waits`, the record of the flaky endpoint says that it hangs. Returns whether it came to that, and what went wrong.
async fn live_through(fails: Range<u64>, takes_effect: bool, waits: bool) -> (bool, Result<(), String>) {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (good, flaky) = (Receiver::start().await, Receiver::scripted(&[(500, &[])]).await);
    world.endpoint(&tenant, &good.url("/"), "s").await;
    let id = world.endpoint(&tenant, &flaky.url("/"), "s").await;
    if waits {
        let (owner, id) = (tenant.id.parse().expect("an id"), id.parse().expect("an id"));
        world.stored_endpoints().note_unanswered(&owner, id, Timestamp::now(), true).await.expect("it is noted");
    }
    world.come_back_after(1).await;
    world.enqueue("job-events", event(&tenant.id, "j")).await;

    let case = format!("calls {fails:?} fail, the first takes effect: {takes_effect}, the flaky one waits: {waits}");
    let settings = [("RETRY_SCHEDULE", "0,0"), ("DELIVERY_TIMEOUT", "1")];
    let doomed = Doomed::worker(&world, &settings, fails, takes_effect).await;
    let healthy = world.worker(&settings);
    let deadline = Instant::now() + PATIENCE;
    while !doomed.has_died() && world.left().await > 0 && Instant::now() < deadline {
        // It may fail: that is the point.
        handle(&world, &doomed.process).await.ok();
    }
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let states = world.items("deliveries").await;
        let is = |status: &str| {
            let has_it = |is: &AttributeValue| is.as_s().is_ok_and(|is| is == status);
            states.iter().filter(|item| item.get("status").is_some_and(has_it)).count()
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
            let too_many = || format!("{case}: {} and {} came", good.len(), flaky.len());
            let came = if good.len() > 2 || flaky.len() > 3 { Err(too_many()) } else { Ok(()) };
            return (doomed.has_died(), came);
        }
        if let Err(error) = handle(&world, &healthy).await {
            return (doomed.has_died(), Err(format!("{case}: {error:#}")));
        }
    }
    let (left, dead, items) = (world.left().await, world.dead_letters().await, world.items("deliveries").await);
    (doomed.has_died(), Err(format!("{case}: {left} messages are left, {dead:?} are dead: {items:?}")))
}

/// Has a process handle a batch of each queue that has any, or waits for one.
async fn handle(world: &World, process: &Worker) -> Result<(), anyhow::Error> {
    let polled = world.filled(world.queues()).await;
    try_join_all(polled.into_iter().map(|queue| process.poll(queue))).await.map(drop)
}

/// Each point of its way.
async fn live_through_all(length: u64, takes_effect: bool, waits: bool) {
    let live = |call: u64| live_through(call..call.saturating_add(length), takes_effect, waits);
    let lives = at_each_call(0.., live).await;
    let failed: Vec<_> = lives.iter().filter_map(|(_, end)| end.as_ref().err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(lives.iter().filter(|(has_died, _)| *has_died).count() > 10, "{lives:?}");
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
async fn a_process_may_die_after_any_call_for_what_waits() {
    live_through_all(u64::MAX, true, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_before_any_call_for_what_waits() {
    live_through_all(u64::MAX, false, true).await;
}
