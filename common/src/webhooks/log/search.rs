//! Finds deliveries to one or all of a tenant's destinations, newest first, with filters.

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use super::{
    items::*,
    table::{DeliveryLog, INDEX, index_key, shard_key, tests_key},
};
use crate::{
    aws::{
        batch::{CONCURRENCY, READS},
        dynamo::{Attribute, Item, query_page, text},
        expression::{self, Condition, select},
    },
    error::{Error, Result},
    id::{NotAnId, TenantId},
    issue::Problem,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DeliveryId, DestinationId, Millis, Shard, Status, WebhookId, kept_job_id, kept_workflow},
        event::EventName,
    },
};

/// The conditions that deliveries must meet. Unset fields match every delivery.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only deliveries with this status.
    pub status: Option<Status>,
    /// Only deliveries of this event.
    pub event: Option<EventName>,
    /// Only deliveries of this job.
    pub job_id: Option<String>,
    /// Only deliveries created at this time or later.
    pub since: Option<Timestamp>,
    /// Only deliveries created before this time.
    pub until: Option<Timestamp>,
    /// Only deliveries whose last attempt had this outcome.
    pub outcome: Option<String>,
    /// Only deliveries about jobs of this workflow.
    pub workflow: Option<String>,
    /// Only deliveries with this `webhook-id`.
    pub webhook_id: Option<WebhookId>,
}

/// A page of deliveries, newest first.
#[derive(Debug)]
pub struct DeliveryPage {
    /// The deliveries. There may be none even if there is a next page.
    pub deliveries: Vec<Delivery>,
    /// The start of the next page, if there may be one.
    pub next: Option<Cursor>,
}

/// Where a page ends among a tenant's deliveries: the second half of a delivery's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// The start of a page before everything that is newer than `moment`.
    pub(super) fn up_to(moment: &str) -> Self {
        Self(just_after(moment))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses a cursor from a request.
    ///
    /// # Errors
    /// `text` is not a cursor.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let id: Result<DeliveryId, NotAnId> = format!("{}.0.{text}", DestinationId::Callback).parse();
        id.map(|id| Self(id.moment()))
            .map_err(|NotAnId| vec![Problem::format("Must be the next_cursor from an earlier page")])
    }
}

/// The number of items that a filtered page reads at first, over all shards. While it is not full, it reads four times
/// as many, up to [`MAX_FILTERED_READ`], and then as many again.
const FIRST_FILTERED_READ: usize = 4000;
const MAX_FILTERED_READ: usize = 64_000;
/// The number of items that are read individually, because the index contains only their keys.
const FILTERED_KEYS: usize = 1000;
/// The time after which a page ends although it is not full.
const PAGE_TIME: Duration = Duration::from_secs(3);
/// The minimum number of items to read from a shard at first.
const MIN_SHARD_READ: usize = 2;
/// A string that sorts after every key.
const LAST_KEY: &str = "~";
/// The attributes of a delivery that a list shows, which exclude the payload.
#[rustfmt::skip]
const LISTED: [Attribute; 12] = [
    DELIVERY, EVENT, JOB_ID, WORKFLOW, STATUS, ATTEMPTS, NEXT_ATTEMPT_AT, LAST, EARLIER, KIND, DUE, ERASED_AT,
];

/// A range of keys to read from a shard.
pub(super) type KeyRange = RangeInclusive<String>;

/// The deliveries that a search looks for.
pub(super) struct SearchTerms<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) shards: &'a [Shard],
    pub(super) filter: &'a Filter,
    /// Whether an unreadable delivery is an error. Otherwise, it is left out.
    pub(super) is_strict: bool,
}

/// A part of the log, newest first.
pub(super) struct PartialPage<T> {
    pub(super) found: Vec<T>,
    /// The last examined delivery, if there are further deliveries.
    pub(super) end: Option<String>,
}

