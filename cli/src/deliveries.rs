//! `fanfare deliveries`.

use std::{collections::HashSet, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    api::Api,
    args::{Deliveries, List},
    clock,
    failure::Failure,
    terminal::{cell, note, say, table},
};

/// How often `--watch` and a recovery look again.
const PAUSE: Duration = Duration::from_secs(2);
const TITLES: [&str; 6] = ["CREATED (UTC)", "STATUS", "EVENT", "JOB", "LAST ATTEMPT", "ID"];

pub(crate) async fn run(api: &Api, command: Deliveries, is_json: bool) -> Result<(), Failure> {
    match command {
        Deliveries::List(list) if list.watch => watch(api, &list, is_json).await,
        Deliveries::List(list) => {
            let answer = api.call("deliveries/list", filter(&list)).await?;
            if is_json {
                return Ok(say(&answer.to_string())?);
            }
            let rows: Vec<_> = found(&answer).iter().map(row).collect();
            if rows.is_empty() { Ok(say("There is none.")?) } else { Ok(table(&TITLES, &rows, 3)?) }
        }
        Deliveries::Get { id } => {
            let answer = api.call("deliveries/get", json!({ "delivery_id": id })).await?;
            if is_json { Ok(say(&answer.to_string())?) } else { show(api, &answer) }
        }
        Deliveries::Resend { id } => {
            let answer = api.call("deliveries/resend", json!({ "delivery_id": id })).await?;
            Ok(say(&if is_json { answer.to_string() } else { cell(&answer["message"]) })?)
        }
        Deliveries::Recover { endpoint, since, status, no_wait } => {
            let fields = json!({ "webhook_endpoint_id": endpoint, "since": since, "status": status.name() });
            let answer = api.call("deliveries/recover", fields).await?;
            if is_json || no_wait {
                return Ok(say(&if is_json { answer.to_string() } else { cell(&answer["message"]) })?);
            }
            recovered(api, &endpoint, &answer["recovery_id"]).await
        }
        Deliveries::Stats { endpoint, since } => {
            let mut fields = Map::new();
            fields.extend(endpoint.map(|id| ("webhook_endpoint_id".to_owned(), json!(id))));
            fields.extend(since.map(|since| ("since".to_owned(), json!(since))));
            let answer = api.call("deliveries/stats", fields.into()).await?;
            if is_json { Ok(say(&answer.to_string())?) } else { counted(&answer) }
        }
    }
}

fn filter(list: &List) -> Value {
    let fields = [
        ("webhook_endpoint_id", list.endpoint.as_deref()),
        ("status", list.status.map(crate::args::Status::name)),
        ("event", list.event.as_deref()),
        ("job_id", list.job.as_deref()),
        ("since", list.since.as_deref()),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    fields.chain([("limit".to_owned(), json!(list.limit))]).collect::<Map<_, _>>().into()
}

fn found(answer: &Value) -> &[Value] {
    answer["deliveries"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn row(delivery: &Value) -> Vec<String> {
    let last = &delivery["last_attempt"];
    let attempt = match (&last["outcome"], &last["status_code"]) {
        (Value::Null, _) => String::new(),
        (outcome, Value::Null) => cell(outcome),
        (outcome, status) => format!("{} ({})", cell(outcome), cell(status)),
    };
    vec![
        clock::short(&cell(&delivery["created_at"])),
        cell(&delivery["status"]),
        cell(&delivery["event"]),
        cell(&delivery["job_id"]),
        attempt,
        cell(&delivery["delivery_id"]),
    ]
}

/// Shows new deliveries, and changes of those that are listed, until somebody ends it.
async fn watch(api: &Api, list: &List, is_json: bool) -> Result<(), Failure> {
    let (mut seen, mut is_down) = (HashSet::new(), false);
    loop {
        match api.call("deliveries/list", filter(list)).await {
            Ok(answer) => {
                if std::mem::take(&mut is_down) {
                    note("The service answers again.");
                }
                let page = found(&answer);
                for delivery in page.iter().rev() {
                    if seen.insert((
                        delivery["delivery_id"].to_string(),
                        delivery["status"].to_string(),
                        delivery["attempts"].to_string(),
                    )) {
                        say(&if is_json { delivery.to_string() } else { row(delivery).join("  ") })?;
                    }
                }
                // What has left the page does not come back to it.
                let ids: HashSet<_> = page.iter().map(|delivery| delivery["delivery_id"].to_string()).collect();
                seen.retain(|(id, ..)| ids.contains(id));
            }
            Err(error) if error.is_passing() => {
                if !std::mem::replace(&mut is_down, true) {
                    note(&format!("{error} Trying again."));
                }
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Shows how far a recovery is, until it is done.
async fn recovered(api: &Api, endpoint: &str, recovery: &Value) -> Result<(), Failure> {
    let mut before = Value::Null;
    loop {
        let stats = api.call("deliveries/stats", json!({ "webhook_endpoint_id": endpoint })).await;
        let stats = match stats {
            Err(error) if error.is_passing() => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            stats => stats?,
        };
        let all = stats["recoveries"].as_array().into_iter().flatten();
        let Some(mine) = all.into_iter().find(|one| one["recovery_id"] == *recovery) else {
            return Ok(say("The recovery goes on in the background.")?);
        };
        if mine["resent"] != before {
            note(&format!("{} sent again so far", cell(&mine["resent"])));
            before = mine["resent"].clone();
        }
        if mine["done"] == true {
            return Ok(say(&format!("Done: {} sent again.", cell(&mine["resent"])))?);
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
                of("response"),
            ]
        });
        say("")?;
        table(&["ATTEMPT (UTC)", "OUTCOME", "STATUS", "MS", "FOR", "ANSWER"], &rows.collect::<Vec<_>>(), 5)?;
    }
    match answer["payload"].as_str() {
        Some(payload) => Ok(say(&format!("\n{}", cell(&json!(payload))))?),
        None => Ok(say("\nThe payload was not kept.")?),
    }
}

fn counted(answer: &Value) -> Result<(), Failure> {
    let numbers = |member: &str| {
        let all = answer[member].as_object().into_iter().flatten();
        all.map(|(name, count)| vec![cell(&json!(name)), cell(count)]).collect::<Vec<_>>()
    };
    table(&["STATUS", "DELIVERIES"], &numbers("total"), 0)?;
    let failures = numbers("failures");
    if !failures.is_empty() {
        say("")?;
        table(&["FAILED FOR", "DELIVERIES"], &failures, 0)?;
    }
    if answer["complete"] == false {
        note("There are too many to count: these are the newest.");
    }
    Ok(())
}
