//! `fanfare deliveries`.

mod page;
mod watch;

use std::{mem, time::Duration};

use api::{
    DeliveryId, EndpointId, Timestamp,
    deliveries::{
        Attempt, Count, Counted, Erase, Erased, Found, Get, List as Call, Recover, Recovering, Resend, Status,
    },
};

use self::page::{Labels, Rows, filter};
pub(crate) use self::page::{is_delivered, listed, result};
use crate::{
    args::{Deliveries, DeliverySelector, Erasure, Recovery},
    calls::{Api, MAX_PAGE_SIZE},
    clock,
    failure::Failure,
    ids::{self, Shortener},
    input::confirm,
    table::{self, Column, Table},
    terminal::{
        cell, cell_of, end_progress, indented, is_for_people, print_json, print_line, print_note, print_result,
        progress,
    },
};

/// The interval between polls of a recovery.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// An attempt that has been due for less than this time may be in progress.
const IN_PROGRESS_TIME: Duration = Duration::from_mins(1);

const ATTEMPTS: &[Column] = &[
    Column::new("ATTEMPT (UTC)"),
    Column::new("RESULT").of_statuses(),
    Column::new("MS").left_out(1),
    Column::new("TRIGGER").left_out(0),
    Column::new("ERROR OR ANSWER").shrinks_to(15),
];
const TOTAL: &[Column] = &[Column::new("STATUS").of_statuses(), Column::new("DELIVERIES")];
const REASONS: &[Column] = &[Column::new("FAILED FOR"), Column::new("DELIVERIES")];

pub(crate) async fn run(api: &Api, command: Deliveries, is_json: bool) -> Result<(), Failure> {
    match command {
        Deliveries::List(list) if list.watch => watch::watch(api, &list, is_json).await,
        Deliveries::List(list) => {
            let limit = usize::try_from(list.limit).unwrap_or(MAX_PAGE_SIZE);
            let listed = listed(api, filter(api, &list).await?, limit).await?;
            if is_json {
                return Ok(print_json(&listed)?);
            }
            if listed.deliveries.is_empty() {
                return Ok(print_line("No deliveries found.")?);
            }
            let shortener = Shortener::for_deliveries(&listed.deliveries);
            let rows = Rows::new(Labels::load(api).await, shortener);
            let when = if is_for_people() { "AGE" } else { "CREATED (UTC)" };
            Ok(table::print(&page::columns(when), &rows.of(&listed.deliveries))?)
        }
        Deliveries::Get(named) => {
            let found = api.call(&Get::new(id_of(api, named).await?)).await?;
            if is_json { Ok(print_json(&found)?) } else { show(api, &found).await }
        }
        Deliveries::Resend(named) => {
            let done = api.call(&Resend::new(id_of(api, named).await?)).await?;
            Ok(print_result(&done, is_json, &cell(&done.message))?)
        }
        Deliveries::Erase(which) => erase(api, which, is_json).await,
        Deliveries::Recover(which) => recover(api, which, is_json).await,
        Deliveries::Stats { endpoint, since } => {
            let webhook_endpoint_id = ids::optional_endpoint(api, endpoint.as_deref()).await?;
            let counted = api.call(&Count { webhook_endpoint_id, since }).await?;
            if is_json { Ok(print_json(&counted)?) } else { show_counts(&counted) }
        }
    }
}

/// Finds the id of the given delivery. Fails if the job has several deliveries.
async fn id_of(api: &Api, named: DeliverySelector) -> Result<DeliveryId, Failure> {
    if let Some(id) = named.id {
        return ids::delivery(api, &id).await;
    }
    let webhook_endpoint_id = ids::optional_endpoint(api, named.endpoint.as_deref()).await?;
    let call = Call { job_id: named.job.clone(), webhook_endpoint_id, ..Call::new() };
    let job = cell_of(named.job);
    let mut found = listed(api, call, 2).await?.deliveries;
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(Failure::not_found(format!("No delivery of {job} found."))),
        (Some(one), true) => Ok(one.delivery_id),
        (Some(_), false) => Err(Failure::ambiguous(format!("{job} has several deliveries."))
            .hint("Add --endpoint, or pass an id from `fanfare deliveries list --job JOB`.")),
    }
}

