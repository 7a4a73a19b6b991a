//! `fanfare deliveries`.

mod page;
mod watch;

use std::time::Duration;

use api::{
    DeliveryId, EndpointId, RecoveryId,
    deliveries::{Count, Counted, Found, Get, List as Call, Recover, Resend, Status},
};

use self::page::{PAGE, filter, listed, row};
use crate::{
    args::{Deliveries, Named},
    calls::Api,
    clock,
    failure::Failure,
    terminal::{Columns, cell, cell_of, end_progress, note, progress, say, say_json, tell},
};

/// The time between two looks at a recovery.
const PAUSE: Duration = Duration::from_secs(2);

const LISTED: Columns = Columns {
    titles: &["CREATED (UTC)", "STATUS", "EVENT", "JOB", "LAST ATTEMPT", "ID"],
    shrinks: 3,
    state: Some(1),
    can_drop: true,
};
const ATTEMPTS: Columns = Columns {
    titles: &["ATTEMPT (UTC)", "OUTCOME", "STATUS", "MS", "FOR", "ERROR OR ANSWER"],
    shrinks: 5,
    state: Some(1),
    can_drop: false,
};
const TOTAL: Columns = Columns { titles: &["STATUS", "DELIVERIES"], shrinks: 0, state: Some(0), can_drop: false };
const REASONS: Columns = Columns { titles: &["FAILED FOR", "DELIVERIES"], shrinks: 0, state: None, can_drop: false };

pub(crate) async fn run(api: &Api, command: Deliveries, is_json: bool) -> Result<(), Failure> {
    match command {
        Deliveries::List(list) if list.watch => watch::watch(api, &list, is_json).await,
        Deliveries::List(list) => {
            let limit = usize::try_from(list.limit).unwrap_or(PAGE);
            let listed = listed(api, filter(&list), limit).await?;
            if is_json {
                return Ok(say_json(&listed)?);
            }
            let rows: Vec<_> = listed.deliveries.iter().map(row).collect();
            if rows.is_empty() {
                return Ok(say("No deliveries found.")?);
            }
            if !LISTED.print(&rows)? {
                note("The terminal is too narrow for the ids. Use the job instead: fanfare deliveries get --job JOB");
            }
            Ok(())
        }
        Deliveries::Get(named) => {
            let found = api.call(&Get::new(id_of(api, named).await?)).await?;
            if is_json { Ok(say_json(&found)?) } else { show(api, &found) }
        }
        Deliveries::Resend(named) => {
            let done = api.call(&Resend::new(id_of(api, named).await?)).await?;
            Ok(tell(&done, is_json, &cell(&done.message))?)
        }
        Deliveries::Recover { endpoint, since, status, no_wait } => {
            let recover = Recover { status: Some(status), ..Recover::new(endpoint.clone(), since) };
            let recovering = api.call(&recover).await?;
            if no_wait {
                return Ok(tell(&recovering, is_json, &cell(&recovering.message))?);
            }
            recovered(api, endpoint, &recovering.recovery_id, is_json).await
        }
        Deliveries::Stats { endpoint, since } => {
            let counted = api.call(&Count { webhook_endpoint_id: endpoint, since }).await?;
            if is_json { Ok(say_json(&counted)?) } else { show_counts(&counted) }
        }
    }
}

/// The id of the chosen delivery. Fails if the job has several deliveries.
async fn id_of(api: &Api, named: Named) -> Result<DeliveryId, Failure> {
    if let Some(id) = named.id {
        return Ok(id);
    }
    let call = Call { job_id: named.job.clone(), webhook_endpoint_id: named.endpoint, ..Call::new() };
    let job = cell_of(named.job);
    let mut found = listed(api, call, 2).await?.deliveries;
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(Failure::not_found(format!("No delivery of {job} found."))),
        (Some(one), true) => Ok(one.delivery_id),
        (Some(_), false) => Err(Failure::local(format!(
            "{job} has several deliveries. Add --endpoint, or pass a delivery id from `fanfare --json deliveries list`.",
        ))),
    }
}

/// Shows the progress of a recovery until it is done. The total is not known in advance.
async fn recovered(api: &Api, endpoint: EndpointId, recovery: &RecoveryId, is_json: bool) -> Result<(), Failure> {
    let (count, mut before) = (Count { webhook_endpoint_id: Some(endpoint), ..Count::new() }, None);
    loop {
        let counted = match api.call(&count).await {
            Err(error) if error.is_passing() => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            counted => counted?,
        };
        let Some(mine) = counted.recoveries.into_iter().find(|one| one.recovery_id == *recovery) else {
            end_progress();
            return Ok(say("The recovery continues in the background.")?);
        };
        if mine.done {
            end_progress();
            return Ok(tell(&mine, is_json, &format!("Done: {} resent.", mine.resent))?);
        }
        if before.replace(mine.resent) != Some(mine.resent) {
            progress(&format!("{} resent so far", mine.resent));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn show(api: &Api, Found { delivery, payload, attempts }: &Found) -> Result<(), Failure> {
    for (title, value) in [
        ("Delivery", cell(&delivery.delivery_id)),
        ("Endpoint", cell_of(delivery.webhook_endpoint_id.as_ref())),
        ("Event", cell(&delivery.event)),
        ("Job", cell(&delivery.job_id)),
        ("Status", cell(&delivery.status)),
        ("Created", cell(&delivery.created_at)),
        ("Next attempt", cell_of(delivery.next_attempt_at.as_ref())),
    ] {
        if !value.is_empty() {
            say(&format!("{title}: {value}"))?;
        }
    }
    say(&format!("Page: {}", api.page(&format!("/console/deliveries/{}", cell(&delivery.delivery_id)))))?;
    if !attempts.is_empty() {
        let rows = attempts.iter().map(|attempt| {
            vec![
                clock::short(&attempt.at),
                cell(&attempt.outcome),
                cell_of(attempt.status_code),
                cell(&attempt.duration_ms),
                cell(&attempt.trigger),
                cell_of(attempt.detail.as_ref().or(attempt.response.as_ref())),
            ]
        });
        say("")?;
        ATTEMPTS.print(&rows.collect::<Vec<_>>())?;
    }
    match payload {
        Some(payload) => Ok(say(&format!("\n{}", cell(payload)))?),
        None => Ok(say("\nThe payload was not stored.")?),
    }
}

fn show_counts(Counted { total, failures, complete, .. }: &Counted) -> Result<(), Failure> {
    let total = [
        (Status::Delivered, total.delivered),
        (Status::Ended, total.ended),
        (Status::Failed, total.failed),
        (Status::Held, total.held),
        (Status::Pending, total.pending),
    ];
    TOTAL.print(&total.map(|(status, count)| vec![cell(&status), cell(&count)]))?;
    if !failures.is_empty() {
        say("")?;
        REASONS.print(&failures.iter().map(|one| vec![cell(&one.reason), cell(&one.count)]).collect::<Vec<_>>())?;
    }
    if !complete {
        note("There are too many deliveries to count. Only the newest were counted.");
    }
    Ok(())
}
