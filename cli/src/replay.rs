//! `fanfare replay`: posts logged deliveries to a local program. The service builds each request and its signatures, so
//! the signing secret does not leave it, and the log does not change.

use std::{collections::BTreeSet, fmt, pin::pin, time::Duration};

use api::{
    DeliveryId, Secret,
    deliveries::{Delivery, Found, Get, List, SignedAt, SignedRequest, Status},
};
use serde_json::json;
use tokio::time::MissedTickBehavior;
use url::Url;

use crate::{
    args::Replay,
    calls::Api,
    clock, deliveries,
    event_line::{EventLine, INDENT, page},
    failure::Failure,
    http::{Http, NetworkSettings},
    ids, program,
    terminal::{cell, fit, print_json, print_line, print_note, width},
};

const STOPPED: &str = "Stopped by Ctrl-C.";

/// The number of deliveries by result.
#[derive(Default)]
struct ReplaySummary {
    accepted: usize,
    failed: usize,
    skipped: usize,
}

/// Zeros are omitted.
impl fmt::Display for ReplaySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [("accepted", self.accepted), ("failed", self.failed), ("skipped", self.skipped)];
        let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}"));
        let counts: Vec<_> = counts.collect();
        f.write_str(&if counts.is_empty() { "none".to_owned() } else { counts.join(", ") })
    }
}

/// The program, and the form of the requests to it.
struct Replayer<'a> {
    api: &'a Api,
    http: Http,
    to: Url,
    at: SignedAt,
    headers: Vec<(String, Secret)>,
    is_json: bool,
    sum: ReplaySummary,
    /// The names of the endpoints' own headers that the requests lack.
    lacking: BTreeSet<String>,
}

pub(crate) async fn run(api: &Api, network: &NetworkSettings, replay: Replay, is_json: bool) -> Result<(), Failure> {
    let selected = select(api, &replay).await?;
    if selected.is_empty() {
        if let Some(job) = replay.job {
            return Err(Failure::not_found(format!("No delivery of {} found.", cell(&job))));
        }
        print_note("No deliveries found.");
        return Ok(());
    }
    let Replay { to, as_sent, headers, rate, insecure, .. } = replay;
    let http = network.client_of_program(insecure, program::IDLE_TIMEOUT)?;
    let at = if as_sent { SignedAt::LatestAttempt } else { SignedAt::Now };
    let mut replayer =
        Replayer { api, http, to, at, headers, is_json, sum: ReplaySummary::default(), lacking: BTreeSet::new() };
    let ended = {
        let mut stop = pin!(tokio::signal::ctrl_c());
        let mut all = pin!(replayer.all(&selected, Duration::from_secs(1) / rate));
        tokio::select! {
            ended = &mut all => ended,
            _ = &mut stop => Err(Failure::interrupted(STOPPED)),
        }
    };
    replayer.summarize(selected.len());
    ended
}

/// Finds the deliveries to replay, oldest first.
async fn select(api: &Api, replay: &Replay) -> Result<Vec<DeliveryId>, Failure> {
    if let Some(id) = &replay.id {
        return Ok(vec![ids::delivery(api, id).await?]);
    }
    let call = List {
        webhook_endpoint_id: ids::optional_endpoint(api, replay.endpoint.as_deref()).await?,
        job_id: replay.job.clone(),
        since: replay.since.clone(),
        ..List::new()
    };
    let limit = usize::try_from(replay.limit).unwrap_or(usize::MAX);
    let statuses = if replay.failed { vec![Some(Status::Failed), Some(Status::Pending)] } else { vec![None] };
    let (mut found, mut is_more) = (Vec::new(), false);
    for status in statuses {
        let listed = deliveries::listed(api, List { status, ..call.clone() }, limit).await?;
        is_more |= listed.next_cursor.is_some();
        // A pending delivery has failed so far if it has had an attempt.
        found.extend(listed.deliveries.into_iter().filter(|one| !replay.failed || one.last_attempt.is_some()));
    }
    found.sort_by(|one, other| other.created_at.as_str().cmp(one.created_at.as_str()));
    is_more |= found.len() > limit;
    found.truncate(limit);
    if is_more {
        print_note(&format!("Only the newest {} deliveries are replayed. Use --limit for more.", found.len()));
    }
    Ok(found.into_iter().rev().map(|delivery| delivery.delivery_id).collect())
}

