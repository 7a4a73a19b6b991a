//! The pages of a recovery: deliveries that are read and resent together, by one process at a time.
//!
//! A process takes the recovery's lease for a page, and releases it when it saves the progress. If the process dies, the
//! lease expires, and another process repeats the page. The pages of all of a tenant's recoveries share a pace, which is
//! the time up to which their attempts are already scheduled.

use std::{
    ops::ControlFlow::{Break, Continue},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use aws_sdk_dynamodb::types::ReturnValue;
use futures::{StreamExt, TryStreamExt, stream};

use super::{AFTER, BEGUN, LogPosition, OF, RESENT, Recovery, SHARD, partition, recovery_key, statuses};
use crate::{
    aws::{
        batch::CONCURRENCY,
        dynamo::{ItemReader, attributes, boolean, number, query_page, text},
        retry_conflicts,
    },
    error::{Error, Result},
    id::{LeaseId, RecoveryId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DeliveryId, DestinationId, SHARDS, Shard, Status},
        log::{
            items::{EXPIRES_AT, LEASE, OPEN},
            recovery::Missed,
            search::{Filter, id},
            table::{DeliveryLog, ItemKey, index_key},
        },
    },
};

/// The maximum number of deliveries in a page.
pub const PAGE_SIZE: usize = 100;
/// The time that each delivery adds to the pace: a hundred deliveries are sent per second.
pub const DELIVERY_INTERVAL: Duration = Duration::from_millis(10);
/// Attempts are scheduled this far ahead, which is longer than the time between two sweeps.
const SCHEDULE_AHEAD: Duration = Duration::from_secs(75);
/// A lease expires after this time, which is longer than a page takes.
const LEASE_DURATION: Duration = Duration::from_secs(30);
/// The number of shards that are read together.
const SHARD_CONCURRENCY: usize = 16;

attributes! { TAKEN_UNTIL = "taken_until", PACED_UNTIL = "paced_until", }

/// A shard that a recovery reads, with the statuses of the deliveries that it resends from there.
#[derive(Clone, Copy, Debug)]
pub struct RecoverySource {
    shard: Shard,
    statuses: &'static [Status],
}

/// An active endpoint's part of the log.
#[derive(Clone, Debug)]
pub struct Active {
    pub shards: Vec<Shard>,
    /// Whether its held deliveries wait for a client, and have not been missed.
    pub is_pull: bool,
}

/// A page of deliveries, and the place in the log that follows it.
#[derive(Debug)]
pub struct RecoveryPage {
    pub ids: Vec<DeliveryId>,
    /// `None` if it is the last page.
    end: Option<LogPosition>,
}

impl RecoveryPage {
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.end.is_none()
    }
}

impl Recovery {
    /// The parts of the log that the recovery reads, in order. `active` lists the active endpoints among those of the
    /// recovery: the organization's, or only one.
    #[must_use]
    pub fn sources(&self, active: &[Active]) -> Vec<RecoverySource> {
        let all = statuses(self.selection.status);
        let of_pull = match self.selection.status {
            Missed::Both => statuses(Missed::Failed),
            Missed::Held => &[],
            Missed::Failed | Missed::Pending => all,
        };
        let source = |statuses| move |shard| RecoverySource { shard, statuses };
        if let Some(id) = self.selection.endpoint {
            let is_pull = active.iter().any(|endpoint| endpoint.is_pull);
            let statuses = if is_pull { of_pull } else { all };
            return Shard::first(DestinationId::Endpoint(id), SHARDS).map(source(statuses)).collect();
        }
        let endpoints = active.iter().flat_map(|Active { shards, is_pull }| {
            shards.iter().copied().map(source(if *is_pull { of_pull } else { all }))
        });
        let mut sources: Vec<_> =
            endpoints.chain(Shard::first(DestinationId::Callback, SHARDS).map(source(all))).collect();
        sources.sort_by_key(|source| source.shard);
        sources
    }

    /// Whether no page has been resent.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.resent == 0
    }

    /// Moves the recovery to the end of `page`, without saving it.
    pub fn pass(&mut self, page: RecoveryPage) {
        self.done = page.is_last();
        self.place = page.end.or(self.place.take());
    }
}

