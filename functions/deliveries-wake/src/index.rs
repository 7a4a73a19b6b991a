//! Adds deliveries to their tenants' indexes, so that they can be found by their job.

use std::{collections::HashSet, time::Duration};

use common::{
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::log::due_rows::{Minute, Sweeper},
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use crate::App;

/// The maximum time that a sweep spends on these indexes, so that they do not slow down its other work.
const INDEX_TIME: Duration = Duration::from_secs(15);
/// The number of reads and of tenants' indexes in progress.
const CONCURRENCY: usize = 4;

impl App {
    /// Writes the indexes that are requested in the minutes after `last`. If one fails or takes too long, the next minute
    /// continues. Errors are only logged, because deliveries are found without an index, too, but more slowly, and later
    /// deliveries request it again.
    pub(super) async fn index(&self, sweeper: Sweeper, last: Minute, now: Timestamp, end: Instant) {
        let end = end.min(Instant::now() + INDEX_TIME);
        let requests = last
            .until(Minute::of(now))
            .flat_map(|minute| sweeper.partitions().map(move |partition| self.log.index_requests(minute, partition)));
        let requests = stream::iter(requests.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY);
        // In random order, so that no tenant is always last.
        let tenants: HashSet<_> = match requests.try_collect::<Vec<_>>().await {
            Ok(tenants) => tenants.into_iter().flatten().collect(),
            Err(error) => return failed(None, &error),
        };
        let indexed = tenants.into_iter().map(async |tenant| {
            let is_more = self.index_of(&tenant, now, end).await.unwrap_or_else(|error| {
                failed(Some(&tenant), &error);
                true
            });
            is_more.then(|| self.log.index_row_again(&tenant, now))
        });
        let again: Vec<_> = stream::iter(indexed.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).collect().await;
        if let Err(error) = self.log.put_all(again.into_iter().flatten()).await {
            failed(None, &error);
        }
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

fn failed(tenant: Option<&TenantId>, error: &Error) {
    common::log!("log.index_failed", tenant = tenant.map(TenantId::as_str), ?error);
}
