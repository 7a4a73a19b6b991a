//! The limits on emails, and the cost of many failures.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{timestamp::Timestamp, webhooks::job_failures::storm::Write};
use serde_json::json;
use tests::{Call, Receiver, World, event, text};
use tokio::time::Instant;

use super::{HOUR, MINUTE, failed, failure, later, mails, reported, said};
use crate::notices::sweep;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_gets_fifty_emails_a_day() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    for workflow in 0..60 {
        world.enqueue("job-events", failed(&acme.id, &format!("workflow {workflow}"), 1)).await;
    }
    world.poll_all("job-events").await;
    // The limit is used up for two days, because the test may run across midnight.
    let tomorrow = Timestamp::now().day().after(DAY);
    let at = |minutes: u64| tomorrow.after(Duration::from_secs(minutes * 60));
    sweep(&world, at(1)).await;
    world.deliver(failed(&acme.id, "workflow 60", 1)).await;
    world.deliver(failed(&other.id, "other", 1)).await;
    sweep(&world, at(2)).await;
    let mails_of_the_day = mails(&world).await;
    assert_eq!(mails_of_the_day.len(), 51);
    let last: Vec<_> = mails_of_the_day
        .iter()
        .filter(|mail| text(&mail["text"]).contains("today's last email about failed jobs"))
        .collect();
    assert_eq!(last.len(), 1);
    assert_eq!(last[0], &mails_of_the_day[49], "the fiftieth");
    assert!(text(&last[0]["text"]).contains(&tomorrow.after(DAY).readable()), "{last:?}");
    assert_eq!(reported(&world).await.pop(), Some(said("other", "1")), "other organizations still get emails");
    assert_eq!(tests::log::of_this_test().metric("FailureMailsUsedUp").len(), 1, "that is counted");

    sweep(&world, at(24 * 60 + 1)).await;
    let mut workflows: Vec<_> = reported(&world).await.into_iter().map(|(workflow, _)| workflow).collect();
    assert_eq!(workflows.len(), 62, "the other emails are sent on the next day");
    workflows.sort_unstable();
    workflows.dedup();
    assert_eq!(workflows.len(), 62, "each once");
}

/// The calls that the delivery function makes to tables.
async fn counting() -> (World, impl AsyncFn() -> Vec<String>) {
    let calls = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&calls);
    let answer = move |call: &Call| {
        if call.function == "webhooks-deliver" {
            let key = call["Key"]["webhook_endpoint_id"]["S"].as_str().unwrap_or_default();
            let key = key.split_inclusive('#').take(2).collect::<String>();
            seen.lock().expect("no panic").push(format!("{} {key}", call.operation));
        }
        None
    };
    let world = World::answering(&[], answer).await;
    (world, async move || std::mem::take(&mut *calls.lock().expect("no panic")))
}

const NOTE: &str = "UpdateItem #failing#";

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_writes_once_per_workflow_and_reads_nothing() {
    let (world, calls) = counting().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let mut events = Vec::new();
    for job in 0..3 {
        events.push(failed(&acme.id, "a", job));
        events.push(failed(&acme.id, "b", job));
        events.push(failed(&other.id, "a", job));
    }
    for mut event in events {
        event["skip_callbacks"] = json!(true);
        world.enqueue("job-events", event).await;
    }
    assert_eq!(world.poll("job-events").await, 9);
    assert_eq!(calls().await, [NOTE; 3]);
    let mut completed = event(&acme.id, "well");
    completed["skip_callbacks"] = json!(true);
    world.deliver(completed).await;
    assert_eq!(calls().await, [] as [&str; 0], "a completed job costs nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn frequent_failures_are_counted_and_sent_in_one_email_an_hour() {
    let (world, calls) = counting().await;
    let tenant = world.tenant("acme").await;
    world.deliver(failed(&tenant.id, "a", "first")).await;
    sweep(&world, later(0)).await;
    assert_eq!(calls().await.iter().filter(|call| *call == NOTE).count(), 1);
    for job in 0..300 {
        world.enqueue("job-events", failed(&tenant.id, "a", job)).await;
    }
    let mut batches = 0;
    while world.poll("job-events").await > 0 {
        batches += 1;
    }
    let writes = calls().await.iter().filter(|call| *call == NOTE).count();
    assert!(batches >= 30 && writes <= 20, "{writes} writes for {batches} batches");
    for minute in (1..60).step_by(3) {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert_eq!(reported(&world).await, [said("a", "1")]);
    for minute in (61..180).step_by(3) {
        sweep(&world, later(minute * MINUTE)).await;
    }
    let reported = reported(&world).await;
    assert_eq!(reported.len(), 2, "{reported:?}");
    let number = reported[1].1.strip_prefix("about ").expect("an estimate").parse::<u64>().expect("a number");
    assert!((100..=300).contains(&number), "{reported:?}");
    assert_eq!(text(&mails(&world).await[1]["text"]).matches("Job: ").count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn up_to_a_hundred_failures_are_counted_exactly() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for job in 0..90 {
        for _ in 0..2 {
            world.enqueue("job-events", failed(&tenant.id, "a", job)).await;
        }
    }
    world.poll_all("job-events").await;
    sweep(&world, later(0)).await;
    assert_eq!(reported(&world).await, [said("a", "90")]);
    sweep(&world, later(2 * HOUR)).await;
    assert_eq!(reported(&world).await.len(), 1);
}

/// An email may have to wait for the next day's limit while its workflow keeps failing.
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_keeps_failing_has_a_small_item() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (table, owner, now) = (world.job_failures(), tenant.id.parse().expect("an id"), Timestamp::now());
    for batch in 0..30 {
        let failed = (0..10).map(|job| failure(&tenant.id, 10 * batch + job, now));
        let (mut workflows, failures): (Vec<_>, Vec<_>) = failed.unzip();
        let (workflow, ids) = (workflows.pop().expect("a workflow"), Write::Ids { more: 0 });
        let noted = table.note(&owner, &workflow, &failures, ids, now).await.expect("it is recorded");
        assert_eq!(noted.is_full, batch >= 9, "{batch}");
    }
    let items = world.items("webhook-endpoints").await;
    let ids = items.iter().find_map(|item| item.get("failed")?.as_ss().ok()).expect("ids");
    assert_eq!(ids.len(), 100);
    sweep(&world, later(2 * MINUTE)).await;
    assert_eq!(reported(&world).await, [said("a", "about 300")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_do_not_wait_for_the_record_of_a_failure() {
    let noted = Arc::<Mutex<Vec<Instant>>>::default();
    let seen = Arc::clone(&noted);
    let answer = move |call: &Call| {
        let is_note = call["Key"]["webhook_endpoint_id"]["S"].as_str().is_some_and(|key| key.starts_with("#failing#"));
        seen.lock().expect("no panic").extend(is_note.then(Instant::now));
        None
    };
    let world = World::answering(&[], answer).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for job in 0..10 {
        world.enqueue("job-events", failed(&tenant.id, &format!("workflow {job}"), job)).await;
    }
    assert_eq!(world.poll("job-events").await, 10);
    let received = receiver.received().await;
    let noted = noted.lock().expect("no panic");
    assert_eq!((received.len(), noted.len()), (10, 10));
    assert!(received.iter().all(|one| noted.iter().all(|noted| one.at <= *noted)), "all deliveries are posted first");
}
