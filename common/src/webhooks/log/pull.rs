//! Deliveries to pull endpoints: receiving them under a lease, and settling the lease.
//!
//! A sparse index contains the deliveries that can be received now or later, sorted by the time when they become
//! available. For a leased delivery, this is the end of its lease; a settled delivery is not in the index. The index
//! lags behind the table, so a delivery is leased on condition that it is still due at the indexed time. Entries that
//! arrive late are found by later calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use aws_sdk_dynamodb::{
    operation::query::builders::QueryFluentBuilder,
    types::{ReturnValue, Select},
};
use futures::future::{join_all, try_join_all};

use super::{
    items::{DELIVERY, DESTINATION, DUE, LEASE, LEASE_ENDS, pull_attributes, read_or_log},
    payload,
    search::id,
    states::apart_key,
    table::{DeliveryLog, ItemKey, Row, keyed, shard_key, state_key},
};
use crate::{
    aws::{
        dynamo::{Item, ItemReader, number, query_page, text},
        expression::{Update, select},
        gathered_reads::ReadResult,
    },
    error::{Error, Result},
    id::{LeaseId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, DeliveryId, Lease, Payload, Pull, Shard, Status},
};

/// A received delivery.
pub struct ReceivedDelivery {
    /// The delivery, with its lease.
    pub delivery: Delivery,
    pub lease: LeaseId,
    pub ends: Timestamp,
    pub payload: Payload,
}

/// A leased delivery, with its payload if that is stored with its state.
struct Leased {
    delivery: Delivery,
    lease: LeaseId,
    ends: Timestamp,
    payload: Option<Payload>,
}

impl Leased {
    /// The key of the payload, if it is not stored with the state.
    fn apart(&self, tenant: &TenantId) -> Option<ItemKey> {
        self.payload.is_none().then(|| apart_key(tenant, &self.delivery))
    }
}

/// The numbers of deliveries waiting to be received, up to [`MAX_COUNTED`] each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCounts {
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
const MAX_INDEX_READS: usize = 3;
/// The typical duration of a lease.
const TYPICAL_LEASE: Duration = Duration::from_mins(1);
/// The maximum number of deliveries that an overview counts.
pub const MAX_COUNTED: usize = 1000;

/// An index entry: when a delivery becomes available, and its id.
type DueEntry = (Timestamp, DeliveryId);

