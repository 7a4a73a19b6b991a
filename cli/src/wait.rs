//! `fanfare wait`: waits for the events of jobs, without a receiver.
//!
//! The event of a finished job is in the delivery log if an endpoint or a callback gets it, so `wait` searches the log
//! for the job. The price of a search grows with the searched time: it reads the part of the log that is newer than a few
//! minutes, and a part of the index for each thousand deliveries before. Only the first and the last search therefore
//! cover the whole log. The others begin an hour before the command, because an event is rarely older than that when it
//! enters the log.

use std::{
    collections::HashMap,
    mem,
    time::{Duration, Instant},
};

use anstyle::AnsiColor;
use api::{
    DeliveryId, Extensible, Timestamp,
    deliveries::{Delivery, Get, List},
    webhooks::{Endpoint, EventName, List as ListEndpoints},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    args::Wait,
    calls::Api,
    clock, deliveries,
    event_line::page,
    failure::Failure,
    terminal::{cell, indented, is_for_people, painted, print_json, print_line, print_note, shown},
};

/// The time before the command that later searches cover.
const OVERLAP: Duration = Duration::from_hours(1);
/// The first and the longest pause between searches. Between them, a pause is a quarter of the time waited so far.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The maximum number of a job's deliveries to look at. They differ only in their receivers.
const MAX_DELIVERIES: usize = 10;

/// The jobs whose events are still missing, and those that have failed.
struct JobWait<'a> {
    api: &'a Api,
    is_json: bool,
    left: Vec<String>,
    failed: Vec<String>,
}

/// The event of a finished job.
struct Finished {
    event: EventName,
    delivery: Delivery,
    /// The event's body, if one of its deliveries still has it.
    body: Option<String>,
}

/// A finished job as JSON. The result and the error stay as they were sent: numbers of any size and with all digits.
#[derive(Serialize)]
struct FinishedJson<'a> {
    created_at: &'a Timestamp,
    delivery_id: &'a DeliveryId,
    error: Option<&'a RawValue>,
    is_payload_kept: bool,
    job_id: &'a str,
    page: Option<String>,
    result: Option<&'a RawValue>,
    status: &'static str,
    workflow: Option<&'a str>,
}

pub(crate) async fn run(api: &Api, Wait { jobs, timeout }: Wait, is_json: bool) -> Result<(), Failure> {
    let mut waiting = JobWait { api, is_json, left: Vec::new(), failed: Vec::new() };
    for job in jobs {
        if !waiting.left.contains(&job) {
            waiting.left.push(job);
        }
    }
    let began = Instant::now();
    let (mut recent, mut is_first, mut is_down) = (None, true, false);
    loop {
        let is_last = began.elapsed() >= timeout;
        let requested = match waiting.search(recent.as_ref().filter(|_| !is_first && !is_last)).await {
            Ok(()) => {
                if mem::take(&mut is_down) {
                    print_note("The service is reachable again.");
                }
                Duration::ZERO
            }
            Err(error) if is_first || is_last || !error.is_passing() => return Err(error),
            Err(error) => {
                if !mem::replace(&mut is_down, true) {
                    print_note(&format!("{error} Retrying."));
                }
                error.retry_after().unwrap_or_default()
            }
        };
        if waiting.left.is_empty() {
            return waiting.outcome();
        }
        if is_last {
            return Err(waiting.timed_out(timeout));
        }
        if mem::take(&mut is_first) {
            waiting.announce().await;
            // By this machine's clock, which may be wrong, the searches could begin after the events.
            recent = api.now().await.and_then(|now| clock::before(now, OVERLAP));
        }
        let waited = began.elapsed();
        let pause = (waited / 4).clamp(FIRST_PAUSE, MAX_PAUSE).max(requested);
        tokio::time::sleep(pause.min(timeout.saturating_sub(waited))).await;
    }
}

