//! Finds the deliveries of a job or of a rare workflow, or the delivery with a `webhook-id`, in a log of any size.
//!
//! An index that DynamoDB maintains would cost a write for each delivery, as much as the delivery itself. Instead, the
//! sweep reads the deliveries once they are three minutes old and writes their ids to *segments*, about a thousand
//! deliveries at a time. A segment covers everything between two moments in all of a tenant's shards. Its ids are in
//! parts of about three kilobytes, by the hash of what is sought, so a search reads one part of each segment. It reads
//! the log itself only for what is newer than the last segment.
//!
//! All items of a tenant are in the partition `index/<tenant>`:
//!
//! - `#<start>`: a segment, with its end, the number of its parts and the workflows that are not rare in it. Each segment
//!   begins where the one before it ends.
//! - `<start>/<end>/<part>`: a part. It is written before the segment.
//! - `late/<hash>/<delivery>`: a delivery whose event is more than a minute old when it enters the log. It may belong to
//!   a time that is already covered, so it is written before the state.
//! - The [totals](super::totals) of each hour.
//!
//! An invocation that decides that a delivery is not late writes its state within [its timeout](AGE), so a segment never
//! misses one. About one in [`SAMPLE`] deliveries requests the sweep of its tenant, so the part of the log that is not
//! covered stays small whatever the rate, and a tenant with few deliveries has no segments.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use aws_sdk_dynamodb::{operation::query::builders::QueryFluentBuilder, primitives::Blob, types::AttributeValue};
use futures::{StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};

use super::{
    items::{BACKDATED, DELIVERY, DESTINATION, EVENT, JOB_ID, WORKFLOW},
    payload::PARTS,
    search::{KeyRange, id, moment},
    table::{DeliveryLog, ItemKey, Row},
    totals::{Total, UNTIL, after, partition, readable},
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::{Item, ItemReader, attributes, number, query_all, query_page, text},
        expression::select,
        transaction::Transaction,
    },
    error::{Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DeliveryId, DestinationId, Millis, Shard, WebhookId, kept_job_id, kept_workflow},
        event::EventName,
    },
};

attributes! {
    // The ids in a part.
    ENTRIES = "entries",
    // The hashes of a segment's frequent workflows.
    FREQUENT = "frequent",
}

/// A delivery is late if its event entered the queue at least this long before the delivery enters the log.
const BACKDATED_AFTER: Duration = Duration::from_mins(1);
/// Deliveries are covered once they are this old: [`BACKDATED_AFTER`], the longest timeout of a function that writes
/// deliveries (a minute, of `deliveries-wake`), and a minute for the differences between clocks.
const COVERED_AGE: Duration = Duration::from_mins(3);
/// One delivery in this many requests the sweep.
const SAMPLE: u128 = 1024;
/// The maximum number of deliveries in a segment, unless there are very many shards.
const MAX_SEGMENT_DELIVERIES: usize = 8192;
/// The minimum number of deliveries to read from a shard at a time.
const MIN_SHARD_READ: usize = 64;
/// A workflow with more deliveries in a segment is not in its parts. Its deliveries are easily found in the log, and
/// entries for all of them would make the index half as large again.
const MAX_RARE_DELIVERIES: usize = 32;
/// The maximum number of hours in a segment, so that the totals of all fit into a transaction.
const MAX_SEGMENT_HOURS: usize = 80;
/// The average size of a part, in bytes. Parts vary in size, because the hashes are random, and a read of more than 4,096
/// bytes takes two units instead of one.
const PART_BYTES: usize = 3072;
/// The size of an entry: a hash, and the id of a delivery.
const ENTRY_BYTES: usize = 49;
const INDEXING: &str = "indexing deliveries";
const FINDING: &str = "finding a delivery";

/// Something that deliveries are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexHash(u64);

/// Whether a delivery that enters the log `now` is late.
pub(super) fn is_backdated(id: &DeliveryId, now: Timestamp) -> bool {
    now.since(id.created_at()) >= BACKDATED_AFTER
}

