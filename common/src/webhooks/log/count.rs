//! Counts of deliveries by status, hour and reason.
//!
//! Undelivered deliveries are counted exactly, through their [index](super::open). Delivered ones are counted while
//! they are read, newest first and up to a bound: counters would cost writes. The counts include the time from which
//! they are complete, and only if an older delivery exists that was not read. Tests are not counted.

use std::{collections::BTreeMap, time::Duration};

pub use api::deliveries::Counts;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    items::{ATTEMPTS, DELIVERY, EVENT, LAST, LAST_AT, LAST_MS, LAST_OUTCOME, MS, OUTCOME, STATUS},
    open::{Backlog, Open},
    search::{Filter, KeyRange, id, moment},
    table::Log,
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::{Item, Record, number, text},
        expression::{filter, select},
        failure,
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, Shard, Status},
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

/// A bound for the deliveries that are read, over all destinations and their shards. Each shard is read at least once.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// This many deliveries. Those that ended are not counted: only the keys of delivered ones are read.
    Deliveries(usize),
    /// This many deliveries, with the number and the time of their attempts.
    Details(usize),
    /// This many pages of a thousand deliveries or a megabyte each.
    Pages(usize),
}

impl Bound {
    /// The part of the bound for one of `parts`.
    fn share(self, parts: usize) -> Self {
        let share = |all: usize| (all / parts.max(1)).max(1);
        match self {
            Self::Deliveries(most) => Self::Deliveries(share(most)),
            Self::Details(most) => Self::Details(share(most)),
            Self::Pages(pages) => Self::Pages(share(pages)),
        }
    }

    /// The bound after a part of it was used. Pages are read in one round, since each is large.
    fn less(self, read: usize) -> Option<Self> {
        let left = |most: usize| most.checked_sub(read).filter(|left| *left > 0);
        match self {
            Self::Deliveries(most) => left(most).map(Self::Deliveries),
            Self::Details(most) => left(most).map(Self::Details),
            Self::Pages(_) => None,
        }
    }
}

/// The part of a shard that is to be read, for the destination with this number.
struct Part {
    destination: usize,
    shard: Shard,
    range: KeyRange,
}

/// A part that was read.
struct Counted {
    part: Part,
    statistics: Statistics,
    /// The number of items that were read.
    read: usize,
    /// The key of the newest delivery that was not read, if there is one.
    next: Option<String>,
}

/// The number of deliveries of a page. A call that reads more may exceed its time.
const PAGE: usize = 1000;
/// The number of newest deliveries among which a success is looked for first.
const FEW: usize = 20;
/// The name of the event of tests.
const TEST: &str = EventName::Test.as_str();

impl Log {
    /// Counts the deliveries to each destination that were created at `since` or later and are read within `bound`; and
    /// of those that are not delivered, which `open` has, all. A destination is given by its shards.
    ///
    /// Each destination gets the same share of the bound. If some need less, the others get the rest.
    ///
    /// # Errors
    /// A read failed.
    pub async fn count(
        &self,
        tenant: &TenantId,
        destinations: &[Vec<Shard>],
        open: &[Open],
        since: Timestamp,
        bound: Bound,
        now: Timestamp,
    ) -> Result<Vec<Statistics>> {
        let range = self.range(&Filter { since: Some(since), ..Filter::default() }, None, now);
        let mut counted = vec![Statistics::default(); destinations.len()];
        let all = destinations.iter().enumerate().flat_map(|(destination, shards)| {
            let share = bound.share(destinations.len()).share(shards.len());
            shards.iter().map(move |shard| (destination, *shard, share))
        });
        let parts = all.map(|(destination, shard, share)| (Part { destination, shard, range: range.clone() }, share));
        let first = self.count_parts(tenant, parts.collect()).await?;
        let left = bound.less(first.iter().map(|part| part.read).sum());
        let unread = first.iter().filter(|part| part.next.is_some()).count();
        let mut parts = Vec::new();
        for Counted { part, statistics, next, .. } in first {
            let Some(sum) = counted.get_mut(part.destination) else { continue };
            match (next, left.map(|left| left.share(unread))) {
                (Some(next), Some(share)) => {
                    let range = KeyRange { to: next, ..part.range.clone() };
                    parts.push((Part { range, ..part }, share));
                    sum.add_part(statistics, None);
                }
                (next, _) => sum.add_part(statistics, next.as_deref().and_then(|next| created(part.shard, next))),
            }
        }
        for Counted { part, statistics, next, .. } in self.count_parts(tenant, parts).await? {
            let Some(sum) = counted.get_mut(part.destination) else { continue };
            sum.add_part(statistics, next.as_deref().and_then(|next| created(part.shard, next)));
        }
        counted.iter_mut().zip(open).for_each(|(sum, open)| sum.add_open(open, since));
        Ok(counted)
    }

    async fn count_parts(&self, tenant: &TenantId, parts: Vec<(Part, Bound)>) -> Result<Vec<Counted>> {
        let parts: Vec<_> = parts.into_iter().map(|(part, bound)| self.count_part(tenant, part, bound)).collect();
        stream::iter(parts).buffer_unordered(CONCURRENCY).try_collect().await
    }