impl Replayer<'_> {
    async fn all(&mut self, selected: &[DeliveryId], pause: Duration) -> Result<(), Failure> {
        let mut ticks = tokio::time::interval(pause);
        // A slow post does not make the next ones faster.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for id in selected {
            ticks.tick().await;
            self.one(id).await?;
        }
        match (&self.sum, selected.len()) {
            (ReplaySummary { failed: 0, skipped: 0, .. }, _) => Ok(()),
            (ReplaySummary { failed: 0, .. }, 1) => Err(Failure::local("The delivery was not replayed.")),
            (_, 1) => Err(Failure::local("The program did not accept the delivery.")),
            (ReplaySummary { accepted, .. }, all) => {
                Err(Failure::local(format!("Not accepted: {} of {all} deliveries.", all - accepted)))
            }
        }
    }

    /// Replays a delivery. Fails if no further delivery could be replayed either.
    async fn one(&mut self, id: &DeliveryId) -> Result<(), Failure> {
        let found = match self.api.call(&Get { request: Some(self.at), ..Get::new(id.clone()) }).await {
            Err(error) if error.is_not_found() => {
                self.sum.skipped += 1;
                let reason = "it is not in the log";
                match self.is_json {
                    true => print_json(&json!({ "delivery_id": id, "skipped": reason }))?,
                    false => print_note(&format!("Skipped {}: {reason}.", cell(id))),
                }
                return Ok(());
            }
            found => found?,
        };
        if let Some(reason) = self.obstacle(&found) {
            return self.skip(&found.delivery, reason);
        }
        let Found { delivery, payload: Some(body), request: Some(request), .. } = found else { return Ok(()) };
        self.post(&delivery, request, body).await
    }

    /// Returns why a delivery cannot be replayed.
    fn obstacle(&self, Found { delivery, payload, request, attempts }: &Found) -> Option<&'static str> {
        match (request, payload) {
            (Some(_), _) => None,
            _ if delivery.erased_at.is_some() => Some("its payload was erased"),
            _ if self.at == SignedAt::LatestAttempt && attempts.is_empty() => Some("it has had no attempt"),
            (None, Some(_)) => Some("its endpoint was deleted"),
            (None, None) => Some("its payload is no longer kept"),
        }
    }

    fn skip(&mut self, delivery: &Delivery, reason: &str) -> Result<(), Failure> {
        self.sum.skipped += 1;
        if self.is_json {
            let Delivery { delivery_id, webhook_id, event, job_id, .. } = delivery;
            return Ok(print_json(&json!({
                "delivery_id": delivery_id, "webhook_id": webhook_id, "event": event, "job_id": job_id,
                "skipped": reason, "page": page(&self.api.origin(), delivery_id),
            }))?);
        }
        print_note(&format!("Skipped {} of {}: {reason}.", cell(&delivery.event), cell(&delivery.job_id)));
        Ok(())
    }

    async fn post(&mut self, delivery: &Delivery, request: SignedRequest, body: String) -> Result<(), Failure> {
        let SignedRequest { mut headers, secret_headers } = request;
        self.lacking.extend(secret_headers);
        for (name, value) in &self.headers {
            self.lacking.remove(&name.to_ascii_lowercase());
            headers.insert(name.to_ascii_lowercase(), value.reveal().to_owned());
        }
        let tried = program::post(&self.http, &self.to, &headers, body).await;
        match tried.is_delivered() {
            true => self.sum.accepted += 1,
            false => self.sum.failed += 1,
        }
        let Delivery { delivery_id, webhook_id, event, job_id, .. } = delivery;
        let page = page(&self.api.origin(), delivery_id);
        if self.is_json {
            print_json(&json!({
                "at": clock::now(), "delivery_id": delivery_id, "webhook_id": webhook_id, "event": event,
                "job_id": job_id, "to": self.to.as_str(), "webhook_timestamp": headers.get("webhook-timestamp"),
                "outcome": tried.outcome(), "duration_ms": tried.took, "response": tried.response(), "page": page,
            }))?;
        } else {
            let line = EventLine {
                time: clock::time_of_day(),
                event: cell(event),
                job: cell(job_id),
                outcome: tried.outcome(),
                is_delivered: tried.is_delivered(),
                took: format!("{} ms", tried.took),
                id: ids::short_delivery(delivery_id),
                target: None,
                page,
            };
            print_line(&line.laid_out(width()))?;
            if let Some(answer) = tried.first_line() {
                print_line(&fit(&format!("{INDENT}{answer}"), width()))?;
            }
        }
        // Other deliveries would fail for the same reason, and can be replayed later.
        match tried.hint(&self.to, "--to") {
            Some(hint) => Err(Failure::local(format!("{} did not respond.", self.to)).hint(hint)),
            None => Ok(()),
        }
    }

    fn summarize(&self, all: usize) {
        print_note(&format!(
            "Replayed {} of {all}: {}. The log is unchanged.",
            self.sum.accepted + self.sum.failed,
            self.sum
        ));
        if !self.lacking.is_empty() {
            let names: Vec<_> = self.lacking.iter().map(cell).collect();
            let names = names.join(", ");
            print_note(&format!(
                "The endpoint's own headers were left out, because they are secret: {names}. Add --header."
            ));
        }
    }
}