/// A delivery that a segment covers.
struct Covered {
    id: DeliveryId,
    job: String,
    workflow: Option<IndexHash>,
    /// Whether it belongs to the totals of its hour.
    is_counted: bool,
}

/// A covered part of the log, between two moments.
#[derive(Debug)]
pub(super) struct Segment {
    start: String,
    end: String,
    parts: u64,
    /// The workflows that its parts do not contain; `None` for all of them, in a segment of version 0.1.0.
    frequent: Option<BTreeSet<IndexHash>>,
}

impl IndexHash {
    pub(super) fn of_job(job: &str) -> Self {
        let digest = Sha256::digest(kept_job_id(job).as_bytes());
        Self(u64::from_be_bytes(digest.first_chunk().copied().unwrap_or_default()))
    }

    pub(super) fn of_workflow(name: &str) -> Self {
        let digest = Sha256::digest(kept_workflow(name).as_bytes());
        // The other end of the digest, because a job may have this name as its id.
        Self(u64::from_be_bytes(digest.last_chunk().copied().unwrap_or_default()))
    }

    pub(super) fn of_webhook_id(id: WebhookId) -> Self {
        let [one, other] = [id.bits() >> 64, id.bits()].map(|half| half & u128::from(u64::MAX));
        // A hash of each half could be the whole id of another delivery only by chance.
        Self(u64::try_from(one ^ other).unwrap_or_default())
    }

    /// The hashes that a delivery is found by.
    fn all_of(id: &DeliveryId, job: &str, workflow: Option<Self>) -> impl Iterator<Item = Self> {
        [Self::of_job(job), Self::of_webhook_id(id.webhook_id)].into_iter().chain(workflow)
    }
}

