//! Counts of deliveries by status, hour and reason.
//!
//! Undelivered deliveries are counted exactly, through their [index](super::open). Delivered ones are counted by
//! reading them, newest first, up to a bound, because counters would cost writes. If older deliveries were not read,
//! the counts include the start of the complete part. Tests are counted only while pending.

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
        dynamo::{Item, Record, number, query_page, text},
        expression::{Condition, filter, select},
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, Shard, Status},
        event::EventName,
    },
};

/// Delivery counts for a tenant or an endpoint.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The counts of all deliveries.
    pub total: Counts,
    /// The counts by the hour when the deliveries were created.
    pub hours: BTreeMap<Timestamp, Counts>,
    /// The failed deliveries read with [`Bound::Pages`], by the outcome of the last attempt.
    pub reasons: BTreeMap<String, u32>,
    /// The start of the complete part, if older deliveries were not counted.
    pub complete_since: Option<Timestamp>,
    /// Like `complete_since`, but for pending, failed and held deliveries only.
    pub open_since: Option<Timestamp>,
    /// The deliveries read with [`Bound::Details`] that needed more than one attempt, by hour.
    pub retried: BTreeMap<Timestamp, u32>,
    /// The durations, in milliseconds, of successful attempts at deliveries read with [`Bound::Details`].
    pub durations: Vec<u32>,
}

/// The maximum number of deliveries to read, over all destinations and their shards. Each shard is read at least once.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// This many deliveries. Only the keys of delivered ones are read, so ended ones are not counted.
    Deliveries(usize),
    /// This many deliveries, each with its number of attempts and the duration of its last attempt.
    Details(usize),
    /// This many pages of a thousand deliveries or a megabyte each. If there are more shards than pages, each shard gets
    /// a smaller page.
    Pages(usize),
    /// A page of this many deliveries.
    Page(usize),
}

impl Bound {
    /// The share of the bound that each of `parts` parts gets.
    fn share(self, parts: usize) -> Self {
        let share = |all: usize| (all / parts.max(1)).max(1);
        match self {
            Self::Deliveries(most) => Self::Deliveries(share(most)),
            Self::Details(most) => Self::Details(share(most)),
            Self::Pages(pages) if pages < parts => Self::Page((pages * PAGE / parts).max(LEAST)),
            Self::Pages(pages) => Self::Pages(share(pages)),
            Self::Page(most) => Self::Page(share(most).max(LEAST)),
        }
    }

    /// The rest of the bound after `read` deliveries. Pages are read in one round, because each is large.
    fn less(self, read: usize) -> Option<Self> {
        let left = |most: usize| most.checked_sub(read).filter(|left| *left > 0);
        match self {
            Self::Deliveries(most) => left(most).map(Self::Deliveries),
            Self::Details(most) => left(most).map(Self::Details),
            Self::Pages(_) | Self::Page(_) => None,
        }
    }
}

/// A part of a shard to read. `destination` is the index of its destination in the request.
struct Part {
    destination: usize,
    shard: Shard,
    range: KeyRange,
    bound: Bound,
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

/// The number of deliveries per page. A call that reads more may time out.
const PAGE: usize = 1000;
/// The minimum number of deliveries in a smaller page.
const LEAST: usize = 20;
/// The number of newest deliveries that the search for a success reads first.
const FEW: usize = 20;
/// The name of the test event.
const TEST: &str = EventName::Test.as_str();

impl Log {
    /// Counts the deliveries to each destination that were created at `since` or later: the undelivered ones in `open`,
    /// and the others up to `bound`. Each destination is a list of shards.
    ///
    /// Each destination gets the same share of the bound. If some destinations need less, the others get the rest.
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
        let parts = destinations.iter().enumerate().flat_map(|(destination, shards)| {
            let bound = bound.share(destinations.len()).share(shards.len());
            let range = &range;
            shards.iter().map(move |shard| Part { destination, shard: *shard, range: range.clone(), bound })
        });
        let mut parts: Vec<_> = parts.collect();
        let mut counted = vec![Statistics::default(); destinations.len()];
        for is_last in [false, true] {
            let calls: Vec<_> = parts.drain(..).map(|part| self.count_part(tenant, part)).collect();
            let read: Vec<_> = stream::iter(calls).buffer_unordered(CONCURRENCY).try_collect().await?;
            let unread = read.iter().filter(|part| part.next.is_some()).count();
            let left = bound.less(read.iter().map(|part| part.read).sum()).filter(|_| !is_last);
            for Counted { part, statistics, next, .. } in read {
                let Some(sum) = counted.get_mut(part.destination) else { continue };
                match (next, left) {
                    (Some(next), Some(left)) => {
                        sum.add_part(statistics, None);
                        let range = part.range.start().clone()..=next;
                        parts.push(Part { range, bound: left.share(unread), ..part });
                    }
                    (next, _) => sum.add_part(statistics, next.and_then(|next| created(part.shard, &next))),
                }
            }
        }
        for (sum, open) in counted.iter_mut().zip(open) {
            sum.add_open(open, since);
            sum.hours.values().for_each(|counts| sum.total += *counts);
        }
        Ok(counted)
    }

