//! Searches for the deliveries of a job, or for the one with a `webhook-id`: in the [index](super::index), and in the
//! part of the log that it does not cover yet.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    index::{Hash, uncovered},
    items::{DELIVERY, JOB_ID},
    search::{Cursor, Filter, Page, Stretch, id, merge, moment},
    table::Log,
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::{query_page, text},
        expression::{self, select},
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{DeliveryId, Shard, kept_job_id},
};

/// The time for reading what the index does not cover. A read of a busy shard takes a few megabytes.
const TIME: Duration = Duration::from_secs(4);
/// The maximum number of deliveries whose states are read for a page.
const MOST: usize = 1000;
/// The number of deliveries to read at a time. A read ends after a megabyte, too.
const PAGE: usize = 4000;

impl Log {
    /// Finds deliveries like [`Log::search`], if `filter` has a job or a `webhook-id`. If the part of the log that is not
    /// covered is too large, the page ends where the search has stopped, like a page of a search.
    pub(super) async fn look_up(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        filter: &Filter,
        cursor: Option<&Cursor>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page> {
        let range = self.range(filter, cursor, now);
        let segments = self.segments(tenant).await?;
        let (covered, uncovered) = {
            let start = uncovered(&segments).clamp(range.start().clone(), range.end().clone());
            (range.start().clone()..=start.clone(), start..=range.end().clone())
        };
        let end = Instant::now() + TIME;
        let reads = shards.iter().map(|shard| {
            let query = self.query_shard(tenant, *shard, &uncovered).consistent_read(true).scan_index_forward(false);
            let of_job = filter.job_id.as_deref().map(|job| JOB_ID.equals(text(kept_job_id(job))));
            let query = of_job.into_iter().fold(select(query, &[DELIVERY]), expression::filter);
            read_until(query, *shard, |id| filter.webhook_id.is_none_or(|wanted| wanted == id.webhook_id), end)
        });
        let reads = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect();
        let (mut read, indexed): (Vec<_>, _) =
            tokio::try_join!(reads, self.indexed(tenant, hash_of(filter), &segments, &covered))?;
        let is_here = |id: &DeliveryId| {
            let is_wanted = filter.webhook_id.is_none_or(|wanted| wanted == id.webhook_id);
            is_wanted && shards.iter().any(|shard| shard.destination == id.destination)
        };
        read.push(Stretch { found: indexed.into_iter().filter(is_here).collect(), end: None });
        self.page_of(tenant, merge(read, MOST, DeliveryId::moment), filter, limit).await
    }
}

fn hash_of(filter: &Filter) -> Hash {
    match filter.webhook_id {
        Some(id) => Hash::of_webhook_id(id),
        None => Hash::of_job(filter.job_id.as_deref().unwrap_or_default()),
    }
}

/// Reads the keys of a shard, newest first, until the time is over.
async fn read_until(
    query: QueryFluentBuilder,
    shard: Shard,
    is_wanted: impl Fn(&DeliveryId) -> bool,
    end: Instant,
) -> Result<Stretch<DeliveryId>> {
    let (mut found, mut start) = (Vec::new(), None);
    loop {
        let page = query_page(query.clone().set_exclusive_start_key(start), PAGE, "looking up deliveries").await?;
        found.extend(page.items.iter().filter_map(|item| id(shard, item)).filter(&is_wanted));
        start = page.last;
        if start.is_none() || Instant::now() >= end {
            return Ok(Stretch { found, end: start.as_ref().and_then(moment).map(str::to_owned) });
        }
    }
}