impl DeliveryLog {
    /// Builds the rows to write before the state of a delivery that enters the log `now`, if it is late.
    pub fn backdated_rows(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Vec<Row> {
        if !is_backdated(&delivery.id, now) {
            return Vec::new();
        }
        let key = |IndexHash(hash)| [partition(tenant), format!("late/{hash:016x}/{}", delivery.id)];
        let workflow = delivery.workflow.as_deref().map(IndexHash::of_workflow);
        let hashes = IndexHash::all_of(&delivery.id, &delivery.job_id, workflow);
        let found = hashes.map(|hash| Row(self.item(key(hash), [], now)));
        found
            .chain((delivery.event != EventName::Test).then(|| self.backdated_row(tenant, &delivery.id, now)))
            .collect()
    }

    /// Builds the row that requests the sweep of the tenant, if the delivery, which enters the log `now`, is one of the
    /// sample.
    pub fn index_request(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Option<Row> {
        let is_of_sample = delivery.webhook_id.bits().is_multiple_of(SAMPLE);
        is_of_sample.then(|| self.index_row(tenant, now.after(COVERED_AGE)))
    }

    /// Adds the oldest deliveries that are not covered yet to the index, if they are old enough. `shards` are all of the
    /// tenant's. Returns whether there may be more. The call can be interrupted and repeated.
    pub async fn index(&self, tenant: &TenantId, shards: &[Shard], now: Timestamp) -> Result<bool> {
        let newest = self.keys_of_segments(tenant).scan_index_forward(false);
        let newest = query_page(newest, 1, INDEXING).await?.items.pop();
        let start = newest.map(|item| Segment::read(&item)).transpose()?.map_or_else(String::new, |before| before.end);
        let horizon = Millis::new(now.before(COVERED_AGE).as_millisecond()).to_string();
        let range = after(&start)..=horizon.clone();
        if range.is_empty() {
            return Ok(false);
        }
        let (mut found, last) = self.oldest_of(tenant, shards, &range).await?;
        let hours: BTreeSet<_> = found.iter().map(|covered| covered.id.created_at().hour()).collect();
        let later = hours.into_iter().nth(MAX_SEGMENT_HOURS).map(|hour| Millis::new(hour.as_millisecond()).to_string());
        let last = [last, later].into_iter().flatten().min();
        let (is_more, end) = (last.is_some(), last.unwrap_or(horizon));
        found.retain(|covered| covered.id.moment() <= end);
        if found.is_empty() {
            return Ok(is_more);
        }
        let mut totals = BTreeMap::<Timestamp, Total>::new();
        for Covered { id, .. } in found.iter().filter(|covered| covered.is_counted) {
            *totals.entry(id.created_at().hour()).or_default().entry(id.destination).or_default() += 1;
        }
        let totals = self.total_items(tenant, totals, &end, now).await?;
        let frequent = frequent(&found);
        let entries = found.iter().flat_map(|Covered { id, job, workflow, .. }| {
            let rare = workflow.filter(|workflow| !frequent.contains(workflow));
            IndexHash::all_of(id, job, rare).map(|hash| (hash, *id))
        });
        let entries: Vec<_> = entries.collect();
        let hashes = frequent.iter().flat_map(|IndexHash(hash)| hash.to_be_bytes()).collect::<Vec<_>>();
        let segment = Segment { start, end, parts: parts(entries.len()), frequent: Some(frequent) };
        self.put_all(self.part_rows(tenant, &segment, &entries, now)).await?;
        let item = [
            (UNTIL, text(&segment.end)),
            (PARTS, number(segment.parts.try_into().unwrap_or(i64::MAX))),
            (FREQUENT, AttributeValue::B(Blob::new(hashes))),
        ];
        let item = self.item([partition(tenant), format!("{SEGMENT}{}", segment.start)], item, now);
        let transaction = Transaction::new(INDEXING).put_new(&self.table, DELIVERY, item);
        // Another sweep may have written the segment. Its parts have other keys unless they are the same.
        totals.into_iter().fold(transaction, |all, item| all.put(&self.table, item)).try_commit(&self.dynamodb).await?;
        Ok(is_more)
    }

    /// Reads the oldest deliveries in a range from all shards. If there are more, also returns the last moment up to
    /// which all shards were read.
    async fn oldest_of(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        range: &KeyRange,
    ) -> Result<(Vec<Covered>, Option<String>)> {
        let share = (MAX_SEGMENT_DELIVERIES / shards.len().max(1)).max(MIN_SHARD_READ);
        let reads = shards.iter().map(async |shard| {
            let query = self.query_shard(tenant, *shard, range).consistent_read(true);
            let page =
                query_page(select(query, &[DELIVERY, JOB_ID, WORKFLOW, EVENT, BACKDATED]), share, INDEXING).await?;
            let found = page.items.iter().filter_map(|item| {
                let record = ItemReader::new("delivery", item);
                let is_test = record.optional_text(EVENT) == Some(EventName::Test.as_str());
                let is_counted = !is_test && record.optional_boolean(BACKDATED) != Some(true);
                let job = record.optional_text(JOB_ID).unwrap_or_default().to_owned();
                let workflow = record.optional_text(WORKFLOW).map(IndexHash::of_workflow);
                Some(Covered { id: id(*shard, item)?, job, workflow, is_counted })
            });
            Ok::<_, Error>((found.collect::<Vec<_>>(), page.last.as_ref().and_then(moment).map(str::to_owned)))
        });
        let reads: Vec<_> = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        let (found, last): (Vec<_>, Vec<_>) = reads.into_iter().unzip();
        Ok((found.into_iter().flatten().collect(), last.into_iter().flatten().min()))
    }

    fn part_rows(
        &self,
        tenant: &TenantId,
        segment: &Segment,
        entries: &[(IndexHash, DeliveryId)],
        now: Timestamp,
    ) -> impl Iterator<Item = Row> {
        let mut parts = vec![Vec::new(); usize::try_from(segment.parts).unwrap_or_default()];
        for (hash, id) in entries {
            let part = usize::try_from(hash.0 % segment.parts).unwrap_or_default();
            if let Some(part) = parts.get_mut(part) {
                part.extend(encode(*hash, id));
            }
        }
        let rows = (0..).zip(parts).filter(|(_, part)| !part.is_empty()).map(|(number, part)| {
            Row(self.item(segment.part(tenant, number), [(ENTRIES, AttributeValue::B(Blob::new(part)))], now))
        });
        rows.collect::<Vec<_>>().into_iter()
    }

    /// Reads the tenant's segments, oldest first, up to an unreadable one. The log is searched for later deliveries.
    pub(super) async fn segments(&self, tenant: &TenantId) -> Result<Vec<Segment>> {
        let items = query_all(self.keys_of_segments(tenant), FINDING).await?;
        Ok(items.iter().map_while(|item| readable(tenant, item, || Segment::read(item))).collect())
    }

    fn keys_of_segments(&self, tenant: &TenantId) -> QueryFluentBuilder {
        let keys = DESTINATION.equals(text(partition(tenant))).and(DELIVERY.begins_with(text(SEGMENT)));
        self.query(keys).consistent_read(true)
    }

    /// Finds the ids of deliveries with this hash that the segments cover, or that were late, in a range of moments.
    /// They include a few other deliveries whose hash is the same by chance.
    pub(super) async fn indexed(
        &self,
        tenant: &TenantId,
        hash: IndexHash,
        segments: &[Segment],
        range: &KeyRange,
    ) -> Result<BTreeSet<DeliveryId>> {
        let wanted = segments.iter().filter(|segment| segment.start <= *range.end() && segment.end >= *range.start());
        let keys = wanted.map(|segment| segment.part(tenant, hash.0 % segment.parts)).collect();
        let late = format!("late/{:016x}/", hash.0);
        let backdated_keys = DESTINATION.equals(text(partition(tenant))).and(DELIVERY.begins_with(text(&late)));
        let backdated_rows = query_all(select(self.query(backdated_keys).consistent_read(true), &[DELIVERY]), FINDING);
        let (parts, backdated_rows) = tokio::try_join!(self.get_all(keys), backdated_rows)?;
        let entries = parts.values().filter_map(|part| part.get(ENTRIES.name())?.as_b().ok());
        let entries = entries.flat_map(|entries| entries.as_ref().chunks_exact(ENTRY_BYTES).filter_map(decode));
        let entries = entries.filter(|(found, _)| *found == hash).map(|(_, id)| id);
        let backdated_ids =
            backdated_rows.iter().filter_map(|row| moment(row)?.strip_prefix(&late)?.parse::<DeliveryId>().ok());
        Ok(entries.chain(backdated_ids).filter(|id| range.contains(&id.moment())).collect())
    }
}

/// The workflows with more than [`MAX_RARE_DELIVERIES`] of these deliveries.
fn frequent(found: &[Covered]) -> BTreeSet<IndexHash> {
    let mut counts = BTreeMap::<_, usize>::new();
    for workflow in found.iter().filter_map(|covered| covered.workflow) {
        *counts.entry(workflow).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > MAX_RARE_DELIVERIES).map(|(hash, _)| hash).collect()
}

/// The end of the newest segment in a range of moments whose parts do not contain `hash`, because it is a frequent
/// workflow there. The parts of later segments in the range contain it.
pub(super) fn frequent_until<'a>(segments: &'a [Segment], hash: IndexHash, range: &KeyRange) -> Option<&'a str> {
    let mut newest = segments.iter().rev().filter(|segment| segment.start <= *range.end());
    let segment = newest.find(|it| it.frequent.as_ref().is_none_or(|frequent| frequent.contains(&hash)))?;
    Some(segment.end.as_str()).filter(|end| *end >= range.start().as_str())
}

