//! Counts of deliveries by status and hour.
//!
//! Undelivered deliveries are counted through their [index](super::undelivered). The others in the totals of
//! an hour were delivered. Only deliveries that no total contains yet are read. A statement reads those in up to 50
//! shards; if there are too many, queries read the rest, newest first, up to a bound. If older ones were not read, the
//! counts include the start of the complete part. Tests are not counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use api::deliveries::Counts;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    items::{ATTEMPTS, DELIVERY, EVENT, LAST, LAST_AT, LAST_MS, MS, STATUS},
    search::{Filter, KeyRange, id, moment},
    statement::{PARTITIONS, SUCCESSES},
    table::{DeliveryLog, shard_key},
    totals::Totals,
    undelivered::{Backlog, Undelivered},
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::{Item, ItemReader, number, query_page, text},
        expression::{Condition, filter, select},
    },
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, DestinationId, Shard, Status},
        event::EventName,
    },
};

/// Delivery counts for a tenant or an endpoint.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The start of the counted period.
    pub since: Option<Timestamp>,
    /// The counts of all deliveries.
    pub total: Counts,
    /// The counts by the hour when the deliveries were created.
    pub hours: BTreeMap<Timestamp, Counts>,
    /// The start of the complete part, if older deliveries were not counted.
    pub complete_since: Option<Timestamp>,
    /// Like `complete_since`, but for undelivered deliveries only.
    pub open_since: Option<Timestamp>,
}

/// Details of a destination's newest deliveries.
#[derive(Clone, Debug, Default)]
pub struct DeliveryDetails {
    /// The deliveries that needed more than one attempt, by the hour when they were created.
    pub retried: BTreeMap<Timestamp, u32>,
    /// The durations, in milliseconds, of successful attempts.
    pub durations: Vec<u32>,
    /// The start of the complete part, if older deliveries were not read.
    pub since: Option<Timestamp>,
}

/// A part of a shard to read. `destination` is the index of its destination in the request.
struct ShardPart {
    destination: usize,
    shard: Shard,
    range: KeyRange,
    /// The maximum number of deliveries to read.
    most: usize,
}

/// A part that was read.
struct CountedPart {
    part: ShardPart,
    /// The successes.
    delivered: Vec<DeliveryId>,
    /// The number of items that were read.
    read: usize,
    /// The key of the newest delivery that was not read, if there is one.
    next: Option<String>,
}

/// The number of successes after which a statement leaves the other shards to queries.
const MAX_STATEMENT_SUCCESSES: usize = 2000;
/// The number of newest deliveries that the search for a success reads first.
const FIRST_READ: usize = 20;
/// The length of the periods that are counted.
const HOUR: Duration = Duration::from_hours(1);
/// The name of the test event.
const TEST: &str = EventName::Test.as_str();

impl DeliveryLog {
    /// Counts the deliveries to each destination that were created at `since` or later, or in the hour of `since` if the
    /// log has the totals of that hour. Each destination is a list of shards, and `open` are its undelivered deliveries.
    /// At most `most` of the deliveries that no total contains are read.
    ///
    /// Each destination gets the same share of the bound. If some destinations need less, the others get the rest.
    pub async fn count(
        &self,
        tenant: &TenantId,
        destinations: &[Vec<Shard>],
        open: &[Undelivered],
        since: Timestamp,
        most: usize,
        now: Timestamp,
    ) -> Result<Vec<Statistics>> {
        let totals = self.totals(tenant, since).await?;
        let range = self.range(&Filter { since: Some(since), ..Filter::default() }, None, now);
        let range = totals.uncovered().max(range.start().clone()).min(range.end().clone())..=range.end().clone();
        let parts = destinations.iter().enumerate().flat_map(|(destination, shards)| {
            let most = share(share(most, destinations.len()), shards.len());
            let range = &range;
            shards.iter().map(move |shard| ShardPart { destination, shard: *shard, range: range.clone(), most })
        });
        let since = totals.start(since);
        let mut counted = vec![Statistics { since: Some(since), ..Statistics::default() }; destinations.len()];
        let (mut together, mut parts) = self.count_together(tenant, parts.collect(), &range).await?;
        for is_last in [false, true] {
            let calls: Vec<_> = parts.drain(..).map(|part| self.count_part(tenant, part)).collect();
            let mut read: Vec<_> = stream::iter(calls).buffer_unordered(CONCURRENCY).try_collect().await?;
            read.append(&mut together);
            let unread = read.iter().filter(|part| part.next.is_some()).count();
            let left = most.saturating_sub(read.iter().map(|part| part.read).sum());
            for CountedPart { part, delivered, next, .. } in read {
                let Some(sum) = counted.get_mut(part.destination) else { continue };
                delivered.iter().for_each(|id| sum.hour(id).delivered += 1);
                match next {
                    Some(next) if left > 0 && !is_last => {
                        let range = part.range.start().clone()..=next;
                        parts.push(ShardPart { range, most: share(left, unread), ..part });
                    }
                    next => {
                        let read_since = next.and_then(|next| created(part.shard, &next));
                        sum.complete_since = sum.complete_since.max(read_since);
                    }
                }
            }
        }
        for ((sum, shards), open) in counted.iter_mut().zip(destinations).zip(open) {
            sum.add_open(open, since);
            sum.add_covered(&totals, shards, open, since);
            sum.hours.retain(|_, counts| *counts != Counts::default());
            sum.hours.values().for_each(|counts| sum.total += *counts);
        }
        Ok(counted)
    }