impl JobWait<'_> {
    /// Looks for the events of all jobs, and prints those that it finds.
    async fn search(&mut self, since: Option<&Timestamp>) -> Result<(), Failure> {
        let mut jobs = mem::take(&mut self.left).into_iter();
        while let Some(job) = jobs.next() {
            match find(self.api, &job, since).await {
                Ok(Some(finished)) => {
                    finished.show(self.api, self.is_json)?;
                    self.failed.extend((finished.event == EventName::Failed).then_some(job));
                }
                Ok(None) => self.left.push(job),
                Err(error) => {
                    self.left.push(job);
                    self.left.extend(jobs);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Says what the command waits for, and if no endpoint would get it.
    async fn announce(&self) {
        print_note(&format!("Waiting for {}. Press Ctrl-C to stop.", list(&self.left)));
        // A key without the scope for this call can wait as well.
        let Ok(listed) = self.api.call(&ListEndpoints::new()).await else { return };
        if !listed.webhook_endpoints.iter().any(is_for_jobs) {
            print_note("No endpoint gets events of jobs, so only a job with a callback can be found.");
        }
    }

    fn outcome(&self) -> Result<(), Failure> {
        match self.failed.is_empty() {
            true => Ok(()),
            false => Err(Failure::job_failed(format!("Failed: {}.", list(&self.failed)))),
        }
    }

    fn timed_out(&self, timeout: Duration) -> Failure {
        let failed = match self.failed.is_empty() {
            true => String::new(),
            false => format!(" Failed: {}.", list(&self.failed)),
        };
        let time = humantime::format_duration(timeout);
        Failure::timed_out(format!("No event of {} after {time}.{failed}", list(&self.left))).hint(
            "The log has only events that an endpoint or the job's callback gets. `fanfare endpoints list` shows the \
             events of each endpoint.",
        )
    }
}

fn list(jobs: &[String]) -> String {
    jobs.iter().map(cell).collect::<Vec<_>>().join(", ")
}

/// Whether an endpoint gets events of jobs, at least of some workflows. A disabled one holds them, in the log.
fn is_for_jobs(endpoint: &Endpoint) -> bool {
    let events = endpoint.events.as_ref();
    events.is_none_or(|events| EventName::OF_JOBS.iter().any(|event| events.0.iter().any(|one| one == event)))
}

/// Finds the newest event of a job.
async fn find(api: &Api, job: &str, since: Option<&Timestamp>) -> Result<Option<Finished>, Failure> {
    let call = List { job_id: Some(job.to_owned()), since: since.cloned(), ..List::new() };
    let mut all = deliveries::listed(api, call, MAX_DELIVERIES).await?.deliveries.into_iter();
    // Tests and notices have another id instead of a job's.
    let newest = all.by_ref().find_map(|delivery| match delivery.event {
        Extensible::Known(event) if event.is_of_a_job() => Some((event, delivery)),
        _ => None,
    });
    let Some((event, delivery)) = newest else { return Ok(None) };
    let mut body = payload(api, &delivery).await?;
    for other in all.filter(|other| other.event == event) {
        if body.is_some() {
            break;
        }
        body = payload(api, &other).await?;
    }
    Ok(Some(Finished { event, delivery, body }))
}

async fn payload(api: &Api, delivery: &Delivery) -> Result<Option<String>, Failure> {
    if delivery.erased_at.is_some() {
        return Ok(None);
    }
    Ok(api.call(&Get::new(delivery.delivery_id.clone())).await?.payload)
}

impl Finished {
    fn show(&self, api: &Api, is_json: bool) -> Result<(), Failure> {
        let body: HashMap<&str, &RawValue> =
            self.body.as_deref().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
        let (status, member) = match self.event {
            EventName::Failed => ("failed", "error"),
            _ => ("completed", "result"),
        };
        let Delivery { delivery_id, job_id, workflow, created_at, .. } = &self.delivery;
        if is_json {
            return Ok(print_json(&FinishedJson {
                created_at,
                delivery_id,
                error: body.get("error").copied(),
                is_payload_kept: self.body.is_some(),
                job_id,
                page: page(&api.origin(), delivery_id),
                result: body.get("result").copied(),
                status,
                workflow: workflow.as_deref(),
            })?);
        }
        let missing = if self.delivery.erased_at.is_some() { "(erased)" } else { "(not kept)" };
        let value = body.get(member).map_or(missing, |value| value.get());
        let job = cell(job_id);
        if is_for_people() {
            let color = if self.event == EventName::Failed { AnsiColor::Red } else { AnsiColor::Green };
            return Ok(print_line(&format!("{}  {job}\n{}", painted(status, color), indented(value)))?);
        }
        Ok(print_line(&format!("{status}  {job}  {}", shown(value)))?)
    }
}