/// The moments that the segments do not cover, from the first one on.
pub(super) fn uncovered(segments: &[Segment]) -> String {
    segments.last().map_or_else(String::new, |last| after(&last.end))
}

impl Segment {
    /// The last moment that it covers.
    pub(super) fn end(&self) -> &str {
        &self.end
    }

    fn read(item: &Item) -> Result<Self> {
        let record = ItemReader::new("segment", item);
        let start = record.text(DELIVERY)?.trim_start_matches(SEGMENT).to_owned();
        let parts = record.optional_integer(PARTS).unwrap_or(1).max(1);
        let frequent = item.get(FREQUENT.name()).and_then(|hashes| hashes.as_b().ok()).map(|hashes| {
            let hashes = hashes.as_ref().as_chunks().0;
            hashes.iter().map(|hash| IndexHash(u64::from_be_bytes(*hash))).collect()
        });
        Ok(Self { start, end: record.text(UNTIL)?.to_owned(), parts, frequent })
    }

    fn part(&self, tenant: &TenantId, number: u64) -> ItemKey {
        [partition(tenant), format!("{}/{}/{number}", self.start, self.end)]
    }
}

/// The prefix of a segment's sort key.
const SEGMENT: &str = "#";

/// The number of parts for this many entries.
fn parts(entries: usize) -> u64 {
    u64::try_from((entries * ENTRY_BYTES).div_ceil(PART_BYTES)).unwrap_or(1).max(1)
}