    /// Counts the successes in `parts` by statements. Returns the parts that were counted, and the others.
    async fn count_together(
        &self,
        tenant: &TenantId,
        parts: Vec<ShardPart>,
        range: &KeyRange,
    ) -> Result<(Vec<CountedPart>, Vec<ShardPart>)> {
        // A query reads one shard as well.
        if parts.len() < 2 || range.is_empty() {
            return Ok((Vec::new(), parts));
        }
        let mut shards: Vec<_> = parts.iter().map(|part| (shard_key(tenant, part.shard), part.shard)).collect();
        shards.sort();
        let reads =
            shards.chunks(PARTITIONS).map(|shards| self.select(&SUCCESSES, shards, range, MAX_STATEMENT_SUCCESSES));
        let read: Vec<_> = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut read: BTreeMap<_, _> = read.into_iter().flat_map(|selected| selected.whole).collect();
        let (mut counted, mut others) = (Vec::new(), Vec::new());
        for part in parts {
            match read.remove(&part.shard) {
                Some(items) => {
                    let delivered: Vec<_> = items.iter().filter_map(|item| id(part.shard, item)).collect();
                    counted.push(CountedPart { read: delivered.len(), part, delivered, next: None });
                }
                None => others.push(part),
            }
        }
        Ok((counted, others))
    }

    async fn count_part(&self, tenant: &TenantId, part: ShardPart) -> Result<CountedPart> {
        let query = self.query_shard(tenant, part.shard, &part.range).scan_index_forward(false);
        // DynamoDB applies the limit before the filter. Parsing an item without its status takes half the time.
        let query = filter(select(query, &[DELIVERY]), is_success());
        let (mut delivered, mut read, mut start) = (Vec::new(), 0, None);
        loop {
            // Reads one more than is counted, to detect further deliveries.
            let limit = part.most.saturating_sub(read).saturating_add(1);
            let page = query_page(query.clone().set_exclusive_start_key(start), limit, "counting deliveries").await?;
            read += page.read;
            start = page.last;
            let next = start.as_ref().filter(|_| read > part.most).and_then(moment).map(str::to_owned);
            let items = page.items.iter().filter(|item| next.is_none() || moment(item) != next.as_deref());
            delivered.extend(items.filter_map(|item| id(part.shard, item)));
            if start.is_none() || next.is_some() {
                return Ok(CountedPart { part, delivered, read, next });
            }
        }
    }

    /// Reads the newest deliveries of a destination that were created at `since` or later, about `most` of them.
    pub async fn details(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        since: Timestamp,
        most: usize,
        now: Timestamp,
    ) -> Result<DeliveryDetails> {
        let range = self.range(&Filter { since: Some(since), ..Filter::default() }, None, now);
        let reads = shards.iter().map(async |shard| {
            let query = self.query_shard(tenant, *shard, &range).scan_index_forward(false);
            let query = select(query, &[DELIVERY, EVENT, STATUS, ATTEMPTS, LAST_MS]);
            let page = query_page(query, share(most, shards.len()), "reading the newest deliveries").await?;
            Ok::<_, Error>((*shard, page))
        });
        let reads: Vec<_> = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut details = DeliveryDetails::default();
        for (shard, page) in reads {
            page.items.iter().for_each(|item| details.add(shard, item));
            details.since =
                details.since.max(page.last.as_ref().and_then(moment).and_then(|next| created(shard, next)));
        }
        Ok(details)
    }

