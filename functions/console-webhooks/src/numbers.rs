//! The numbers for endpoints, shared by the first page and the endpoint page.

use std::{fmt, ops::Range};

use common::{
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, Status},
        endpoints::{DisabledReason, EndpointView, Kind, LastError},
        log::{
            counts::{DeliveryDetails, Statistics},
            undelivered::{Backlog, STATUSES, Undelivered, UndeliveredQuery},
        },
    },
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    app::App,
    chart::{self, HeldName},
};

/// An endpoint with its numbers.
pub(crate) struct EndpointNumbers {
    pub(crate) endpoint: EndpointView,
    /// All undelivered deliveries.
    pub(crate) open: Undelivered,
    /// The oldest pending delivery.
    pub(crate) oldest_pending: Option<Delivery>,
    /// The deliveries from the last 24 hours.
    pub(crate) counted: Statistics,
    /// Details of the newest deliveries, on the endpoint's page.
    pub(crate) details: DeliveryDetails,
    /// Since when the endpoint is failing, if it is.
    pub(crate) failing_since: Option<Timestamp>,
    /// Whether a delivery is known to have succeeded since a user enabled the endpoint; also true if none did.
    pub(crate) is_proven: bool,
}

/// The maximum number of newest deliveries to read for all endpoints together: those that no total contains yet.
const MAX_READ: usize = 20_000;
/// The number of endpoints whose logs are read concurrently.
const CONCURRENCY: usize = 10;
/// The number of an endpoint's newest deliveries to search for a success.
const MAX_SEARCHED: usize = 300;

impl EndpointNumbers {
    /// Reads the numbers of endpoints. Of the undelivered deliveries, those that were created at `since` or later are
    /// listed.
    pub(crate) async fn read(
        app: &App,
        tenant: &TenantId,
        endpoints: Vec<EndpointView>,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Vec<Self>> {
        let shards: Vec<_> = endpoints.iter().map(EndpointView::shards).collect();
        let queries = endpoints.iter().zip(&shards);
        let queries = queries.map(|(endpoint, shards)| UndeliveredQuery { shards, statuses: statuses(endpoint) });
        let open = app.log.open(tenant, &queries.collect::<Vec<_>>(), since, now).await?;
        let counting = app.log.count(tenant, &shards, &open, chart::since(now), MAX_READ, now);
        let oldest: Vec<_> = open.iter().filter_map(|open| open.pending.oldest).collect();
        let proving = Self::proven(app, tenant, &endpoints, now);
        let (statistics, read, proven) = tokio::try_join!(counting, app.log.readable(tenant, &oldest), proving)?;
        let known = endpoints.into_iter().zip(open).zip(statistics).zip(proven);
        let known = known.map(|(((endpoint, open), counted), is_proven)| Self {
            oldest_pending: open.pending.oldest.and_then(|id| read.get(&id).cloned()),
            counted,
            details: DeliveryDetails::default(),
            failing_since: endpoint.health.failing_since(now),
            is_proven,
            endpoint,
            open,
        });
        Ok(known.collect())
    }

    /// Looks for a success at each of the endpoints that a user has enabled.
    async fn proven(app: &App, tenant: &TenantId, endpoints: &[EndpointView], now: Timestamp) -> Result<Vec<bool>> {
        let proven = endpoints.iter().map(async |endpoint| {
            let is_pushed = endpoint.active && endpoint.kind == Kind::Push;
            match endpoint.enabled_at.filter(|_| is_pushed) {
                Some(since) => app.log.succeeded_since(tenant, &endpoint.shards(), since, MAX_SEARCHED, now).await,
                None => Ok(true),
            }
        });
        let proven: Vec<_> = proven.collect();
        stream::iter(proven).buffered(CONCURRENCY).try_collect().await
    }

    /// The held deliveries that the endpoint has missed. Those of a pull endpoint are not missed: they wait to be
    /// received.
    pub(crate) fn held(&self) -> Backlog {
        held(&self.endpoint, &self.open)
    }

    /// The latest failed attempt.
    pub(crate) fn last_error(&self) -> Option<LastError> {
        let of_pending = self.oldest_pending.as_ref().and_then(LastError::of);
        [self.endpoint.last_error.clone(), of_pending].into_iter().flatten().max_by_key(|error| error.at)
    }

    /// Returns the number of deliveries that were delivered in the last 24 hours, and the number that were delivered or
    /// failed. If older successes were not read, both are counted from `complete_since`.
    pub(crate) fn successes(&self, now: Timestamp) -> (usize, usize) {
        let since = self.counted.complete_since.unwrap_or_else(|| chart::since(now));
        let failed = self.open.failed.newest.iter().filter(|id| id.created_at() >= since).count();
        let delivered = usize::try_from(self.counted.total.delivered).unwrap_or(usize::MAX);
        (delivered, delivered.saturating_add(failed))
    }

    /// Whether any delivery is waiting for an attempt.
    pub(crate) fn is_pending(&self) -> bool {
        self.open.pending.count > 0
    }
}

/// The statuses that undelivered deliveries to an endpoint can have. A push endpoint that has always been active has no
/// held deliveries, and none that ended without an attempt, so they are not looked for.
fn statuses(endpoint: &EndpointView) -> &'static [Status] {
    if endpoint.kind == Kind::Push && !endpoint.was_inactive { &[Status::Pending, Status::Failed] } else { &STATUSES }
}