impl DeliveryLog {
    /// Finds the newest `limit` deliveries in `shards` that pass `filter`, after `cursor`. The page is full unless there
    /// are no more, or the search took too long. The deliveries of a job or of a rare workflow, or with a `webhook-id`, are
    /// found through an index. An unreadable delivery is left out, because it must not hide the others.
    pub async fn search(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        filter: &Filter,
        cursor: Option<&Cursor>,
        limit: usize,
        now: Timestamp,
    ) -> Result<DeliveryPage> {
        let sought = SearchTerms { tenant, shards, filter, is_strict: false };
        self.search_for(&sought, cursor, limit, now).await
    }

    /// Finds deliveries like [`Self::search`], but an unreadable one is an error, for callers that must not miss any.
    pub(in crate::webhooks) async fn search_strictly(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        filter: &Filter,
        cursor: Option<&Cursor>,
        limit: usize,
        now: Timestamp,
    ) -> Result<DeliveryPage> {
        let sought = SearchTerms { tenant, shards, filter, is_strict: true };
        self.search_for(&sought, cursor, limit, now).await
    }

    async fn search_for(
        &self,
        sought: &SearchTerms<'_>,
        cursor: Option<&Cursor>,
        limit: usize,
        now: Timestamp,
    ) -> Result<DeliveryPage> {
        let lookup = self.lookup(sought).await?;
        let (end, mut filtered, mut deliveries, mut cursor) =
            (Instant::now() + PAGE_TIME, FIRST_FILTERED_READ, Vec::new(), cursor.cloned());
        loop {
            let range = self.range(sought.filter, cursor.as_ref(), now);
            let left = limit.saturating_sub(deliveries.len());
            let page = match &lookup {
                Some(lookup) => self.look_up(sought, lookup, filtered, range, left).await?,
                None => self.search_once(sought, filtered, range, left).await?,
            };
            deliveries.extend(page.deliveries);
            cursor = page.next;
            if cursor.is_none() || deliveries.len() >= limit || Instant::now() >= end {
                return Ok(DeliveryPage { deliveries, next: cursor });
            }
            filtered = filtered.saturating_mul(4).min(MAX_FILTERED_READ);
        }
    }

    /// Like [`Self::search`], but reads each shard once, and about `filtered` items with a filter.
    pub(super) async fn search_once(
        &self,
        sought: &SearchTerms<'_>,
        filtered: usize,
        range: KeyRange,
        limit: usize,
    ) -> Result<DeliveryPage> {
        let SearchTerms { tenant, shards, filter, is_strict } = *sought;
        match filter.status {
            None | Some(Status::Delivered) => {
                let is_filtered = filter.status.is_some() || filter.is_beyond_the_index();
                let most = share(is_filtered.then_some(filtered), shards, limit);
                let queries = shards.iter().map(|shard| {
                    let query = select(self.query_shard(tenant, *shard, &range), &LISTED);
                    (*shard, filter.condition().into_iter().fold(query, expression::filter))
                });
                let moment_of = |delivery: &Delivery| delivery.id.moment();
                let newest = (!is_filtered).then_some(limit);
                let read = |id, item: &_| match is_strict {
                    true => read_delivery(id, item).map(Some),
                    false => Ok(read_or_log(tenant, id, item)),
                };
                let read = read_newest(queries.collect(), most, newest, read, moment_of).await?;
                let page = merge(read, limit, moment_of);
                Ok(DeliveryPage { deliveries: page.found, next: page.end.map(Cursor) })
            }
            // The index contains only undelivered deliveries, so delivered ones are not read.
            Some(status) => {
                let is_filtered = filter.is_beyond_the_index();
                let most = share(is_filtered.then_some(FILTERED_KEYS), shards, limit);
                let all = shards.iter().map(|shard| (*shard, index_key(tenant, *shard, status)));
                // Tests are in the first shard.
                let first = shards.iter().filter(|shard| shard.number == 0);
                let tests = first.map(|shard| (*shard, tests_key(tenant, *shard, status)));
                let queries = all.chain(tests).map(|(shard, key)| (shard, self.query_index(key, &range)));
                let newest = (!is_filtered).then_some(limit);
                let read =
                    read_newest(queries.collect(), most, newest, |id, _| Ok(Some(id)), DeliveryId::moment).await?;
                let ids = merge(read, if is_filtered { FILTERED_KEYS } else { limit }, DeliveryId::moment);
                self.page_of(sought, ids, limit).await
            }
        }
    }

