//! Prints one line for each event, and a summary at the end.

use std::fmt;

use anstyle::AnsiColor;
use api::{
    DeliveryId, Open,
    deliveries::{LeasedDelivery, Settled, Unanswered, Verdict},
};
use serde_json::json;
use url::Url;

use super::done::{Done, Tried};
use crate::{
    address::host_and_port,
    clock,
    failure::Failure,
    http::Missing,
    ids,
    terminal::{cell, fit, linked, note, painted, say, say_json, width, width_of},
};

/// The minimum width of a job's id, in columns.
const LEAST: usize = 8;
/// The indentation of a line below its event: the width of the time.
const INDENT: &str = "          ";

pub(super) struct Show {
    /// The console's origin.
    origin: String,
    /// The local program.
    to: Url,
    output: Output,
    /// The last printed hint. It is repeated only after a response or another hint.
    hinted: Option<String>,
    sum: Sum,
}

/// The output format.
#[derive(Clone, Copy)]
pub(super) struct Output {
    pub(super) is_json: bool,
    /// Whether the bodies of events are printed.
    pub(super) has_bodies: bool,
}

/// The number of events by result.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    delivered: usize,
    failed: usize,
    released: usize,
}

impl Sum {
    fn count(&mut self, done: &Done) {
        match &done.tried {
            None => self.released += 1,
            Some(tried) if tried.is_delivered() => self.delivered += 1,
            Some(_) => self.failed += 1,
        }
    }
}

/// Zeros are omitted.
impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [("delivered", self.delivered), ("failed", self.failed), ("released", self.released)];
        let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}"));
        let counts: Vec<_> = counts.collect();
        f.write_str(&if counts.is_empty() { "no events".to_owned() } else { counts.join(", ") })
    }
}

impl Show {
    pub(super) fn new(origin: String, to: Url, output: Output) -> Self {
        Self { origin, to, output, hinted: None, sum: Sum::default() }
    }

    /// The results so far.
    pub(super) fn sum(&self) -> Sum {
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
        let mut line = json!({
            "at": clock::now(), "delivery_id": delivery_id, "webhook_id": headers.get("webhook-id"), "event": event,
            "job_id": job_id, "attempt": attempt, "outcome": tried.as_ref().map(Tried::outcome),
            "duration_ms": tried.as_ref().map(|tried| tried.took),
            "response": tried.as_ref().and_then(Tried::response), "result": result, "status": status,
            "next_attempt_at": next_attempt_at, "page": self.page(delivery_id),
        });
        if let Some(line) = line.as_object_mut().filter(|_| self.output.has_bodies) {
            line.insert("body".to_owned(), json!(body));
        }
        Ok(say_json(&line)?)
    }

    fn person(&mut self, Done { delivery, tried, .. }: &Done, settled: Option<Settled>) -> Result<(), Failure> {
        let (event, job, width) = (cell(&delivery.event), cell(&delivery.job_id), width());
        let Some(tried) = tried else {
            note(&format!("Released {event} of {job}. It will be received again."));
            return Ok(());
        };
        let line = Line {
            time: clock::time_of_day(),
            event,
            job,
            outcome: tried.outcome(),
            is_delivered: tried.is_delivered(),
            took: format!("{} ms", tried.took),
            id: ids::short_delivery(&delivery.delivery_id),
            page: self.page(&delivery.delivery_id),
        };
        say(&line.laid_out(width))?;
        let next = settled.as_ref().and_then(|settled| settled.next_attempt_at.as_ref()).and_then(clock::until);
        let answer = tried.response().and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
        let below = [next.map(|wait| format!("retry in {wait}")), answer.map(|line| cell(&line.trim()))];
        let below: Vec<_> = below.into_iter().flatten().collect();
        if !below.is_empty() {
            say(&fit(&format!("{INDENT}{}", below.join(": ")), width))?;
        }
        if self.output.has_bodies {
            say(&format!("{INDENT}{}", cell(&delivery.body)))?;
        }
        let hint = tried.answer.as_ref().err().and_then(|missing| self.hint(missing));
        if hint != self.hinted {
            hint.iter().for_each(|hint| note(&format!("hint: {hint}")));
            self.hinted = hint;
        }
        if let Some(fault) = fault(settled.as_ref().map(|settled| &settled.result)) {
            note(&format!("{} {fault}", line.job));
        }
        Ok(())
    }

    /// Returns the remedy for a missing response, if it is known.
    fn hint(&self, missing: &Missing) -> Option<String> {
        let program = host_and_port(&self.to);
        match missing.why {
            _ if missing.is_refused => Some(format!("Nothing listens on {program}. Start the program, or check --to.")),
            Unanswered::Tls => Some(format!(
                "The certificate of {program} is not trusted: {}. Pass its certificate with --cacert, or --insecure.",
                cell(&missing.cause)
            )),
            _ => None,
        }
    }

    /// Returns the address of the delivery's page, if the id does not need escaping in a URL.
    fn page(&self, id: &DeliveryId) -> Option<String> {
        let is_safe = id.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        is_safe.then(|| format!("{}/console/deliveries/{id}", self.origin))
    }
}

