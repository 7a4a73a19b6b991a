//! Prints one line for each event.

use anstyle::AnsiColor;
use api::{
    DeliveryId,
    deliveries::{LeasedDelivery, Settled, Unanswered, Verdict},
};
use serde_json::json;
use url::Url;

use super::done::{Done, Tried};
use crate::{
    address::host_and_port,
    clock,
    failure::Failure,
    http::{Missing, Posted},
    terminal::{cell, fit, linked, note, painted, say, say_json, width, width_of},
};

/// The shortest part of a job's id that is shown, in columns.
const LEAST: usize = 8;

pub(super) struct Show {
    /// The origin of the console.
    origin: String,
    /// The local program.
    to: Url,
    is_json: bool,
    /// The hint that was printed last. It is repeated only after an answer or another hint.
    hinted: Option<String>,
}

impl Show {
    pub(super) fn new(origin: String, to: Url, is_json: bool) -> Self {
        Self { origin, to, is_json, hinted: None }
    }

    /// Prints the result of an event, and the service's answer to its settlement, if any.
    pub(super) fn event(&mut self, done: &Done, settled: Option<Settled>) -> Result<(), Failure> {
        let LeasedDelivery { delivery_id, event, job_id, attempt, .. } = &done.delivery;
        let page = self.page(delivery_id);
        let result = settled.as_ref().map(|settled| &settled.result);
        if self.is_json {
            return Ok(say_json(&json!({
                "at": clock::now(), "delivery_id": delivery_id, "event": event, "job_id": job_id, "attempt": attempt,
                "outcome": done.tried.as_ref().map(Tried::outcome),
                "duration_ms": done.tried.as_ref().map(|tried| tried.took),
                "response": done.tried.as_ref().and_then(Tried::response),
                "result": result, "status": settled.as_ref().and_then(|settled| settled.status.as_ref()), "page": page,
            }))?);
        }
        let (event, job) = (cell(event), cell(job_id));
        let Some(tried) = &done.tried else {
            note(&format!("Released {event} of {job}. It will be received again."));
            return Ok(());
        };
        let line = Line {
            time: clock::time_of_day(),
            event,
            job,
            outcome: tried.outcome(),
            is_delivered: matches!(tried.answer, Ok(Posted { response: None, .. })),
            took: format!("{} ms", tried.took),
            page,
        };
        let width = width();
        say(&line.laid_out(width))?;
        if let Some(answer) = tried.response().and_then(|text| text.lines().find(|line| !line.trim().is_empty())) {
            say(&fit(&format!("          {}", cell(&answer.trim())), width))?;
        }
        let hint = tried.answer.as_ref().err().and_then(|missing| self.hint(missing));
        if hint != self.hinted {
            hint.iter().for_each(|hint| note(&format!("hint: {hint}")));
            self.hinted = hint;
        }
        if result.is_none_or(|result| *result != Verdict::Settled) {
            note(&format!("The lease of {} expired before it was settled. It will be received again.", line.job));
        }
        Ok(())
    }

    /// The remedy for a missing answer, as far as it is known.
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

    /// The delivery's page, if its id needs no escaping in a URL.
    fn page(&self, id: &DeliveryId) -> Option<String> {
        let is_safe = id.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        is_safe.then(|| format!("{}/console/deliveries/{id}", self.origin))
    }
}

struct Line {
    time: String,
    event: String,
    job: String,
    outcome: String,
    is_delivered: bool,
    took: String,
    page: Option<String>,
}

impl Line {
    /// The line, no wider than the screen. If the URL of the page does not fit, the job links to it.
    fn laid_out(&self, screen: usize) -> String {
        let Self { time, event, job, outcome, took, .. } = self;
        let page = self.page.as_deref().unwrap_or_default();
        let painted = painted(outcome, if self.is_delivered { AnsiColor::Green } else { AnsiColor::Red });
        if width_of(&format!("{time}  {event}  {job}  {outcome}  {took}  {page}")) <= screen {
            return format!("{time}  {event}  {job}  {painted}  {took}  {page}").trim_end().to_owned();
        }
        // The outcome has priority, then the job.
        for (before, after) in [
            (format!("{time}  {event}  "), format!("  {took}")),
            (format!("{time}  "), format!("  {took}")),
            (format!("{time}  "), String::new()),
            (String::new(), String::new()),
        ] {
            let left = screen.checked_sub(width_of(&format!("{before}  {outcome}{after}")));
            if let Some(left) = left.filter(|left| *left >= LEAST.min(width_of(job))) {
                return format!("{before}{}  {painted}{after}", linked(&fit(job, left), page));
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
        assert_eq!(shown(34), "12:00:00  invoices-of-…  204  3 ms");
        assert_eq!(shown(50), "12:00:00  job.completed  invoices-of-j…  204  3 ms");
        assert_eq!(shown(80), "12:00:00  job.completed  invoices-of-january-2026  204  3 ms");
        assert!(shown(110).ends_with("3 ms  http://127.0.0.1:9000/console/deliveries/1"));
    }

    #[test]
    fn on_a_narrow_terminal_the_job_links_to_its_page() {
        let shown = line().laid_out(50);
        let page = "http://127.0.0.1:9000/console/deliveries/1";
        let link = format!("\u{1b}]8;;{page}\u{1b}\\invoices-of-j…\u{1b}]8;;\u{1b}\\");
        assert_eq!(shown, format!("12:00:00  job.completed  {link}  \u{1b}[32m204\u{1b}[0m  3 ms"));
    }

    #[test]
    fn an_unsafe_id_has_no_page() {
        let to = "http://localhost:3000".parse().expect("a URL");
        let show = Show::new("http://127.0.0.1:9000".to_owned(), to, false);
        assert_eq!(show.page(&"a.0-1".into()).expect("a page"), "http://127.0.0.1:9000/console/deliveries/a.0-1");
        for hostile in ["a/../../signin", "a\u{1b}\\b", "?next=x", "ä"] {
            assert_eq!(show.page(&hostile.into()), None);
        }
    }
}