    async fn count_part(&self, tenant: &TenantId, part: Part) -> Result<Counted> {
        let query = self.query_shard(tenant, part.shard, &part.range).scan_index_forward(false);
        let (query, most, pages) = match part.bound {
            // DynamoDB applies the limit before the filter. Parsing an item without its status takes half the time.
            Bound::Deliveries(most) => (filter(select(query, &[DELIVERY]), is_success()), most, 1),
            Bound::Details(most) => (select(query, &[DELIVERY, EVENT, STATUS, ATTEMPTS, LAST_MS]), most, 1),
            Bound::Pages(pages) => (select(query, &[DELIVERY, EVENT, STATUS, LAST_OUTCOME]), PAGE, pages),
            Bound::Page(most) => (select(query, &[DELIVERY, EVENT, STATUS, LAST_OUTCOME]), most, 1),
        };
        let (mut statistics, mut read, mut start, mut next) = (Statistics::default(), 0, None, None);
        for page in 1..=pages {
            // Reads one more than is counted, to detect further deliveries.
            let limit = if page == pages { most.saturating_add(1) } else { most };
            let answer = query_page(query.clone().set_exclusive_start_key(start), limit, "counting deliveries").await?;
            read += answer.read;
            start = answer.last;
            next = start.as_ref().filter(|_| page == pages).and_then(moment).map(str::to_owned);
            let items = answer.items.iter().filter(|item| next.is_none() || moment(item) != next.as_deref());
            items.for_each(|item| statistics.add(part.shard, item));
            if start.is_none() {
                break;
            }
        }
        Ok(Counted { part, statistics, read, next })
    }

    /// Whether an attempt that began at `since` or later has delivered an event to the destination with these shards.
    /// Reads its newest deliveries, up to `most`. The first read is small, because it usually finds a success.
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
        let succeeded = is_success().and(LAST_AT.is_at_least(number(since.as_millisecond())));
        let found = stream::iter(shards.to_vec()).map(async |shard| {
            let query = self.query_shard(tenant, shard, &range).scan_index_forward(false);
            let mut query = filter(select(query, &[DELIVERY]), succeeded.clone());
            for limit in [FEW.min(share), share.saturating_sub(FEW)].into_iter().filter(|limit| *limit > 0) {
                let page = query_page(query.clone(), limit, "looking for a success").await?;
                if !page.items.is_empty() || page.last.is_none() {
                    return Ok(!page.items.is_empty());
                }
                query = query.set_exclusive_start_key(page.last);
            }
            Ok(false)
        });
        let found: Vec<bool> = found.buffer_unordered(CONCURRENCY).try_collect().await?;
        Ok(found.contains(&true))
    }
}

/// The condition for deliveries of events that succeeded.
fn is_success() -> Condition {
    STATUS.equals(text(Status::Delivered)).and(EVENT.differs_from(text(TEST)))
}

/// Returns the start of the part that was read completely. `next` is the key of the newest unread delivery. The time is
/// a millisecond later, because other deliveries of that millisecond may be unread.
fn created(shard: Shard, next: &str) -> Option<Timestamp> {
    let id: Option<DeliveryId> = format!("{shard}.{next}").parse().ok();
    id.map(|id| Timestamp::from_millisecond(id.at.get()).after(Duration::from_millis(1)))
}

impl Statistics {
    /// Adds the counts from a part of a shard. The shard was read completely from `read_since` on; `None` if all of it
    /// was read.
    fn add_part(&mut self, part: Self, read_since: Option<Timestamp>) {
        self.complete_since = self.complete_since.max(read_since);
        part.hours.into_iter().for_each(|(hour, counts)| *self.hours.entry(hour).or_default() += counts);
        part.retried.into_iter().for_each(|(hour, count)| *self.retried.entry(hour).or_default() += count);
        self.durations.extend(part.durations);
        part.reasons.into_iter().for_each(|(reason, count)| *self.reasons.entry(reason).or_default() += count);
    }

    /// Adds a delivery that was read. Pending, failed and held deliveries are counted through the index instead.
    fn add(&mut self, shard: Shard, item: &Item) {
        let record = Record::new("delivery", item);
        if record.optional_text(EVENT) == Some(TEST) {
            return;
        }
        let status = record.optional_parsed(STATUS).map(|status| status.unwrap_or(Status::Delivered));
        let Some((id, status)) = id(shard, item).zip(status.ok()) else { return };
        let last = item.get(LAST.name()).and_then(|last| Some(Record::new("attempt", last.as_m().ok()?)));
        let hour = Timestamp::from_millisecond(id.at.get()).hour();
        match status {
            Status::Delivered => {
                self.hours.entry(hour).or_default().delivered += 1;
                if record.optional_number(ATTEMPTS).is_some_and(|attempts| attempts > 1) {
                    *self.retried.entry(hour).or_default() += 1;
                }
                self.durations.extend(last.and_then(|last| last.optional_integer::<u32>(MS)));
            }
            Status::Ended => self.hours.entry(hour).or_default().ended += 1,
            Status::Failed => {
                if let Some(reason) = last.and_then(|last| last.optional_text(OUTCOME)) {
                    *self.reasons.entry(reason.to_owned()).or_default() += 1;
                }
            }
            Status::Pending | Status::Held => {}
        }
    }

    /// Adds the undelivered deliveries that were created at `since` or later.
    fn add_open(&mut self, open: &Open, since: Timestamp) {
        let mut add = |backlog: &Backlog, one: Counts| {
            for at in backlog.newest.iter().filter(|at| **at >= since) {
                *self.hours.entry(at.hour()).or_default() += one;
            }
            self.open_since = self.open_since.max(backlog.newest_since.filter(|read| *read > since));
        };
        add(&open.pending, Counts { pending: 1, ..Counts::default() });
        add(&open.failed, Counts { failed: 1, ..Counts::default() });
        add(&open.held, Counts { held: 1, ..Counts::default() });
        self.complete_since = self.complete_since.max(self.open_since);
    }
}
