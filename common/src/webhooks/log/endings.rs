//! Ends the deliveries of deleted endpoints that no attempt would end: held ones, and those that wait at a pull endpoint.
//! Other deliveries end at their next attempt.
//!
//! The transaction that deletes an endpoint writes an item here, and the sweep ends the deliveries. It looks again after
//! a quarter of an hour, because a process that read the endpoint before its deletion may have held a delivery since.
//! Resending a delivery to a pull endpoint writes the item, too, because that endpoint may have been deleted. A repeated
//! look changes nothing, and an interrupted one is repeated by the next sweep.

use std::{pin::pin, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use super::{
    items::{DELIVERY, DESTINATION, EXPIRES_AT, OPEN},
    search::id,
    table::{DeliveryLog, INDEX, ItemKey, index_key, key_of, keyed, tests_key},
};
use crate::{
    aws::{
        batch::CONCURRENCY,
        clients::Aws,
        dynamo::{Item, ItemReader, attributes, boolean, number, query_all, query_pages, text},
        expression::select,
        from_env::FromEnv,
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, DestinationId, SHARDS, Shard, Status},
};

/// An endpoint whose waiting deliveries the sweep ends, if it was deleted.
#[derive(Clone, Debug)]
pub struct Ending {
    pub tenant: TenantId,
    pub endpoint: EndpointId,
    /// Whether pending deliveries wait for a client.
    is_pull: bool,
    /// When the endpoint was deleted, or one of its deliveries was resent.
    noted_at: Timestamp,
    /// When the sweep looks for deliveries.
    look_at: Timestamp,
}

/// Writes the items, for functions that delete endpoints.
pub struct Endings {
    table: String,
}

impl FromEnv for Endings {
    fn from_env(env: &Env, _: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { table: env.required("DELIVERIES_TABLE")? })
    }
}

/// The partition of the index with the items that the sweep still has to look at.
const PARTITION: &str = "ending";
/// The prefix of the items' partitions.
const PREFIX: &str = "ending/";
/// The index contains a delivery after this time.
const INDEX_LAG: Duration = Duration::from_secs(5);
/// The time between the deletion and the last look, longer than any invocation that read the endpoint before.
const LAST_LOOK: Duration = Duration::from_mins(15);
/// An item expires after this time, even if the sweep could not read it.
const RETENTION: Duration = Duration::from_hours(7 * 24);
/// The number of keys per read.
const PAGE_SIZE: i32 = 500;
const DOING: &str = "ending the deliveries of a deleted endpoint";

attributes! { PULL = "pull", NOTED_AT = "noted_at", LOOK_AT = "look_at", }

impl Endings {
    /// Adds the item of an endpoint to the transaction that deletes it.
    pub(in crate::webhooks) fn note(
        &self,
        transaction: Transaction,
        tenant: &TenantId,
        endpoint: EndpointId,
        is_pull: bool,
    ) -> Transaction {
        transaction.put(&self.table, Ending::new(tenant, endpoint, is_pull, Timestamp::now()).to_item())
    }
}

impl Ending {
    fn new(tenant: &TenantId, endpoint: EndpointId, is_pull: bool, now: Timestamp) -> Self {
        Self { tenant: tenant.clone(), endpoint, is_pull, noted_at: now, look_at: now.after(INDEX_LAG) }
    }

