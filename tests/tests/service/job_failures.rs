//! Emails to an organization about its failed jobs.

mod crashes;
mod limits;
mod mails;

use common::{
    timestamp::Timestamp,
    webhooks::{
        event::JobEvent,
        job_failures::{FailedJob, JobFailure, Workflow},
    },
};
use serde_json::{Value, json};
use tests::{World, event, text};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// A time this many milliseconds from now.
pub(crate) fn later(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond() + milliseconds)
}

/// A failed job of this workflow.
pub(crate) fn failed(tenant: &str, workflow: &str, job: impl ToString) -> Value {
    let mut event = event(tenant, job);
    event["event"] = json!("job.failed");
    event["workflow"] = json!(workflow);
    event
}

/// The workflow `a`, and a failed job, as read from its event.
fn failure(tenant: &str, job: impl ToString, now: Timestamp) -> (Workflow, JobFailure) {
    let event = JobEvent::parse(&failed(tenant, "a", job).to_string(), now).expect("an event");
    FailedJob::of(&event, false).and_then(|failed| failed.read()).expect("a failure")
}

/// The emails to the notification address, oldest first.
async fn mails(world: &World) -> Vec<Value> {
    let mut mails = world.mails().await;
    mails.retain(|mail| mail["to"] == json!(["ops@example.com"]));
    mails
}

/// The workflow and the number of failed jobs in each email.
async fn reported(world: &World) -> Vec<(String, String)> {
    let said = |mail: &Value, what: &str| {
        let line = text(&mail["text"]).lines().find_map(|line| line.strip_prefix(what).map(str::to_owned));
        line.unwrap_or_else(|| unreachable!("{what} is missing from {mail}"))
    };
    let mails = mails(world).await;
    mails.iter().map(|mail| (said(mail, "Workflow: "), said(mail, "New failures: "))).collect()
}

fn said(workflow: &str, failures: &str) -> (String, String) {
    (workflow.to_owned(), failures.to_owned())
}
