//! A table of deliveries.

use std::{collections::BTreeMap, time::Duration};

use common::{
    http::page::visible,
    id::EndpointId,
    presentation::times,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, error_name},
        endpoints::EndpointView,
        event::EventName,
    },
};
use maud::{Markup, html};

use crate::{numbers::is_fetched, states};

/// The time for which a due attempt is shown as due now.
const DUE_NOW_TIME: Duration = Duration::from_mins(1);
/// A longer id or URL may be shortened, so the full one is shown on hover.
const MAX_UNCUT_LENGTH: usize = 24;
/// The maximum length of an endpoint's description in a cell.
const MAX_DESCRIPTION_LENGTH: usize = 60;

/// The columns that depend on the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Deliveries to one endpoint, which the page names.
    OneEndpoint,
    AllEndpoints,
}

/// A table of deliveries, or the message `nothing` if there are none. `endpoints` are those that the cells may refer
/// to.
pub(crate) fn table(
    deliveries: &[Delivery],
    endpoints: &[EndpointView],
    of: Of,
    nothing: &str,
    now: Timestamp,
) -> Markup {
    let endpoints: BTreeMap<_, _> = endpoints.iter().map(|endpoint| (endpoint.id, endpoint)).collect();
    html! {
        @if deliveries.is_empty() { p { (nothing) } } @else {
            table .cards.rows {
                thead {
                    tr {
                        th scope="col" { "Job" }
                        @if of == Of::AllEndpoints { th scope="col" { "Endpoint" } }
                        th scope="col" { "Event" }
                        th scope="col" { "Status" }
                        th scope="col" { "Last error" }
                        th scope="col" { "Attempts" }
                        th scope="col" { "Created" }
                    }
                }
                tbody {
                    @for delivery in deliveries {
                        @let endpoint = delivery.webhook_endpoint_id.and_then(|id| endpoints.get(&id).copied());
                        @let is_deleted = endpoint.is_none() && delivery.webhook_endpoint_id.is_some();
                        @let to = destination(delivery, endpoint);
                        @let about = subject(delivery, |id| endpoints.get(&id).map(|endpoint| short(&endpoint.name())));
                        tr {
                            td {
                                // Includes the destination, because a job has a delivery to each endpoint, and screen
                                // readers read links without their rows.
                                a .strong.cut href={ "/console/deliveries/" (delivery.id) } title=(about)
                                    aria-label=[(of == Of::AllEndpoints).then(|| titled(delivery, &about, &to))] {
                                    @if is_about_a_job(delivery) { (one_line(&about)) } @else { bdi { (about) } }
                                }
                            }
                            @if of == Of::AllEndpoints {
                                td data-label="Endpoint" {
                                    @match endpoint {
                                        Some(endpoint) => (endpoint_link(endpoint)),
                                        None => (to),
                                    }
                                }
                            }
                            td data-label="Event" { (delivery.event.as_str()) }
                            td data-label="Status" { (states::of_delivery(delivery.status, endpoint.is_some_and(is_fetched))) }
                            td data-label="Last error" { (last_error(delivery, now)) }
                            td data-label="Attempts" { (attempts(delivery, is_deleted, now)) }
                            td data-label="Created" { (times::ago(delivery.created_at, now)) }
                        }
                    }
                }
            }
        }
    }
}

/// A link to an endpoint, by its description if it has one, because URLs are long and often similar.
fn endpoint_link(endpoint: &EndpointView) -> Markup {
    let (name, described) = (short(&endpoint.name()), endpoint.options.description.as_ref());
    html! {
        a .cut href={ "/console/endpoints/" (endpoint.id) } title=(name) {
            @match described {
                Some(text) => bdi { (clipped(&visible(text.as_str()), MAX_DESCRIPTION_LENGTH)) },
                None => (one_line(&name)),
            }
        }
    }
}

/// Whether a delivery is about a job rather than an endpoint.
fn is_about_a_job(delivery: &Delivery) -> bool {
    delivery.event.is_of_a_job()
}

/// Names the subject of a delivery: a job or, for a notice, another endpoint. `name_of` returns the endpoint's name, if
/// it exists.
pub(crate) fn subject(delivery: &Delivery, name_of: impl Fn(EndpointId) -> Option<String>) -> String {
    let news = match delivery.event {
        EventName::EndpointFailing => "is failing",
        EventName::EndpointDisabled => "was disabled",
        EventName::EndpointRecovered => "has recovered",
        EventName::Test => return "Test event".to_owned(),
        EventName::Completed | EventName::Failed => return visible(&delivery.job_id).into_owned(),
    };
    let id = EndpointId::parse(&delivery.job_id);
    let name =
        id.map_or_else(|_| visible(&delivery.job_id).into_owned(), |id| name_of(id).unwrap_or_else(|| deleted(id)));
    format!("Notice: {name} {news}")
}

