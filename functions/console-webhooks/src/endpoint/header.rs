//! The page's header: the endpoint's state and numbers, and its actions.

use common::{
    http::page::{Form, visible},
    presentation::times,
    timestamp::Timestamp,
    webhooks::{
        delivery::error_name,
        endpoints::{Kind, LastError},
        event::EventName,
    },
};
use maud::{Markup, html};

use super::explanations::{More, at_most};
use crate::{
    numbers::{EndpointNumbers, counted, held_name, is_fetched, is_gone},
    states::State,
};

/// A row with the state, the numbers for the last 24 hours, and the last error.
pub(super) fn header(numbers: &EndpointNumbers, more: &More, now: Timestamp) -> Markup {
    let (endpoint, state, waiting) = (&numbers.endpoint, State::of(numbers), more.waiting);
    let list = |status: &str| format!("/console/deliveries?endpoint={}&status={status}", endpoint.id);
    let (delivered, ended) = numbers.successes(now);
    html! {
        // The description of an endpoint without a URL is the page's title.
        @if let Some(description) = endpoint.options.description.as_ref().filter(|_| endpoint.url.is_some()) { p { bdi { (visible(description.as_str())) } } }
        div .head {
            dl .stats {
                div {
                    dt { "State" }
                    dd { (state.badge()) }
                }
                div {
                    dt { "Success rate" }
                    dd {
                        @match percent(delivered, ended) {
                            // The deliveries of an outage are pending, so they would not count.
                            _ if matches!(state, State::Failing(_)) => {
                                strong { "0%" }
                                @if more.attempts > 0 { " " span .soft { "of " (counted(more.attempts, "attempt", "attempts")) } }
                            },
                            Some(percent) => { strong { (percent) } " " span .soft { "of " (ended) } },
                            None if endpoint.health.streak.is_some() => { strong { "0%" } " " span .soft { "so far" } },
                            None => "–",
                        }
                    }
                }
                @if endpoint.kind == Kind::Push {
                    div {
                        dt { "Response time (p95)" }
                        dd { @match p95(&numbers.details.durations) { Some(ms) => strong { (ms) " ms" }, None => "–" } }
                    }
                }
                @for (status, word, backlog) in [
                    ("failed", "Failed", &numbers.open.failed),
                    ("held", held_name(endpoint).label, &numbers.open.held),
                    ("pending", "Pending", &numbers.open.pending),
                ] {
                    // The number of deliveries to fetch includes tests, because programs get those, too.
                    @let waiting = waiting.filter(|_| status == "held" && is_fetched(endpoint)).map(|waiting| waiting.due);
                    div {
                        dt { (word) }
                        dd {
                            @if let Some(due) = waiting.filter(|due| *due > 0) {
                                a .strong href=(list(status)) aria-label={ (at_most(due)) " to fetch" } { (at_most(due)) }
                            } @else if waiting.is_none() && let Some(oldest) = backlog.oldest_at() {
                                a .strong href=(list(status)) aria-label=(counted(backlog.number(), &format!("{status} delivery"), &format!("{status} deliveries"))) { (backlog.number()) }
                                // Shown only for pending deliveries, because notices show the age of failed and held
                                // ones.
                                @if status == "pending" { " " span .soft { "oldest " (times::ago(oldest, now)) } }
                            } @else { "0" }
                        }
                    }
                }
                div {
                    dt { "Last error" }
                    dd {
                        @match numbers.last_error() {
                            Some(LastError { at, reason, status_code, .. }) => {
                                strong { (error_name(&reason, status_code)) } ", " (times::ago(at, now))
                            }
                            None => "None",
                        }
                    }
                }
            }
        }
    }
}

/// Formats a rounded percentage: `98.5%`. It is 100% only if `part` equals `all`, and 0% only if `part` is zero.
fn percent(part: usize, all: usize) -> Option<String> {
    let rounded = (part * 1000 + all / 2).checked_div(all)?;
    let tenths = match rounded {
        1000 if part < all => 999,
        0 if part > 0 => 1,
        tenths => tenths,
    };
    Some(if tenths.is_multiple_of(10) {
        format!("{}%", tenths / 10)
    } else {
        format!("{}.{}%", tenths / 10, tenths % 10)
    })
}

/// The buttons beside the heading. While an endpoint fails, a test shows whether its deliveries would arrive, so it
/// comes before resending them.
pub(super) fn actions(numbers: &EndpointNumbers) -> Markup {
    let endpoint = &numbers.endpoint;
    let is_failing = matches!(State::of(numbers), State::Failing(_));
    html! {
        (test("", !is_failing))
        @if endpoint.active {
            a .button.secondary href="?confirm=deactivate" { "Disable endpoint …" }
        } @else if is_gone(endpoint) {
            a .button.secondary href="?confirm=activate" { "Enable endpoint …" }
        } @else {
            (Form { button: "Enable endpoint", is_secondary: true, action: "activate", ..Form::default() })
        }
    }
}

/// The form that sends a test event or a sample of a job event. It posts to the endpoint's page at `to`, which is empty
/// on that page itself.
pub(crate) fn test(to: &str, is_secondary: bool) -> Markup {
    let samples = [EventName::Test].into_iter().chain(EventName::OF_JOBS);
    html! {
        form .test method="post" action=(if to.is_empty() { "?" } else { to }) {
            input type="hidden" name="action" value="test";
            select name="event" aria-label="Event" {
                @for event in samples { option value=(event.as_str()) { (event.as_str()) } }
            }
            button .secondary[is_secondary] { "Send test event" }
        }
    }
}

/// The 95th percentile of durations; `None` if there are none.
fn p95(durations: &[u32]) -> Option<u32> {
    let mut durations = durations.to_vec();
    durations.sort_unstable();
    durations.get((durations.len() * 95).div_ceil(100).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_but_never_to_all() {
        let percents =
            [(0, 0), (0, 3), (2, 3), (999, 1000), (9_999, 10_000), (7, 7)].map(|(part, all)| percent(part, all));
        let expected = [None, Some("0%"), Some("66.7%"), Some("99.9%"), Some("99.9%"), Some("100%")];
        assert_eq!(percents.each_ref().map(Option::as_deref), expected);
    }

    #[test]
    fn the_p95_is_the_time_that_95_of_100_stay_within() {
        assert_eq!((p95(&[]), p95(&[7]), p95(&[9, 1])), (None, Some(7), Some(9)));
        assert_eq!(p95(&(1..=100).rev().collect::<Vec<_>>()), Some(95));
        assert_eq!(p95(&(1..=20).collect::<Vec<_>>()), Some(19));
    }
}
