//! A glance at a destination: its newest deliveries, and its backlog, read in bounded time from a log of any size.

use futures::{StreamExt, TryStreamExt, stream};

use super::{
    count::Statistics,
    items::{AT, CODE, DELIVERY, DETAIL, LAST, LAST_AT, LAST_CODE, LAST_DETAIL, LAST_OUTCOME, OUTCOME, STATUS},
    search::{Filter, id},
    table::Log,
};
use crate::{
    aws::{batch::CONCURRENCY, dynamo::Record, expression::select, failure},
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Detail, Shard, Status},
};

/// The newest deliveries to a destination.
#[derive(Clone, Debug, Default)]
pub struct Glance {
    /// The counts of the newest deliveries.
    pub counted: Statistics,
    /// The number of deliveries that wait for another attempt after a failure.
    pub retrying: u32,
    /// The time and the reason of the latest failed attempt.
    pub last_failure: Option<LastFailure>,
}

/// An attempt that failed.
#[derive(Clone, Debug)]
pub struct LastFailure {
    /// When it began.
    pub at: Timestamp,
    /// Why it failed, as the log names it.
    pub reason: String,
    /// The receiver's HTTP status, if it sent one.
    pub status_code: Option<u16>,
    /// The cause, as far as it is known.
    pub detail: Option<Detail>,
}

/// The deliveries to a destination with a given status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of deliveries counted.
    pub count: usize,
    /// Whether all of them were counted.
    pub is_complete: bool,
    /// The time at which the oldest of them was created.
    pub oldest: Option<Timestamp>,
}

/// The number of deliveries of a status that are counted over all shards of a destination.
const COUNTED: usize = 1000;

impl Log {
    /// The newest `most` deliveries in `shards` created at `since` or later; a few more if there are many shards.
    ///
    /// # Errors
    /// A read failed.
    pub async fn glance(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        since: Timestamp,
        most: usize,
        now: Timestamp,
    ) -> Result<Glance> {
        let range = self.range(&Filter { since: Some(since), ..Filter::default() }, None, now);
        let limit = limit(most, shards);
        let read = stream::iter(shards.to_vec()).map(async |shard| {
            let query = self.query(tenant, shard, None, &range).scan_index_forward(false).limit(limit);
            let query = select(query, &[DELIVERY, STATUS, LAST_OUTCOME, LAST_DETAIL, LAST_AT, LAST_CODE]);
            let answer = Box::pin(query.send()).await.map_err(failure("reading the newest deliveries"))?;
            Ok((shard, answer.items.unwrap_or_default(), answer.last_evaluated_key.is_none()))
        });
        let read: Vec<_> = read.buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut glance = Glance::default();
        glance.counted.is_complete = read.iter().all(|(.., is_complete)| *is_complete);
        for (shard, items, _) in read {
            for item in &items {
                glance.counted.add(shard, item);
                let Some(last) = item.get(LAST.name()).and_then(|last| last.as_m().ok()) else { continue };
                let last = Record::new("attempt", last);
                let failed = last.optional_text(OUTCOME).filter(|outcome| *outcome != "delivered");
                let Some((reason, at)) = failed.zip(last.time(AT).ok()) else { continue };
                if glance.last_failure.as_ref().is_none_or(|latest| latest.at < at) {
                    let status_code = last.optional_number(CODE).and_then(|code| u16::try_from(code).ok());
                    let detail = last.optional_text(DETAIL).map(|detail| Detail::new(detail.to_owned()));
                    glance.last_failure = Some(LastFailure { at, reason: reason.to_owned(), status_code, detail });
                }
                let status: Option<Status> = Record::new("delivery", item).parsed(STATUS).ok();
                glance.retrying += u32::from(status == Some(Status::Pending));
            }
        }
        Ok(glance)
    }

    /// Counts the deliveries in `shards` with this status (never [`Status::Delivered`]), up to a bound. The index lags
    /// behind the table.
    ///
    /// # Errors
    /// A read failed.
    pub async fn backlog(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        status: Status,
        now: Timestamp,
    ) -> Result<Backlog> {
        let range = self.range(&Filter::default(), None, now);
        let limit = limit(COUNTED, shards);
        let read = stream::iter(shards.to_vec()).map(async |shard| {
            let query = self.query(tenant, shard, Some(status), &range).limit(limit);
            let answer = Box::pin(query.send()).await.map_err(failure("counting deliveries of a status"))?;
            let items = answer.items.unwrap_or_default();
            let oldest = items.first().and_then(|item| id(shard, item));
            Ok(Backlog {
                count: items.len(),
                is_complete: answer.last_evaluated_key.is_none(),
                oldest: oldest.map(|id| Timestamp::from_millisecond(id.at.get())),
            })
        });
        let read: Vec<Backlog> = read.buffer_unordered(CONCURRENCY).try_collect().await?;
        Ok(Backlog {
            count: read.iter().map(|part| part.count).sum(),
            is_complete: read.iter().all(|part| part.is_complete),
            oldest: read.iter().filter_map(|part| part.oldest).min(),
        })
    }
}

/// The number of items to read from each shard.
fn limit(most: usize, shards: &[Shard]) -> i32 {
    i32::try_from((most / shards.len().max(1)).max(1)).unwrap_or(i32::MAX)
}
