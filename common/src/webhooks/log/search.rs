//! Finding deliveries: newest first, over all destinations of a tenant or one, with filters.

use std::{collections::BTreeMap, ops::AddAssign};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures::{StreamExt, TryStreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;

use super::{CONCURRENCY, Entry, INDEX, Log, Status, index_key};
use crate::{
    aws::{
        dynamo::{Item, Record, text},
        failure,
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery_id::{DeliveryId, DestinationId, Millis},
        event::EventName,
    },
};

/// A part of a tenant's log that is read by itself: a shard of a destination.
pub type Place = (DestinationId, u8);

/// Which deliveries to find.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only those of this event.
    pub event: Option<EventName>,
    /// Only those of this job.
    pub job_id: Option<String>,
    /// Only those created at this time or later.
    pub since: Option<Timestamp>,
    /// Only those created before this time.
    pub until: Option<Timestamp>,
}

/// A page of deliveries, newest first.
#[derive(Debug)]
pub struct Page {
    /// The deliveries; there may be none although there is a further page.
    pub entries: Vec<Entry>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Cursor>,
}

/// The place in the order of all deliveries of a tenant where a page ends: the second half of a delivery's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(String);

impl Cursor {
    /// Parses a cursor from a request.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let id: DeliveryId = format!("callback.0.{text}").parse().ok()?;
        Some(Self(id.moment()))
    }

    /// The cursor, for the answer.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How many deliveries of each kind there are.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Eq, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Counts {
    /// Waiting for an attempt.
    pub pending: u32,
    /// Taken by the receiver.
    pub delivered: u32,
    /// Given up.
    pub failed: u32,
    /// Ended because the endpoint was deleted or made inactive.
    pub ended: u32,
}

/// The numbers of a tenant's or an endpoint's deliveries.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// All of them.
    pub total: Counts,
    /// By the hour in which they were created.
    pub hours: BTreeMap<Timestamp, Counts>,
    /// Those that were given up, by the reason of the last failure.
    pub reasons: BTreeMap<String, u32>,
    /// Whether all were counted. If there are too many, these are the numbers of the newest.
    pub is_complete: bool,
}

/// How many items are read of a place at most where a filter leaves some out.
const FILTERED: i32 = 1000;
/// How many deliveries are counted, over all places.
const COUNTED: usize = 100_000;
/// Sorts after every key.
const END: &str = "~";

/// What was read of one place, newest first.
struct Stretch {
    entries: Vec<Entry>,
    /// The last delivery that was looked at, if there may be more behind it.
    end: Option<String>,
}

