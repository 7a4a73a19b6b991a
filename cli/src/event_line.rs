//! The line about a posted event, which fits the screen.

use anstyle::AnsiColor;
use api::DeliveryId;

use crate::terminal::{fit, fit_ends, linked, painted, width_of};

/// The minimum width of a job's id, in columns.
const MIN_ID_WIDTH: usize = 8;
/// The indentation of a line below its event: the width of the time.
pub(crate) const INDENT: &str = "          ";

pub(crate) struct EventLine {
    pub(crate) time: String,
    pub(crate) event: String,
    pub(crate) job: String,
    pub(crate) outcome: String,
    pub(crate) is_delivered: bool,
    pub(crate) took: String,
    pub(crate) id: String,
    /// The events of the target that got this one, if there are several targets.
    pub(crate) target: Option<String>,
    pub(crate) page: Option<String>,
}

/// Returns the address of the delivery's page, if the id does not need escaping in a URL.
pub(crate) fn page(origin: &str, id: &DeliveryId) -> Option<String> {
    let is_safe = id.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    is_safe.then(|| format!("{origin}/console/deliveries/{id}"))
}

impl EventLine {
    /// Lays out the line to fit the screen. On a terminal, the short id links to the page; piped output contains the
    /// page's URL.
    pub(crate) fn laid_out(&self, screen: usize) -> String {
        let Self { time, event, job, outcome, took, id, .. } = self;
        let page = self.page.as_deref().unwrap_or_default();
        let target = self.target.as_ref().map_or_else(String::new, |target| format!("  {target}"));
        let painted = painted(outcome, if self.is_delivered { AnsiColor::Green } else { AnsiColor::Red });
        if screen == usize::MAX {
            return format!("{time}  {event}  {job}  {painted}  {took}{target}  {page}").trim_end().to_owned();
        }
        let (with_event, with_time) = (format!("{time}  {event}  "), format!("{time}  "));
        let (took, target) = (format!("  {took}"), target.as_str());
        // The layouts in order of preference. Each omits one more element: the target, the event, the duration, the id,
        // then the time.
        for (before, after, id, target) in [
            (with_event.as_str(), took.as_str(), Some(id), target),
            (&with_event, &took, Some(id), ""),
            (&with_time, &took, Some(id), ""),
            (&with_time, "", Some(id), ""),
            (&with_time, "", None, ""),
            ("", "", None, ""),
        ] {
            let short = id.map_or_else(String::new, |id| format!("  {id}"));
            let left = screen.checked_sub(width_of(&format!("{before}  {outcome}{after}{short}{target}")));
            if let Some(left) = left.filter(|left| *left >= MIN_ID_WIDTH.min(width_of(job))) {
                let id = id.map_or_else(String::new, |id| format!("  {}", linked(id, page)));
                return format!("{before}{}  {painted}{after}{id}{target}", fit_ends(job, left));
            }
        }
        fit(outcome, screen)
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    fn line() -> EventLine {
        EventLine {
            time: "12:00:00".to_owned(),
            event: "job.completed".to_owned(),
            job: "invoices-of-january-2026".to_owned(),
            outcome: "204".to_owned(),
            is_delivered: true,
            took: "3 ms".to_owned(),
            id: "a6250e60".to_owned(),
            target: None,
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
        assert_eq!(shown(15), "invoi…2026  204");
        assert_eq!(shown(25), "12:00:00  invoi…2026  204");
        assert_eq!(shown(34), "12:00:00  invo…2026  204  a6250e60");
        assert_eq!(shown(60), "12:00:00  job.completed  invoice…y-2026  204  3 ms  a6250e60");
        assert_eq!(shown(80), "12:00:00  job.completed  invoices-of-january-2026  204  3 ms  a6250e60");
        assert!(shown(usize::MAX).ends_with("3 ms  http://127.0.0.1:9000/console/deliveries/1"));
    }

    #[test]
    fn a_line_shows_the_target_if_there_is_room() {
        let line = EventLine { target: Some("workflow nightly-*".to_owned()), ..line() };
        let shown = |width| strip_str(&line.laid_out(width)).to_string();
        assert_eq!(shown(60), "12:00:00  job.completed  invoice…y-2026  204  3 ms  a6250e60");
        assert_eq!(shown(80), "12:00:00  job.completed  invoice…y-2026  204  3 ms  a6250e60  workflow nightly-*");
        assert!((1..150).all(|width| width_of(&shown(width)) <= width));
    }

    #[test]
    fn on_a_terminal_the_id_links_to_its_page() {
        let shown = line().laid_out(60);
        let page = "http://127.0.0.1:9000/console/deliveries/1";
        let link = format!("\u{1b}]8;;{page}\u{1b}\\a6250e60\u{1b}]8;;\u{1b}\\");
        assert_eq!(shown, format!("12:00:00  job.completed  invoice…y-2026  \u{1b}[32m204\u{1b}[0m  3 ms  {link}"));
    }

    #[test]
    fn an_unsafe_id_has_no_page() {
        let page = |id: &str| page("http://127.0.0.1:9000", &id.into());
        assert_eq!(page("a.0-1").expect("a page"), "http://127.0.0.1:9000/console/deliveries/a.0-1");
        for hostile in ["a/../../signin", "a\u{1b}\\b", "?next=x", "ä"] {
            assert_eq!(page(hostile), None);
        }
    }
}
