//! The list's filters: a search, statuses with their counts, time ranges, and more.

use common::{
    error::Error,
    http::{FormValues, page::Field},
    presentation::times,
    webhooks::{delivery::error_name, endpoints::EndpointView, log::undelivered::Undelivered},
};
use maud::{Markup, html};

use super::{
    endpoint_filter,
    query::{PATH, RANGES, address, is_filtered},
};

/// The selectable reasons. `status_other` and `untaken` are rare, so they are accepted only in the address.
const REASONS: [(&str, &str); 12] = [
    ("status_5xx", "server error"),
    ("status_4xx", "rejected"),
    ("gone", "asked to stop"),
    ("redirect", "not followed"),
    ("timeout", "no complete response"),
    ("connect", "refused or unreachable"),
    ("dns", "no address"),
    ("tls", "certificate or handshake"),
    ("protocol", "closed early"),
    ("blocked", "private address"),
    ("unanswered", "receiver silent or too slow"),
    ("untaken", "pull endpoint, three days"),
];
const EVENTS: [(&str, &str); 7] = [
    ("", "All"),
    ("job.completed", "job.completed"),
    ("job.failed", "job.failed"),
    ("webhook.test", "webhook.test"),
    ("endpoint.failing", "endpoint.failing"),
    ("endpoint.disabled", "endpoint.disabled"),
    ("endpoint.recovered", "endpoint.recovered"),
];
const STATUSES: [(&str, &str); 6] = [
    ("", "All"),
    ("pending", "Pending"),
    ("failed", "Failed"),
    ("held", "Held"),
    ("delivered", "Delivered"),
    ("ended", "Ended"),
];

const ID: &str = "Exact job, delivery or message ID";

/// The search for a job from another page.
pub(crate) fn finder() -> Markup {
    html! {
        form .filters method="get" action=(PATH) role="search" aria-label="Deliveries" {
            (Field::search("q", ID, "").filter().html("find", None))
            div .row { button .secondary { "Find deliveries" } }
        }
    }
}

/// The search form. It keeps the status and the time range, which are set by links.
pub(super) fn form(link: &FormValues, endpoints: &[EndpointView], error: Option<&Error>) -> Markup {
    let names = REASONS.iter().map(|(reason, hint)| (*reason, format!("{}: {hint}", error_name(reason, None))));
    let names: Vec<_> = names.collect();
    let mut reasons = vec![("", "All")];
    reasons.extend(names.iter().map(|(reason, name)| (*reason, name.as_str())));
    let reason = link.get("reason");
    if !reasons.iter().any(|(known, _)| *known == reason) {
        reasons.push((reason, reason));
    }
    let input = |text: &str| times::moment(text).map_or_else(|_| text.to_owned(), times::local);
    let (since, until) = (input(link.get("since")), input(link.get("until")));
    let is_open = ["event", "reason", "workflow", "since", "until"].iter().any(|name| !link.get(name).is_empty());
    html! {
        form .filters method="get" action=(PATH) role="search" aria-label="Filters" {
            @for name in ["status", "range"] {
                @if !link.get(name).is_empty() { input type="hidden" name=(name) value=(link.get(name)); }
            }
            (Field::search("q", ID, link.get("q")).filter().html("", error))
            (endpoint_filter::field(link, endpoints, error))
            details open[is_open] {
                summary { "More filters" }
                div .more {
                    (Field::select("event", "Event", &EVENTS, link.get("event")).html("", error))
                    (Field::select("reason", "Last error", &reasons, reason).html("", error))
                    (Field::search("workflow", "Workflow", link.get("workflow")).filter().html("", error))
                    (Field::moment("since", "From (UTC)", &since).filter().html("", error))
                    (Field::moment("until", "Until (UTC)", &until).filter().html("", error))
                }
            }
            div .row {
                button { "Search" }
                @if is_filtered(link) { a href=(PATH) { "Clear filters" } }
            }
            @for (name, message) in of_links(error) { p .error role="alert" { (name) ": " (message) "." } }
        }
    }
}

/// The issues with filters that are set by links rather than form fields.
fn of_links(error: Option<&Error>) -> Vec<(&str, &str)> {
    let Some(Error::Invalid(issues)) = error else { return Vec::new() };
    let shown = ["q", "endpoint", "event", "reason", "workflow", "since", "until"];
    let path = |issue: &'_ common::issue::Issue| issue.path.first().cloned().unwrap_or_default();
    let hidden = issues.iter().filter(|issue| !shown.contains(&path(issue).as_str()));
    hidden.map(|issue| (issue.path.first().map_or("", String::as_str), issue.message.as_str())).collect()
}

/// The statuses with their counts, and the time ranges, as links.
pub(super) fn tabs(link: &FormValues, open: Option<&Undelivered>) -> Markup {
    let count = |status: &str| {
        let open = open?;
        match status {
            "pending" => Some(open.pending.number()),
            "failed" => Some(open.failed.number()),
            "held" => Some(open.held.number()),
            _ => None,
        }
    };
    html! {
        div .row.choices {
            nav .tabs aria-label="Status" {
                @for (status, word) in STATUSES {
                    a href=(address(link, &[("status", status)])) aria-current=[(status == link.get("status")).then_some("true")] {
                        (word) @if let Some(count) = count(status) { " " span .count { (count) } }
                    }
                }
            }
            nav .tabs aria-label="Time of the event" {
                @for (name, word, _) in RANGES {
                    @let is_chosen = name == link.get("range") && link.get("since").is_empty() && link.get("until").is_empty();
                    a href=(address(link, &[("range", name), ("since", ""), ("until", "")])) aria-current=[is_chosen.then_some("true")] {
                        (word)
                    }
                }
                span .soft { "by event time" }
            }
        }
    }
}
