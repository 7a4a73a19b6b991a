//! The delivery log's table: its keys, and the reads and writes of its items.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use aws_sdk_dynamodb::{Client, operation::query::builders::QueryFluentBuilder, types::AttributeValue};
use futures::StreamExt;

use super::{
    items::{DELIVERY, DESTINATION, EXPIRES_AT},
    room::{Room, Rooms},
};
use crate::{
    aws::{
        batch::{Unprocessed, put_request, read_all, write_all},
        clients::Aws,
        dynamo::{Attribute, Item, ItemReader, get, item, number},
        expression::{Condition, Update, query},
        gathered_reads::{Gathered, ReadResult},
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, DeliveryId, Millis, Retention, Shard, Status, WebhookId},
};

/// The delivery log. Cloning is cheap.
#[derive(Clone)]
pub struct DeliveryLog {
    pub(super) dynamodb: Client,
    pub(super) table: String,
    pub(super) retention: Retention,
    pub(super) kept_payload_bytes: usize,
    rooms: Rooms,
    gathered: Option<Arc<Gathered<ItemKey, Item>>>,
}

/// An item to write unconditionally. It may contain a callback's secret, so there is no `Debug`.
#[derive(Clone)]
pub struct Row(pub(super) Item);

/// The index of all deliveries that are not `delivered`.
pub(super) const INDEX: &str = "by-status";
pub(super) const NOT_FOUND: Error = Error::NotFound("Delivery not found");

impl DeliveryLog {
    /// Builds the log with the settings in `env`.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            table: env.required("DELIVERIES_TABLE")?,
            retention: Retention::from_env(env)?,
            // DynamoDB accepts items of up to 400 KB.
            kept_payload_bytes: env.number("KEPT_PAYLOAD_BYTES", 0..=350_000)?,
            rooms: Rooms::default(),
            gathered: None,
        })
    }

    /// The maximum stored size of a payload, in bytes, that is kept after a successful delivery.
    #[must_use]
    pub fn kept_payload_bytes(&self) -> usize {
        self.kept_payload_bytes
    }

    /// Returns the same log, but with [gathered](crate::aws::gathered_reads) reads of keys.
    #[must_use]
    pub fn gathering(self) -> Self {
        Self { gathered: Some(Arc::default()), ..self }
    }

    /// Waits until there is room in memory for bodies with this many bytes in total.
    pub async fn room(&self, bytes: usize) -> Room {
        self.rooms.take(bytes).await
    }

    /// Writes rows, in any order.
    ///
    /// # Errors
    /// [`Error::Busy`]: a row may be missing. The call can be repeated.
    pub async fn put_all(&self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        let unwritten = self.put(rows.into_iter().map(|row| ((), row)).collect()).await;
        if unwritten.is_empty() { Ok(()) } else { Err(Error::Busy) }
    }

    /// Writes rows, in any order. Each has a label that identifies it to the caller. Returns the labels of the rows
    /// that were not written, with the reason: [`Error::Busy`] if the partition or the table was throttled in every
    /// round.
    pub async fn put<T: Copy>(&self, rows: Vec<(T, Row)>) -> Vec<(T, Error)> {
        // A batch must not contain the same key twice, so only the last of several duplicates is written.
        let rows: BTreeMap<ItemKey, (T, Row)> =
            rows.into_iter().map(|(label, row)| (key_of(&row.0), (label, row))).collect();
        let writes = rows.into_iter().map(|(key, (label, Row(item)))| ((key, label), put_request(item))).collect();
        let mut written =
            write_all(&self.dynamodb, &self.table, writes, "writing the delivery log", |(key, _), write| {
                write.put_request.as_ref().is_some_and(|put| key_of(&put.item) == *key)
            });
        let mut unwritten = Vec::new();
        while let Some(result) = written.next().await {
            let Err(Unprocessed { items, error }) = result else { continue };
            let failed = error.filter(|error| !matches!(error, Error::Busy));
            if let Some(error) = &failed {
                crate::log!("log.rows_unwritten", ?error, rows = items.len());
            }
            let error =
                || if failed.is_some() { Error::Internal("a row was not written".to_owned()) } else { Error::Busy };
            unwritten.extend(items.into_iter().map(|(_, label)| (label, error())));
        }
        unwritten
    }

    /// Reads an item consistently.
    pub(super) async fn get(&self, key: ItemKey, doing: &'static str) -> Result<Option<Item>> {
        get(&self.dynamodb, &self.table, keyed(key, []), doing).await
    }

    /// Reads any number of items consistently.
    pub(super) async fn get_all(&self, keys: Vec<ItemKey>) -> Result<HashMap<ItemKey, Item>> {
        let Some(gathered) = &self.gathered else {
            let (found, error) = self.get_some(keys, true).await;
            return error.map_or(Ok(found.values), Err);
        };
        let read = |keys| async move {
            let (found, error) = self.get_some(keys, true).await;
            if let Some(error) = error {
                crate::log!("log.unread", ?error, unread = found.unread.len());
            }
            found
        };
        gathered.get(keys, read).await
    }

    /// Reads items. Also returns an error if some keys could not be read.
    pub(super) async fn get_some(
        &self,
        keys: Vec<ItemKey>,
        is_consistent: bool,
    ) -> (ReadResult<ItemKey, Item>, Option<Error>) {
        let keys = keys.into_iter().map(|key| keyed(key, [])).collect();
        let mut calls = read_all(&self.dynamodb, &self.table, keys, is_consistent, "reading the delivery log");
        let (mut found, mut failed) = (ReadResult::default(), None);
        while let Some((items, left)) = calls.next().await {
            found.values.extend(items.into_iter().map(|item| (key_of(&item), item)));
            if let Some(Unprocessed { items, error }) = left {
                found.unread.extend(items.iter().map(key_of));
                failed = failed.or(error).or(Some(Error::Busy));
            }
        }
        (found, failed)
    }

    /// Builds a query for the items whose keys meet a condition.
    pub(super) fn query(&self, keys: Condition) -> QueryFluentBuilder {
        query(&self.dynamodb, &self.table, keys)
    }

    pub(super) fn update(&self, key: ItemKey) -> Update {
        Update::of(&self.table, keyed(key, []))
    }

    /// Builds an item that expires after the retention period.
    pub(super) fn item(
        &self,
        key: ItemKey,
        attributes: impl IntoIterator<Item = (Attribute, AttributeValue)>,
        now: Timestamp,
    ) -> Item {
        keyed(key, attributes.into_iter().chain([(EXPIRES_AT, self.expiry(now))]))
    }

    pub(super) fn expiry(&self, now: Timestamp) -> AttributeValue {
        number(self.retention.end(now).as_second())
    }

    /// The creation time of the oldest visible deliveries.
    pub(super) fn oldest(&self, now: Timestamp) -> Millis {
        Millis::new(now.before(self.retention.period()).as_millisecond())
    }
}

