//! Adds deliveries to their tenants' indexes, so that they can be found by their job.

use std::time::Duration;

use common::{
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::log::due::{Minute, Sweeper},
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use crate::App;

/// The maximum time that a sweep spends on these indexes in a minute, so the minutes that follow are not late.
const TIME: Duration = Duration::from_secs(15);
/// The number of tenants whose indexes are written concurrently.
const SIDE_BY_SIDE: usize = 4;

impl App {
    /// Writes the indexes that are requested in `minute`. If that fails or takes too long, the next minute continues.
    ///
    /// # Errors
    /// The requests could not be read or moved. The minute is repeated.
    pub(super) async fn index(&self, sweeper: Sweeper, minute: Minute, now: Timestamp, end: Instant) -> Result<()> {
        let end = end.min(Instant::now() + TIME);
        let requests = sweeper.partitions().map(|partition| self.log.index_requests(minute, partition));
        let requests = stream::iter(requests.collect::<Vec<_>>()).buffer_unordered(SIDE_BY_SIDE);
        let tenants: Vec<_> = requests.try_concat().await?;
        let indexed = tenants.into_iter().map(async |tenant| {
            let is_more = self.index_of(&tenant, now, end).await.unwrap_or_else(|error| {
                common::log!("log.index_failed", %tenant, ?error);
                true
            });
            is_more.then(|| self.log.index_row_again(&tenant, now))
        });
        let again: Vec<_> = stream::iter(indexed.collect::<Vec<_>>()).buffer_unordered(SIDE_BY_SIDE).collect().await;
        self.log.put_all(again.into_iter().flatten()).await
    }

    /// Writes a tenant's index until `end`. Returns whether there may be more to write.
    async fn index_of(&self, tenant: &TenantId, now: Timestamp, end: Instant) -> Result<bool> {
        let shards = self.notices.endpoints.shards(tenant, None).await?;
        while Instant::now() < end {
            if !self.log.index(tenant, &shards, now).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
