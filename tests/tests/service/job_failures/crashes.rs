//! Each failure is reported once, even if a process dies or a write fails.

use std::collections::HashSet;

use common::{
    aws::clients::Aws,
    config::Env,
    timestamp::Timestamp,
    webhooks::job_failures::{JobFailures, NoticeStep, storm::Write},
};
use serde_json::json;
use tests::{Call, Doomed, Receiver, World, at_each_call, context, size};

use super::{HOUR, MINUTE, failed, failure, later, mails, reported, said};
use crate::notices::sweep;

fn is_note(call: &Call) -> bool {
    call["Key"]["webhook_endpoint_id"]["S"].as_str().is_some_and(|key| key.starts_with("#failing#"))
}

/// Makes the process that handles a failed job die at this call. Returns whether the process reached that call.
async fn fail_and_die(call: u64, takes_effect: bool, skips: bool) -> (bool, ()) {
    let case = format!("call {call}, takes effect: {takes_effect}, skips: {skips}");
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.come_back_after(1).await;
    let mut event = failed(&tenant.id, "a", 1);
    event["skip_callbacks"] = json!(skips);
    world.enqueue("job-events", event).await;
    let doomed = Doomed::worker(&world, &[], call..u64::MAX, takes_effect).await;
    // The call may fail, which is expected.
    while matches!(doomed.process.poll("job-events").await, Ok(0)) && !doomed.has_died() {}
    let has_died = doomed.has_died();
    // An email may already be sent before the event is redelivered.
    sweep(&world, later(0)).await;
    while world.left().await > 0 {
        world.poll_each().await;
    }
    for hour in 0..2 {
        sweep(&world, later(hour * HOUR + MINUTE)).await;
    }
    assert_eq!(reported(&world).await, [said("a", "1")], "{case}");
    assert_eq!(receiver.count().await > 0, !skips, "{case}");
    (has_died, ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_handles_a_failed_job_may_die_at_any_call() {
    for takes_effect in [false, true] {
        let mut calls = 0;
        for skips in [false, true] {
            let lives = at_each_call(0.., |call| fail_and_die(call, takes_effect, skips)).await;
            calls += lives.calls();
        }
        assert!(calls >= 8, "{calls}");
    }
}

/// Makes a sweep die at this call. Returns whether the sweep reached that call, and the number of emails after the next
/// sweeps.
async fn send_and_die(call: u64, takes_effect: bool) -> (bool, usize) {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let time = later(10 * MINUTE);
    sweep(&world, time).await;
    world.deliver(failed(&tenant.id, "a", 1)).await;
    let doomed = Doomed::function(&world, "deliveries-wake", call..u64::MAX, takes_effect).await;
    // The call may fail, which is expected.
    doomed.process.clone().call(json!({"time": time}), context(60)).await.ok();
    for minute in [15, 17, 80] {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert!(reported(&world).await.iter().all(|reported| *reported == said("a", "1")));
    (doomed.has_died(), mails(&world).await.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_may_die_at_any_call_and_one_causes_a_second_email() {
    for takes_effect in [false, true] {
        let lives = at_each_call(0.., |call| send_and_die(call, takes_effect)).await;
        assert!(lives.calls() >= 12, "{:?}", lives.all);
        assert!(lives.all.iter().all(|(_, mails)| (1..=2).contains(mails)), "{:?}", lives.all);
        // SES has accepted the email, but the process could not record this. The sweep makes other calls at the same
        // time, in an order that differs between runs.
        assert!(lives.all.iter().filter(|(_, mails)| *mails == 2).count() <= 2, "{:?}", lives.all);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_delivered_even_if_it_is_recorded_later() {
    let (world, breaks) = World::failing(is_note).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.come_back_after(1).await;
    breaks.on();
    world.enqueue("job-events", failed(&tenant.id, "a", 1)).await;
    world.poll("job-events").await;
    assert_eq!(receiver.count().await, 1, "the delivery does not wait for the email");
    assert_eq!(tests::log::of_this_test().metric("FailureUnnoted").len(), 1, "that is counted");
    breaks.off();
    world.handle_all().await;
    assert_eq!(receiver.count().await, 1, "the delivery is not repeated");
    sweep(&world, later(0)).await;
    assert_eq!(reported(&world).await, [said("a", "1")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsendable_email_is_retried_without_blocking_others() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    for tenant in [&acme, &other] {
        world.deliver(failed(&tenant.id, "a", 1)).await;
    }
    let (organization, address) = (format!("org#{}", acme.id), "debug_notification_email");
    world.set("organizations", ("pk", &organization), json!({address: null})).await;
    for minute in 0..3 {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert_eq!(reported(&world).await, [said("a", "1")]);
    world.set("organizations", ("pk", &organization), json!({address: "ops@example.com"})).await;
    sweep(&world, later(10 * MINUTE)).await;
    assert_eq!(reported(&world).await, [said("a", "1"), said("a", "1")]);
}

/// A job fails after the sweep has read the failures for its email.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_during_an_email_is_in_the_next_one() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (table, owner) = (world.job_failures(), tenant.id.parse().expect("an id"));
    let (now, ids) = (Timestamp::now(), Write::Ids { more: 0 });
    let failure = |job: u64| failure(&tenant.id, job, now);
    for (more, left) in [(0, 1), (5, 1)] {
        let (workflow, first) = failure(more);
        table.note(&owner, &workflow, &[first], Write::Ids { more }, now).await.expect("the write succeeds");
        let read = table.failing(&owner, &workflow.key).await.expect("the read succeeds").expect("it is pending");
        table.note(&owner, &workflow, &[failure(more + 1).1], ids, now).await.expect("the write succeeds");
        table.reported(&owner, &workflow.key, &read, now).await.expect("the report succeeds");
        let next = table.failing(&owner, &workflow.key).await.expect("the read succeeds").expect("it is pending");
        assert_eq!((next.count().number, next.step(now)), (left, NoticeStep::Wait));
        assert_eq!(next.newest().len(), 1);
        table.reported(&owner, &workflow.key, &next, now).await.expect("the report succeeds");
        assert!(table.failing(&owner, &workflow.key).await.expect("the read succeeds").is_none());
    }
}

/// The second write of the report loses its response, and is repeated by the SDK.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_does_not_hide_counted_failures() {
    let (world, cut_off) = World::cut_off().await;
    let tenant = world.tenant("acme").await;
    let owner = tenant.id.parse().expect("an id");
    let settings = world.stack.environment("webhooks-deliver").expect("a function of the template").clone();
    let env = Env::new(move |name| settings.get(name).cloned());
    let table = JobFailures::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings");
    let now = Timestamp::now();
    let (workflow, first) = failure(&tenant.id, 1, now);
    table.note(&owner, &workflow, &[first], Write::Ids { more: 5 }, now).await.expect("the write succeeds");
    let read = table.failing(&owner, &workflow.key).await.expect("the read succeeds").expect("it is pending");
    let second = failure(&tenant.id, 2, now).1;
    table.note(&owner, &workflow, &[second], Write::Count { more: 3 }, now).await.expect("the write succeeds");
    cut_off.fail(1..2, true);
    table.reported(&owner, &workflow.key, &read, later(1)).await.expect("the report succeeds");
    assert!(cut_off.is_reached());
    let next = table.failing(&owner, &workflow.key).await.expect("the read succeeds").expect("it is pending");
    assert_eq!(next.count().number, 3);
}

/// Makes this many jobs of a workflow fail. Each event arrives twice, and five processes die in the meantime.
async fn survive(events: usize) {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.come_back_after(1).await;
    let (began, mut minute) = (Timestamp::now(), 0);
    for job in (0..events).chain(0..events) {
        world.enqueue("job-events", failed(&tenant.id, "a", job)).await;
    }
    for point in 1..6 {
        let doomed = Doomed::worker(&world, &[], point..u64::MAX, point % 2 == 0).await;
        doomed.process.poll("job-events").await.ok();
    }
    while world.left().await > 0 {
        world.poll_each().await;
        // About four hours of sweeps.
        if minute < 240 {
            sweep(&world, began.after(std::time::Duration::from_secs(60 * minute))).await;
            minute += 1;
        }
    }
    for minute in minute..minute + 70 {
        sweep(&world, began.after(std::time::Duration::from_secs(60 * minute))).await;
    }
    let taken: HashSet<_> = receiver.received().await.iter().map(|one| one.json()["job_id"].to_string()).collect();
    assert_eq!(taken.len(), events, "nothing is lost");
    let hours = usize::try_from(minute + 70).expect("a number") / 60 + 1;
    let reported = reported(&world).await;
    assert!((1..=hours).contains(&reported.len()), "{} emails in {hours} hours", reported.len());
    let counted =
        reported.iter().map(|(_, count)| count.trim_start_matches("about ").parse::<usize>().expect("a number"));
    let counted: usize = counted.sum();
    assert!((events.min(100)..=2 * events).contains(&counted), "{reported:?}");
    assert!(events > 100 || counted == events, "{reported:?}");
    let waits = world.items("webhook-endpoints").await.iter().any(|item| item.contains_key("notice"));
    assert!(!waits, "nothing waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn ninety_duplicated_failures_are_counted_once_despite_crashes() {
    survive(90).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_duplicated_failures_are_one_email_an_hour() {
    survive(size(300, 150)).await;
}

/// The full version: `cargo test --test service -- --ignored ten_thousand_failures`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; the test above is a smaller version"]
async fn ten_thousand_failures_twice_each_are_one_email_an_hour() {
    survive(10_000).await;
}