    /// Counts failed deliveries by the outcome of their last attempts. Reads the states of all of them.
    pub async fn reasons(&self, tenant: &TenantId, failed: &[DeliveryId]) -> Result<BTreeMap<String, u32>> {
        let mut reasons = BTreeMap::new();
        for delivery in self.readable(tenant, failed).await?.into_values().filter(|it| it.status == Status::Failed) {
            if let Some(last) = delivery.last_attempt {
                *reasons.entry(last.outcome.into_owned()).or_default() += 1;
            }
        }
        Ok(reasons)
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
            for limit in
                [FIRST_READ.min(share), share.saturating_sub(FIRST_READ)].into_iter().filter(|limit| *limit > 0)
            {
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
    shard.delivery(next).ok().map(|id| id.created_at().after(Duration::from_millis(1)))
}

/// The share of `most` that each of `parts` parts gets.
fn share(most: usize, parts: usize) -> usize {
    (most / parts.max(1)).max(1)
}

impl Statistics {
    /// The counts of the hour when a delivery was created.
    fn hour(&mut self, id: &DeliveryId) -> &mut Counts {
        self.hours.entry(id.created_at().hour()).or_default()
    }

    /// Adds the undelivered deliveries that were created at `since` or later.
    fn add_open(&mut self, open: &Undelivered, since: Timestamp) {
        let mut add = |backlog: &Backlog, one: Counts| {
            for id in backlog.newest.iter().filter(|id| id.created_at() >= since) {
                *self.hour(id) += one;
            }
            self.open_since = self.open_since.max(backlog.newest_since.filter(|read| *read > since));
        };
        add(&open.pending, Counts { pending: 1, ..Counts::default() });
        add(&open.failed, Counts { failed: 1, ..Counts::default() });
        add(&open.held, Counts { held: 1, ..Counts::default() });
        add(&open.ended, Counts { ended: 1, ..Counts::default() });
        self.complete_since = self.complete_since.max(self.open_since);
    }

    /// Adds the deliveries that the totals contain and that are not in `open`.
    fn add_covered(&mut self, totals: &Totals, shards: &[Shard], open: &Undelivered, since: Timestamp) {
        let destinations: BTreeSet<DestinationId> = shards.iter().map(|shard| shard.destination).collect();
        let mut delivered: BTreeMap<Timestamp, u32> = totals.of(&destinations).collect();
        for id in [&open.pending, &open.failed, &open.held, &open.ended].into_iter().flat_map(|open| &open.newest) {
            if let Some(delivered) = delivered.get_mut(&id.created_at().hour()).filter(|_| totals.contain(id)) {
                *delivered = delivered.saturating_sub(1);
            }
        }
        // If not all undelivered deliveries of an hour are known, neither are its delivered ones.
        let is_known = |hour: Timestamp| hour >= since.hour() && self.open_since.is_none_or(|open| hour >= open);
        let known: Vec<_> = delivered.into_iter().filter(|(hour, _)| is_known(*hour)).collect();
        if let Some(open) = self.open_since.filter(|open| totals.is_covered(*open)) {
            self.complete_since =
                self.complete_since.max(Some(open.before(Duration::from_millis(1)).hour().after(HOUR)));
        }
        for (hour, delivered) in known {
            self.hours.entry(hour).or_default().delivered += delivered;
        }
    }
}

impl DeliveryDetails {
    fn add(&mut self, shard: Shard, item: &Item) {
        let record = ItemReader::new("delivery", item);
        let is_delivered = record.optional_parsed(STATUS).is_ok_and(|status| status == Some(Status::Delivered));
        let Some(id) = id(shard, item).filter(|_| is_delivered && record.optional_text(EVENT) != Some(TEST)) else {
            return;
        };
        if record.optional_number(ATTEMPTS).is_some_and(|attempts| attempts > 1) {
            *self.retried.entry(id.created_at().hour()).or_default() += 1;
        }
        let last = item.get(LAST.name()).and_then(|last| Some(ItemReader::new("attempt", last.as_m().ok()?)));
        self.durations.extend(last.and_then(|last| last.optional_integer::<u32>(MS)));
    }
}