/// Erases a delivery, all of a job's deliveries, or the ended ones of a period.
async fn erase(api: &Api, which: Erasure, is_json: bool) -> Result<(), Failure> {
    let Erasure { id, job: job_id, since, until, endpoint, yes } = which;
    let webhook_endpoint_id = ids::optional_endpoint(api, endpoint.as_deref()).await?;
    let delivery_id = match &id {
        Some(id) => Some(ids::delivery(api, id).await?),
        None => None,
    };
    let what = match (&delivery_id, &job_id) {
        (Some(id), _) => format!("the delivery {}", cell(id)),
        (None, Some(job)) => format!("all deliveries of {}", cell(job)),
        (None, None) => format!(
            "the delivered, failed and ended deliveries{}",
            period(since.as_ref(), until.as_ref(), endpoint.as_deref())
        ),
    };
    confirm(&format!("Erase the payloads and responses of {what}? They can no longer be resent."), yes)?;
    let mut call = Erase { delivery_id, job_id, webhook_endpoint_id, since, until, ..Erase::new() };
    let mut erased = api.call(&call).await?;
    while let Some(cursor) = erased.next_cursor.take() {
        call.cursor = Some(cursor);
        let next = api.call(&call).await?;
        erased = Erased { erased: erased.erased + next.erased, ..next };
    }
    erased.message = format!("Erased: {}", erased.erased);
    Ok(print_result(&erased, is_json, &erased.message)?)
}

/// Describes a period of deliveries, and their endpoint.
fn period(since: Option<&Timestamp>, until: Option<&Timestamp>, endpoint: Option<&str>) -> String {
    let time = |word: &str, time: Option<&Timestamp>| {
        time.map_or_else(String::new, |time| format!(" {word} {} UTC", clock::short(time)))
    };
    let of = endpoint.map_or_else(String::new, |id| format!(" of endpoint {}", cell(&id)));
    format!("{of}{}{}", time("since", since), time("until", until))
}

/// Starts a recovery, and shows its progress unless the user does not want to wait.
async fn recover(api: &Api, which: Recovery, is_json: bool) -> Result<(), Failure> {
    let Recovery { endpoint, since, until, status, outcome, workflow, no_wait } = which;
    let webhook_endpoint_id = ids::optional_endpoint(api, endpoint.as_deref()).await?;
    let of = webhook_endpoint_id.clone();
    let call = Recover { webhook_endpoint_id, until, status: Some(status), outcome, workflow, ..Recover::new(since) };
    let recovering = api.call(&call).await?;
    if no_wait {
        return Ok(print_result(&recovering, is_json, &cell(&recovering.message))?);
    }
    recovered(api, of, &recovering, is_json).await
}

