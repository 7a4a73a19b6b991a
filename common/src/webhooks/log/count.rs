//! Counts of deliveries by status, hour and reason.

use std::collections::BTreeMap;

pub use api::deliveries::Counts;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    items::{DELIVERY, LAST, LAST_OUTCOME, OUTCOME, STATUS},
    search::{Filter, KeyRange, id},
    table::Log,
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::{Item, Record},
        expression::select,
        failure,
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Shard, Status},
};

/// The counts of a tenant's or an endpoint's deliveries.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The counts of all deliveries.
    pub total: Counts,
    /// The counts by the hour in which the deliveries were created.
    pub hours: BTreeMap<Timestamp, Counts>,
    /// The failed deliveries by the outcome of the last attempt.
    pub reasons: BTreeMap<String, u32>,
    /// Whether all deliveries were counted. If not, only the newest were.
    pub is_complete: bool,
}

/// The number of pages, of a megabyte each, that are counted over all shards. Each shard gets at least one.
const COUNTED: usize = 64;

impl Log {
    /// Counts the deliveries in `shards` that were created at `since` or later.
    pub async fn count(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        since: Timestamp,
        now: Timestamp,
    ) -> Result<Statistics> {
        let filter = Filter { since: Some(since), ..Filter::default() };
        let range = self.range(&filter, None, now);
        let pages = (COUNTED / shards.len().max(1)).max(1);
        let counted = stream::iter(shards.to_vec()).map(|shard| self.count_shard(tenant, shard, &range, pages));
        let counted: Vec<Statistics> = counted.buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut sum = Statistics { is_complete: true, ..Statistics::default() };
        for part in counted {
            sum.is_complete &= part.is_complete;
            sum.total += part.total;
            part.hours.into_iter().for_each(|(hour, counts)| *sum.hours.entry(hour).or_default() += counts);
            part.reasons.into_iter().for_each(|(reason, count)| *sum.reasons.entry(reason).or_default() += count);
        }
        Ok(sum)
    }

    async fn count_shard(&self, tenant: &TenantId, shard: Shard, range: &KeyRange, pages: usize) -> Result<Statistics> {
        let query = self.query(tenant, shard, None, range).scan_index_forward(false);
        let query = select(query, &[DELIVERY, STATUS, LAST_OUTCOME]);
        let (mut counted, mut next) = (Statistics::default(), None);
        for _ in 0..pages {
            let page = query.clone().set_exclusive_start_key(next);
            let answer = Box::pin(page.send()).await.map_err(failure("counting deliveries"))?;
            answer.items.unwrap_or_default().iter().for_each(|item| counted.add(shard, item));
            next = answer.last_evaluated_key;
            if next.is_none() {
                return Ok(Statistics { is_complete: true, ..counted });
            }
        }
        Ok(counted)
    }
}

impl Statistics {
    pub(super) fn add(&mut self, shard: Shard, item: &Item) {
        let record = Record::new("delivery", item);
        let Some((id, status)) = id(shard, item).zip(record.parsed(STATUS).ok()) else { return };
        let hour = Timestamp::from_millisecond(id.at.get() - id.at.get() % (60 * 60 * 1000));
        let mut one = Counts::default();
        match status {
            Status::Pending => one.pending = 1,
            Status::Delivered => one.delivered = 1,
            Status::Held => one.held = 1,
            Status::Ended => one.ended = 1,
            Status::Failed => {
                one.failed = 1;
                let last = item.get(LAST.name()).and_then(|last| last.as_m().ok());
                if let Some(reason) = last.and_then(|last| last.get(OUTCOME.name())?.as_s().ok()) {
                    *self.reasons.entry(reason.clone()).or_default() += 1;
                }
            }
        }
        self.total += one;
        *self.hours.entry(hour).or_default() += one;
    }
}