    /// Reads the states of these deliveries, and returns those that pass the filter: an index lags behind them.
    pub(super) async fn page_of(
        &self,
        &SearchTerms { tenant, filter, is_strict, .. }: &SearchTerms<'_>,
        mut ids: PartialPage<DeliveryId>,
        limit: usize,
    ) -> Result<DeliveryPage> {
        let mut different = BTreeSet::new();
        ids.found.retain(|id| different.insert(*id));
        let (mut found, mut unread, mut size) = (Vec::new(), ids.found.as_slice(), limit.max(READS));
        // One more than `limit`, to detect further deliveries.
        while !unread.is_empty() && found.len() <= limit {
            let (newest, older) = unread.split_at(size.min(unread.len()));
            let states = match is_strict {
                true => self.known(tenant, newest).await?,
                false => self.readable(tenant, newest).await?,
            };
            found.extend(states.into_values().filter(|delivery| filter.passes(delivery)));
            (unread, size) = (older, size.saturating_mul(4));
        }
        let page = merge(vec![PartialPage { found, end: ids.end }], limit, |delivery| delivery.id.moment());
        Ok(DeliveryPage { deliveries: page.found, next: page.end.map(Cursor) })
    }

    /// The key range of deliveries that were created in the period of `filter` and follow `cursor`.
    pub(super) fn range(&self, filter: &Filter, cursor: Option<&Cursor>, now: Timestamp) -> KeyRange {
        let moment = |time: Timestamp| Millis::new(time.as_millisecond());
        let since = filter.since.map_or(Millis::new(0), moment).max(self.oldest(now));
        // A time without an id sorts before the keys with that time.
        let until = filter.until.map(|until| moment(until).to_string());
        let before = cursor.map(|Cursor(moment)| just_before(moment));
        let last = [until, before].into_iter().flatten().min().unwrap_or_else(|| LAST_KEY.to_owned());
        let since = since.to_string();
        // DynamoDB rejects a range whose ends are in the wrong order.
        let last = last.max(since.clone());
        since..=last
    }

    /// Builds a query for a shard's deliveries.
    pub(super) fn query_shard(&self, tenant: &TenantId, shard: Shard, range: &KeyRange) -> QueryFluentBuilder {
        self.query(DESTINATION.equals(text(shard_key(tenant, shard))).and(is_within(range)))
    }

    /// Builds a query for the deliveries in a partition of the index.
    pub(super) fn query_index(&self, partition: String, range: &KeyRange) -> QueryFluentBuilder {
        self.query(OPEN.equals(text(partition)).and(is_within(range))).index_name(INDEX)
    }
}

impl Filter {
    /// Whether a condition needs more than the keys in the index.
    #[must_use]
    pub fn is_beyond_the_index(&self) -> bool {
        let texts = [&self.job_id, &self.outcome, &self.workflow];
        self.event.is_some() || self.webhook_id.is_some() || texts.into_iter().any(Option::is_some)
    }

    /// The filter condition for DynamoDB, except for the `webhook-id`; `None` if every delivery passes.
    pub(super) fn condition(&self) -> Option<Condition> {
        let wanted = [
            self.job_id.as_deref().map(|job| JOB_ID.equals(text(kept_job_id(job)))),
            self.status.map(|status| STATUS.equals(text(status))),
            self.event.map(|event| EVENT.equals(text(event.as_str()))),
            self.outcome.as_ref().map(|outcome| LAST_OUTCOME.equals(text(outcome))),
            self.workflow.as_deref().map(|name| WORKFLOW.equals(text(kept_workflow(name)))),
        ];
        wanted.into_iter().flatten().reduce(Condition::and)
    }

