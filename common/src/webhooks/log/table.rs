//! The table of the delivery log: its keys, and the reads and writes of its items.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeValue, KeysAndAttributes, PutRequest, WriteRequest},
};
use futures::{StreamExt, stream};

use super::gathered::{Found, Gathered};
use crate::{
    aws::{
        clients::Aws,
        dynamo::{Item, item, number, pause, text},
        failure,
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{DeliveryId, MAX_AGE, Millis, Shard, Status},
};

/// The delivery log. Cloning is cheap.
#[derive(Clone)]
pub struct Log {
    pub(super) dynamodb: Client,
    pub(super) table: String,
    pub(super) retention: Retention,
    pub(super) kept_payload_bytes: usize,
    gathered: Option<Arc<Gathered<Key, Item>>>,
}

/// The time for which deliveries can be seen.
#[derive(Clone, Copy, Debug)]
pub struct Retention(Duration);

/// An item to write unconditionally. It may contain a callback's secret, so it cannot be printed.
#[derive(Clone)]
pub struct Row(pub(super) Item);

impl Retention {
    /// Reads `DELIVERY_RETENTION`, in days.
    ///
    /// # Errors
    /// The variable is missing, does not parse or is out of range.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        let days: u32 = env.number("DELIVERY_RETENTION", 1..=3650)?;
        Ok(Self(Duration::from_secs(u64::from(days) * 24 * 60 * 60)))
    }

    /// The time from which an item written `now` may be deleted. DynamoDB may take days longer, so reads check the age.
    #[must_use]
    pub fn end(self, now: Timestamp) -> Timestamp {
        now.after(self.0 + GRACE)
    }
}

/// Partition key and sort key.
pub(super) type Key = [String; 2];

impl Row {
    fn key(&self) -> Key {
        key_of(&self.0)
    }
}

pub(super) fn key_of(item: &Item) -> Key {
    ["destination", "delivery"].map(|name| {
        let value = item.get(name).and_then(|value| value.as_s().ok());
        value.cloned().unwrap_or_default()
    })
}

/// The labels of the rows that could not be written.
#[derive(Debug)]
pub struct Unwritten<T> {
    /// Rows whose partition, or table, was throttled in every round.
    pub throttled: Vec<T>,
    /// Rows whose call failed.
    pub failed: Vec<T>,
}

impl<T> Unwritten<T> {
    /// Whether all rows were written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.throttled.is_empty() && self.failed.is_empty()
    }
}

/// The index of all deliveries that are not `delivered`.
pub(super) const INDEX: &str = "by-status";
/// The time for which items outlive the retention, so that a resend on the last day still has its whole schedule.
const GRACE: Duration = MAX_AGE.saturating_add(Duration::from_secs(24 * 60 * 60));
/// The number of items that `BatchWriteItem` accepts.
pub(super) const WRITES: usize = 25;
/// The number of items that `BatchGetItem` accepts.
const READS: usize = 100;
/// The number of calls that a caller may have in progress.
pub(super) const CONCURRENCY: usize = 16;
/// The number of times that a batch is sent for items that DynamoDB left out because their partition is throttled.
pub(super) const ROUNDS: u32 = 4;
pub(super) const NOT_FOUND: Error = Error::NotFound("Delivery not found");