/// Joins a delivery's subject and its destination: `job-1 to example.com/hook`.
pub(crate) fn titled(delivery: &Delivery, about: &str, to: &str) -> String {
    let is_notice = !is_about_a_job(delivery) && delivery.event != EventName::Test;
    format!("{about}{} to {to}", if is_notice { "," } else { "" })
}

/// The display name of a delivery's destination.
pub(crate) fn destination(delivery: &Delivery, endpoint: Option<&EndpointView>) -> String {
    match (endpoint, delivery.webhook_endpoint_id) {
        (Some(endpoint), _) => short(&endpoint.name()),
        (None, Some(id)) => deleted(id),
        (None, None) => "Job callback".to_owned(),
    }
}

/// Formats the last error: `HTTP 500, 3 min ago`, or `Timeout, then delivered`.
fn last_error(delivery: &Delivery, now: Timestamp) -> Markup {
    let is_failed = |attempt: &&Attempt| attempt.outcome != "delivered";
    let earlier = delivery.earlier.iter().rev().find(is_failed);
    html! {
        @match (delivery.last_attempt.as_ref(), earlier) {
            (Some(last), _) if is_failed(&last) => {
                (error_name(&last.outcome, last.status_code)) ", " (times::ago(last.at, now))
            },
            (Some(_), Some(earlier)) => { (error_name(&earlier.outcome, earlier.status_code)) ", then delivered" },
            _ => (none()),
        }
    }
}

/// Formats the number of attempts: `2, next in 5 min`. A deleted endpoint gets no more attempts. An overdue attempt is
/// waiting for its turn, because its receiver is slow or many other attempts are due.
fn attempts(delivery: &Delivery, is_deleted: bool, now: Timestamp) -> Markup {
    html! {
        (delivery.attempts)
        @match delivery.next_attempt_at.filter(|_| !is_deleted) {
            Some(next) if now.since(next) > DUE_NOW_TIME => { ", due " (times::ago(next, now)) ", waiting its turn" },
            Some(next) if next <= now => ", due now",
            Some(next) => { ", next " (times::ago(next, now)) },
            None => "",
        }
    }
}

/// The name of a deleted endpoint, with the end of its id to distinguish it from others.
pub(crate) fn deleted(id: EndpointId) -> String {
    let id = id.to_string();
    format!("Deleted endpoint …{}", id.rsplit('-').next().unwrap_or_default())
}

/// Shortens a URL for a list: without its scheme and, if it is long, without its middle, because URLs often differ only
/// at their ends.
pub(crate) fn short(url: &str) -> String {
    const START: usize = 36;
    const END: usize = 23;
    let rest = visible(url.split_once("://").map_or(url, |(_, rest)| rest)).into_owned();
    let last = rest.char_indices().rev().nth(END - 1).map_or(0, |(at, _)| at);
    if rest.chars().count() <= START + 1 + END {
        return rest;
    }
    clipped(&rest, START) + rest.get(last..).unwrap_or_default()
}

/// More of a URL that may be shortened in its cell, shown on hover. The endpoint's page shows the full URL.
pub(crate) fn hover(url: &str) -> Option<String> {
    const MAX_HOVER_LENGTH: usize = 200;
    (short(url).chars().count() > MAX_UNCUT_LENGTH).then(|| clipped(&visible(url), MAX_HOVER_LENGTH))
}

/// An id or a URL on one line, without its middle where there is not enough room.
pub(crate) fn one_line(text: &str) -> Markup {
    const END: usize = 12;
    let end = text.char_indices().rev().nth(END - 1).map_or(0, |(at, _)| at);
    let (start, end) = text.split_at(if text.chars().count() > MAX_UNCUT_LENGTH { end } else { text.len() });
    html! { bdi .mono { (start) } @if !end.is_empty() { bdi .mono { (end) } } }
}

/// The first characters of `text`, with an ellipsis if there are more.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text.to_owned(),
    }
}

/// An empty cell.
pub(crate) fn none() -> Markup {
    html! { span .soft.none { "None" } }
}