    /// Whether a delivery meets the conditions other than its `webhook-id` and time.
    fn passes(&self, delivery: &Delivery) -> bool {
        let outcome = delivery.last_attempt.as_ref().map(|last| &*last.outcome);
        self.status.is_none_or(|status| status == delivery.status)
            && self.event.is_none_or(|event| event == delivery.event)
            && self.job_id.as_deref().is_none_or(|job| kept_job_id(job) == delivery.job_id)
            && self.workflow.as_deref().is_none_or(|name| Some(kept_workflow(name)) == delivery.workflow.as_deref())
            && self.outcome.as_deref().is_none_or(|wanted| Some(wanted) == outcome)
    }
}

/// The number of items to read from each shard: one more than `limit`, to detect further items; with a filter, up to
/// `filtered` across all shards.
fn share(filtered: Option<usize>, shards: &[Shard], limit: usize) -> usize {
    let share = filtered.unwrap_or_default() / shards.len().max(1);
    share.max(limit.saturating_add(1))
}

/// Reads the newest items of each shard's query, at most `most`. With a limit, it reads on in a shard only while its
/// items may be among that many newest ones of all shards.
async fn read_newest<T>(
    queries: Vec<(Shard, QueryFluentBuilder)>,
    most: usize,
    limit: Option<usize>,
    read: impl Fn(DeliveryId, &Item) -> Result<Option<T>>,
    moment_of: impl Fn(&T) -> String,
) -> Result<Vec<PartialPage<T>>> {
    let few = |limit: usize| (2 * limit).div_ceil(queries.len().max(1)).clamp(MIN_SHARD_READ.min(most), most);
    let mut size = limit.map_or(most, few);
    let mut open: Vec<_> = queries.into_iter().map(|(shard, query)| (shard, query, Vec::new())).collect();
    let mut complete: Vec<PartialPage<T>> = Vec::new();
    loop {
        let calls = open.into_iter().map(async |(shard, query, mut found)| {
            let page = query_page(query.clone().scan_index_forward(false), size, "listing deliveries").await?;
            let ids = page.items.iter().filter_map(|item| id(shard, item).zip(Some(item)));
            let read: Vec<_> = ids.map(|(id, item)| read(id, item)).collect::<Result<_>>()?;
            found.extend(read.into_iter().flatten());
            let end = page.last.as_ref().and_then(moment).map(str::to_owned);
            Ok::<_, Error>((shard, query.set_exclusive_start_key(page.last), PartialPage { found, end }))
        });
        let pages: Vec<_> = stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        let all = complete.iter().chain(pages.iter().map(|(.., page)| page));
        let newest = limit.map(|limit| {
            let mut moments: Vec<_> = all.flat_map(|page| &page.found).map(&moment_of).collect();
            moments.sort_unstable_by(|one, other| other.cmp(one));
            moments.into_iter().nth(limit)
        });
        open = Vec::new();
        for (shard, query, page) in pages {
            // The last of the newest items, if there are enough; without a limit, each shard is read once.
            let may_be_newer = match (&newest, &page.end) {
                (None, _) | (_, None) => false,
                (Some(last), Some(end)) => last.as_ref().is_none_or(|last| end > last),
            };
            match may_be_newer && page.found.len() < most {
                true => open.push((shard, query, page.found)),
                false => complete.push(page),
            }
        }
        if open.is_empty() {
            return Ok(complete);
        }
        size = size.saturating_mul(4).min(most);
    }
}

/// Merges the pages of several shards, newest first, up to the point where all shards have been read. Returns at
/// most `most` elements.
pub(super) fn merge<T>(read: Vec<PartialPage<T>>, most: usize, moment: impl Fn(&T) -> String) -> PartialPage<T> {
    // Beyond this point, not all shards have been read.
    let end = read.iter().filter_map(|page| page.end.clone()).max();
    let found = read.into_iter().flat_map(|page| page.found).map(|found| (moment(&found), found));
    let mut found: Vec<_> = found.filter(|(at, _)| end.as_ref().is_none_or(|end| at >= end)).collect();
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    let is_longer = found.len() > most;
    found.truncate(most);
    let end = if is_longer { found.last().map(|(at, _)| at.clone()) } else { end };
    PartialPage { found: found.into_iter().map(|(_, found)| found).collect(), end }
}