    /// The item of an endpoint to which the delivery was resent. `None` if an attempt will find out whether the endpoint
    /// exists.
    pub(super) fn of_resent(tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Option<Item> {
        let endpoint = delivery.pull.as_ref().and(delivery.webhook_endpoint_id)?;
        Some(Self::new(tenant, endpoint, true, now).to_item())
    }

    fn key(&self) -> ItemKey {
        [partition(&self.tenant), self.endpoint.to_string()]
    }

    fn to_item(&self) -> Item {
        let attributes = [
            (OPEN, text(PARTITION)),
            (PULL, boolean(self.is_pull)),
            (NOTED_AT, number(self.noted_at.as_millisecond())),
            (LOOK_AT, number(self.look_at.as_millisecond())),
            (EXPIRES_AT, number(self.noted_at.after(RETENTION).as_second())),
        ];
        keyed(self.key(), attributes)
    }

    fn from_item(tenant: TenantId, item: &Item) -> Result<Self> {
        let record = ItemReader::new("ending", item);
        Ok(Self {
            tenant,
            endpoint: record.parsed(DELIVERY)?,
            is_pull: record.optional_boolean(PULL).unwrap_or_default(),
            noted_at: record.time(NOTED_AT)?,
            look_at: record.time(LOOK_AT)?,
        })
    }

    /// The partitions of the index with the deliveries of a shard that wait, tests included.
    fn partitions(&self, shard: Shard) -> impl Iterator<Item = String> {
        let pending = self.is_pull.then_some(Status::Pending);
        let statuses = [Status::Held].into_iter().chain(pending);
        let keys = statuses
            .flat_map(|status| [index_key(&self.tenant, shard, status), tests_key(&self.tenant, shard, status)]);
        keys.collect::<Vec<_>>().into_iter()
    }
}

impl DeliveryLog {
    /// Lists the items of each wanted tenant that the sweep looks at `now`.
    pub async fn endings(&self, is_wanted: impl Fn(&TenantId) -> bool, now: Timestamp) -> Result<Vec<Ending>> {
        let query = self.query(OPEN.equals(text(PARTITION))).index_name(INDEX);
        let keys = query_all(select(query, &[DESTINATION, DELIVERY]), DOING).await?;
        let tenant = |partition: &str| -> Option<TenantId> { partition.strip_prefix(PREFIX)?.parse().ok() };
        let wanted =
            keys.iter().map(key_of).filter(|[partition, _]| tenant(partition).as_ref().is_some_and(&is_wanted));
        let mut due = Vec::new();
        for ([partition, _], item) in self.get_all(wanted.collect()).await? {
            let Some(tenant) = tenant(&partition) else { continue };
            // The index lags, so the sweep may have looked for the last time already.
            match Ending::from_item(tenant, &item) {
                Ok(ending) => due.extend((item.contains_key(OPEN.name()) && ending.look_at <= now).then_some(ending)),
                Err(error) => crate::log!("ending.unreadable", partition, ?error),
            }
        }
        Ok(due)
    }

    /// Ends the waiting deliveries of a deleted endpoint, except leased ones, which their client may still settle. If
    /// some are left, the next sweep looks again.
    pub async fn end_waiting(&self, ending: &Ending, now: Timestamp, end: Instant) -> Result<()> {
        let mut is_any_left = false;
        for shard in Shard::first(DestinationId::Endpoint(ending.endpoint), SHARDS) {
            for partition in ending.partitions(shard) {
                let keys = self.query(OPEN.equals(text(partition))).index_name(INDEX);
                let mut pages = pin!(query_pages(select(keys, &[DELIVERY]).limit(PAGE_SIZE), DOING));
                while let Some(page) = pages.try_next().await? {
                    if Instant::now() >= end {
                        return Ok(());
                    }
                    let ids: Vec<_> = page.iter().filter_map(|item| id(shard, item)).collect();
                    let states = self.readable(&ending.tenant, &ids).await?;
                    let calls = states.values().map(|delivery| self.end_one(&ending.tenant, delivery, now));
                    let mut ended = stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY);
                    while let Some(is_left) = ended.next().await {
                        is_any_left |= is_left?;
                    }
                }
            }
        }
        if is_any_left { Ok(()) } else { self.pass_ending(ending, now < ending.noted_at.after(LAST_LOOK)).await }
    }

    /// Ends a delivery, if it waits. Returns whether it still does.
    async fn end_one(&self, tenant: &TenantId, before: &Delivery, now: Timestamp) -> Result<bool> {
        let waits = match &before.pull {
            Some(_) => before.needs_payload(),
            None => before.status == Status::Held,
        };
        if !waits {
            return Ok(false);
        }
        if before.pull.is_some() && !before.waits_for_client(now) {
            return Ok(true);
        }
        let is_ended = self.stop_waiting(tenant, before, &before.ended()).await?;
        if is_ended {
            crate::log!("delivery.ended", %tenant, delivery_id = %before.id, attempts = before.attempts);
        }
        Ok(!is_ended)
    }

    /// Ends the work on this item, or postpones it until the last look, unless the item was written again.
    pub async fn pass_ending(&self, ending: &Ending, is_looked_at_again: bool) -> Result<()> {
        let update = self.update(ending.key()).only_if(LOOK_AT.equals(number(ending.look_at.as_millisecond())));
        let update = match is_looked_at_again {
            true => update.set(LOOK_AT, number(ending.noted_at.after(LAST_LOOK).as_millisecond())),
            false => update.remove([OPEN]),
        };
        update.send(&self.dynamodb, DOING).await.map(drop)
    }
}

/// The partition of a tenant's items.
pub(super) fn partition(tenant: &TenantId) -> String {
    format!("{PREFIX}{tenant}")
}
