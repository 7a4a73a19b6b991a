//! Prints one line for each event, and a summary at the end.

use std::{collections::HashMap, fmt};

use api::{
    Extensible,
    deliveries::{LeasedDelivery, Settled, Verdict},
};
use serde_json::json;
use url::Url;

use super::outcome::Done;
use crate::{
    clock,
    event_line::{EventLine, INDENT, page},
    failure::Failure,
    ids,
    program::PostOutcome,
    terminal::{cell, fit, print_json, print_line, print_note, width},
};

pub(super) struct Show {
    /// The console's origin.
    origin: String,
    output: Output,
    /// The last printed hint of each target. It is repeated only after a response or another hint.
    hinted: HashMap<Url, String>,
    sum: ListenSummary,
}

/// The output format.
#[derive(Clone, Copy)]
pub(super) struct Output {
    pub(super) is_json: bool,
    /// Whether the bodies of events are printed.
    pub(super) has_bodies: bool,
    /// Whether the line of an event names its target.
    pub(super) has_targets: bool,
}

/// The number of events by result.
#[derive(Clone, Copy, Default)]
pub(super) struct ListenSummary {
    delivered: usize,
    failed: usize,
    released: usize,
}

impl ListenSummary {
    fn count(&mut self, done: &Done) {
        match &done.tried {
            None => self.released += 1,
            Some((_, tried)) if tried.is_delivered() => self.delivered += 1,
            Some(_) => self.failed += 1,
        }
    }
}

/// Zeros are omitted.
impl fmt::Display for ListenSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [("delivered", self.delivered), ("failed", self.failed), ("released", self.released)];
        let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}"));
        let counts: Vec<_> = counts.collect();
        f.write_str(&if counts.is_empty() { "no events".to_owned() } else { counts.join(", ") })
    }
}

impl Show {
    pub(super) fn new(origin: String, output: Output) -> Self {
        Self { origin, output, hinted: HashMap::new(), sum: ListenSummary::default() }
    }

    /// The results so far.
    pub(super) fn sum(&self) -> ListenSummary {
        self.sum
    }

    /// Prints the result of an event, and the service's response to its settlement if there is one.
    pub(super) fn event(&mut self, done: &Done, settled: Option<Settled>) -> Result<(), Failure> {
        self.sum.count(done);
        if self.output.is_json { self.program(done, settled) } else { self.person(done, settled) }
    }

    fn program(&self, Done { delivery, tried, .. }: &Done, settled: Option<Settled>) -> Result<(), Failure> {
        let LeasedDelivery { delivery_id, event, job_id, attempt, headers, body, .. } = delivery;
        let (result, status, next_attempt_at) = match settled {
            Some(settled) => (Some(settled.result), settled.status, settled.next_attempt_at),
            None => (None, None, None),
        };
        let (target, tried) = tried.as_ref().map(|(target, tried)| (target, tried)).unzip();
        let mut line = json!({
            "at": clock::now(), "delivery_id": delivery_id, "webhook_id": headers.get("webhook-id"), "event": event,
            "job_id": job_id, "attempt": attempt, "to": target.map(|target| target.url.as_str()),
            "outcome": tried.map(PostOutcome::outcome), "duration_ms": tried.map(|tried| tried.took),
            "response": tried.and_then(PostOutcome::response), "result": result, "status": status,
            "next_attempt_at": next_attempt_at, "page": page(&self.origin, delivery_id),
        });
        if let Some(line) = line.as_object_mut().filter(|_| self.output.has_bodies) {
            line.insert("body".to_owned(), json!(body));
        }
        Ok(print_json(&line)?)
    }

    fn person(&mut self, Done { delivery, tried, .. }: &Done, settled: Option<Settled>) -> Result<(), Failure> {
        let (event, job, width) = (cell(&delivery.event), cell(&delivery.job_id), width());
        let Some((target, tried)) = tried else {
            print_note(&format!("Released {event} of {job}. It will be received again."));
            return Ok(());
        };
        let line = EventLine {
            time: clock::time_of_day(),
            event,
            job,
            outcome: tried.outcome(),
            is_delivered: tried.is_delivered(),
            took: format!("{} ms", tried.took),
            id: ids::short_delivery(&delivery.delivery_id),
            target: self.output.has_targets.then(|| target.to_string()),
            page: page(&self.origin, &delivery.delivery_id),
        };
        print_line(&line.laid_out(width))?;
        let next = settled.as_ref().and_then(|settled| settled.next_attempt_at.as_ref()).and_then(clock::until);
        let below = [next.map(|wait| format!("retry in {wait}")), tried.first_line()];
        let below: Vec<_> = below.into_iter().flatten().collect();
        if !below.is_empty() {
            print_line(&fit(&format!("{INDENT}{}", below.join(": ")), width))?;
        }
        if self.output.has_bodies {
            print_line(&format!("{INDENT}{}", cell(&delivery.body)))?;
        }
        match tried.hint(&target.url, &target.option()) {
            None => drop(self.hinted.remove(&target.url)),
            Some(hint) if self.hinted.get(&target.url) == Some(&hint) => {}
            Some(hint) => {
                print_note(&format!("hint: {hint}"));
                self.hinted.insert(target.url.clone(), hint);
            }
        }
        if let Some(fault) = fault(settled.as_ref().map(|settled| &settled.result)) {
            print_note(&format!("{} {fault}", line.job));
        }
        Ok(())
    }
}

/// Returns why an event's result was not recorded. The string completes a sentence that begins with the job.
fn fault(result: Option<&Extensible<Verdict>>) -> Option<String> {
    match result {
        Some(Extensible::Known(Verdict::Settled)) => None,
        None | Some(Extensible::Known(Verdict::LeaseExpired)) => {
            Some("was not settled within its lease. It will be received again.".to_owned())
        }
        Some(Extensible::Known(Verdict::NotFound)) => Some("no longer exists at the service.".to_owned()),
        // A result from a newer service, or a release that was not requested.
        Some(other) => Some(format!("was not settled: {}.", cell(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_lists_only_results_that_occurred() {
        let sum = |delivered, failed, released| ListenSummary { delivered, failed, released }.to_string();
        assert_eq!(sum(0, 0, 0), "no events");
        assert_eq!(sum(3, 0, 1), "3 delivered, 1 released");
        assert_eq!(sum(0, 2, 0), "2 failed");
    }

    #[test]
    fn an_unrecorded_result_has_its_reason() {
        assert_eq!(fault(Some(&Verdict::Settled.into())), None);
        let shown = |result: Option<Extensible<Verdict>>| fault(result.as_ref()).expect("a reason");
        assert!(shown(None).contains("will be received again"));
        assert!(shown(Some(Verdict::LeaseExpired.into())).contains("will be received again"));
        assert_eq!(shown(Some(Verdict::NotFound.into())), "no longer exists at the service.");
        let unknown = serde_json::from_str("\"paused\\u001b[2J\"").expect("a name");
        assert_eq!(shown(Some(unknown)), "was not settled: paused\u{FFFD}[2J.");
    }
}
