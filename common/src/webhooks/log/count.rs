//! Counts of deliveries by status, hour and reason.
//!
//! Undelivered deliveries are counted exactly, through their [index](super::open). Delivered states are counted while
//! they are read, newest first and up to a bound, because counters would cost writes. The counts include the time from
//! which they are complete.

use std::{collections::BTreeMap, time::Duration};

pub use api::deliveries::Counts;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    items::{ATTEMPTS, DELIVERY, EVENT, LAST, LAST_MS, LAST_OUTCOME, MS, OUTCOME, STATUS},
    open::{Backlog, Open},
    search::{Filter, KeyRange, id},
    table::Log,
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::{Item, Record, text},
        expression::{filter, select},
        failure,
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Shard, Status},
        event::EventName,
    },
};

/// The counts of a tenant's or an endpoint's deliveries.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The counts of all deliveries.
    pub total: Counts,
    /// The counts by the hour in which the deliveries were created.
    pub hours: BTreeMap<Timestamp, Counts>,
    /// The failed deliveries that were read by [`Bound::Pages`], by the outcome of the last attempt.
    pub reasons: BTreeMap<String, u32>,
    /// The time since which all deliveries were counted, if older ones were not counted.
    pub complete_since: Option<Timestamp>,
    /// The same, but only for pending, failed and held deliveries.
    pub open_since: Option<Timestamp>,
    /// The deliveries that needed more than one attempt, by hour, of those read with [`Bound::Details`].
    pub retried: BTreeMap<Timestamp, u32>,
    /// The durations of their last attempts, in milliseconds.
    pub durations: Vec<u32>,
}

/// A bound for the deliveries that are read, over all shards. Each shard is read at least once.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// This many deliveries. Those that ended are not counted: only the keys of delivered ones are read.
    Deliveries(usize),
    /// This many deliveries, with the number and the time of their attempts.
    Details(usize),
    /// This many pages of a thousand deliveries or a megabyte each.
    Pages(usize),
}

/// The number of deliveries of a page. A call that reads more may exceed its time.
const PAGE: i32 = 1000;

impl Log {
    /// Counts the deliveries in `shards` that were created at `since` or later and are read within `bound`; and of those
    /// that are not delivered, which `open` has, all.
    ///
    /// # Errors
    /// A read failed.
    pub async fn count(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        open: &Open,
        since: Timestamp,
        bound: Bound,
        now: Timestamp,
    ) -> Result<Statistics> {
        let range = self.range(&Filter { since: Some(since), ..Filter::default() }, None, now);
        let share = |all: usize| (all / shards.len().max(1)).max(1);
        let bound = match bound {
            Bound::Deliveries(most) => Bound::Deliveries(share(most)),
            Bound::Details(most) => Bound::Details(share(most)),
            Bound::Pages(pages) => Bound::Pages(share(pages)),
        };
        let counted = stream::iter(shards.to_vec()).map(|shard| self.count_shard(tenant, shard, &range, bound));
        let counted: Vec<Statistics> = counted.buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut sum = Statistics::default();
        for part in counted {
            sum.complete_since = sum.complete_since.max(part.complete_since);
            sum.total += part.total;
            part.hours.into_iter().for_each(|(hour, counts)| *sum.hours.entry(hour).or_default() += counts);
            part.retried.into_iter().for_each(|(hour, count)| *sum.retried.entry(hour).or_default() += count);
            sum.durations.extend(part.durations);
            part.reasons.into_iter().for_each(|(reason, count)| *sum.reasons.entry(reason).or_default() += count);
        }
        sum.add_open(open, since);
        Ok(sum)
    }