impl Log {
    /// The newest `limit` deliveries in `places` that pass `filter`, after `cursor`. Each place is read once.
    ///
    /// # Errors
    /// A read failed, or an entry cannot be read.
    pub async fn search(
        &self,
        tenant: &TenantId,
        places: &[Place],
        filter: &Filter,
        cursor: Option<&Cursor>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page> {
        let range = self.range(filter, cursor, now);
        let calls: Vec<_> = places.iter().map(|place| self.stretch(tenant, *place, filter, &range, limit)).collect();
        let stretches: Vec<Stretch> = stream::iter(calls).buffer_unordered(CONCURRENCY).try_collect().await?;
        // Behind this point, some place has not been read yet.
        let frontier = stretches.iter().filter_map(|stretch| stretch.end.clone()).max();
        let entries = stretches.into_iter().flat_map(|stretch| stretch.entries);
        let mut entries: Vec<(String, Entry)> = entries.map(|entry| (entry.id.moment(), entry)).collect();
        entries.retain(|(moment, _)| frontier.as_ref().is_none_or(|frontier| moment >= frontier));
        entries.sort_by(|(one, _), (other, _)| other.cmp(one));
        let is_longer = entries.len() > limit;
        entries.truncate(limit);
        let next = if is_longer { entries.last().map(|(moment, _)| moment.clone()) } else { frontier };
        Ok(Page { entries: entries.into_iter().map(|(_, entry)| entry).collect(), next: next.map(Cursor) })
    }

    async fn stretch(
        &self,
        tenant: &TenantId,
        place: Place,
        filter: &Filter,
        range: &(String, String),
        limit: usize,
    ) -> Result<Stretch> {
        // What is not delivered is found through the index, which does not have the rest.
        let index = filter.status.filter(|status| *status != Status::Delivered);
        let is_filtered =
            filter.event.is_some() || filter.job_id.is_some() || (index.is_none() && filter.status.is_some());
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let most = if is_filtered { limit.max(FILTERED) } else { limit };
        let query = self.places(tenant, place, index, range).scan_index_forward(false).limit(most);
        let query = if index.is_none() { filtered(query, filter) } else { query };
        let answer = Box::pin(query.send()).await.map_err(failure("listing deliveries"))?;
        let items = answer.items.unwrap_or_default();
        let end = answer.last_evaluated_key.as_ref().and_then(moment).map(str::to_owned);
        let entries = if index.is_some() {
            let ids: Vec<_> = items.iter().filter_map(|item| id(place, item)).collect();
            let known = self.known(tenant, &ids).await?;
            known.into_values().filter(|entry| filter.passes(entry)).collect()
        } else {
            let read = items.iter().filter_map(|item| Some(Entry::from_item(id(place, item)?, item)));
            read.collect::<Result<_>>()?
        };
        Ok(Stretch { entries, end })
    }

    /// The deliveries that were given up, of one place, oldest first, after `cursor`. There are more if `limit` of them
    /// were found.
    ///
    /// # Errors
    /// The read failed.
    pub(super) async fn failed(
        &self,
        tenant: &TenantId,
        place: Place,
        range: &(String, String),
        limit: usize,
    ) -> Result<Vec<DeliveryId>> {
        let query = self.places(tenant, place, Some(Status::Failed), range);
        let query = query.limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let answer = Box::pin(query.send()).await.map_err(failure("listing failed deliveries"))?;
        Ok(answer.items.unwrap_or_default().iter().filter_map(|item| id(place, item)).collect())
    }

    /// Counts the deliveries in `places` since a time.
    ///
    /// # Errors
    /// A read failed.
    pub async fn count(
        &self,
        tenant: &TenantId,
        places: &[Place],
        since: Timestamp,
        now: Timestamp,
    ) -> Result<Statistics> {
        let filter = Filter { since: Some(since), ..Filter::default() };
        let range = self.range(&filter, None, now);
        let most = COUNTED / places.len().max(1);
        let calls: Vec<_> = places.iter().map(|place| self.count_place(tenant, *place, &range, most)).collect();
        let counted: Vec<Statistics> = stream::iter(calls).buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut sum = Statistics { is_complete: true, ..Statistics::default() };
        for one in counted {
            sum.is_complete &= one.is_complete;
            sum.total += one.total;
            one.hours.into_iter().for_each(|(hour, counts)| *sum.hours.entry(hour).or_default() += counts);
            one.reasons.into_iter().for_each(|(reason, count)| *sum.reasons.entry(reason).or_default() += count);
        }
        Ok(sum)
    }

    async fn count_place(
        &self,
        tenant: &TenantId,
        place: Place,
        range: &(String, String),
        most: usize,
    ) -> Result<Statistics> {
        let (mut counted, mut read, mut next) = (Statistics::default(), 0, None);
        loop {
            let query = self.places(tenant, place, None, range).scan_index_forward(false);
            let query = query
                .projection_expression("destination, delivery, #status, #last.outcome")
                .expression_attribute_names("#status", "status")
                .expression_attribute_names("#last", "last");
            let answer = Box::pin(query.set_exclusive_start_key(next).send()).await;
            let answer = answer.map_err(failure("counting deliveries"))?;
            let items = answer.items.unwrap_or_default();
            read += items.len();
            items.iter().for_each(|item| counted.add(place, item));
            next = answer.last_evaluated_key;
            if next.is_none() || read >= most {
                return Ok(Statistics { is_complete: next.is_none(), ..counted });
            }
        }
    }

    /// The keys of the deliveries that `filter` wants to be created between two times, and before `cursor`. Both ends
    /// are included.
    pub(super) fn range(&self, filter: &Filter, cursor: Option<&Cursor>, now: Timestamp) -> (String, String) {
        let moment = |time: Timestamp| Millis::new(time.as_millisecond());
        let since = filter.since.map_or(Millis::new(0), moment).max(self.oldest(now));
        // A time alone sorts before the keys with that time.
        let until = filter.until.map(|until| moment(until).to_string());
        let before = cursor.map(|Cursor(moment)| just_before(moment));
        let last = [until, before].into_iter().flatten().min().unwrap_or_else(|| END.to_owned());
        let since = since.to_string();
        // DynamoDB does not take an empty range the wrong way round.
        (since.clone(), last.max(since))
    }

    /// The deliveries of a place, or through the index those with a status.
    fn places(
        &self,
        tenant: &TenantId,
        (destination, shard): Place,
        index: Option<Status>,
        (from, to): &(String, String),
    ) -> QueryFluentBuilder {
        let partition = format!("{tenant}/{destination}.{shard}");
        let query = self.dynamodb.query().table_name(&self.table).expression_attribute_names(
            "#partition",
            match index {
                Some(_) => "open",
                None => "destination",
            },
        );
        let query = query.set_index_name(index.map(|_| INDEX.to_owned()));
        let partition = index.map_or(partition.clone(), |status| index_key(&partition, status));
        query
            .key_condition_expression("#partition = :partition AND delivery BETWEEN :from AND :to")
            .expression_attribute_values(":partition", text(partition))
            .expression_attribute_values(":from", text(from))
            .expression_attribute_values(":to", text(to))
    }
}

impl Filter {
    fn passes(&self, entry: &Entry) -> bool {
        self.status.is_none_or(|status| status == entry.status)
            && self.event.is_none_or(|event| event == entry.event)
            && self.job_id.as_ref().is_none_or(|job| *job == entry.job_id)
    }
}

/// Lets DynamoDB leave out what the filter does not want.
fn filtered(mut query: QueryFluentBuilder, filter: &Filter) -> QueryFluentBuilder {
    let wanted = [
        ("status", filter.status.map(text)),
        ("event", filter.event.map(|event| text(event.as_str()))),
        ("job_id", filter.job_id.as_ref().map(text)),
    ];
    let mut conditions = Vec::new();
    for (name, value) in wanted.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        conditions.push(format!("#{name} = :{name}"));
        query = query
            .expression_attribute_names(format!("#{name}"), name)
            .expression_attribute_values(format!(":{name}"), value);
    }
    if conditions.is_empty() { query } else { query.filter_expression(conditions.join(" AND ")) }
}