/// Shows the progress of a recovery until it is done. The total is not known in advance.
async fn recovered(
    api: &Api,
    webhook_endpoint_id: Option<EndpointId>,
    recovering: &Recovering,
    is_json: bool,
) -> Result<(), Failure> {
    let (count, mut before, mut is_down) = (Count { webhook_endpoint_id, ..Count::new() }, None, false);
    loop {
        let counted = match api.call(&count).await {
            Err(error) if error.is_passing() => {
                if !mem::replace(&mut is_down, true) {
                    end_progress();
                    print_note(&format!("{error} Retrying. The recovery continues in the background."));
                    before = None;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            }
            counted => counted?,
        };
        if mem::take(&mut is_down) {
            print_note("The service is reachable again.");
        }
        let Some(mine) = counted.recoveries.into_iter().find(|one| one.recovery_id == recovering.recovery_id) else {
            end_progress();
            return Ok(print_result(recovering, is_json, "The recovery continues in the background.")?);
        };
        if mine.done {
            end_progress();
            return Ok(print_result(&mine, is_json, &format!("Done: {} resent.", mine.resent))?);
        }
        if before.replace(mine.resent) != Some(mine.resent) {
            progress(&format!("{} resent so far", mine.resent));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn show(api: &Api, Found { delivery, payload, attempts, .. }: &Found) -> Result<(), Failure> {
    let labels = if delivery.webhook_endpoint_id.is_some() { Labels::load(api).await } else { Labels::default() };
    for (title, value) in [
        ("Delivery", cell(&delivery.delivery_id)),
        ("Webhook id", cell(&delivery.webhook_id)),
        ("Endpoint", labels.with_id(delivery)),
        ("Event", cell(&delivery.event)),
        ("Job", cell(&delivery.job_id)),
        ("Workflow", cell_of(delivery.workflow.as_ref())),
        ("Status", cell(&delivery.status)),
        ("Created", format!("{} UTC ({} ago)", clock::short(&delivery.created_at), clock::age(&delivery.created_at))),
        ("Next attempt", delivery.next_attempt_at.as_ref().map_or_else(String::new, next_attempt)),
        ("Page", api.page(&format!("/console/deliveries/{}", cell(&delivery.delivery_id)))),
    ] {
        if !value.is_empty() {
            print_line(&format!("{title}: {value}"))?;
        }
    }
    if !attempts.is_empty() {
        print_line("")?;
        show_attempts(attempts)?;
    }
    match payload {
        Some(payload) if is_for_people() => Ok(print_line(&format!("\n{}", indented(payload)))?),
        Some(payload) => Ok(print_line(&format!("\n{}", cell(payload)))?),
        None if delivery.erased_at.is_some() => Ok(print_line("\nThe payload was erased.")?),
        None => Ok(print_line("\nThe payload was not stored.")?),
    }
}

/// Prints the attempts, and the latest error in full if its column is too narrow for it.
fn show_attempts(attempts: &[Attempt]) -> Result<(), Failure> {
    let rows = attempts.iter().map(|attempt| {
        vec![
            clock::short(&attempt.at),
            result(attempt),
            cell(&attempt.duration_ms),
            cell(&attempt.trigger),
            cell_of(attempt.detail.as_ref().or(attempt.response.as_ref())),
        ]
    });
    let rows: Vec<_> = rows.collect();
    table::print(ATTEMPTS, &rows)?;
    let Some((latest, error)) = rows.last().and_then(|latest| Some((latest, latest.last()?))) else { return Ok(()) };
    match Table::for_rows(ATTEMPTS, &rows).line(latest).contains(error.as_str()) {
        true => Ok(()),
        false => Ok(print_line(&format!("\n{error}"))?),
    }
}

/// Formats the time of the next attempt. An attempt that has been due for a while is in progress, or waits for its
/// receiver, which is slow or silent.
fn next_attempt(at: &Timestamp) -> String {
    let wait = match (clock::since(at), clock::until(at)) {
        (Some(since), _) if since > IN_PROGRESS_TIME => format!(" (due {} ago, waiting its turn)", clock::span(since)),
        (Some(_), _) => " (due now)".to_owned(),
        (None, Some(wait)) => format!(" (in {wait})"),
        (None, None) => String::new(),
    };
    format!("{} UTC{wait}", clock::short(at))
}

fn show_counts(Counted { since, total, failures, complete, .. }: &Counted) -> Result<(), Failure> {
    print_note(&format!("Created since {} UTC ({} ago).", clock::short(since), clock::age(since)));
    let failed = total.failed;
    let total = [
        (Status::Delivered, total.delivered),
        (Status::Ended, total.ended),
        (Status::Failed, total.failed),
        (Status::Held, total.held),
        (Status::Pending, total.pending),
    ];
    table::print(TOTAL, &total.map(|(status, count)| vec![cell(&status), cell(&count)]))?;
    if !failures.is_empty() {
        print_line("")?;
        let reasons = failures.iter().map(|one| vec![cell(&one.reason), cell(&one.count)]);
        table::print(REASONS, &reasons.collect::<Vec<_>>())?;
    }
    let with_reason: u32 = failures.iter().map(|one| one.count).sum();
    if with_reason < failed {
        print_note(&format!("The reasons are those of the newest {with_reason} failed deliveries."));
    }
    if !complete {
        print_note("There are too many deliveries, so only the newest were counted.");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use humantime::format_rfc3339_millis;

    use super::*;

    #[test]
    fn an_attempt_that_is_due_waits_its_turn() {
        let at = |time: SystemTime| Timestamp::from(format_rfc3339_millis(time).to_string());
        let (now, minute) = (SystemTime::now(), Duration::from_mins(1));
        for (time, end) in [
            (now - minute * 3, " UTC (due 3m ago, waiting its turn)"),
            (now - Duration::from_secs(5), " UTC (due now)"),
            (now + minute * 11 / 2, " UTC (in 5m)"),
        ] {
            assert!(next_attempt(&at(time)).ends_with(end), "{}", next_attempt(&at(time)));
        }
    }
}