fn encode(IndexHash(hash): IndexHash, id: &DeliveryId) -> [u8; ENTRY_BYTES] {
    let endpoint = id.destination.endpoint().map_or(0, EndpointId::bits);
    let mut entry = [0; ENTRY_BYTES];
    let parts = [
        &hash.to_be_bytes()[..],
        &endpoint.to_be_bytes(),
        &[id.shard],
        &id.at.get().to_be_bytes(),
        &id.webhook_id.bits().to_be_bytes(),
    ];
    entry.iter_mut().zip(parts.concat()).for_each(|(byte, part)| *byte = part);
    entry
}

/// Reads an entry. Endpoints have random ids, so zero stands for a callback.
fn decode(entry: &[u8]) -> Option<(IndexHash, DeliveryId)> {
    let (hash, rest) = entry.split_first_chunk()?;
    let (endpoint, rest) = rest.split_first_chunk()?;
    let (&[shard], rest) = rest.split_first_chunk()?;
    let (at, rest) = rest.split_first_chunk()?;
    let webhook_id = WebhookId::from_bits(u128::from_be_bytes(*rest.first_chunk()?));
    let destination = match u128::from_be_bytes(*endpoint) {
        0 => DestinationId::Callback,
        bits => DestinationId::Endpoint(EndpointId::from_bits(bits)),
    };
    let id = DeliveryId { destination, shard, at: Millis::new(i64::from_be_bytes(*at)), webhook_id };
    Some((IndexHash(u64::from_be_bytes(*hash)), id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_entry_survives_storage(hash: u64, endpoint: u128, shard in 0..8_u8, at in 0..=9_999_999_999_999_i64, id: u128) {
            let destination = if endpoint == 0 { DestinationId::Callback } else { DestinationId::Endpoint(EndpointId::from_bits(endpoint)) };
            let id = DeliveryId { destination, shard, at: Millis::new(at), webhook_id: WebhookId::from_bits(id) };
            prop_assert_eq!(decode(&encode(IndexHash(hash), &id)), Some((IndexHash(hash), id)));
        }

        /// The range after a segment contains every later moment, and no moment that the segment covers.
        #[test]
        fn a_segment_ends_between_two_moments(at in 0..=9_999_999_999_999_i64, later in 0..=9_999_999_999_999_i64, one: u128, other: u128) {
            let moment = |at: i64, id: u128| format!("{}.{id:032x}", Millis::new(at));
            let (one, other) = (moment(at, one), moment(later, other));
            prop_assert_eq!(other > after(&one), other > one);
            // A segment that ends at the horizon covers the moments before it.
            let horizon = Millis::new(at).to_string();
            prop_assert_eq!(other > after(&horizon), later >= at);
        }
    }
}
