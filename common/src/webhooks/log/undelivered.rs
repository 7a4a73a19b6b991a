//! Counts undelivered deliveries exactly in a log of any size. Delivered states do not have to be read, because
//! successful deliveries never enter the sparse index.
//!
//! A statement reads the keys in up to 50 partitions of the index. If it finds 300 keys, another statement continues after
//! the partition where it stopped. Such large partitions are then counted by queries, up to [`MAX_COUNTED`] deliveries
//! each. The queries return only the keys that are wanted. The index lags behind the table, usually by less than a second.

use std::{cmp::Reverse, collections::BTreeMap};

use aws_sdk_dynamodb::{operation::query::builders::QueryFluentBuilder, types::Select};
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    items::DELIVERY,
    search::{Filter, KeyRange, id, just_before},
    statement::{PARTITIONS, Selected, UNDELIVERED},
    table::{DeliveryLog, index_key},
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::{Item, QueryPage, query_page},
        expression::select,
    },
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{DeliveryId, Shard, Status},
};

/// A destination's undelivered deliveries, by status. Tests are not included, because an endpoint that does not get one
/// does not miss an event.
#[derive(Clone, Debug, Default)]
pub struct Undelivered {
    /// Deliveries waiting for an attempt.
    pub pending: Backlog,
    /// Deliveries that failed permanently.
    pub failed: Backlog,
    /// Held deliveries.
    pub held: Backlog,
    /// Deliveries that ended because their endpoint was deleted.
    pub ended: Backlog,
}

/// The undelivered deliveries to count of a destination: those in its shards with one of these statuses.
#[derive(Clone, Copy, Debug)]
pub struct UndeliveredQuery<'a> {
    pub shards: &'a [Shard],
    pub statuses: &'a [Status],
}

/// A destination's deliveries with a given status.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// The number of deliveries counted.
    pub count: usize,
    /// Whether there are more deliveries than were counted.
    pub is_longer: bool,
    pub oldest: Option<DeliveryId>,
    /// The counted deliveries from the wanted time on, newest first. In a short backlog, all of them.
    pub newest: Vec<DeliveryId>,
    /// If `newest` starts later than at the wanted time, it is complete from this time on.
    pub newest_since: Option<Timestamp>,
}

/// The maximum number of deliveries counted per status in a shard.
pub const MAX_COUNTED: usize = 10_000;
/// The number of keys after which queries count, because they do not need keys.
const MAX_KEYS_READ: usize = 300;
/// The number of keys that a query reads at a time, which fit into its page of a megabyte.
const PAGE_SIZE: usize = 4000;
/// The statuses of undelivered deliveries.
pub const STATUSES: [Status; 4] = [Status::Pending, Status::Failed, Status::Held, Status::Ended];
const DOING: &str = "counting undelivered deliveries";

/// A partition of the index, which contains a shard's deliveries with one status. `destination` is the index of the
/// shard's destination in the request.
#[derive(Clone, Copy)]
struct IndexPartition {
    destination: usize,
    shard: Shard,
    status: Status,
}

/// The wanted deliveries: those to count and, in long backlogs, those to list.
struct WantedRanges {
    all: KeyRange,
    listed: Option<KeyRange>,
}

