//! Endpoints with problems on other pages of the list.

use std::time::Duration;

use common::{
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::MAX_AGE,
        endpoints::{EndpointView, Kind},
        log::open::Backlog,
    },
};
use maud::{Markup, html};

use crate::{
    app::App,
    backlogs::missed,
    deliveries::short,
    numbers::{Known, counted},
    states::State,
};

/// An endpoint on another page of the list.
pub(super) struct Elsewhere {
    endpoint: EndpointView,
    failed: Backlog,
    /// Whether all attempts fail, but no delivery has failed permanently since the endpoint last worked.
    pub(super) is_erring: bool,
}

/// The maximum number of endpoints with recent errors on other pages to check. Each check reads deliveries.
const SUSPECTS: usize = 30;
/// The time that an error counts as recent: the maximum time that a delivery is retried.
const RECENT: Duration = MAX_AGE;
/// The maximum number of endpoints listed in a notice.
const NAMED: usize = 5;

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
    let others = others.into_iter().filter(may_have_failed);
    let may_err = |endpoint: &EndpointView| urgency(endpoint) == 2 && erred_at(endpoint, now).is_some();
    let (mut suspects, mut others): (Vec<_>, Vec<_>) = others.partition(may_err);
    others.extend(suspects.split_off(SUSPECTS.min(suspects.len())));
    let [suspected, shards] =
        [&suspects, &others].map(|endpoints| endpoints.iter().map(EndpointView::shards).collect::<Vec<_>>());
    let read = async {
        let open = app.log.open(tenant, &suspected, now).await?;
        Known::uncounted(app, tenant, suspects, &open, now).await
    };
    let (suspects, failed) = tokio::try_join!(read, app.log.failed(tenant, &shards, now))?;
    let others = others.into_iter().zip(failed);
    let others = others.map(|(endpoint, failed)| Elsewhere { endpoint, failed, is_erring: false });
    let suspects = suspects.into_iter().map(|known| {
        let is_erring = matches!(State::of(&known), State::Erring(_));
        Elsewhere { failed: known.open.failed, endpoint: known.endpoint, is_erring }
    });
    let is_troubled = |other: &Elsewhere| urgency(&other.endpoint) < 2 || other.failed.count > 0 || other.is_erring;
    Ok(others.chain(suspects).filter(is_troubled).collect())
}

/// The order on the page, as far as it can be derived from the endpoint's item: failing, disabled by the service,
/// active, disabled by a user.
pub(super) fn urgency(endpoint: &EndpointView) -> u8 {
    match endpoint {
        EndpointView { active: true, failing_since: Some(_), .. } => 0,
        EndpointView { active: false, disabled: Some(_), .. } => 1,
        EndpointView { active: true, .. } => 2,
        EndpointView { active: false, .. } => 3,
    }
}

/// Returns the time of the endpoint's last error, if it is recent.
pub(super) fn erred_at(endpoint: &EndpointView, now: Timestamp) -> Option<Timestamp> {
    let at = endpoint.last_error.as_ref().map(|error| error.at);
    at.filter(|at| now.since(*at) < RECENT)
}

/// The notice about [`elsewhere`].
pub(super) fn notice(elsewhere: &[Elsewhere], page: usize) -> Markup {
    // Endpoints with problems come first, so those on other pages are usually on the first pages.
    let other = if page == 1 { 2 } else { 1 };
    html! {
        @if !elsewhere.is_empty() {
            div .notice.bad {
                p { strong { (counted(elsewhere.len(), "endpoint", "endpoints")) " on other pages" } ":" }
                ul {
                    @for Elsewhere { endpoint, failed, is_erring } in elsewhere.iter().take(NAMED) {
                        li {
                            a href={ "/console/endpoints/" (endpoint.id) } { bdi { (short(&endpoint.name())) } } ": "
                            @match (urgency(endpoint), failed.count) {
                                _ if *is_erring => "all attempts fail",
                                (0, 0) => "failing",
                                (1, 0) => "disabled",
                                (1, _) => { "disabled, " (missed(failed, &Backlog::default())) }
                                _ => (missed(failed, &Backlog::default())),
                            }
                        }
                    }
                    @if elsewhere.len() > NAMED { li { a href={ "/console?page=" (other) } { "and " (elsewhere.len() - NAMED) " more" } } }
                }
            }
        }
    }
}