impl DeliveryLog {
    /// Takes the lease of a recovery for a page, and returns its current state. From now on, the recovery can no longer
    /// be extended, so its period is final. Returns `None` if it is done or was deleted, or if another process has taken
    /// it.
    pub async fn take_recovery(&self, tenant: &TenantId, id: RecoveryId, now: Timestamp) -> Result<Option<Recovery>> {
        let lease = text(LeaseId::generate());
        let is_free = TAKEN_UNTIL.is_absent().or(TAKEN_UNTIL.is_below(number(now.as_millisecond())));
        let update = self
            .update(recovery_key(tenant, id))
            .set(BEGUN, boolean(true))
            .set(LEASE, lease.clone())
            .set(TAKEN_UNTIL, number(now.after(LEASE_DURATION).as_millisecond()))
            // This call may already hold the lease, if the response to an earlier try was lost.
            .only_if(OPEN.exists().and(is_free.or(LEASE.equals(lease))));
        let taken = update.send_for(&self.dynamodb, ReturnValue::AllNew, "taking a recovery").await?;
        taken.as_ref().map(Recovery::from_item).transpose()
    }

    /// Stores the progress of a recovery and releases its lease, unless the lease has expired and been taken.
    pub async fn save_recovery(&self, tenant: &TenantId, recovery: &Recovery) -> Result<()> {
        let lease = recovery.lease.map(text).unwrap_or_else(|| text(""));
        let place = recovery.place.iter().flat_map(|LogPosition { shard, after }| {
            [(OF, text(shard.destination)), (SHARD, number(shard.number.into())), (AFTER, text(after))]
        });
        let update = self
            .update(recovery_key(tenant, recovery.id))
            .set(RESENT, number(recovery.resent.into()))
            .set_all(place)
            .remove([LEASE, TAKEN_UNTIL])
            .remove(recovery.done.then_some(OPEN))
            .only_if(LEASE.equals(lease));
        update.send(&self.dynamodb, "saving a recovery").await.map(drop)
    }

    /// Reserves the time for `number` deliveries of a tenant's recoveries, and returns when it begins. Returns `None` if
    /// enough attempts are scheduled, so that the next sweep should continue. A recovery that `is_new` does not wait for
    /// others: it begins now.
    pub async fn pace_recovery(
        &self,
        tenant: &TenantId,
        number_of_them: usize,
        is_new: bool,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        const DOING: &str = "pacing recoveries";
        let needed = DELIVERY_INTERVAL * u32::try_from(number_of_them).unwrap_or(u32::MAX);
        retry_conflicts((), |()| async move {
            let key: ItemKey = [partition(tenant), "#pace".to_owned()];
            let item = self.get_all(vec![key.clone()]).await?.remove(&key).unwrap_or_default();
            let before = ItemReader::new("pace", &item).optional_time(PACED_UNTIL);
            let start = before.unwrap_or(now).max(now);
            if !is_new && start.since(now) > SCHEDULE_AHEAD {
                return Ok(Break(None));
            }
            let (lease, ms) = (text(LeaseId::generate()), |time: Timestamp| number(time.as_millisecond()));
            let is_unchanged = before.map_or_else(|| PACED_UNTIL.is_absent(), |before| PACED_UNTIL.equals(ms(before)));
            // This call may already have reserved the time, if the response to an earlier try was lost.
            let is_unchanged = is_unchanged.or(LEASE.equals(lease.clone()));
            let update = self.update(key).set(PACED_UNTIL, ms(start.after(needed))).set(LEASE, lease);
            let update = update.set(EXPIRES_AT, self.expiry(now));
            Ok(match update.only_if(is_unchanged).send(&self.dynamodb, DOING).await? {
                true => Break(Some(if is_new { now } else { start })),
                false => Continue(()),
            })
        })
        .await
    }

