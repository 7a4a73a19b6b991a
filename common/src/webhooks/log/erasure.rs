//! Erases one delivery's payload and responses, or deletes all of a tenant's deliveries.
//!
//! The state of an erased delivery remains, with the time of the erasure. It is changed first, on condition that no
//! attempt is pending and no client has a lease. A delivery that waits at a pull endpoint ends. From then on, the payload
//! counts as deleted, and a resend that read it earlier fails. If a process stops before it has erased the separate
//! items, they are already invisible, and a repeated call erases them.
//! The payload that an event's deliveries share is deleted with the last of them: the states are marked first, so of
//! several concurrent calls, the last finds no other delivery. For a minute after the payload was stored, none of them
//! can be erased: the process that stored it may be about to write the state of another.
//!
//! An interrupted deletion of a tenant's deliveries can be repeated, too. Due rows, which contain only ids and times,
//! cannot be found by tenant; they expire.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow::{Break, Continue},
    time::Duration,
};

use aws_sdk_dynamodb::{operation::query::builders::QueryFluentBuilder, types::AttributeValue};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use super::{
    endings,
    items::*,
    parked_attempts, payload, recovery,
    search::id,
    states::{PASSING, only_if_waiting, standing},
    table::{DeliveryLog, details_partition, key_of, keyed, shard_key, shared_partition, state_key},
    totals,
};
use crate::{
    audit::{Entry, Recorder},
    aws::{
        batch::{CONCURRENCY, batch_write, delete_request, put_request},
        dynamo::{Attribute, Item, ItemReader, number, query_all, query_page, text},
        expression::select,
        retry_conflicts,
        transaction::Transaction,
    },
    error::{Conflict, Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, Delivery, DeliveryId, SHARDS, Shard, WebhookId},
};

/// The number of deliveries that are deleted at a time.
const PAGE_SIZE: usize = 250;
/// The number of a partition's items that are deleted at a time.
const DELETION_PAGE_SIZE: usize = 1000;
/// The time for which the process that has stored a shared payload relies on it, longer than any invocation.
const STORING_TIME: Duration = Duration::from_mins(1);
const ERASING: &str = "erasing a delivery";
const FORGETTING: &str = "forgetting deliveries";

impl DeliveryLog {
    /// Records that an erasure was requested.
    pub(in crate::webhooks) async fn record_erasure(&self, recorder: &Recorder, entry: Entry) -> Result<()> {
        Transaction::new("recording an erasure").record(recorder, entry)?.commit(&self.dynamodb).await
    }

    /// Erases a delivery. If it was already erased, the recorded time does not change. Returns the delivery as it was,
    /// for [`Self::erase_shared`] if it shares its payload with others.
    ///
    /// # Errors
    /// There is no such delivery, an attempt is pending, a client has a lease, or the payload that it shares was stored
    /// within a minute.
    pub async fn erase(&self, tenant: &TenantId, id: &DeliveryId, now: Timestamp) -> Result<Delivery> {
        let erased = retry_conflicts((), |()| async move {
            let (before, _) = self.visible(tenant, id, now).await?;
            if !before.can_be_erased(now) || self.is_relied_on(tenant, &before, now).await? {
                return Err(Error::Conflict(Conflict::DeliveryPending));
            }
            if before.erased_at.is_some() {
                return Ok(Break(before));
            }
            let update = self
                .update(state_key(tenant, id))
                .set(ERASED_AT, number(now.as_millisecond()))
                .set_all(bare_attributes(before.earlier.clone(), before.last_attempt.clone()))
                .remove(payload::ATTRIBUTES);
            // A delivery without its payload cannot be received any more.
            let update = match before.needs_payload() {
                true => update.replace(&PASSING, standing(tenant, &before.ended())),
                false => update,
            };
            let update = only_if_waiting(&before, update);
            Ok(if update.send(&self.dynamodb, ERASING).await? { Break(before) } else { Continue(()) })
        })
        .await?;
        self.erase_details(tenant, id).await?;
        Ok(erased)
    }

    /// Erases the items of an erased delivery beside its state. The call can be repeated.
    pub async fn erase_details(&self, tenant: &TenantId, id: &DeliveryId) -> Result<()> {
        let details = query_all(self.partition(details_partition(tenant, id)), ERASING).await?;
        let writes = details.into_iter().map(|mut item| match key_of(&item) {
            [partition, part] if payload::is_part(&part) => Ok(delete_request(keyed([partition, part], []))),
            _ => {
                let (earlier, last) = read_attempts(&item)?;
                item.extend(bare_attributes(earlier, last).map(|(name, value)| name.with(value)));
                Ok(put_request(item))
            }
        });
        batch_write(&self.dynamodb, &self.table, writes.collect::<Result<Vec<_>>>()?, ERASING).await
    }