impl DeliveryLog {
    /// Counts the undelivered deliveries of each of `destinations`, and lists those that were created at `since` or later,
    /// by default all.
    pub async fn open(
        &self,
        tenant: &TenantId,
        destinations: &[UndeliveredQuery<'_>],
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Vec<Undelivered>> {
        let all = self.range(&Filter::default(), None, now);
        let listed = self.range(&Filter { since, ..Filter::default() }, None, now);
        self.open_with(tenant, destinations, &WantedRanges { all, listed: Some(listed) }).await
    }

    /// Counts the undelivered deliveries of each of `destinations` that were created in the period of `filter`.
    pub async fn open_in(
        &self,
        tenant: &TenantId,
        destinations: &[UndeliveredQuery<'_>],
        filter: &Filter,
        now: Timestamp,
    ) -> Result<Vec<Undelivered>> {
        let asked = WantedRanges { all: self.range(filter, None, now), listed: None };
        self.open_with(tenant, destinations, &asked).await
    }

    async fn open_with(
        &self,
        tenant: &TenantId,
        destinations: &[UndeliveredQuery<'_>],
        asked: &WantedRanges,
    ) -> Result<Vec<Undelivered>> {
        let places = destinations.iter().enumerate().flat_map(|(destination, asked)| {
            asked.shards.iter().flat_map(move |shard| {
                asked.statuses.iter().map(move |status| IndexPartition { destination, shard: *shard, status: *status })
            })
        });
        let places: BTreeMap<String, IndexPartition> =
            places.map(|place| (index_key(tenant, place.shard, place.status), place)).collect();
        let places: Vec<_> = places.into_iter().collect();
        let parts: Vec<_> = places.chunks(PARTITIONS).map(|part| self.read_open(part, asked)).collect();
        let read: Vec<_> = stream::iter(parts).buffer_unordered(CONCURRENCY).try_collect().await?;
        let (read, large): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        let counts = large
            .into_iter()
            .flatten()
            .map(async |place| Ok::<_, Error>((place, self.count_open(tenant, place, asked).await?)));
        let counts: Vec<_> =
            stream::iter(counts.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut open = vec![Undelivered::default(); destinations.len()];
        for (place, backlog) in read.into_iter().flatten().chain(counts) {
            let Some(open) = open.get_mut(place.destination) else { continue };
            match place.status {
                Status::Pending => open.pending.add(backlog),
                Status::Failed => open.failed.add(backlog),
                Status::Held => open.held.add(backlog),
                Status::Ended => open.ended.add(backlog),
                Status::Delivered => {}
            }
        }
        Ok(open)
    }

    /// Reads partitions of the index, which must be sorted by key. Also returns those that are too large for a statement.
    async fn read_open(
        &self,
        mut places: &[(String, IndexPartition)],
        asked: &WantedRanges,
    ) -> Result<(Vec<(IndexPartition, Backlog)>, Vec<IndexPartition>)> {
        let (mut read, mut large) = (Vec::new(), Vec::new());
        while !places.is_empty() {
            let Selected { whole, rest } = self.select(&UNDELIVERED, places, &asked.all, MAX_KEYS_READ).await?;
            for (place, items) in whole {
                let ids = items.iter().filter_map(|item| id(place.shard, item));
                read.push((place, Backlog::whole(ids.collect())));
            }
            let Some(((_, place), rest)) = rest.split_first() else { break };
            large.push(*place);
            places = rest;
        }
        Ok((read, large))
    }

    /// Counts up to [`MAX_COUNTED`] deliveries of a partition of the index that is too large for the statement.
    async fn count_open(&self, tenant: &TenantId, place: IndexPartition, asked: &WantedRanges) -> Result<Backlog> {
        let query = |range| self.query_index(index_key(tenant, place.shard, place.status), range);
        let read = |items: Vec<Item>| items.into_iter().filter_map(|item| id(place.shard, &item)).collect::<Vec<_>>();
        let (mut newest, mut is_part, mut others) = (Vec::new(), false, asked.all.clone());
        if let Some(listed) = &asked.listed {
            let listing = select(query(listed).scan_index_forward(false), &[DELIVERY]);
            let (pages, is_longer) = pages(listing, MAX_COUNTED).await?;
            newest = read(pages.into_iter().flat_map(|page| page.items).collect());
            (is_part, others) = (is_longer, asked.all.start().clone()..=just_before(listed.start()));
        }
        let (mut count, mut is_longer) = (newest.len(), is_part);
        if !is_part {
            // Of the others, no keys are needed.
            let counting = query(&others).scan_index_forward(false).select(Select::Count);
            let (pages, is_more) = pages(counting, MAX_COUNTED.saturating_sub(count).max(1)).await?;
            count += pages.iter().map(|page| page.read).sum::<usize>();
            is_longer = is_more;
        }
        let oldest = read(query_page(query(&asked.all), 1, DOING).await?.items).pop();
        let newest_since = newest.last().filter(|_| is_part).map(DeliveryId::created_at);
        Ok(Backlog { count, is_longer, oldest, newest, newest_since })
    }
}

/// Reads pages of a query until they have `most` items. Also returns whether there may be more.
async fn pages(query: QueryFluentBuilder, most: usize) -> Result<(Vec<QueryPage>, bool)> {
    let (mut pages, mut read, mut start) = (Vec::new(), 0, None);
    while read < most {
        let page = query_page(query.clone().set_exclusive_start_key(start), PAGE_SIZE.min(most - read), DOING).await?;
        (read, start) = (read + page.read, page.last.clone());
        pages.push(page);
        if start.is_none() {
            return Ok((pages, false));
        }
    }
    Ok((pages, true))
}

impl Backlog {
    /// All of a shard's deliveries with a given status.
    fn whole(mut ids: Vec<DeliveryId>) -> Self {
        ids.sort_by_key(|id| Reverse(id.at));
        Self { count: ids.len(), is_longer: false, oldest: ids.last().copied(), newest: ids, newest_since: None }
    }

    /// Adds the deliveries of another shard.
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.is_longer |= other.is_longer;
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min_by_key(|id| id.at);
        self.newest.extend(other.newest);
        self.newest.sort_by_key(|id| Reverse(id.at));
        self.newest_since = self.newest_since.max(other.newest_since);
    }

    /// The creation time of the oldest delivery.
    #[must_use]
    pub fn oldest_at(&self) -> Option<Timestamp> {
        self.oldest.as_ref().map(DeliveryId::created_at)
    }

    /// The number for display: `3`, or `10,000 or more`.
    #[must_use]
    pub fn number(&self) -> String {
        let digits = self.count.to_string();
        let thousands = match digits.len() {
            4.. => format!("{},{}", &digits[..digits.len() - 3], &digits[digits.len() - 3..]),
            _ => digits,
        };
        if self.is_longer { format!("{thousands} or more") } else { thousands }
    }
}