    /// Reads the next page of the deliveries that a recovery resends: of each of the `sources` in turn, oldest first.
    /// A page can be empty although it is not the last.
    pub async fn recovery_page(
        &self,
        tenant: &TenantId,
        recovery: &Recovery,
        sources: &[RecoverySource],
        now: Timestamp,
    ) -> Result<RecoveryPage> {
        let first = match &recovery.place {
            Some(place) => sources.partition_point(|source| source.shard < place.shard),
            None => 0,
        };
        let next = sources.get(first..).unwrap_or_default().iter().take(SHARD_CONCURRENCY);
        let reads: Vec<_> = next.map(|source| self.missed(tenant, recovery, *source, now)).collect();
        let found: Vec<_> = stream::iter(reads).buffered(SHARD_CONCURRENCY).try_collect().await?;
        let (mut ids, mut end) =
            (Vec::new(), sources.get(first + found.len()).map(|next| LogPosition::before(next.shard)));
        for (source, found) in sources.iter().skip(first).zip(found) {
            let (room, is_full) = (PAGE_SIZE - ids.len(), found.len() == PAGE_SIZE);
            let is_cut = is_full || found.len() > room;
            ids.extend(found.into_iter().take(room));
            if is_cut {
                let last = ids.last().filter(|_| room > 0).map(DeliveryId::moment);
                end = Some(LogPosition { shard: source.shard, after: last.unwrap_or_default() });
                break;
            }
        }
        if recovery.selection.is_beyond_the_index() {
            let known = self.readable(tenant, &ids).await?;
            ids.retain(|id| known.get(id).is_some_and(|delivery| recovery.selection.passes(delivery)));
        }
        Ok(RecoveryPage { ids, end })
    }

    /// Reads the oldest deliveries in `source` that the recovery has not read.
    async fn missed(
        &self,
        tenant: &TenantId,
        recovery: &Recovery,
        RecoverySource { shard, statuses }: RecoverySource,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>> {
        let time = &recovery.selection.time;
        let filter = Filter { since: Some(time.start), until: Some(time.end), ..Filter::default() };
        let (from, to) = self.range(&filter, None, now).into_inner();
        let after = recovery.place.as_ref().filter(|place| place.shard == shard && !place.after.is_empty());
        // The position just after the last key. Keys have a fixed length.
        let from = after.map_or(from, |place| format!("{}+", place.after));
        let range = from.clone()..=to.max(from);
        let mut ids = Vec::new();
        for status in statuses {
            let query = self.query_index(index_key(tenant, shard, *status), &range);
            let oldest = query_page(query, PAGE_SIZE, "listing missed deliveries").await?;
            ids.extend(oldest.items.iter().filter_map(|item| id(shard, item)));
        }
        // `ids` contains the oldest deliveries of each status, and therefore the oldest of all.
        ids.sort_by_key(DeliveryId::moment);
        ids.truncate(PAGE_SIZE);
        Ok(ids)
    }

    /// Makes the deliveries in `ids` that the recovery still wants pending again, each at the time that `due` returns,
    /// and counts them. Returns them, and an error if others could not be resent: the call can be repeated.
    pub async fn resend_missed(
        &self,
        tenant: &TenantId,
        recovery: &mut Recovery,
        ids: &[DeliveryId],
        due: impl Fn() -> Timestamp,
        now: Timestamp,
    ) -> (Vec<Delivery>, Result<()>) {
        // If the partition is throttled, the remaining deliveries wait for the next call.
        let is_throttled = AtomicBool::new(false);
        let wanted = &*recovery;
        let calls = ids.iter().map(|id| (id, due())).map(async |(id, due)| {
            if is_throttled.load(Ordering::Relaxed) {
                return Err(Error::Busy);
            }
            let is_wanted = |delivery: &Delivery| wanted.resends(delivery, due);
            match self.resend_if(None, tenant, id, due, None, is_wanted, now).await {
                Ok(delivery) => Ok(Some(delivery)),
                // The delivery has been resent or has expired, or its payload was not kept.
                Err(Error::NotFound(_) | Error::Conflict(_)) => Ok(None),
                Err(Error::Busy) => {
                    is_throttled.store(true, Ordering::Relaxed);
                    Err(Error::Busy)
                }
                // It is unreadable, and must not stop the recovery.
                Err(_) if matches!(self.readable(tenant, &[*id]).await, Ok(known) if known.is_empty()) => Ok(None),
                Err(error) => {
                    crate::log!("delivery.resend_failed", %tenant, delivery_id = %id, ?error);
                    Err(error)
                }
            }
        });
        let calls: Vec<_> = calls.collect();
        let mut calls = stream::iter(calls).buffer_unordered(CONCURRENCY);
        let (mut resent, mut rest) = (Vec::new(), Ok(()));
        while let Some(call) = calls.next().await {
            match call {
                Ok(delivery) => resent.extend(delivery),
                Err(error) => rest = Err(error),
            }
        }
        drop(calls);
        recovery.resent = recovery.resent.saturating_add(resent.len().try_into().unwrap_or(u32::MAX));
        (resent, rest)
    }
}

impl LogPosition {
    /// The beginning of a shard.
    fn before(shard: Shard) -> Self {
        Self { shard, after: String::new() }
    }
}
