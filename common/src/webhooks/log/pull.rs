//! Deliveries to pull endpoints: receiving them under a lease, and settling the lease.
//!
//! A sparse index contains the deliveries that can be received now or later, sorted by the time when they become
//! available. For a leased delivery, this is the end of its lease; a settled delivery is not in the index. The index
//! lags behind the table, so a delivery is leased on condition that it is still due at the indexed time. Entries that
//! arrive late are found by later calls.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_dynamodb::{
    operation::query::builders::QueryFluentBuilder,
    types::{ReturnValue, Select},
};
use bytes::Bytes;
use futures::{StreamExt, future::try_join_all, stream};

use super::{
    items::{DELIVERY, DESTINATION, DUE, LEASE, LEASE_ENDS, pull_attributes, read_delivery},
    payload,
    search::id,
    table::{Log, PAYLOAD, details_key, shard_key, state_key},
};
use crate::{
    aws::{
        dynamo::{Item, Record, get, number, text},
        expression::{query, select},
        failure,
    },
    error::{Error, Result},
    id::{LeaseId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DeliveryId, Lease, Pull, Shard, Status},
        event::TraceParent,
    },
};

/// A received delivery.
pub struct Taken {
    /// The delivery, with its lease.
    pub delivery: Delivery,
    pub lease: LeaseId,
    pub ends: Timestamp,
    pub body: Bytes,
    /// The trace that the job belongs to.
    pub trace: Option<TraceParent>,
}

/// The numbers of deliveries waiting to be received, up to [`MOST_COUNTED`] each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Deliveries that can be received now.
    pub due: usize,
    /// Leased deliveries, and deliveries that become due within a minute.
    pub leased: usize,
}

/// The index of the deliveries that can be received.
const INDEX: &str = "by-due";
/// The maximum number of concurrent leases in a call. Their bodies may be large.
const LEASES: usize = 10;
/// The maximum number of reads of the index while other clients receive the found deliveries first.
const LOOKS: usize = 3;
/// The typical duration of a lease.
const SOON: Duration = Duration::from_secs(60);
/// The maximum number of deliveries that an overview counts.
pub const MOST_COUNTED: usize = 1000;

/// An index entry: when a delivery becomes available, and its id.
type Due = (Timestamp, DeliveryId);