impl Statistics {
    fn add(&mut self, place: Place, item: &Item) {
        let record = Record::new("delivery", item);
        let Some((id, status)) = id(place, item).zip(record.parsed("status").ok()) else { return };
        let hour = Timestamp::from_millisecond(id.at.get() - id.at.get() % (60 * 60 * 1000));
        let mut one = Counts::default();
        match status {
            Status::Pending => one.pending = 1,
            Status::Delivered => one.delivered = 1,
            Status::Ended => one.ended = 1,
            Status::Failed => {
                one.failed = 1;
                let last = item.get("last").and_then(|last| last.as_m().ok());
                let reason = last.and_then(|last| last.get("outcome")?.as_s().ok()).cloned().unwrap_or_default();
                *self.reasons.entry(reason).or_default() += 1;
            }
        }
        self.total += one;
        *self.hours.entry(hour).or_default() += one;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.pending += other.pending;
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.ended += other.ended;
    }
}

/// The last key before `moment` that a delivery can have.
fn just_before(moment: &str) -> String {
    let (at, hex) = moment.split_once('.').unwrap_or((moment, ""));
    match u128::from_str_radix(hex, 16).ok().and_then(|id| id.checked_sub(1)) {
        Some(id) => format!("{at}.{id:032x}"),
        None => at.to_owned(),
    }
}

fn moment(item: &Item) -> Option<&str> {
    item.get("delivery")?.as_s().ok().map(String::as_str)
}

/// The id of the delivery in `item`, which was read from `place`.
fn id((destination, shard): Place, item: &Item) -> Option<DeliveryId> {
    format!("{destination}.{shard}.{}", moment(item)?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_the_second_half_of_an_id() {
        let moment = "1769860800999.0123456789abcdef0123456789abcdef";
        assert_eq!(Cursor::parse(moment).expect("a cursor").as_str(), moment);
        assert_eq!(just_before(moment), "1769860800999.0123456789abcdef0123456789abcdee");
        assert_eq!(just_before("1769860800999.00000000000000000000000000000000"), "1769860800999");
        for other in ["", "1769860800999", "x.0123456789abcdef0123456789abcdef"] {
            assert!(Cursor::parse(other).is_none(), "{other}");
        }
    }
}
