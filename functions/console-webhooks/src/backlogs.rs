//! Descriptions of undelivered deliveries, and the labels of the buttons that send them.

use common::{
    presentation::times,
    timestamp::Timestamp,
    webhooks::{endpoints::EndpointView, log::undelivered::Backlog},
};
use maud::{Markup, html};

use crate::app::App;

/// When the oldest of the missed deliveries was created.
pub(crate) fn oldest(failed: &Backlog, held: &Backlog) -> Option<Timestamp> {
    [failed.oldest_at(), held.oldest_at()].into_iter().flatten().min()
}

/// Formats the missed deliveries: `12 failed and 3 held deliveries`. Empty if there are none.
pub(crate) fn missed(failed: &Backlog, held: &Backlog) -> String {
    let parts = [(failed, "failed"), (held, "held")].into_iter().filter(|(backlog, _)| backlog.count > 0);
    let parts: Vec<_> = parts.map(|(backlog, word)| format!("{} {word}", backlog.number())).collect();
    let last = if held.count > 0 { held } else { failed };
    match last.count {
        0 => String::new(),
        1 => format!("{} delivery", parts.join(" and ")),
        _ => format!("{} deliveries", parts.join(" and ")),
    }
}

/// The age of `number` deliveries: `, the oldest created 9 min ago (2026-01-31 12:00:05 UTC)`.
pub(crate) fn since(number: usize, oldest: Timestamp, now: Timestamp) -> Markup {
    html! { ", " @if number > 1 { "the oldest " } "created " (times::when(oldest, now)) }
}

/// The label of the button that recovers the missed deliveries: `Enable and resend 32 deliveries`.
pub(crate) fn resend_button(is_active: bool, failed: &Backlog, held: &Backlog) -> String {
    let kind = match (failed.count, held.count) {
        (_, 0) => "failed ",
        (0, _) => "held ",
        _ => "",
    };
    let deliveries = match (failed.count + held.count, failed.is_longer || held.is_longer) {
        (_, true) => format!("all {kind}deliveries"),
        (1, false) => format!("1 {kind}delivery"),
        (number, false) => format!("{number} {kind}deliveries"),
    };
    if is_active { format!("Resend {deliveries}") } else { format!("Enable and resend {deliveries}") }
}

/// The label of the button that sends pending deliveries now: `Retry 24 pending deliveries now`.
pub(crate) fn retry_button(pending: &Backlog) -> String {
    match (pending.count, pending.is_longer) {
        (_, true) => "Retry all pending deliveries now".to_owned(),
        (1, false) => "Retry 1 pending delivery now".to_owned(),
        (number, false) => format!("Retry {number} pending deliveries now"),
    }
}

/// The end of the period in which an inactive endpoint's events are kept.
pub(crate) fn kept(app: &App, endpoint: &EndpointView, now: Timestamp) -> Markup {
    let inactive_since = endpoint.inactive_since.or(endpoint.disabled.map(|(at, _)| at));
    html! {
        @match inactive_since.map(|at| app.hold_for.end(at)) {
            Some(Some(end)) if end > now => {
                " Events of the next " (times::lasting("until", end, now)) " are kept. After that, new ones are lost."
            }
            Some(Some(end)) => { " Events since " (times::date(end)) " are lost." }
            Some(None) => " Events are lost until you enable the endpoint.",
            None => "",
        }
    }
}
