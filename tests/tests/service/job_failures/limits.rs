//! The limits on emails, and the cost of many failures.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{timestamp::Timestamp, webhooks::job_failures::storm::Write};
use serde_json::{Value, json};
use tests::{Call, Receiver, World, event, text};
use tokio::time::Instant;

use super::{HOUR, MINUTE, failed, failure, later, mails, reported, said};
use crate::notices::sweep;

/// Tomorrow's time after this many minutes. The tests that count a day's emails may run across midnight.
fn tomorrow(minutes: u64) -> Timestamp {
    Timestamp::now().next_day().after(Duration::from_mins(minutes))
}

#[tokio::test(flavor = "multi_thread")]
async fn after_five_emails_one_is_about_all_workflows() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    for workflow in 0..30 {
        for job in 0..=(workflow / 28) {
            world.enqueue("job-events", failed(&acme.id, &format!("workflow {workflow}."), job)).await;
        }
    }
    world.enqueue("job-events", failed(&other.id, "other", 1)).await;
    world.poll_all("job-events").await;
    sweep(&world, tomorrow(1)).await;
    let (mut singles, mut about) = (Vec::new(), Vec::new());
    for mail in mails(&world).await {
        let subject = text(&mail["subject"]).to_owned();
        match subject.strip_prefix("Webhooks: Workflow ") {
            Some(single) => singles.push(single.split(':').next().expect("a name").to_owned()),
            None => about.push((subject, text(&mail["text"]).to_owned())),
        }
    }
    assert!(singles.contains(&"other".to_owned()), "other organizations have their own five emails: {singles:?}");
    let [(subject, all)] = &about[..] else { unreachable!("one email is about the others, not {about:?}") };
    assert_eq!(singles.len(), 6);
    assert!(subject.starts_with("Webhooks: 25 workflows: ") && subject.ends_with(" jobs failed"), "{subject}");
    let listed = (0..30).filter(|workflow| all.contains(&format!(": workflow {workflow}.")));
    assert_eq!(listed.count(), 20, "{all}");
    for said in ["Workflows: 25", "and 5 more workflows", "/console/deliveries?event=job.failed&since="] {
        assert!(all.contains(said), "{said}: {all}");
    }
    let twice = [28, 29].iter().find(|workflow| !singles.contains(&format!("workflow {workflow}.")));
    assert!(
        twice.is_none_or(|workflow| all.contains(&format!("2: workflow {workflow}."))),
        "those with the most: {all}"
    );

    // Each of them is reported again after an hour only, and a new one at once.
    world.deliver(failed(&acme.id, "workflow 7.", 9)).await;
    world.deliver(failed(&acme.id, "new", 1)).await;
    sweep(&world, tomorrow(2)).await;
    assert_eq!(mails(&world).await.len(), 8);
    assert_eq!(mails(&world).await[7]["subject"], "Webhooks: Workflow new: 1 job failed");
    sweep(&world, tomorrow(62)).await;
    assert_eq!(mails(&world).await[8]["subject"], "Webhooks: Workflow workflow 7.: 1 job failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_gets_fifty_emails_a_day() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    world.deliver(failed(&acme.id, "first", 1)).await;
    sweep(&world, tomorrow(1)).await;
    world.set("webhook-endpoints", ("webhook_endpoint_id", "#failure-mails"), json!({"mails": 48})).await;
    for (minute, workflow) in [(2, "a"), (3, "b"), (4, "c")] {
        world.deliver(failed(&acme.id, workflow, 1)).await;
        world.deliver(failed(&acme.id, &format!("{workflow}{workflow}"), 1)).await;
        sweep(&world, tomorrow(minute)).await;
    }
    world.deliver(failed(&other.id, "other", 1)).await;
    sweep(&world, tomorrow(5)).await;
    let mails_of_the_day = mails(&world).await;
    assert_eq!(mails_of_the_day.len(), 4, "one about a, the fiftieth about b, and that of the other organization");
    let is_last = |mail: &&Value| text(&mail["text"]).contains("today's last email about failed jobs");
    let last: Vec<_> = mails_of_the_day.iter().filter(is_last).collect();
    assert_eq!(last, [&mails_of_the_day[2]], "the fiftieth");
    assert!(text(&last[0]["text"]).contains(&tomorrow(24 * 60).readable()), "{last:?}");
    assert!(text(&mails_of_the_day[3]["subject"]).contains("other"), "other organizations still get emails");
    assert_eq!(tests::log::of_this_test().metric("FailureMailsUsedUp").len(), 1, "that is counted");

    sweep(&world, tomorrow(24 * 60 + 1)).await;
    let later: Vec<_> = mails(&world).await.drain(4..).map(|mail| text(&mail["text"]).to_owned()).collect();
    let reported =
        |workflow: &str| later.iter().filter(|mail| mail.contains(&format!("Workflow: {workflow}\n"))).count();
    assert_eq!((later.len(), reported("c"), reported("cc")), (2, 1, 1), "the others are reported on the next day");
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