/// Returns a delivery's failed attempts since the endpoint was enabled, oldest first. Only attempts stored in the
/// delivery's state are included.
pub(crate) fn failures<'a>(endpoint: &EndpointView, delivery: Option<&'a Delivery>) -> Vec<&'a Attempt> {
    let attempts =
        delivery.into_iter().filter(|delivery| delivery.event.is_of_a_job()).flat_map(Delivery::attempts_so_far);
    let is_since = |attempt: &&Attempt| endpoint.enabled_at.is_none_or(|enabled| attempt.at >= enabled);
    attempts.filter(|attempt| attempt.outcome != "delivered").filter(is_since).collect()
}

/// The held deliveries that an endpoint has missed.
pub(crate) fn held(endpoint: &EndpointView, open: &Undelivered) -> Backlog {
    if is_fetched(endpoint) { Backlog::default() } else { open.held.clone() }
}

/// Whether a program fetches the endpoint's held deliveries, so that they do not count as missed.
pub(crate) fn is_fetched(endpoint: &EndpointView) -> bool {
    endpoint.active && endpoint.kind == Kind::Pull
}

/// The name of the endpoint's held deliveries.
pub(crate) fn held_name(endpoint: &EndpointView) -> HeldName {
    match is_fetched(endpoint) {
        true => HeldName { word: "to fetch", label: "To fetch" },
        false => HeldName { word: "held", label: "Held" },
    }
}

/// Whether the endpoint is disabled because its receiver asked to stop deliveries.
pub(crate) fn is_gone(endpoint: &EndpointView) -> bool {
    !endpoint.active && endpoint.disabled.is_some_and(|(_, reason)| reason == DisabledReason::Gone)
}

/// Whether the endpoint's previous secret is still in use.
pub(crate) fn is_rotating(endpoint: &EndpointView, now: Timestamp) -> bool {
    endpoint.previous_secret_expires_at.is_some_and(|end| now < end)
}

/// Returns the deliveries in a backlog that were created in this period. All of them must be listed.
pub(crate) fn within(backlog: &Backlog, time: &Range<Timestamp>) -> Backlog {
    let newest: Vec<_> = backlog.newest.iter().copied().filter(|id| time.contains(&id.created_at())).collect();
    Backlog {
        count: newest.len(),
        is_longer: backlog.is_longer && backlog.newest_since.is_none_or(|counted| time.start < counted),
        newest,
        ..Backlog::default()
    }
}

/// Formats a number with its noun: `1 endpoint`, `2 endpoints`.
pub(crate) fn counted(number: impl fmt::Display, one: &str, many: &str) -> String {
    let number = number.to_string();
    format!("{number} {}", if number == "1" { one } else { many })
}
