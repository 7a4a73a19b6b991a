//! A table of deliveries.

use std::collections::BTreeMap;

use common::{
    http::page::visible,
    id::EndpointId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, error_name},
        endpoints::EndpointView,
    },
};
use maud::{Markup, html};

use crate::{states, times};

/// A table of deliveries, or the text `nothing` if there are none. Without `endpoints`, all deliveries belong to one
/// endpoint, and the table has no column for it.
pub(crate) fn table(
    deliveries: &[Delivery],
    endpoints: Option<&[EndpointView]>,
    nothing: &str,
    now: Timestamp,
) -> Markup {
    let names = endpoints.map(|endpoints| -> BTreeMap<_, _> {
        endpoints.iter().map(|endpoint| (endpoint.id, short(endpoint.name()))).collect()
    });
    html! {
        @if deliveries.is_empty() { p { (nothing) } } @else {
            table .cards.rows {
                thead {
                    tr {
                        th scope="col" { "Job" }
                        @if names.is_some() { th scope="col" { "Endpoint" } }
                        th scope="col" { "Event" }
                        th scope="col" { "Status" }
                        th scope="col" { "Last error" }
                        th scope="col" { "Attempts" }
                        th scope="col" { "Created" }
                    }
                }
                tbody {
                    @for delivery in deliveries {
                        @let is_deleted = match (&names, delivery.webhook_endpoint_id) {
                            (Some(names), Some(id)) => !names.contains_key(&id),
                            _ => false,
                        };
                        @let to = names.as_ref().map(|names| destination(delivery, names));
                        tr {
                            td {
                                // Includes the destination: a job has a delivery to each endpoint, and screen readers
                                // read links without their rows.
                                a .strong.clip href={ "/console/deliveries/" (delivery.id) } title=(visible(&delivery.job_id))
                                    aria-label=[to.as_ref().map(|(to, _)| format!("{} to {to}", visible(&delivery.job_id)))] {
                                    bdi .mono { (visible(&delivery.job_id)) }
                                }
                            }
                            @if let Some((to, id)) = &to {
                                td data-label="Endpoint" {
                                    @match id {
                                        Some(id) => a .clip href={ "/console/endpoints/" (id) } title=(to) { bdi .mono { (to) } },
                                        None => (to),
                                    }
                                }
                            }
                            td data-label="Event" { (delivery.event.as_str()) }
                            td data-label="Status" { (states::of_delivery(delivery.status)) }
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

/// The display name of a delivery's destination, and the endpoint, if it exists.
fn destination(delivery: &Delivery, names: &BTreeMap<EndpointId, String>) -> (String, Option<EndpointId>) {
    match delivery.webhook_endpoint_id {
        None => ("Job callback".to_owned(), None),
        Some(id) => match names.get(&id) {
            Some(name) => (name.clone(), Some(id)),
            None => (deleted(id), None),
        },
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
/// waiting for its turn, because its receiver is slow or many others are due.
fn attempts(delivery: &Delivery, is_deleted: bool, now: Timestamp) -> Markup {
    html! {
        (delivery.attempts)
        @match delivery.next_attempt_at.filter(|_| !is_deleted) {
            Some(next) if next <= now => { ", due " (times::ago(next, now)) ", waits for its turn" },
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

/// Shortens a URL for a list, without its scheme.
pub(crate) fn short(url: &str) -> String {
    const MOST: usize = 60;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    clipped(&visible(rest), MOST)
}

/// More of a URL that [`short`] has truncated, shown on hover. The endpoint's page shows all of it.
pub(crate) fn hover(url: &str) -> Option<String> {
    const MOST: usize = 200;
    short(url).ends_with('…').then(|| clipped(&visible(url), MOST))
}

/// The first characters of a text, with an ellipsis if there are more.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text.to_owned(),
    }
}

/// An empty cell.
pub(crate) fn none() -> Markup {
    html! { span .soft { "None" } }
}
