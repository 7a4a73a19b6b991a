//! Endpoints with problems on other pages of the list.

use std::time::Duration;

use common::{
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{MAX_AGE, Status},
        endpoints::{EndpointView, Kind},
        log::{
            search::Filter,
            undelivered::{Backlog, UndeliveredQuery},
        },
    },
};
use maud::{Markup, html};

use super::selection::Selection;
use crate::{app::App, backlogs::missed, deliveries::short, numbers::counted};

/// An endpoint on another page of the list.
pub(super) struct Elsewhere {
    endpoint: EndpointView,
    failed: Backlog,
}

impl Elsewhere {
    /// The failed deliveries of the endpoint, if it is active.
    pub(super) fn failed(&self) -> Option<&Backlog> {
        self.endpoint.active.then_some(&self.failed)
    }
}

/// The time that an error counts as recent: the maximum time that a delivery is retried.
const RECENT_TIME: Duration = MAX_AGE;
/// The maximum number of endpoints listed in a notice.
const MAX_NAMED: usize = 5;

/// Finds the endpoints on other pages that are failing or disabled, or have failed deliveries.
pub(super) async fn elsewhere(
    app: &App,
    tenant: &TenantId,
    others: Vec<EndpointView>,
    now: Timestamp,
) -> Result<Vec<Elsewhere>> {
    // An endpoint that has never had an error has no failed deliveries. For the others, each call reads fifty
    // endpoints.
    let may_have_failed = |endpoint: &EndpointView| {
        let is_new = endpoint.last_error.is_none() && endpoint.updated_at == endpoint.created_at;
        endpoint.kind == Kind::Pull || !is_new
    };
    let others: Vec<_> = others.into_iter().filter(may_have_failed).collect();
    let shards: Vec<_> = others.iter().map(EndpointView::shards).collect();
    let queries = shards.iter().map(|shards| UndeliveredQuery { shards, statuses: &[Status::Failed] });
    let open = app.log.open_in(tenant, &queries.collect::<Vec<_>>(), &Filter::default(), now).await?;
    let others = others.into_iter().zip(open).map(|(endpoint, open)| Elsewhere { endpoint, failed: open.failed });
    let is_troubled = |other: &Elsewhere| urgency(&other.endpoint, now) < 2 || other.failed.count > 0;
    Ok(others.filter(is_troubled).collect())
}

/// The order on the page: failing, disabled by the service, active, disabled by a user.
pub(super) fn urgency(endpoint: &EndpointView, now: Timestamp) -> u8 {
    match endpoint {
        EndpointView { active: true, health, .. } if health.failing_since(now).is_some() => 0,
        EndpointView { active: false, disabled: Some(_), .. } => 1,
        EndpointView { active: true, .. } => 2,
        EndpointView { active: false, .. } => 3,
    }
}

/// Returns the time of the endpoint's last error, if it is recent.
pub(super) fn erred_at(endpoint: &EndpointView, now: Timestamp) -> Option<Timestamp> {
    let at = endpoint.last_error.as_ref().map(|error| error.at);
    at.filter(|at| now.since(*at) < RECENT_TIME)
}

/// The notice about [`elsewhere`].
pub(super) fn notice(elsewhere: &[Elsewhere], selection: Selection<'_>, now: Timestamp) -> Markup {
    // Endpoints with problems come first, so those on other pages are usually on the first pages.
    let other = selection.at(if selection.page == 1 { 2 } else { 1 });
    html! {
        @if !elsewhere.is_empty() {
            div .notice.bad {
                p { strong { (counted(elsewhere.len(), "endpoint", "endpoints")) " on other pages" } ":" }
                ul {
                    @for Elsewhere { endpoint, failed } in elsewhere.iter().take(MAX_NAMED) {
                        li {
                            a href={ "/console/endpoints/" (endpoint.id) } { bdi { (short(&endpoint.name())) } } ": "
                            @match (urgency(endpoint, now), failed.count) {
                                (0, 0) => "failing",
                                (0, _) => { "failing, " (missed(failed, &Backlog::default())) }
                                (1, 0) => "disabled",
                                (1, _) => { "disabled, " (missed(failed, &Backlog::default())) }
                                _ => (missed(failed, &Backlog::default())),
                            }
                        }
                    }
                    @if elsewhere.len() > MAX_NAMED { li { a href=(other.address(false)) { "and " (elsewhere.len() - MAX_NAMED) " more" } } }
                }
            }
        }
    }
}
