//! Even if a process dies, the email is sent, and almost always only once.

use serde_json::json;
use tests::{Doomed, at_each_call, context, event, size};

use super::{DISABLED, FAILING, MINUTE, about_to_fail, broken, later, mails, subjects, sweep};
use crate::endpoints::failing::{DAY, failing_for, impatient};

/// Makes a process die at this call while it makes the last attempt. The endpoint still becomes failing or disabled,
/// and its tenant gets one email. Returns whether the process reached that call.
async fn deliver_and_die(status: u16, schedule: &str, call: u64, takes_effect: bool) -> (bool, ()) {
    let case = format!("{status}, schedule {schedule:?}, call {call}, takes effect: {takes_effect}");
    let (world, tenant, _receiver) = about_to_fail(status, schedule).await;
    let settings = [("RETRY_SCHEDULE", schedule)];
    let healthy = world.worker(&settings);
    let mut queue = "job-events";
    if !schedule.is_empty() {
        // The first attempt is not the last.
        assert_eq!(healthy.poll(queue).await.expect("a step"), 1);
        queue = "deliveries";
    }
    let doomed = Doomed::worker(&world, &settings, call..u64::MAX, takes_effect).await;
    // The call may fail, which is expected.
    while matches!(doomed.process.poll(queue).await, Ok(0)) && !doomed.has_died() {}
    let has_died = doomed.has_died();
    for _ in 0..3 {
        healthy.poll(queue).await.expect("a step");
    }
    for minute in 0..2 {
        sweep(&world, later(minute * MINUTE)).await;
    }
    let endpoint = world.only_endpoint(&tenant).await;
    assert!(endpoint["failing_since"].is_string(), "{case}: {endpoint}");
    assert_eq!(endpoint["active"], json!(status != 410), "{case}: {endpoint}");
    assert_eq!(subjects(&world).await, [if status == 410 { DISABLED } else { FAILING }], "{case}");
    (has_died, ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_makes_the_last_attempt_may_die_at_any_call() {
    for takes_effect in [false, true] {
        let mut calls = 0;
        for (status, schedule) in [(500, ""), (410, ""), (500, "0")] {
            let lives = at_each_call(0.., |call| deliver_and_die(status, schedule, call, takes_effect)).await;
            calls += lives.calls();
        }
        assert!(calls >= 16, "{calls}");
    }
}

/// Makes a sweep die at this call. Returns whether the sweep reached that call, and the number of emails after the next
/// sweeps.
async fn send_and_die(call: u64, takes_effect: bool) -> (bool, usize) {
    let (world, tenant, _receiver) = about_to_fail(500, "").await;
    // There are no minutes left to sweep, so only the notices remain.
    let time = later(10 * MINUTE);
    sweep(&world, time).await;
    world.poll("job-events").await;
    let doomed = Doomed::function(&world, "deliveries-wake", call..u64::MAX, takes_effect).await;
    // The call may fail, which is expected.
    doomed.process.clone().call(json!({"time": time}), context(60)).await.ok();
    assert!(world.only_endpoint(&tenant).await["failing_since"].is_string());
    for minute in 15..20 {
        sweep(&world, later(minute * MINUTE)).await;
    }
    (doomed.has_died(), mails(&world).await.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_may_die_at_any_call_and_one_causes_a_second_email() {
    for takes_effect in [false, true] {
        let lives = at_each_call(0.., |call| send_and_die(call, takes_effect)).await;
        assert!(lives.calls() >= 8, "{:?}", lives.all);
        assert!(lives.all.iter().all(|(_, mails)| (1..=2).contains(mails)), "{:?}", lives.all);
        // SES has accepted the email, but the process could not record this. The sweep makes other calls at the same
        // time, in an order that differs between runs.
        assert!(lives.all.iter().filter(|(_, mails)| *mails == 2).count() <= 2, "{:?}", lives.all);
    }
}

/// Hundreds of deliveries fail (in a thorough run, over a thousand), some events arrive twice, and ten processes die.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_failures_cause_two_emails() {
    let first = size(1000, 300);
    let (world, tenant) = impatient().await;
    let receiver = broken().await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.come_back_after(1).await;
    let mut minute = 0;
    for (round, events) in [first, 100].into_iter().enumerate() {
        for job in 0..events + 100 {
            world.enqueue("job-events", event(&tenant.id, format!("{round}.{}", job % events))).await;
        }
        for point in 2..7 {
            let doomed = Doomed::worker(&world, &[("RETRY_SCHEDULE", "")], point..u64::MAX, point % 2 == 0).await;
            doomed.process.poll("job-events").await.ok();
        }
        while world.left().await > 0 {
            world.poll_each().await;
            if minute % 50 == 0 {
                sweep(&world, later(minute * MINUTE / 50)).await;
            }
            minute += 1;
        }
        sweep(&world, later(minute * MINUTE / 50)).await;
        if round == 0 {
            assert_eq!(subjects(&world).await, [FAILING]);
            assert!(world.log(&tenant.id).await.len() >= first);
            failing_for(&world, &tenant, &id, 5 * DAY).await;
        }
    }
    assert_eq!(subjects(&world).await, [FAILING, DISABLED]);
    assert_eq!(world.only_endpoint(&tenant).await["active"], false);
}