impl Log {
    /// Opens the table that `env` names.
    ///
    /// # Errors
    /// A variable is missing, does not parse or is out of range.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            table: env.required("DELIVERIES_TABLE")?,
            retention: Retention::from_env(env)?,
            // The largest item that DynamoDB accepts has 400 KB.
            kept_payload_bytes: env.number("KEPT_PAYLOAD_BYTES", 0..=350_000)?,
            gathered: None,
        })
    }

    /// The maximum size of a stored payload, in bytes, that is kept once its delivery is delivered.
    #[must_use]
    pub fn kept_payload_bytes(&self) -> usize {
        self.kept_payload_bytes
    }

    /// The same log, but keys that are read at about the same time are read in one call.
    #[must_use]
    pub fn gathering(self) -> Self {
        Self { gathered: Some(Arc::default()), ..self }
    }

    /// Writes rows, in any order. Each has a label that identifies it to the caller.
    pub async fn put<T: Copy>(&self, rows: Vec<(T, Row)>) -> Unwritten<T> {
        // A batch may not contain the same key twice: the last of several duplicates counts.
        let rows: BTreeMap<Key, (T, Row)> = rows.into_iter().map(|(label, row)| (row.key(), (label, row))).collect();
        let mut rows = rows.into_iter().peekable();
        let mut calls = Vec::new();
        while rows.peek().is_some() {
            calls.push(self.put_batch(rows.by_ref().take(WRITES).collect()));
        }
        let mut unwritten = Unwritten { throttled: Vec::new(), failed: Vec::new() };
        let mut written = stream::iter(calls).buffer_unordered(CONCURRENCY);
        while let Some((left, result)) = written.next().await {
            match result {
                Ok(()) | Err(Error::Busy) => unwritten.throttled.extend(left),
                Err(error) => {
                    crate::log!("log.rows_unwritten", ?error, rows = left.len());
                    unwritten.failed.extend(left);
                }
            }
        }
        unwritten
    }

    /// Writes up to 25 rows. Returns the labels of the rows that were not written.
    async fn put_batch<T: Copy>(&self, batch: Vec<(Key, (T, Row))>) -> (Vec<T>, Result<()>) {
        let (mut left, mut requests) = (BTreeMap::new(), Vec::with_capacity(batch.len()));
        for (key, (label, Row(item))) in batch {
            left.insert(key, label);
            #[expect(clippy::expect_used, reason = "the item is given")]
            let put = PutRequest::builder().set_item(Some(item)).build().expect("a complete put");
            requests.push(WriteRequest::builder().put_request(put).build());
        }
        for round in 0..ROUNDS {
            let call = self.dynamodb.batch_write_item().request_items(&self.table, requests);
            requests = match Box::pin(call.send()).await {
                Ok(answer) => answer.unprocessed_items.unwrap_or_default().remove(&self.table).unwrap_or_default(),
                Err(error) => return (left.into_values().collect(), Err(failure("writing the delivery log")(error))),
            };
            let puts = requests.iter().filter_map(|request| request.put_request.as_ref());
            let keys: HashSet<Key> = puts.map(|put| key_of(&put.item)).collect();
            left.retain(|key, _| keys.contains(key));
            if left.is_empty() {
                break;
            }
            pause(round).await;
        }
        (left.into_values().collect(), Ok(()))
    }

    /// Reads any number of items consistently by their keys.
    pub(super) async fn get(&self, keys: Vec<Item>) -> Result<HashMap<Key, Item>> {
        let Some(gathered) = &self.gathered else {
            let (found, error) = self.get_all(keys, true).await;
            return error.map_or(Ok(found.values), Err);
        };
        let read = |keys: Vec<Key>| async move {
            let keys = keys.into_iter().map(|[destination, delivery]| key(destination, delivery));
            let (found, error) = self.get_all(keys.collect(), true).await;
            if let Some(error) = error {
                crate::log!("log.unread", ?error, unread = found.unread.len());
            }
            found
        };
        gathered.get(keys.iter().map(key_of).collect(), read).await
    }

    /// The items, and an error if some keys could not be read.
    pub(super) async fn get_all(&self, keys: Vec<Item>, is_consistent: bool) -> (Found<Key, Item>, Option<Error>) {
        let calls: Vec<_> = keys.chunks(READS).map(|batch| self.get_batch(batch.to_vec(), is_consistent)).collect();
        let mut calls = stream::iter(calls).buffer_unordered(CONCURRENCY);
        let (mut found, mut failed) = (Found { values: HashMap::new(), unread: HashSet::new() }, None);
        while let Some((items, unread, error)) = calls.next().await {
            found.values.extend(items.into_iter().map(|item| (key_of(&item), item)));
            found.unread.extend(unread.iter().map(key_of));
            failed = failed.or(error);
        }
        (found, failed)
    }

    /// Reads up to 100 items. Returns them, the keys that could not be read, and the reason.
    async fn get_batch(&self, mut keys: Vec<Item>, is_consistent: bool) -> (Vec<Item>, Vec<Item>, Option<Error>) {
        let mut items = Vec::new();
        for round in 0..ROUNDS {
            let wanted =
                KeysAndAttributes::builder().set_keys(Some(keys.clone())).consistent_read(is_consistent).build();
            #[expect(clippy::expect_used, reason = "the keys are given")]
            let wanted = wanted.expect("complete keys");
            let call = self.dynamodb.batch_get_item().request_items(&self.table, wanted);
            let answer = match Box::pin(call.send()).await {
                Ok(answer) => answer,
                Err(error) => return (items, keys, Some(failure("reading the delivery log")(error))),
            };
            items.extend(answer.responses.unwrap_or_default().remove(&self.table).unwrap_or_default());
            match answer.unprocessed_keys.unwrap_or_default().remove(&self.table) {
                None => return (items, Vec::new(), None),
                Some(left_out) => keys = left_out.keys,
            }
            pause(round).await;
        }
        (items, keys, Some(Error::Busy))
    }

    pub(super) fn expiry(&self, now: Timestamp) -> AttributeValue {
        number(self.retention.end(now).as_second())
    }

    /// The creation time of the oldest visible deliveries.
    pub(super) fn oldest(&self, now: Timestamp) -> Millis {
        Millis::new(now.as_millisecond() - i64::try_from(self.retention.0.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The sort key of a payload.
pub(super) const PAYLOAD: &str = "payload";

/// The partition of the deliveries of a shard.
pub(super) fn shard_key(tenant: &TenantId, shard: Shard) -> String {
    format!("{tenant}/{shard}")
}

/// The partition of the index with the deliveries of a shard and a status.
pub(super) fn index_key(tenant: &TenantId, shard: Shard, status: Status) -> String {
    format!("{tenant}/{shard}/{status}")
}

/// The partition of the index with the failed tests of a shard. They are listed, and neither counted nor recovered.
pub(super) fn failed_tests_key(tenant: &TenantId, shard: Shard) -> String {
    format!("{tenant}/{shard}/failed-test")
}

/// The partition of the payload and the earlier attempts of a delivery.
pub(super) fn details_partition(tenant: &TenantId, id: &DeliveryId) -> String {
    format!("{tenant}/{}/{}", id.shard(), id.moment())
}

pub(super) fn state_key(tenant: &TenantId, id: &DeliveryId) -> Item {
    key(shard_key(tenant, id.shard()), id.moment())
}

pub(super) fn details_key(tenant: &TenantId, id: &DeliveryId, part: &str) -> Item {
    key(details_partition(tenant, id), part)
}

pub(super) fn key(destination: impl ToString, delivery: impl ToString) -> Item {
    item([("destination", text(destination)), ("delivery", text(delivery))])
}