impl Log {
    /// Leases up to `limit` of an endpoint's deliveries, longest due first. A delivery that `has_room` rejects is
    /// released immediately and not returned.
    ///
    /// # Errors
    /// A call to AWS failed before a delivery was leased. If it fails later, the leased deliveries are returned.
    pub async fn take(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        limit: usize,
        lease_time: Duration,
        mut has_room: impl FnMut(&Taken) -> bool,
        now: Timestamp,
    ) -> Result<Vec<Taken>> {
        let (mut taken, mut passed, mut is_full, mut failed) = (Vec::new(), BTreeMap::new(), false, None);
        for _ in 0..LOOKS {
            let wanted = limit.saturating_sub(taken.len());
            let due = match self.due_for_taking(tenant, shards, wanted, &passed, now).await {
                Ok(due) => due,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            for some in due.chunks(LEASES) {
                if is_full || failed.is_some() {
                    break;
                }
                let leases: Vec<_> = some.iter().map(|due| self.lease(tenant, *due, now.after(lease_time))).collect();
                for lease in stream::iter(leases).buffered(LEASES).collect::<Vec<_>>().await {
                    match lease {
                        Ok(None) => {}
                        Ok(Some(lease)) if !is_full && has_room(&lease) => taken.push(lease),
                        Ok(Some(lease)) => {
                            is_full = true;
                            let (leased, released) = (&lease.delivery, lease.delivery.released(now));
                            failed = self.settle(tenant, leased, &released, now).await.err().or(failed);
                        }
                        Err(error) => failed = Some(error),
                    }
                }
            }
            if due.len() < wanted || taken.len() >= limit || is_full || failed.is_some() {
                break;
            }
            passed.extend(due.into_iter().map(|due| (due.1.shard(), due)));
        }
        match failed {
            Some(error) if taken.is_empty() => Err(error),
            Some(error) => {
                crate::log!("receive.incomplete", %tenant, ?error);
                Ok(taken)
            }
            None => Ok(taken),
        }
    }

    /// Finds the first `limit` deliveries, by time, that can be received now. The search in each shard starts after the
    /// entry in `passed`.
    async fn due_for_taking(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        limit: usize,
        passed: &BTreeMap<Shard, Due>,
        now: Timestamp,
    ) -> Result<Vec<Due>> {
        let read = shards.iter().map(async |shard| {
            let query = self.index_of_due(tenant, *shard, Timestamp::from_millisecond(0), now);
            let behind = passed.get(shard).map(|(due, id)| {
                let mut key = state_key(tenant, id);
                key.extend([DUE.with(number(due.as_millisecond()))]);
                key
            });
            let limit = i32::try_from(limit).unwrap_or(i32::MAX);
            let query = select(query.set_exclusive_start_key(behind).limit(limit), &[DELIVERY, DUE]);
            let answer = Box::pin(query.send()).await.map_err(failure("reading the deliveries to receive"))?;
            Ok::<_, Error>(answer.items.unwrap_or_default().iter().filter_map(|item| due(*shard, item)).collect())
        });
        let mut read: Vec<Due> = try_join_all(read).await?.into_iter().flat_map(|read: Vec<Due>| read).collect();
        read.sort_unstable();
        read.truncate(limit);
        Ok(read)
    }

    fn index_of_due(&self, tenant: &TenantId, shard: Shard, first: Timestamp, last: Timestamp) -> QueryFluentBuilder {
        let is_due = DUE.is_between(number(first.as_millisecond()), number(last.as_millisecond()));
        let keys = DESTINATION.equals(text(shard_key(tenant, shard))).and(is_due);
        query(&self.dynamodb, &self.table, keys).index_name(INDEX)
    }

    /// Leases a delivery, if it is still due at the indexed time. Another client may have received or settled it.
    async fn lease(&self, tenant: &TenantId, (due, id): Due, ends: Timestamp) -> Result<Option<Taken>> {
        let lease = LeaseId::generate();
        let pull = Pull { due: Some(ends), lease: Some(Lease { id: lease, ends: Some(ends) }) };
        let update = self.update(state_key(tenant, &id)).set_all(pull_attributes(&pull));
        let update = update.only_if(DUE.equals(number(due.as_millisecond())));
        let leased = update.send_for(&self.dynamodb, ReturnValue::AllNew, "leasing a delivery").await?;
        let Some(item) = leased else { return Ok(None) };
        let delivery = read_delivery(id, &item)?;
        let mut found = content(&item)?;
        if found.is_none() {
            let key = details_key(tenant, &id, PAYLOAD);
            let apart = get(&self.dynamodb, &self.table, key, "reading a payload").await?;
            found = apart.as_ref().map_or(Ok(None), content)?;
        }
        if found.is_none() {
            // The delivery becomes due again after its lease, and eventually fails.
            crate::log!("payload.missing", %tenant, delivery_id = %id);
        }
        Ok(found.map(|(body, trace)| Taken { delivery, lease, ends, body, trace }))
    }

    /// Settles the lease of `before` by changing the state to `after`. Returns `false` if the lease is no longer
    /// current.
    ///
    /// # Errors
    /// The delivery may be settled even if an error is returned, because the subsequent deletion of a large payload can
    /// fail.
    pub async fn settle(&self, tenant: &TenantId, before: &Delivery, after: &Delivery, now: Timestamp) -> Result<bool> {
        let Some(lease) = before.pull.as_ref().and_then(|pull| pull.lease) else { return Ok(false) };
        let is_attempted = after.attempts > before.attempts;
        let earlier = is_attempted.then(|| self.attempts_row(tenant, before, after, now)).flatten();
        self.put_all(earlier).await?;
        let update = self.attempted(tenant, after).only_if(LEASE.equals(text(lease.id)).and(LEASE_ENDS.exists()));
        let is_settled = update.send(&self.dynamodb, "settling a delivery").await?;
        if is_settled && after.status == Status::Delivered {
            self.forget_large_apart(tenant, &after.id).await?;
        }
        Ok(is_settled)
    }

    /// Counts the deliveries waiting to be received, up to [`MOST_COUNTED`].
    pub async fn waiting(&self, tenant: &TenantId, shards: &[Shard], now: Timestamp) -> Result<Waiting> {
        let next = Timestamp::from_millisecond(now.as_millisecond().saturating_add(1));
        let (due, leased) = tokio::try_join!(
            self.count_due(tenant, shards, Timestamp::from_millisecond(0), now),
            self.count_due(tenant, shards, next, now.after(SOON)),
        )?;
        Ok(Waiting { due, leased })
    }

    async fn count_due(&self, tenant: &TenantId, shards: &[Shard], first: Timestamp, last: Timestamp) -> Result<usize> {
        let limit = i32::try_from(MOST_COUNTED / shards.len().max(1)).unwrap_or(i32::MAX);
        let counted = shards.iter().map(async |shard| {
            let query = self.index_of_due(tenant, *shard, first, last).select(Select::Count).limit(limit);
            let answer = Box::pin(query.send()).await.map_err(failure("counting the deliveries to receive"))?;
            Ok::<_, Error>(usize::try_from(answer.count).unwrap_or_default())
        });
        Ok(try_join_all(counted).await?.into_iter().sum())
    }
}

fn due(shard: Shard, item: &Item) -> Option<Due> {
    let due = Record::new("delivery", item).optional_number(DUE).map(Timestamp::from_millisecond)?;
    Some((due, id(shard, item)?))
}

/// Reads the body and the trace in `item`, if there is a body.
fn content(item: &Item) -> Result<Option<(Bytes, Option<TraceParent>)>> {
    Ok(payload::body(item)?.map(|body| (body, payload::trace(item))))
}