/// Partition key and sort key.
pub(super) type ItemKey = [String; 2];

pub(super) fn key_of(item: &Item) -> ItemKey {
    let record = ItemReader::new("delivery", item);
    [DESTINATION, DELIVERY].map(|name| record.optional_text(name).unwrap_or_default().to_owned())
}

/// Builds an item with this key.
pub(super) fn keyed(key: ItemKey, attributes: impl IntoIterator<Item = (Attribute, AttributeValue)>) -> Item {
    let [destination, delivery] = key.map(AttributeValue::S);
    item([(DESTINATION, destination), (DELIVERY, delivery)].into_iter().chain(attributes))
}

/// The sort key of a payload.
pub(super) const PAYLOAD: &str = "payload";

/// The partition that contains a shard's deliveries.
pub(super) fn shard_key(tenant: &TenantId, shard: Shard) -> String {
    format!("{tenant}/{shard}")
}

/// The index partition with a shard's deliveries that have a given status.
pub(super) fn index_key(tenant: &TenantId, shard: Shard, status: Status) -> String {
    format!("{tenant}/{shard}/{status}")
}

/// The index partition with a shard's tests that have a given status. Tests are listed, but neither counted nor
/// recovered.
pub(super) fn tests_key(tenant: &TenantId, shard: Shard, status: Status) -> String {
    format!("{tenant}/{shard}/{status}-test")
}

/// The partition with a delivery's payload and earlier attempts.
pub(super) fn details_partition(tenant: &TenantId, id: &DeliveryId) -> String {
    format!("{tenant}/{}/{}", id.shard(), id.moment())
}

/// The partition with the payload that the deliveries of an event share. A delivery is one of them only if its log
/// contains the whole id of its job.
pub(super) fn shared_partition(tenant: &TenantId, of: &Delivery) -> String {
    let webhook_id = WebhookId::of(tenant, &of.job_id, of.event.as_str(), "");
    format!("{tenant}/event/{}", DeliveryId { webhook_id, ..of.id }.moment())
}

pub(super) fn shared_key(tenant: &TenantId, of: &Delivery) -> ItemKey {
    [shared_partition(tenant, of), PAYLOAD.to_owned()]
}

pub(super) fn state_key(tenant: &TenantId, id: &DeliveryId) -> ItemKey {
    [shard_key(tenant, id.shard()), id.moment()]
}

pub(super) fn details_key(tenant: &TenantId, id: &DeliveryId, part: &str) -> ItemKey {
    [details_partition(tenant, id), part.to_owned()]
}
