//! Searches for the deliveries of a job or of a workflow, or for the one with a `webhook-id`: in the
//! [index](super::index), and in the part of the log that it does not cover yet.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    index::{IndexHash, Segment, frequent_until, uncovered},
    items::DELIVERY,
    search::{Cursor, DeliveryPage, Filter, KeyRange, PartialPage, SearchTerms, id, merge, moment},
    table::DeliveryLog,
    totals::after,
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::query_page,
        expression::{self, select},
    },
    error::Result,
    webhooks::delivery::{DeliveryId, Shard},
};

/// The time for reading what the index does not cover. A read of a busy shard takes a few megabytes.
const READING_TIME: Duration = Duration::from_secs(4);
/// The maximum number of deliveries whose states are read for a page.
const MAX_STATES: usize = 1000;
/// The number of deliveries to read at a time. A read ends after a megabyte, too.
const PAGE_SIZE: usize = 4000;

/// The hash of what is sought, and the segments of the index.
pub(super) struct Lookup {
    hash: IndexHash,
    segments: Vec<Segment>,
}

impl DeliveryLog {
    /// Reads the segments of the index, if it can be used to find these deliveries.
    pub(super) async fn lookup(&self, sought: &SearchTerms<'_>) -> Result<Option<Lookup>> {
        match sought.filter.hash() {
            Some(hash) => Ok(Some(Lookup { hash, segments: self.segments(sought.tenant).await? })),
            None => Ok(None),
        }
    }

    /// Searches like [`DeliveryLog::search_once`], but uses the index as far as it contains the hash.
    pub(super) async fn look_up(
        &self,
        sought: &SearchTerms<'_>,
        lookup: &Lookup,
        filtered: usize,
        range: KeyRange,
        limit: usize,
    ) -> Result<DeliveryPage> {
        if sought.filter.job_id.is_some() || sought.filter.webhook_id.is_some() {
            return self.find_indexed(sought, lookup, &range, limit).await;
        }
        let (is_indexed, older) = lookup.newest_part(&range);
        let range = older.map_or_else(|| range.start().clone(), after)..=range.end().clone();
        let mut page = match is_indexed {
            true => self.find_indexed(sought, lookup, &range, limit).await?,
            false => self.search_once(sought, filtered, range, limit).await?,
        };
        page.next = page.next.or_else(|| older.map(Cursor::up_to));
        Ok(page)
    }

    /// Finds deliveries, newest first, in a range of moments whose segments contain the hash. If the part of the range
    /// that is not covered is too large, the page ends where the search has stopped.
    async fn find_indexed(
        &self,
        sought: &SearchTerms<'_>,
        Lookup { hash, segments }: &Lookup,
        range: &KeyRange,
        limit: usize,
    ) -> Result<DeliveryPage> {
        let SearchTerms { tenant, shards, filter, .. } = *sought;
        let (covered, uncovered) = {
            let start = uncovered(segments).clamp(range.start().clone(), range.end().clone());
            (range.start().clone()..=start.clone(), start..=range.end().clone())
        };
        let unread = if uncovered.start() < uncovered.end() { shards } else { &[] };
        let end = Instant::now() + READING_TIME;
        let reads = unread.iter().map(|shard| {
            let query = self.query_shard(tenant, *shard, &uncovered).consistent_read(true).scan_index_forward(false);
            let query = filter.condition().into_iter().fold(select(query, &[DELIVERY]), expression::filter);
            read_until(query, *shard, |id| filter.webhook_id.is_none_or(|wanted| wanted == id.webhook_id), end)
        });
        let reads = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect();
        let (mut read, indexed): (Vec<_>, _) =
            tokio::try_join!(reads, self.indexed(tenant, *hash, segments, &covered))?;
        let is_here = |id: &DeliveryId| {
            let is_wanted = filter.webhook_id.is_none_or(|wanted| wanted == id.webhook_id);
            is_wanted && shards.iter().any(|shard| shard.destination == id.destination)
        };
        read.push(PartialPage { found: indexed.into_iter().filter(is_here).collect(), end: None });
        self.page_of(sought, merge(read, MAX_STATES, DeliveryId::moment), limit).await
    }
}

impl Lookup {
    /// Whether the segments contain a workflow in the newest part of a range of moments, and the end of the older part, if
    /// that has to be searched in another way.
    fn newest_part(&self, range: &KeyRange) -> (bool, Option<&str>) {
        let covered = self.segments.last().map_or("", Segment::end);
        if covered < range.end().as_str() {
            return (false, Some(covered).filter(|end| *end >= range.start().as_str()));
        }
        match frequent_until(&self.segments, self.hash, range) {
            Some(until) if until >= range.end().as_str() => (false, None),
            until => (true, until),
        }
    }
}

impl Filter {
    /// The hash by which deliveries that pass are looked up, if there is one.
    fn hash(&self) -> Option<IndexHash> {
        let job = || self.job_id.as_deref().map(IndexHash::of_job);
        let workflow = || self.workflow.as_deref().map(IndexHash::of_workflow);
        self.webhook_id.map(IndexHash::of_webhook_id).or_else(job).or_else(workflow)
    }
}

/// Reads the keys of a shard, newest first, until the time is over.
async fn read_until(
    query: QueryFluentBuilder,
    shard: Shard,
    is_wanted: impl Fn(&DeliveryId) -> bool,
    end: Instant,
) -> Result<PartialPage<DeliveryId>> {
    let (mut found, mut start) = (Vec::new(), None);
    loop {
        let page = query_page(query.clone().set_exclusive_start_key(start), PAGE_SIZE, "looking up deliveries").await?;
        found.extend(page.items.iter().filter_map(|item| id(shard, item)).filter(&is_wanted));
        start = page.last;
        if start.is_none() || Instant::now() >= end {
            return Ok(PartialPage { found, end: start.as_ref().and_then(moment).map(str::to_owned) });
        }
    }
}