    async fn count_part(&self, tenant: &TenantId, part: Part, bound: Bound) -> Result<Counted> {
        let query = self.query(tenant, part.shard, None, &part.range).scan_index_forward(false);
        let (query, most, pages) = match bound {
            // DynamoDB applies the limit before the filter. An item without its status takes half the time to parse.
            Bound::Deliveries(most) => {
                let delivered = STATUS.equals(text(Status::Delivered)).and(EVENT.differs_from(text(TEST)));
                (filter(select(query, &[DELIVERY]), delivered), most, 1)
            }
            Bound::Details(most) => (select(query, &[DELIVERY, EVENT, STATUS, ATTEMPTS, LAST_MS]), most, 1),
            Bound::Pages(pages) => (select(query, &[DELIVERY, EVENT, STATUS, LAST_OUTCOME]), PAGE, pages),
        };
        let (mut statistics, mut read, mut start) = (Statistics::default(), 0, None);
        for page in 1..=pages {
            // One more than is counted shows whether there are more.
            let limit = if page == pages { most.saturating_add(1) } else { most };
            let query = query.clone().limit(i32::try_from(limit).unwrap_or(i32::MAX)).set_exclusive_start_key(start);
            let answer = Box::pin(query.send()).await.map_err(failure("counting deliveries"))?;
            read += usize::try_from(answer.scanned_count).unwrap_or_default();
            let last = answer.last_evaluated_key;
            let unread = last.as_ref().filter(|_| page == pages).and_then(moment).map(str::to_owned);
            let items = answer.items.unwrap_or_default();
            let items = items.iter().filter(|item| unread.is_none() || moment(item) != unread.as_deref());
            items.for_each(|item| statistics.add(part.shard, item));
            if last.is_none() || unread.is_some() {
                return Ok(Counted { part, statistics, read, next: unread });
            }
            start = last;
        }
        Ok(Counted { part, statistics, read, next: None })
    }

    /// Whether an attempt that began at `since` or later has delivered an event to the destination with these shards.
    /// Reads its newest deliveries, up to `most`: first a few, since most often one of those shows it.
    ///
    /// # Errors
    /// A read failed.
    pub async fn succeeded_since(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        since: Timestamp,
        most: usize,
        now: Timestamp,
    ) -> Result<bool> {
        let range = self.range(&Filter::default(), None, now);
        let share = (most / shards.len().max(1)).max(1);
        let reads = shards.iter().map(|shard| self.shard_succeeded_since(tenant, *shard, since, share, &range));
        let reads: Vec<_> = reads.collect();
        let found: Vec<bool> = stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await?;
        Ok(found.contains(&true))
    }

    async fn shard_succeeded_since(
        &self,
        tenant: &TenantId,
        shard: Shard,
        since: Timestamp,
        most: usize,
        range: &KeyRange,
    ) -> Result<bool> {
        let succeeded = STATUS.equals(text(Status::Delivered)).and(EVENT.differs_from(text(TEST)));
        let succeeded = succeeded.and(LAST_AT.is_at_least(number(since.as_millisecond())));
        let query = self.query(tenant, shard, None, range).scan_index_forward(false);
        let query = filter(select(query, &[DELIVERY]), succeeded);
        let mut start = None;
        for limit in [FEW.min(most), most.saturating_sub(FEW)].into_iter().filter(|limit| *limit > 0) {
            let query = query.clone().limit(i32::try_from(limit).unwrap_or(i32::MAX)).set_exclusive_start_key(start);
            let answer = Box::pin(query.send()).await.map_err(failure("looking for a success"))?;
            if answer.count > 0 {
                return Ok(true);
            }
            start = answer.last_evaluated_key;
            if start.is_none() {
                break;
            }
        }
        Ok(false)
    }
}

/// The time from which on all deliveries were read, if `next` is the key of the newest that was not. Another delivery of
/// the same millisecond may be unread.
fn created(shard: Shard, next: &str) -> Option<Timestamp> {
    let id: Option<DeliveryId> = format!("{shard}.{next}").parse().ok();
    id.map(|id| Timestamp::from_millisecond(id.at.get()).after(Duration::from_millis(1)))
}

impl Statistics {
    /// Adds what was read of a shard; `read_since` is the time from which on all of it was read, unless that is all.
    fn add_part(&mut self, part: Self, read_since: Option<Timestamp>) {
        self.complete_since = self.complete_since.max(read_since);
        self.total += part.total;
        part.hours.into_iter().for_each(|(hour, counts)| *self.hours.entry(hour).or_default() += counts);
        part.retried.into_iter().for_each(|(hour, count)| *self.retried.entry(hour).or_default() += count);
        self.durations.extend(part.durations);
        part.reasons.into_iter().for_each(|(reason, count)| *self.reasons.entry(reason).or_default() += count);
    }

    /// Adds a delivery that was read. Undelivered ones are counted through their index, except those that ended: they
    /// are in none of the numbers for which the index is read.
    fn add(&mut self, shard: Shard, item: &Item) {
        let record = Record::new("delivery", item);
        if record.optional_text(EVENT) == Some(TEST) {
            return;
        }
        let status = record.optional_parsed(STATUS).map(|status| status.unwrap_or(Status::Delivered));
        let Some((id, status)) = id(shard, item).zip(status.ok()) else { return };
        let one = match status {
            Status::Delivered => Counts { delivered: 1, ..Counts::default() },
            Status::Ended => Counts { ended: 1, ..Counts::default() },
            Status::Failed => {
                let last = item.get(LAST.name()).and_then(|last| last.as_m().ok());
                if let Some(reason) = last.and_then(|last| last.get(OUTCOME.name())?.as_s().ok()) {
                    *self.reasons.entry(reason.clone()).or_default() += 1;
                }
                return;
            }
            Status::Pending | Status::Held => return,
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
