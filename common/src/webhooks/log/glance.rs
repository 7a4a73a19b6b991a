//! A glance at a destination: its newest deliveries, and what waits for somebody to do something. What that reads is bounded,
//! however much there is in the log.

use futures::{StreamExt, TryStreamExt, stream};

use super::{
    count::Statistics,
    search::{Filter, id},
    table::{CONCURRENCY, Log},
};
use crate::{
    aws::{dynamo::Record, failure},
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Shard, Status},
};

/// The newest deliveries to a destination.
#[derive(Clone, Debug, Default)]
pub struct Glance {
    /// Their numbers.
    pub counted: Statistics,
    /// How many of them wait for another attempt after one that failed.
    pub retrying: u32,
    /// The latest attempt of them that failed: when, and why.
    pub last_failure: Option<(Timestamp, String)>,
}

/// Deliveries to a destination that have the same status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many were counted.
    pub count: usize,
    /// Whether that is all of them.
    pub is_complete: bool,
    /// When the oldest of them was created.
    pub oldest: Option<Timestamp>,
}

/// How many deliveries of a status are counted over all shards of a destination.
const COUNTED: usize = 1000;

impl Log {
    /// The deliveries in `shards` that were created at `since` or later: the newest `most` of them, a few more if there are
    /// many shards.
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
            let query = query
                .projection_expression("delivery, #status, #last.outcome, #last.#at")
                .expression_attribute_names("#status", "status")
                .expression_attribute_names("#last", "last")
                .expression_attribute_names("#at", "at");
            let answer = Box::pin(query.send()).await.map_err(failure("reading the newest deliveries"))?;
            Ok((shard, answer.items.unwrap_or_default(), answer.last_evaluated_key.is_none()))
        });
        let read: Vec<_> = read.buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut glance = Glance::default();
        glance.counted.is_complete = read.iter().all(|(.., is_complete)| *is_complete);
        for (shard, items, _) in read {
            for item in &items {
                glance.counted.add(shard, item);
                let Some(last) = item.get("last").and_then(|last| last.as_m().ok()) else { continue };
                let last = Record::new("attempt", last);
                let failed = last.optional_text("outcome").filter(|outcome| *outcome != "delivered");
                let Some((reason, at)) = failed.zip(last.time("at").ok()) else { continue };
                if glance.last_failure.as_ref().is_none_or(|(latest, _)| *latest < at) {
                    glance.last_failure = Some((at, reason.to_owned()));
                }
                let status: Option<Status> = Record::new("delivery", item).parsed("status").ok();
                glance.retrying += u32::from(status == Some(Status::Pending));
            }
        }
        Ok(glance)
    }

    /// The deliveries in `shards` that have this status, which is not [`Status::Delivered`]: their number, up to a bound. The
    /// index that it reads lags behind the table.
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

/// How many items of each shard to read.
fn limit(most: usize, shards: &[Shard]) -> i32 {
    i32::try_from((most / shards.len().max(1)).max(1)).unwrap_or(i32::MAX)
}
