//! `fanfare deliveries`.

mod page;
mod watch;

use std::time::Duration;

use serde_json::{Map, Value, json};

use self::page::{PAGE, filter, listed, row};
use crate::{
    api::Api,
    args::{Deliveries, Named},
    clock,
    failure::Failure,
    terminal::{Columns, cell, end_progress, note, progress, say, say_json, shown, tell},
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
            let (deliveries, cursor) = listed(api, filter(&list), limit).await?;
            if is_json {
                let mut answer = json!({ "deliveries": deliveries });
                if let Some(cursor) = cursor {
                    answer["next_cursor"] = cursor;
                }
                return Ok(say_json(&answer)?);
            }
            let rows: Vec<_> = deliveries.iter().map(row).collect();
            if rows.is_empty() {
                return Ok(say("No deliveries found.")?);
            }
            if !LISTED.print(&rows)? {
                note("The terminal is too narrow for the ids. Use the job instead: fanfare deliveries get --job JOB");
            }
            Ok(())
        }
        Deliveries::Get(named) => {
            let answer = api.call("deliveries/get", json!({ "delivery_id": id_of(api, &named).await? })).await?;
            if is_json { Ok(say_json(&answer)?) } else { show(api, &answer) }
        }
        Deliveries::Resend(named) => {
            let answer = api.call("deliveries/resend", json!({ "delivery_id": id_of(api, &named).await? })).await?;
            Ok(tell(&answer, is_json, &cell(&answer["message"]))?)
        }
        Deliveries::Recover { endpoint, since, status, no_wait } => {
            let fields = json!({ "webhook_endpoint_id": endpoint, "since": since, "status": status.name() });
            let answer = api.call("deliveries/recover", fields).await?;
            if no_wait {
                return Ok(tell(&answer, is_json, &cell(&answer["message"]))?);
            }
            recovered(api, &endpoint, &answer["recovery_id"], is_json).await
        }
        Deliveries::Stats { endpoint, since } => {
            let mut fields = Map::new();
            fields.extend(endpoint.map(|id| ("webhook_endpoint_id".to_owned(), json!(id))));
            fields.extend(since.map(|since| ("since".to_owned(), json!(since))));
            let answer = api.call("deliveries/stats", fields.into()).await?;
            if is_json { Ok(say_json(&answer)?) } else { counted(&answer) }
        }
    }
}

/// The id of the chosen delivery. Fails if the job has several deliveries.
async fn id_of(api: &Api, named: &Named) -> Result<String, Failure> {
    let (job, endpoint) = match (&named.id, &named.job) {
        (Some(id), _) => return Ok(id.clone()),
        (None, job) => (job.clone().unwrap_or_default(), &named.endpoint),
    };
    let mut fields = Map::from_iter([("job_id".to_owned(), json!(job))]);
    fields.extend(endpoint.as_ref().map(|id| ("webhook_endpoint_id".to_owned(), json!(id))));
    let (found, _) = listed(api, fields, 2).await?;
    match found.as_slice() {
        [] => Err(Failure::not_found(format!("No delivery of {} found.", shown(&job)))),
        [one] => Ok(one["delivery_id"].as_str().unwrap_or_default().to_owned()),
        _ => Err(Failure::Local(format!(
            "{} has several deliveries. Add --endpoint, or pass a delivery id from `fanfare --json deliveries list`.",
            shown(&job)
        ))),
    }
}

/// Shows the progress of a recovery until it is done. The total is not known in advance.
async fn recovered(api: &Api, endpoint: &str, recovery: &Value, is_json: bool) -> Result<(), Failure> {
    let mut before = Value::Null;
    loop {
        let stats = match api.call("deliveries/stats", json!({ "webhook_endpoint_id": endpoint })).await {
            Err(error) if error.is_passing() => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            stats => stats?,
        };
        let all = stats["recoveries"].as_array().into_iter().flatten();
        let Some(mine) = all.into_iter().find(|one| one["recovery_id"] == *recovery) else {
            end_progress();
            return Ok(say("The recovery continues in the background.")?);
        };
        if mine["done"] == true {
            end_progress();
            return Ok(tell(mine, is_json, &format!("Done: {} resent.", cell(&mine["resent"])))?);
        }
        if mine["resent"] != before {
            progress(&format!("{} resent so far", cell(&mine["resent"])));
            before = mine["resent"].clone();
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn show(api: &Api, answer: &Value) -> Result<(), Failure> {
    let delivery = &answer["delivery"];
    for (title, member) in [
        ("Delivery", "delivery_id"),
        ("Endpoint", "webhook_endpoint_id"),
        ("Event", "event"),
        ("Job", "job_id"),
        ("Status", "status"),
        ("Created", "created_at"),
        ("Next attempt", "next_attempt_at"),
    ] {
        if !delivery[member].is_null() {
            say(&format!("{title}: {}", cell(&delivery[member])))?;
        }
    }
    say(&format!("Page: {}", api.page(&format!("/console/deliveries/{}", cell(&delivery["delivery_id"])))))?;
    let attempts = answer["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !attempts.is_empty() {
        let rows = attempts.iter().map(|attempt| {
            let of = |member: &str| cell(&attempt[member]);
            vec![
                clock::short(&of("at")),
                of("outcome"),
                of("status_code"),
                of("duration_ms"),
                of("trigger"),
                cell(if attempt["detail"].is_null() { &attempt["response"] } else { &attempt["detail"] }),
            ]
        });
        say("")?;
        ATTEMPTS.print(&rows.collect::<Vec<_>>())?;
    }
    match answer["payload"].as_str() {
        Some(payload) => Ok(say(&format!("\n{}", shown(payload)))?),
        None => Ok(say("\nThe payload was not stored.")?),
    }
}

fn counted(answer: &Value) -> Result<(), Failure> {
    let total = answer["total"].as_object().into_iter().flatten();
    TOTAL.print(&total.map(|(status, count)| vec![shown(status), cell(count)]).collect::<Vec<_>>())?;
    let reasons = answer["failures"].as_array().into_iter().flatten();
    let reasons: Vec<_> = reasons.map(|reason| vec![cell(&reason["reason"]), cell(&reason["count"])]).collect();
    if !reasons.is_empty() {
        say("")?;
        REASONS.print(&reasons)?;
    }
    if answer["complete"] == false {
        note("There are too many deliveries to count. Only the newest were counted.");
    }
    Ok(())
}