impl DeliveryLog {
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
        mut has_room: impl FnMut(&ReceivedDelivery) -> bool,
        now: Timestamp,
    ) -> Result<Vec<ReceivedDelivery>> {
        let mut received = Vec::new();
        let all: Result<()> = async {
            let (mut passed, mut is_full) = (BTreeMap::new(), false);
            for _ in 0..MAX_INDEX_READS {
                let wanted = limit.saturating_sub(received.len());
                let due = self.due_for_taking(tenant, shards, wanted, &passed, now).await?;
                for some in due.chunks(LEASES) {
                    let mut settled = Ok(());
                    // An error must not keep the other leases of the chunk from being returned or released.
                    for lease in self.lease_all(tenant, some, now.after(lease_time)).await {
                        match lease {
                            Ok(None) => {}
                            Ok(Some(lease)) if !is_full && has_room(&lease) => received.push(lease),
                            Ok(Some(ReceivedDelivery { delivery, .. })) => {
                                is_full = true;
                                let released = self.settle(tenant, &delivery, &delivery.released(now), now).await;
                                settled = released.map(drop).and(settled);
                            }
                            Err(error) => settled = Err(error),
                        }
                    }
                    settled?;
                    if is_full {
                        return Ok(());
                    }
                }
                if due.len() < wanted || received.len() >= limit {
                    break;
                }
                passed.extend(due.into_iter().map(|due| (due.1.shard(), due)));
            }
            Ok(())
        }
        .await;
        match all {
            Err(error) if received.is_empty() => Err(error),
            Err(error) => {
                crate::log!("receive.incomplete", %tenant, ?error);
                Ok(received)
            }
            Ok(()) => Ok(received),
        }
    }

    /// Finds the first `limit` deliveries, by time, that can be received now. The search in each shard starts after the
    /// entry in `passed`.
    async fn due_for_taking(
        &self,
        tenant: &TenantId,
        shards: &[Shard],
        limit: usize,
        passed: &BTreeMap<Shard, DueEntry>,
        now: Timestamp,
    ) -> Result<Vec<DueEntry>> {
        let read = shards.iter().map(async |shard| {
            let query =
                select(self.index_of_due(tenant, *shard, Timestamp::from_millisecond(0), now), &[DELIVERY, DUE]);
            let after = passed.get(shard);
            let after = after.map(|(due, id)| keyed(state_key(tenant, id), [(DUE, number(due.as_millisecond()))]));
            let query = query.set_exclusive_start_key(after);
            let page = query_page(query, limit, "reading the deliveries to receive").await?;
            Ok::<Vec<_>, Error>(page.items.iter().filter_map(|item| due(*shard, item)).collect())
        });
        let mut read = try_join_all(read).await?.concat();
        read.sort_unstable();
        read.truncate(limit);
        Ok(read)
    }

    fn index_of_due(&self, tenant: &TenantId, shard: Shard, first: Timestamp, last: Timestamp) -> QueryFluentBuilder {
        let is_due = DUE.is_between(number(first.as_millisecond()), number(last.as_millisecond()));
        let keys = DESTINATION.equals(text(shard_key(tenant, shard))).and(is_due);
        self.query(keys).index_name(INDEX)
    }

    /// Leases deliveries. One call reads the payloads that are not stored with their states.
    async fn lease_all(
        &self,
        tenant: &TenantId,
        due: &[DueEntry],
        ends: Timestamp,
    ) -> Vec<Result<Option<ReceivedDelivery>>> {
        let leased = join_all(due.iter().map(|due| self.lease(tenant, *due, ends))).await;
        let apart: BTreeSet<_> = leased.iter().flatten().flatten().filter_map(|leased| leased.apart(tenant)).collect();
        let (found, error) = self.get_some(apart.into_iter().collect(), true).await;
        if let Some(error) = error {
            crate::log!("log.unread", ?error, unread = found.unread.len());
        }
        let received = leased.into_iter().map(async |leased| match leased? {
            Some(leased) => self.received(tenant, leased, &found).await,
            None => Ok(None),
        });
        join_all(received).await
    }

    /// Leases a delivery, if it is still due at the indexed time. Another client may have received or settled it.
    async fn lease(&self, tenant: &TenantId, (due, id): DueEntry, ends: Timestamp) -> Result<Option<Leased>> {
        let lease = LeaseId::generate();
        let pull = Pull { due: Some(ends), lease: Some(Lease { id: lease, ends: Some(ends) }) };
        let update = self.update(state_key(tenant, &id)).set_all(pull_attributes(&pull));
        // This call may already hold the lease, if the response to an earlier try was lost.
        let update = update.only_if(DUE.equals(number(due.as_millisecond())).or(LEASE.equals(text(lease))));
        let leased = update.send_for(&self.dynamodb, ReturnValue::AllNew, "leasing a delivery").await?;
        let Some(state) = leased else { return Ok(None) };
        let Some(delivery) = read_or_log(tenant, id, &state) else { return Ok(None) };
        let payload = payload::read(tenant, &id, &state);
        Ok(Some(Leased { delivery, lease, ends, payload }))
    }

    async fn received(
        &self,
        tenant: &TenantId,
        leased: Leased,
        found: &ReadResult<ItemKey, Item>,
    ) -> Result<Option<ReceivedDelivery>> {
        let apart = leased.apart(tenant);
        let Leased { delivery, lease, ends, mut payload } = leased;
        if let Some(key) = apart {
            if found.unread.contains(&key) {
                return Err(Error::Busy);
            }
            if let Some(first) = found.values.get(&key) {
                payload = payload::read(tenant, &delivery.id, &self.whole(first.clone()).await?);
            }
        }
        if payload.is_none() {
            // The delivery becomes due again after its lease, and eventually fails.
            crate::log!("payload.missing", %tenant, delivery_id = %delivery.id);
        }
        Ok(payload.map(|payload| ReceivedDelivery { delivery, lease, ends, payload }))
    }

    /// Settles the lease of `before` by changing the state to `after`. Returns `false` if the lease is no longer
    /// current.
    ///
    /// # Errors
    /// The delivery may be settled even if an error is returned, because the subsequent deletion of a large payload can
    /// fail.
    pub async fn settle(&self, tenant: &TenantId, before: &Delivery, after: &Delivery, now: Timestamp) -> Result<bool> {
        self.put_all(self.earlier_row(tenant, before, after, now)).await?;
        let Some(update) = self.settlement(tenant, before, after) else { return Ok(false) };
        let is_settled = update.send(&self.dynamodb, "settling a delivery").await?;
        if is_settled {
            self.forget_settled(tenant, after).await?;
        }
        Ok(is_settled)
    }

    /// Settles leases like [`Self::settle`], each of another leased delivery, in batches. Returns whether each was settled;
    /// `false` includes failed calls, after which it is unknown. The caller uses [`Self::settle`] for those deliveries.
    ///
    /// # Errors
    /// Deliveries may be settled even if an error is returned.
    pub async fn settle_all(
        &self,
        tenant: &TenantId,
        changes: &[(&Delivery, Delivery)],
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        let updates = changes.iter().map(|(before, after)| self.settlement(tenant, before, after));
        let Some(updates) = updates.collect::<Option<Vec<_>>>() else { return Ok(vec![false; changes.len()]) };
        self.put_all(changes.iter().filter_map(|(before, after)| self.earlier_row(tenant, before, after, now))).await?;
        let settled = self.execute(updates.into_iter().map(Update::into_statement).collect()).await;
        let settled: Vec<_> = settled.iter().map(Result::is_ok).collect();
        let after = changes.iter().zip(&settled).filter_map(|((_, after), is_settled)| is_settled.then_some(after));
        try_join_all(after.map(|after| self.forget_settled(tenant, after))).await?;
        Ok(settled)
    }

    fn earlier_row(&self, tenant: &TenantId, before: &Delivery, after: &Delivery, now: Timestamp) -> Option<Row> {
        let is_attempted = after.attempts > before.attempts;
        is_attempted.then(|| self.attempts_row(tenant, before, after, now)).flatten()
    }

    /// Builds the update that settles the lease of `before`, or `None` if it has none. A settled lease has no end. The
    /// conditions compare with values, because the update is also a statement.
    fn settlement(&self, tenant: &TenantId, before: &Delivery, after: &Delivery) -> Option<Update> {
        let Lease { id, ends } = before.pull.as_ref()?.lease?;
        let is_leased = LEASE.equals(text(id)).and(LEASE_ENDS.equals(number(ends?.as_millisecond())));
        Some(self.attempted(tenant, after).only_if(is_leased))
    }

    /// Deletes the payload of a delivery that has been settled with success, if it is too large to be kept.
    async fn forget_settled(&self, tenant: &TenantId, after: &Delivery) -> Result<()> {
        let is_kept = after.status != Status::Delivered || !after.is_large || after.is_shared || after.is_thin;
        if is_kept { Ok(()) } else { self.forget_large_apart(tenant, &after.id).await }
    }

    /// Counts the deliveries waiting to be received, up to [`MAX_COUNTED`].
    pub async fn waiting(&self, tenant: &TenantId, shards: &[Shard], now: Timestamp) -> Result<WaitingCounts> {
        let next = Timestamp::from_millisecond(now.as_millisecond().saturating_add(1));
        let (due, leased) = tokio::try_join!(
            self.count_due(tenant, shards, Timestamp::from_millisecond(0), now),
            self.count_due(tenant, shards, next, now.after(TYPICAL_LEASE)),
        )?;
        Ok(WaitingCounts { due, leased })
    }

    async fn count_due(&self, tenant: &TenantId, shards: &[Shard], first: Timestamp, last: Timestamp) -> Result<usize> {
        let most = MAX_COUNTED / shards.len().max(1);
        let counted = shards.iter().map(async |shard| {
            let query = self.index_of_due(tenant, *shard, first, last).select(Select::Count);
            Ok::<_, Error>(query_page(query, most, "counting the deliveries to receive").await?.read)
        });
        Ok(try_join_all(counted).await?.into_iter().sum())
    }
}

fn due(shard: Shard, item: &Item) -> Option<DueEntry> {
    Some((ItemReader::new("delivery", item).optional_time(DUE)?, id(shard, item)?))
}
