//! The numbers of endpoints. The first page and the page of an endpoint show the same numbers.

use std::{fmt, ops::Range};

use common::{
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::Delivery,
        endpoints::{DisabledReason, EndpointView, Kind, LastError},
        log::{
            count::{Bound, Statistics},
            open::{Backlog, Open},
        },
    },
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{app::App, chart};

/// An endpoint with its numbers.
pub(crate) struct Known {
    pub(crate) endpoint: EndpointView,
    /// All undelivered deliveries.
    pub(crate) open: Open,
    /// The oldest pending delivery.
    pub(crate) oldest_pending: Option<Delivery>,
    /// The deliveries of the last 24 hours that were read.
    pub(crate) counted: Statistics,
}

/// The number of endpoints whose logs are read at once.
const CONCURRENCY: usize = 10;

impl Known {
    /// Reads the numbers of endpoints, within `bound` for each.
    pub(crate) async fn read(
        app: &App,
        tenant: &TenantId,
        endpoints: Vec<EndpointView>,
        bound: Bound,
        now: Timestamp,
    ) -> Result<Vec<Self>> {
        let shards: Vec<_> = endpoints.iter().map(EndpointView::shards).collect();
        let open = app.log.open(tenant, &shards, now).await?;
        let oldest: Vec<_> = open.iter().filter_map(|open| open.pending.oldest).collect();
        let counting = shards
            .iter()
            .zip(&open)
            .map(|(shards, open)| app.log.count(tenant, shards, open, chart::since(now), bound, now));
        let counting: Vec<_> = counting.collect();
        let counted = stream::iter(counting).buffered(CONCURRENCY).try_collect::<Vec<_>>();
        let (mut pending, counted) = tokio::try_join!(app.log.known(tenant, &oldest), counted)?;
        let known = endpoints.into_iter().zip(open).zip(counted).map(|((endpoint, open), counted)| {
            let oldest_pending = open.pending.oldest.and_then(|id| pending.remove(&id));
            Self { endpoint, open, oldest_pending, counted }
        });
        Ok(known.collect())
    }

    /// The held deliveries that the endpoint has missed. A pull endpoint has not missed them: they wait to be received.
    pub(crate) fn held(&self) -> Backlog {
        held(&self.endpoint, &self.open)
    }

    /// The latest failed attempt.
    pub(crate) fn last_error(&self) -> Option<LastError> {
        let of_pending = self.oldest_pending.as_ref().and_then(LastError::of);
        [self.endpoint.last_error.clone(), of_pending].into_iter().flatten().max_by_key(|error| error.at)
    }

    /// The delivered deliveries of the last 24 hours, and those that are delivered or failed; since `complete_since`, if
    /// older successes were not read.
    pub(crate) fn successes(&self, now: Timestamp) -> (usize, usize) {
        let since = self.counted.complete_since.unwrap_or_else(|| chart::since(now));
        let failed = self.open.failed.newest.iter().filter(|at| **at >= since).count();
        let delivered = usize::try_from(self.counted.total.delivered).unwrap_or(usize::MAX);
        (delivered, delivered.saturating_add(failed))
    }

    /// Whether a delivery waits for an attempt.
    pub(crate) fn is_pending(&self) -> bool {
        self.open.pending.count > 0
    }
}

/// The held deliveries that an endpoint has missed.
pub(crate) fn held(endpoint: &EndpointView, open: &Open) -> Backlog {
    match endpoint {
        EndpointView { kind: Kind::Pull, active: true, .. } => Backlog::default(),
        _ => open.held.clone(),
    }
}

/// Whether the endpoint is disabled because its receiver asked to stop deliveries.
pub(crate) fn is_gone(endpoint: &EndpointView) -> bool {
    !endpoint.active && endpoint.disabled.is_some_and(|(_, reason)| reason == DisabledReason::Gone)
}

/// The deliveries of a backlog that were created in this period.
pub(crate) fn within(backlog: &Backlog, time: &Range<Timestamp>) -> Backlog {
    let newest: Vec<_> = backlog.newest.iter().copied().filter(|at| time.contains(at)).collect();
    Backlog {
        count: newest.len(),
        is_longer: backlog.is_longer && backlog.newest_since.is_none_or(|counted| time.start < counted),
        newest,
        ..Backlog::default()
    }
}

/// `1 endpoint`, `2 endpoints`.
pub(crate) fn counted(number: impl fmt::Display, one: &str, many: &str) -> String {
    let number = number.to_string();
    format!("{number} {}", if number == "1" { one } else { many })
}