    /// Whether the payload that the delivery shares was stored so recently that another delivery may be about to need it.
    pub async fn is_relied_on(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Result<bool> {
        let shared = if delivery.is_shared { self.apart(tenant, delivery).await? } else { None };
        let stored_at = shared.and_then(|item| ItemReader::new("payload", &item).optional_time(SHARED_AT));
        Ok(stored_at.is_some_and(|at| now < at.after(STORING_TIME)))
    }

    /// Deletes the payloads that erased deliveries shared, unless another delivery of the same event is left. `shards`
    /// are all of the tenant's.
    pub async fn erase_shared(&self, tenant: &TenantId, erased: &[Delivery], shards: &[Shard]) -> Result<()> {
        let different: BTreeMap<_, _> =
            erased.iter().map(|delivery| (shared_partition(tenant, delivery), delivery)).collect();
        let keys = different.into_iter().map(async |(partition, delivery)| {
            let others = shards.iter().filter_map(|shard| other(tenant, delivery, *shard)).collect::<Vec<_>>();
            let known = self.known(tenant, &others).await?;
            match known.values().any(|other| other.is_shared && other.erased_at.is_none()) {
                true => Ok(Vec::new()),
                false => query_all(self.keys_in(partition), ERASING).await,
            }
        });
        let keys: Vec<Vec<Item>> =
            stream::iter(keys.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        batch_write(&self.dynamodb, &self.table, keys.concat().into_iter().map(delete_request), ERASING).await
    }

    /// Deletes a shard's oldest deliveries, with their payloads and attempts. Returns whether there are more.
    pub async fn forget_page(&self, tenant: &TenantId, shard: Shard) -> Result<bool> {
        let states = self.partition(shard_key(tenant, shard));
        let states = select(states, &[DESTINATION, DELIVERY, SHARED, EVENT, JOB_ID]);
        let states = query_page(states, PAGE_SIZE, FORGETTING).await?;
        let shared: BTreeSet<_> = states.items.iter().filter_map(|state| shared(tenant, shard, state)).collect();
        let details = states.items.iter().map(|state| {
            let [shard, moment] = key_of(state);
            format!("{shard}/{moment}")
        });
        let details = details.chain(shared).map(|partition| query_all(self.keys_in(partition), FORGETTING));
        let details: Vec<Vec<Item>> =
            stream::iter(details.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        // The states are deleted last, because the other items are found through them.
        let keys = |items: Vec<Item>| items.iter().map(|item| keyed(key_of(item), [])).collect::<Vec<_>>();
        for keys in [details.concat(), keys(states.items)] {
            batch_write(&self.dynamodb, &self.table, keys.into_iter().map(delete_request), FORGETTING).await?;
        }
        Ok(states.last.is_some())
    }

    /// Deletes a deleted organization's recoveries, the items of its deleted endpoints, its parked attempts and its index,
    /// until `end`. Returns whether all are deleted.
    pub async fn forget_partitions(&self, tenant: &TenantId, end: Instant) -> Result<bool> {
        let of_tenant = [recovery::partition, endings::partition, parked_attempts::partition, totals::partition];
        for partition in of_tenant {
            loop {
                let page = query_page(self.keys_in(partition(tenant)), DELETION_PAGE_SIZE, FORGETTING).await?;
                let keys = page.items.into_iter().map(delete_request);
                batch_write(&self.dynamodb, &self.table, keys, FORGETTING).await?;
                if page.last.is_none() {
                    break;
                }
                if Instant::now() >= end {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn keys_in(&self, partition: String) -> QueryFluentBuilder {
        select(self.partition(partition), &[DESTINATION, DELIVERY])
    }

    fn partition(&self, partition: String) -> QueryFluentBuilder {
        self.query(DESTINATION.equals(text(partition))).consistent_read(true)
    }
}

/// The delivery of the same event as `of` to the endpoint of a shard, if it would be in this shard.
fn other(tenant: &TenantId, of: &Delivery, shard: Shard) -> Option<DeliveryId> {
    let endpoint = shard.destination.endpoint()?;
    let webhook_id = WebhookId::of(tenant, &of.job_id, of.event.as_str(), &endpoint.to_string());
    let is_here = shard.number == 0 || shard.number == webhook_id.shard(SHARDS);
    is_here.then_some(DeliveryId { destination: shard.destination, shard: shard.number, at: of.id.at, webhook_id })
}

/// The partition with the payload that a stored delivery shares with others, if it does. If the state is unreadable, the
/// payload expires, because the deletion of the others must go on.
fn shared(tenant: &TenantId, shard: Shard, state: &Item) -> Option<String> {
    let record = ItemReader::new("delivery", state);
    let id = id(shard, state).filter(|_| record.optional_boolean(SHARED) == Some(true))?;
    let delivery = Delivery::new(id, record.parsed(EVENT).ok()?, record.text(JOB_ID).ok()?.to_owned());
    Some(shared_partition(tenant, &delivery))
}

/// The attributes of attempts without the receiver's responses.
fn bare_attributes(earlier: Vec<Attempt>, last: Option<Attempt>) -> impl Iterator<Item = (Attribute, AttributeValue)> {
    let earlier: Vec<_> = earlier.into_iter().map(Attempt::bare).collect();
    attempts_attributes(&earlier, last.map(Attempt::bare).as_ref())
}