/// Returns why an event's result was not recorded. The string completes a sentence that begins with the job.
fn fault(result: Option<&Open<Verdict>>) -> Option<String> {
    match result {
        Some(Open::Known(Verdict::Settled)) => None,
        None | Some(Open::Known(Verdict::LeaseExpired)) => {
            Some("was not settled within its lease. It will be received again.".to_owned())
        }
        Some(Open::Known(Verdict::NotFound)) => Some("no longer exists at the service.".to_owned()),
        // A result from a newer service, or a release that was not requested.
        Some(other) => Some(format!("was not settled: {}.", cell(other))),
    }
}

struct Line {
    time: String,
    event: String,
    job: String,
    outcome: String,
    is_delivered: bool,
    took: String,
    id: String,
    page: Option<String>,
}

impl Line {
    /// Lays out the line to fit the screen. On a terminal, the short id links to the page; piped output contains the
    /// page's URL.
    fn laid_out(&self, screen: usize) -> String {
        let Self { time, event, job, outcome, took, id, .. } = self;
        let page = self.page.as_deref().unwrap_or_default();
        let painted = painted(outcome, if self.is_delivered { AnsiColor::Green } else { AnsiColor::Red });
        if screen == usize::MAX {
            return format!("{time}  {event}  {job}  {painted}  {took}  {page}").trim_end().to_owned();
        }
        // The layouts in order of preference. Each omits one more element: the event, the duration, the id, then the
        // time.
        for (before, after, id) in [
            (format!("{time}  {event}  "), format!("  {took}"), Some(id)),
            (format!("{time}  "), format!("  {took}"), Some(id)),
            (format!("{time}  "), String::new(), Some(id)),
            (format!("{time}  "), String::new(), None),
            (String::new(), String::new(), None),
        ] {
            let rest = format!("{before}  {outcome}{after}{}", id.map_or_else(String::new, |id| format!("  {id}")));
            let left = screen.checked_sub(width_of(&rest));
            if let Some(left) = left.filter(|left| *left >= LEAST.min(width_of(job))) {
                let id = id.map_or_else(String::new, |id| format!("  {}", linked(id, page)));
                return format!("{before}{}  {painted}{after}{id}", fit(job, left));
            }
        }
        fit(outcome, screen)
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    fn line() -> Line {
        Line {
            time: "12:00:00".to_owned(),
            event: "job.completed".to_owned(),
            job: "invoices-of-january-2026".to_owned(),
            outcome: "204".to_owned(),
            is_delivered: true,
            took: "3 ms".to_owned(),
            id: "a6250e60".to_owned(),
            page: Some("http://127.0.0.1:9000/console/deliveries/1".to_owned()),
        }
    }

    #[test]
    fn a_line_never_wraps_and_shortens_the_job() {
        let shown = |width| strip_str(&line().laid_out(width)).to_string();
        for width in 1..150 {
            assert!(width_of(&shown(width)) <= width, "{width}: {}", shown(width));
        }
        assert_eq!(shown(2), "2…");
        assert_eq!(shown(15), "invoices-…  204");
        assert_eq!(shown(25), "12:00:00  invoices-…  204");
        assert_eq!(shown(34), "12:00:00  invoices…  204  a6250e60");
        assert_eq!(shown(60), "12:00:00  job.completed  invoices-of-j…  204  3 ms  a6250e60");
        assert_eq!(shown(80), "12:00:00  job.completed  invoices-of-january-2026  204  3 ms  a6250e60");
        assert!(shown(usize::MAX).ends_with("3 ms  http://127.0.0.1:9000/console/deliveries/1"));
    }

    #[test]
    fn on_a_terminal_the_id_links_to_its_page() {
        let shown = line().laid_out(60);
        let page = "http://127.0.0.1:9000/console/deliveries/1";
        let link = format!("\u{1b}]8;;{page}\u{1b}\\a6250e60\u{1b}]8;;\u{1b}\\");
        assert_eq!(shown, format!("12:00:00  job.completed  invoices-of-j…  \u{1b}[32m204\u{1b}[0m  3 ms  {link}"));
    }

    #[test]
    fn a_summary_lists_only_results_that_occurred() {
        let sum = |delivered, failed, released| Sum { delivered, failed, released }.to_string();
        assert_eq!(sum(0, 0, 0), "no events");
        assert_eq!(sum(3, 0, 1), "3 delivered, 1 released");
        assert_eq!(sum(0, 2, 0), "2 failed");
    }

    #[test]
    fn an_unrecorded_result_has_its_reason() {
        assert_eq!(fault(Some(&Verdict::Settled.into())), None);
        let shown = |result: Option<Open<Verdict>>| fault(result.as_ref()).expect("a reason");
        assert!(shown(None).contains("will be received again"));
        assert!(shown(Some(Verdict::LeaseExpired.into())).contains("will be received again"));
        assert_eq!(shown(Some(Verdict::NotFound.into())), "no longer exists at the service.");
        let unknown = serde_json::from_str("\"paused\\u001b[2J\"").expect("a name");
        assert_eq!(shown(Some(unknown)), "was not settled: paused\u{FFFD}[2J.");
    }

    #[test]
    fn an_unsafe_id_has_no_page() {
        let to = "http://localhost:3000".parse().expect("a URL");
        let show = Show::new("http://127.0.0.1:9000".to_owned(), to, Output { is_json: false, has_bodies: false });
        assert_eq!(show.page(&"a.0-1".into()).expect("a page"), "http://127.0.0.1:9000/console/deliveries/a.0-1");
        for hostile in ["a/../../signin", "a\u{1b}\\b", "?next=x", "ä"] {
            assert_eq!(show.page(&hostile.into()), None);
        }
    }
}
