//! The numbers of endpoints. The first page and the page of an endpoint show the same numbers.

use common::{
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::Delivery,
        endpoints::{EndpointView, Kind, LastError},
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
    /// The deliveries of the last 24 hours, as far as they were read.
    pub(crate) counted: Statistics,
}

/// The number of endpoints whose logs are read at once.
const CONCURRENCY: usize = 10;

impl Known {
    /// Reads the numbers of endpoints, and up to `most` of the newest deliveries of each.
    pub(crate) async fn read(
        app: &App,
        tenant: &TenantId,
        endpoints: Vec<EndpointView>,
        most: usize,
        now: Timestamp,
    ) -> Result<Vec<Self>> {
        let shards: Vec<_> = endpoints.iter().map(EndpointView::shards).collect();
        let open = app.log.open(tenant, &shards, now).await?;
        let oldest: Vec<_> = open.iter().filter_map(|open| open.pending.oldest).collect();
        let counting = shards
            .iter()
            .zip(&open)
            .map(|(shards, open)| app.log.count(tenant, shards, open, chart::since(now), Bound::Deliveries(most), now));
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
        match self.endpoint {
            EndpointView { kind: Kind::Pull, active: true, .. } => Backlog::default(),
            _ => self.open.held.clone(),
        }
    }

    /// The latest failed attempt.
    pub(crate) fn last_error(&self) -> Option<LastError> {
        let of_pending = self.oldest_pending.as_ref().and_then(LastError::of);
        [self.endpoint.last_error.clone(), of_pending].into_iter().flatten().max_by_key(|error| error.at)
    }
}