fn is_within(range: &KeyRange) -> Condition {
    DELIVERY.is_between(text(range.start()), text(range.end()))
}

/// The last possible delivery key before `moment`.
pub(super) fn just_before(moment: &str) -> String {
    let (at, hex) = moment.split_once('.').unwrap_or((moment, ""));
    match u128::from_str_radix(hex, 16).ok().and_then(|id| id.checked_sub(1)) {
        Some(id) => format!("{at}.{id:032x}"),
        None => at.to_owned(),
    }
}

/// The first possible delivery key after `moment`.
fn just_after(moment: &str) -> String {
    match moment.split_once('.') {
        Some((at, hex)) => {
            let id = u128::from_str_radix(hex, 16).unwrap_or_default();
            format!("{at}.{:032x}", id.saturating_add(1))
        }
        None => format!("{moment}.{:032x}", 0),
    }
}

/// The sort key of an item.
pub(super) fn moment(item: &Item) -> Option<&str> {
    item.get(DELIVERY.name())?.as_s().ok().map(String::as_str)
}

/// The id of the delivery in `item`, which was read from `shard`.
pub(super) fn id(shard: Shard, item: &Item) -> Option<DeliveryId> {
    shard.delivery(moment(item)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_is_the_second_half_of_an_id() {
        let moment = "1769860800999.0123456789abcdef0123456789abcdef";
        assert_eq!(Cursor::parse(moment).expect("a cursor").0, moment);
        assert_eq!(just_before(moment), "1769860800999.0123456789abcdef0123456789abcdee");
        assert_eq!(just_before("1769860800999.00000000000000000000000000000000"), "1769860800999");
        for moment in [moment, "1769860800999"] {
            assert_eq!(just_before(&just_after(moment)), moment);
        }
        for other in ["", "1769860800999", "x.0123456789abcdef0123456789abcdef", &format!("{moment}.")] {
            assert!(Cursor::parse(other).is_err(), "{other}");
        }
    }

    /// Reads a shard like DynamoDB: the newest entries before `cursor`, at most `most` before the filter is applied.
    fn read(shard: &[u16], cursor: Option<u16>, most: usize, wanted: impl Fn(u16) -> bool) -> PartialPage<u16> {
        let mut newest: Vec<_> = shard.iter().copied().filter(|at| cursor.is_none_or(|cursor| *at < cursor)).collect();
        newest.sort_unstable_by(|one, other| other.cmp(one));
        newest.truncate(most);
        let end = if newest.len() == most { newest.last().map(|at| format!("{at:05}")) } else { None };
        PartialPage { found: newest.into_iter().filter(|at| wanted(*at)).collect(), end }
    }

    proptest! {
        /// For any contents of the shards and any filter, the pages together form the complete list.
        #[test]
        fn the_pages_are_the_list_without_gaps_or_repetitions(
            moments in prop::collection::btree_set(0..1000_u16, 0..200),
            shards in 1..6_u16,
            limit in 1..8_usize,
            more in 0..10_usize,
            divisor in 1..20_u16,
        ) {
            let wanted = |at: u16| at.is_multiple_of(divisor);
            let in_shard = |shard: u16| moments.iter().copied().filter(|at| at / 7 % shards == shard).collect::<Vec<_>>();
            let all: Vec<u16> = moments.iter().rev().copied().filter(|at| wanted(*at)).collect();
            let (mut listed, mut cursor) = (Vec::new(), None);
            loop {
                let pages = (0..shards).map(|shard| read(&in_shard(shard), cursor, limit + 1 + more, wanted));
                let page = merge(pages.collect(), limit, |at| format!("{at:05}"));
                prop_assert!(page.found.len() <= limit);
                listed.extend(page.found);
                let Some(end) = page.end else { break };
                let end = end.parse().expect("a number");
                prop_assert!(cursor.is_none_or(|before| end < before), "every page advances");
                // Without a filter, a cursor means that there are more entries.
                prop_assert!(divisor > 1 || listed.len() < all.len());
                cursor = Some(end);
            }
            prop_assert_eq!(listed, all);
        }
    }
}