    async fn count_shard(&self, tenant: &TenantId, shard: Shard, range: &KeyRange, bound: Bound) -> Result<Statistics> {
        let query = self.query(tenant, shard, None, range).scan_index_forward(false);
        let (query, pages) = match bound {
            // DynamoDB applies the limit before the filter. Parsing an item without its status is twice as fast.
            Bound::Deliveries(most) => {
                let delivered = STATUS.equals(text(Status::Delivered));
                (filter(select(query, &[DELIVERY]).limit(i32::try_from(most).unwrap_or(i32::MAX)), delivered), 1)
            }
            Bound::Details(most) => {
                let read = select(query, &[DELIVERY, STATUS, ATTEMPTS, LAST_MS]);
                (read.limit(i32::try_from(most).unwrap_or(i32::MAX)), 1)
            }
            Bound::Pages(pages) => (select(query, &[DELIVERY, EVENT, STATUS, LAST_OUTCOME]).limit(PAGE), pages),
        };
        let (mut counted, mut next) = (Statistics::default(), None);
        for _ in 0..pages {
            let page = query.clone().set_exclusive_start_key(next);
            let answer = Box::pin(page.send()).await.map_err(failure("counting deliveries"))?;
            answer.items.unwrap_or_default().iter().for_each(|item| counted.add(shard, item));
            next = answer.last_evaluated_key;
            if next.is_none() {
                return Ok(counted);
            }
        }
        // Another delivery of the same millisecond may be unread.
        let last = next.as_ref().and_then(|key| id(shard, key));
        let read = last.map(|id| Timestamp::from_millisecond(id.at.get()).after(Duration::from_millis(1)));
        Ok(Statistics { complete_since: read, ..counted })
    }
}

impl Statistics {
    /// Adds a delivery that was read. Undelivered deliveries are counted through their index, except ended ones, which
    /// none of the index's callers count.
    fn add(&mut self, shard: Shard, item: &Item) {
        let record = Record::new("delivery", item);
        let status = record.optional_parsed(STATUS).map(|status| status.unwrap_or(Status::Delivered));
        let Some((id, status)) = id(shard, item).zip(status.ok()) else { return };
        let one = match status {
            Status::Delivered => Counts { delivered: 1, ..Counts::default() },
            Status::Ended => Counts { ended: 1, ..Counts::default() },
            Status::Failed if record.optional_text(EVENT) != Some(EventName::Test.as_str()) => {
                let last = item.get(LAST.name()).and_then(|last| last.as_m().ok());
                if let Some(reason) = last.and_then(|last| last.get(OUTCOME.name())?.as_s().ok()) {
                    *self.reasons.entry(reason.clone()).or_default() += 1;
                }
                return;
            }
            Status::Pending | Status::Failed | Status::Held => return,
        };
        let hour = hour(Timestamp::from_millisecond(id.at.get()));
        self.total += one;
        *self.hours.entry(hour).or_default() += one;
        if status == Status::Delivered {
            if record.optional_number(ATTEMPTS).is_some_and(|attempts| attempts > 1) {
                *self.retried.entry(hour).or_default() += 1;
            }
            let last = item.get(LAST.name()).and_then(|last| last.as_m().ok());
            let took = last.and_then(|last| Record::new("attempt", last).optional_number(MS));
            self.durations.extend(took.and_then(|took| u32::try_from(took).ok()));
        }
    }

    /// The time that 95 % of the successful attempts stayed within, in milliseconds. `None` if none was read.
    #[must_use]
    pub fn p95(&self) -> Option<u32> {
        let mut durations = self.durations.clone();
        durations.sort_unstable();
        durations.get((durations.len() * 95).div_ceil(100).checked_sub(1)?).copied()
    }

    /// Adds the undelivered deliveries that were created at `since` or later.
    fn add_open(&mut self, open: &Open, since: Timestamp) {
        let mut add = |backlog: &Backlog, one: Counts| {
            for at in backlog.newest.iter().filter(|at| **at >= since) {
                self.total += one;
                *self.hours.entry(hour(*at)).or_default() += one;
            }
            self.open_since = self.open_since.max(backlog.newest_since.filter(|read| *read > since));
        };
        add(&open.pending, Counts { pending: 1, ..Counts::default() });
        add(&open.failed, Counts { failed: 1, ..Counts::default() });
        add(&open.held, Counts { held: 1, ..Counts::default() });
        self.complete_since = self.complete_since.max(self.open_since);
    }
}

/// The hour of `at`.
fn hour(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond() / 3_600_000 * 3_600_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p95_is_the_time_that_95_of_100_stay_within() {
        let of = |durations: Vec<u32>| Statistics { durations, ..Statistics::default() }.p95();
        assert_eq!((of(vec![]), of(vec![7]), of(vec![9, 1])), (None, Some(7), Some(9)));
        assert_eq!(of((1..=100).rev().collect()), Some(95));
        assert_eq!(of((1..=20).collect()), Some(19));
    }
}
