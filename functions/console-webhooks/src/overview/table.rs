//! The table of endpoints.

use std::collections::BTreeMap;

use common::{
    http::page::visible,
    id::EndpointId,
    presentation::times,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, error_name},
        endpoints::{EndpointView, Kind, LastError},
        event::{EventFilter, WorkflowFilter},
    },
};
use maud::{Markup, html};

use crate::{
    chart,
    deliveries::{clipped, hover, none, one_line, short},
    numbers::{EndpointNumbers, counted, held_name, is_rotating},
    settings::events,
    states::State,
};

/// The rows, with the endpoints' [failed tests](super::failed_tests).
pub(super) fn table(rows: &[EndpointNumbers], failed_tests: &BTreeMap<EndpointId, Delivery>, now: Timestamp) -> Markup {
    html! {
        table .cards.rows.overview {
            thead {
                tr {
                    th scope="col" { "Endpoint" }
                    th scope="col" { "State" }
                    th scope="col" { "Events" }
                    th scope="col" { "Last 24 hours" }
                    th scope="col" { "Last error" }
                    th scope="col" { "Pending" }
                }
            }
            tbody { @for row in rows { (line(row, failed_tests.get(&row.endpoint.id), now)) } }
        }
    }
}

fn line(row: &EndpointNumbers, failed_test: Option<&Delivery>, now: Timestamp) -> Markup {
    let EndpointNumbers { endpoint, open, counted: statistics, .. } = row;
    html! {
        tr {
            td {
                a .strong.cut href={ "/console/endpoints/" (endpoint.id) } title=[hover(&endpoint.name())] {
                    (one_line(&short(&endpoint.name())))
                }
                (description(endpoint))
            }
            td data-label="State" {
                (State::of(row).badge())
                @if is_rotating(endpoint, now) { " " span .soft.note { "two secrets" } }
                @if endpoint.kind == Kind::Pull { " " span .soft.note { "pull" } }
            }
            td data-label="Events" { (wanted(endpoint)) }
            td data-label="Last 24 hours" {
                (chart::day(statistics, &short(&endpoint.name()), held_name(endpoint).word, now))
            }
            td data-label="Last error" {
                @match failed_test.and_then(|test| Some((test, test.last_attempt.as_ref()?))) {
                    Some((test, attempt)) => {
                        a href={ "/console/deliveries/" (test.id) } {
                            "Test: " (error_name(&attempt.outcome, attempt.status_code))
                        }
                        ", " (times::ago(attempt.at, now))
                    },
                    None => (last_error(row, now)),
                }
            }
            td data-label="Pending" {
                @if let Some(oldest) = open.pending.oldest_at() {
                    a href={ "/console/deliveries?endpoint=" (endpoint.id) "&status=pending" }
                        aria-label={ (open.pending.number()) " pending to " (short(&endpoint.name())) } {
                        (open.pending.number())
                    }
                    ", oldest " (times::ago(oldest, now))
                } @else { (none()) }
            }
        }
    }
}

/// The endpoint's events and workflows: the name if there is only one, otherwise the number. The endpoint's page lists
/// all names.
fn wanted(endpoint: &EndpointView) -> Markup {
    let names: Vec<_> = endpoint.options.events.iter().flat_map(EventFilter::names).collect();
    let workflows: Vec<_> = endpoint.options.workflows.iter().flat_map(WorkflowFilter::names).collect();
    html! {
        @if names.len() > 1 { span title=(names.join(", ")) { (names.len()) " events" } } @else { (events(endpoint)) }
        @if !workflows.is_empty() { div .soft { (counted(workflows.len(), "workflow", "workflows")) } }
    }
}

/// The description of an endpoint that is identified by its URL. Long descriptions are truncated to keep the page
/// small.
pub(super) fn description(endpoint: &EndpointView) -> Markup {
    const MAX_TEXT_LENGTH: usize = 80;
    html! {
        @if let Some(description) = endpoint.options.description.as_ref().filter(|_| endpoint.url.is_some()) {
            " " bdi .soft.clip { (clipped(&visible(description.as_str()), MAX_TEXT_LENGTH)) }
        }
    }
}

/// The latest error. Version 0.1.0 did not record errors, so an endpoint with failed deliveries may have none.
fn last_error(row: &EndpointNumbers, now: Timestamp) -> Markup {
    html! {
        @match row.last_error() {
            Some(LastError { at, reason, status_code, .. }) => {
                (error_name(&reason, status_code)) ", " (times::ago(at, now))
            }
            None if row.failing_since.is_some() || row.open.failed.count > 0 => "Not recorded",
            None => (none()),
        }
    }
}
