//! Recoveries: resending an endpoint's failed, held or pending deliveries from a period, at a limited rate.
//!
//! A recovery is an item with its progress, which is stored after every page. A page can be repeated safely, because
//! only deliveries that are still failed or held are resent. After a crash, `resent` does not count the deliveries of
//! the page whose progress was not stored. A pending delivery is resent only if its last attempt began before the
//! recovery was requested and its next attempt is later. A repeated page therefore does not resend it again, and an
//! attempt in progress is not repeated. Failed tests are not resent. Until a recovery has begun, further calls can
//! extend it.
//!
//! For each endpoint, another item names the latest recovery. A call that adds a recovery replaces this item on
//! condition that it is unchanged, so concurrent calls detect each other's recoveries.

use std::{
    ops::{
        ControlFlow::{Break, Continue},
        Range,
    },
    sync::atomic::{AtomicBool, Ordering},
};

pub use api::deliveries::Missed;
use aws_sdk_dynamodb::types::ReturnValue;
use futures::{StreamExt, stream};

use super::{
    items::{DELIVERY, DESTINATION, OPEN, STATUS},
    search::{Filter, id},
    table::{INDEX, Key, Log, index_key, key_of},
};
use crate::{
    audit::{self, Action, Entry, TargetKind, initial},
    aws::{
        batch::CONCURRENCY,
        dynamo::{Item, Record, attributes, boolean, number, query_all, query_page, text},
        expression::select,
        rounds,
        transaction::{Marker, Transaction},
    },
    error::{Conflict, Error, Result},
    id::{EndpointId, RecoveryId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, Delivery, DeliveryId, DestinationId, SHARDS, Shard, Status, Trigger},
};

/// A recovery and its progress.
#[derive(Clone, Debug)]
pub struct Recovery {
    pub id: RecoveryId,
    /// The id of the endpoint whose deliveries are resent.
    pub webhook_endpoint_id: EndpointId,
    /// The start of the period: deliveries that were created at this time or later are resent.
    pub since: Timestamp,
    /// The end of the period: deliveries that were created before this time are resent.
    pub until: Timestamp,
    /// The status of the deliveries that are resent.
    pub status: Missed,
    /// The number of deliveries that have been resent so far.
    pub resent: u32,
    /// Whether all deliveries in the period have been resent.
    pub done: bool,
    /// The number of the shard that is being read.
    shard: u8,
    /// The last key read in this shard.
    after: String,
    /// Whether the first page has been read or is being read.
    begun: bool,
}

/// The maximum number of deliveries that are resent between two saves.
pub const PAGE: usize = 100;
/// The maximum number of recoveries in a list, and the number of a tenant's recoveries that are searched for the list.
const LISTED: usize = 10;
const LOOKED_AT: usize = 200;
/// The maximum number of a tenant's unfinished recoveries. Concurrent calls may exceed it.
const UNFINISHED: usize = 100;
/// The partition of the index with the unfinished recoveries.
const UNFINISHED_PARTITION: &str = "recovery";
attributes! {
    ENDPOINT = "endpoint", SINCE = "since", UNTIL = "until", BEGUN = "begun", RESENT = "resent", SHARD = "shard",
    AFTER = "after",
    // The id of the latest recovery.
    RECOVERY = "recovery",
}

impl Log {
    /// Adds a recovery of the deliveries to `endpoint` that were created in `time` and have this status.
    ///
    /// If a recovery with the same status and an overlapping period has not begun, it is extended instead, so repeated
    /// calls do not add work. A recovery that has begun is not extended, because it may already have passed a delivery
    /// that failed recently.
    ///
    /// # Errors
    /// The tenant has too many unfinished recoveries.
    pub async fn start_recovery(
        &self,
        tenant: &TenantId,
        endpoint: EndpointId,
        time: Range<Timestamp>,
        status: Missed,
        marker: impl Fn(RecoveryId) -> Result<Option<Marker>>,
        now: Timestamp,
    ) -> Result<RecoveryId> {
        let (marker, time) = (&marker, &time);
        rounds((), |()| async move {
            let latest = self.latest_recovery(tenant, endpoint).await?;
            let recoveries = self.newest_recoveries(tenant).await?;
            let waiting = recoveries.iter().find(|other| {
                let overlaps = other.since <= time.end && time.start <= other.until;
                other.waits() && other.webhook_endpoint_id == endpoint && other.status == status && overlaps
            });
            let recovery =
                waiting.map_or_else(|| Recovery::new(endpoint, time, status), |waiting| waiting.widened(time));
            let call = marker(recovery.id)?;
            let transaction = Transaction::new("writing a recovery").once(call.as_ref());
            let changes = [
                initial("status", status.as_str()),
                initial("since", recovery.since),
                initial("until", recovery.until),
            ];
            let target = audit::target(TargetKind::Endpoint, endpoint, None);
            let transaction = match waiting {
                Some(waiting) if waiting.since <= time.start && time.end <= waiting.until && call.is_none() => {
                    return Ok(Break(recovery.id));
                }
                Some(_) => self.widen(transaction, tenant, &recovery),
                None if recoveries.iter().filter(|other| !other.done).count() >= UNFINISHED => {
                    return Err(Error::Conflict(Conflict::RecoveryLimit(UNFINISHED)));
                }
                None => self.add(transaction, tenant, &recovery, latest, now),
            };
            let entry = Entry::new(Action::RecoveryStarted, tenant, target).with(changes);
            match transaction.record(entry)?.first_refused(&self.dynamodb).await? {
                None => Ok(Break(recovery.id)),
                // The same call was made concurrently and came first. The caller reads its response.
                Some(0) if call.is_some() => Err(Error::Busy),
                // A concurrent call came first, or the recovery has begun.
                Some(_) => Ok(Continue(())),
            }
        })
        .await
    }

    /// Writes a new recovery, on condition that `latest` is still the endpoint's latest.
    fn add(
        &self,
        transaction: Transaction,
        tenant: &TenantId,
        recovery: &Recovery,
        latest: Option<String>,
        now: Timestamp,
    ) -> Transaction {
        let attributes = [
            (OPEN, text(UNFINISHED_PARTITION)),
            (ENDPOINT, text(recovery.webhook_endpoint_id)),
            (SINCE, number(recovery.since.as_millisecond())),
            (UNTIL, number(recovery.until.as_millisecond())),
            (STATUS, text(recovery.status)),
        ];
        let added = self.item(recovery_key(tenant, recovery.id), attributes, now);
        let last = latest_key(tenant, recovery.webhook_endpoint_id);
        let last = self.item(last, [(RECOVERY, text(recovery.id))], now);
        let is_latest = latest.map_or_else(|| DELIVERY.is_absent(), |latest| RECOVERY.equals(text(latest)));
        transaction.put_if(&self.table, last, is_latest).put(&self.table, added)
    }

    /// Extends the period of a recovery, if it has not begun and no other call has extended it further.
    fn widen(&self, transaction: Transaction, tenant: &TenantId, recovery: &Recovery) -> Transaction {
        let [since, until] = [recovery.since, recovery.until].map(|time| number(time.as_millisecond()));
        let is_wider = SINCE.is_at_least(since.clone()).and(UNTIL.is_at_most(until.clone()));
        let update = self.update(recovery_key(tenant, recovery.id)).set(SINCE, since).set(UNTIL, until);
        transaction.update(update.only_if(OPEN.exists().and(BEGUN.is_absent()).and(is_wider)))
    }

    /// Lists the newest recoveries of `tenant`, newest first, of one endpoint or of all.
    pub async fn recoveries(&self, tenant: &TenantId, endpoint: Option<EndpointId>) -> Result<Vec<Recovery>> {
        let recoveries = self.newest_recoveries(tenant).await?;
        let wanted = |recovery: &Recovery| endpoint.is_none_or(|endpoint| endpoint == recovery.webhook_endpoint_id);
        Ok(recoveries.into_iter().filter(wanted).take(LISTED).collect())
    }

    async fn newest_recoveries(&self, tenant: &TenantId) -> Result<Vec<Recovery>> {
        let keys = DESTINATION.equals(text(partition(tenant))).and(DELIVERY.is_above(text(BEFORE_IDS)));
        let query = self.query(keys).consistent_read(true).scan_index_forward(false);
        let newest = query_page(query, LOOKED_AT, "listing recoveries").await?;
        newest.items.iter().map(Recovery::from_item).collect()
    }

    /// Reads the id of the latest recovery of `endpoint`.
    async fn latest_recovery(&self, tenant: &TenantId, endpoint: EndpointId) -> Result<Option<String>> {
        let found = self.get(latest_key(tenant, endpoint), "reading the latest recovery").await?;
        found.map(|item| Record::new("latest recovery", &item).text(RECOVERY).map(str::to_owned)).transpose()
    }

    /// Lists the oldest unfinished recovery of each wanted tenant, starting with those that have resent the fewest
    /// deliveries. Running one recovery at a time limits the rate of each tenant, and keeps a tenant with many
    /// recoveries from delaying others.
    pub async fn open_recoveries(&self, is_wanted: impl Fn(&TenantId) -> bool) -> Result<Vec<(TenantId, Recovery)>> {
        let query = self.query(OPEN.equals(text(UNFINISHED_PARTITION))).index_name(INDEX);
        let keys = query_all(select(query, &[DESTINATION, DELIVERY]), "listing open recoveries").await?;
        let tenant = |partition: &str| -> Option<TenantId> { partition.strip_prefix(PREFIX)?.parse().ok() };
        let wanted =
            keys.iter().map(key_of).filter(|[partition, _]| tenant(partition).as_ref().is_some_and(&is_wanted));
        let mut open = Vec::new();
        for ([partition, _], item) in self.get_all(wanted.collect()).await? {
            // An unreadable recovery must not stop the other recoveries.
            match Recovery::from_item(&item) {
                Ok(recovery) => open.extend(tenant(&partition).filter(|_| !recovery.done).zip(Some(recovery))),
                Err(error) => crate::log!("recovery.unreadable", partition, ?error),
            }
        }
        open.sort_by(|(one, first), (other, second)| (one, first.id).cmp(&(other, second.id)));
        open.dedup_by(|(later, _), (tenant, _)| later == tenant);
        // A sweep may end before it gets to all of them.
        open.sort_by_key(|(_, recovery)| (recovery.resent, recovery.id));
        Ok(open)
    }

    /// Makes the next page of deliveries pending again, each at the time that `due` returns. Returns the reopened
    /// deliveries, and an error if others could not be reopened. If there is no error, moves `recovery` to the end of
    /// the page, without saving it.
    ///
    /// # Errors
    /// The page could not be read. The call can be repeated.
    pub async fn recover_page(
        &self,
        tenant: &TenantId,
        recovery: &mut Recovery,
        due: impl Fn() -> Timestamp,
        now: Timestamp,
    ) -> Result<(Vec<Delivery>, Result<()>)> {
        if recovery.waits() {
            // From now on, it can no longer be extended, so its period is final.
            let begin = self.update(recovery_key(tenant, recovery.id)).set(BEGUN, boolean(true));
            let begin = begin.only_if(DELIVERY.exists());
            match begin.send_for(&self.dynamodb, ReturnValue::AllNew, "beginning a recovery").await? {
                Some(begun) => *recovery = Recovery::from_item(&begun)?,
                // It has been deleted.
                None => recovery.done = true,
            }
        }
        if recovery.done {
            return Ok((Vec::new(), Ok(())));
        }
        let ids = self.missed(tenant, recovery, now).await?;
        let (resent, rest) = self.resend_missed(tenant, recovery, &ids, due, now).await;
        recovery.resent = recovery.resent.saturating_add(resent.len().try_into().unwrap_or(u32::MAX));
        if rest.is_ok() {
            match ids.last().filter(|_| ids.len() == PAGE) {
                Some(last) => recovery.after = last.moment(),
                None => (recovery.shard, recovery.after) = (recovery.shard.saturating_add(1), String::new()),
            }
            recovery.done = recovery.shard >= SHARDS;
        }
        Ok((resent, rest))
    }

    /// Resends the deliveries that the recovery still wants, each at the time that `due` returns. Returns the resent
    /// ones, and an error if others could not be resent.
    async fn resend_missed(
        &self,
        tenant: &TenantId,
        recovery: &Recovery,
        ids: &[DeliveryId],
        due: impl Fn() -> Timestamp,
        now: Timestamp,
    ) -> (Vec<Delivery>, Result<()>) {
        // If the partition is throttled, the remaining deliveries wait for the next call.
        let is_throttled = AtomicBool::new(false);
        let calls = ids.iter().map(|id| (id, due())).map(async |(id, due)| {
            if is_throttled.load(Ordering::Relaxed) {
                return Err(Error::Busy);
            }
            let is_wanted = |delivery: &Delivery| recovery.resends(delivery, due);
            match self.resend_if(tenant, id, (Trigger::Recovery, due), None, is_wanted, now).await {
                Ok(delivery) => Ok(Some(delivery)),
                // The delivery has been resent or has expired, or its payload was not kept.
                Err(Error::NotFound(_) | Error::Conflict(_)) => Ok(None),
                Err(Error::Busy) => {
                    is_throttled.store(true, Ordering::Relaxed);
                    Err(Error::Busy)
                }
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
        (resent, rest)
    }

    /// Reads the next page of the deliveries that the endpoint missed, oldest first.
    async fn missed(&self, tenant: &TenantId, recovery: &Recovery, now: Timestamp) -> Result<Vec<DeliveryId>> {
        let filter = Filter { since: Some(recovery.since), until: Some(recovery.until), ..Filter::default() };
        let (from, to) = self.range(&filter, None, now).into_inner();
        // The position just after the last key. Keys have a fixed length.
        let from = if recovery.after.is_empty() { from } else { format!("{}+", recovery.after) };
        let range = from.clone()..=to.max(from);
        let destination = DestinationId::Endpoint(recovery.webhook_endpoint_id);
        let shard = Shard { destination, number: recovery.shard };
        let mut ids = Vec::new();
        for status in statuses(recovery.status) {
            let query = self.query_index(index_key(tenant, shard, *status), &range);
            let oldest = query_page(query, PAGE, "listing missed deliveries").await?;
            ids.extend(oldest.items.iter().filter_map(|item| id(shard, item)));
        }
        // `ids` contains the oldest deliveries of each status, and therefore the oldest of both.
        ids.sort_by_key(DeliveryId::moment);
        ids.truncate(PAGE);
        Ok(ids)
    }

    /// Stores the progress of a recovery, unless it was deleted.
    pub async fn save_recovery(&self, tenant: &TenantId, recovery: &Recovery) -> Result<()> {
        let update = self
            .update(recovery_key(tenant, recovery.id))
            .set(RESENT, number(recovery.resent.into()))
            .set(SHARD, number(recovery.shard.into()))
            .set(AFTER, text(&recovery.after))
            .remove(recovery.done.then_some(OPEN))
            .only_if(DELIVERY.exists());
        update.send(&self.dynamodb, "saving a recovery").await.map(drop)
    }
}

fn statuses(missed: Missed) -> &'static [Status] {
    match missed {
        Missed::Failed => &[Status::Failed],
        Missed::Held => &[Status::Held],
        Missed::Both => &[Status::Failed, Status::Held],
        Missed::Pending => &[Status::Pending],
    }
}

impl Recovery {
    fn new(endpoint: EndpointId, time: &Range<Timestamp>, status: Missed) -> Self {
        Self {
            id: RecoveryId::generate(),
            webhook_endpoint_id: endpoint,
            since: time.start,
            until: time.end,
            status,
            resent: 0,
            done: false,
            shard: 0,
            after: String::new(),
            begun: false,
        }
    }

    /// Whether the recovery resends a delivery in this state, with an attempt at `due`. It does not resend pending
    /// deliveries to pull endpoints, which wait for a client, or those whose first or next attempt is already due.
    fn resends(&self, delivery: &Delivery, due: Timestamp) -> bool {
        match (self.status, delivery.status) {
            (Missed::Pending, Status::Pending) => {
                let is_before = |attempt: &Attempt| attempt.at < self.id.made_at();
                let is_new = delivery.tries == 0 && delivery.trigger == Trigger::Recovery;
                let is_retried = delivery.last_attempt.as_ref().is_some_and(is_before) && !is_new;
                is_retried && delivery.pull.is_none() && delivery.next_attempt_at.is_some_and(|next| next > due)
            }
            (Missed::Pending, _) => false,
            (_, status) => statuses(self.status).contains(&status),
        }
    }

    /// Returns the recovery, extended by `time`.
    fn widened(&self, time: &Range<Timestamp>) -> Self {
        Self { since: self.since.min(time.start), until: self.until.max(time.end), ..self.clone() }
    }

    /// Whether the recovery has not begun yet.
    fn waits(&self) -> bool {
        !self.done && !self.begun && self.shard == 0 && self.after.is_empty()
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = Record::new("recovery", item);
        Ok(Self {
            id: record.parsed(DELIVERY)?,
            webhook_endpoint_id: record.parsed(ENDPOINT)?,
            since: record.time(SINCE)?,
            until: record.time(UNTIL)?,
            status: record.optional_parsed(STATUS)?.unwrap_or_default(),
            resent: record.optional_integer(RESENT).unwrap_or(0),
            done: record.optional_text(OPEN).is_none(),
            shard: record.optional_integer(SHARD).unwrap_or(0),
            after: record.optional_text(AFTER).unwrap_or_default().to_owned(),
            begun: item.contains_key(BEGUN.name()),
        })
    }
}

/// The prefix of recovery partitions.
const PREFIX: &str = "recovery/";
/// A key that sorts before every id, and after the keys of items that name a latest recovery.
const BEFORE_IDS: &str = "$";

pub(super) fn partition(tenant: &TenantId) -> String {
    format!("{PREFIX}{tenant}")
}

fn recovery_key(tenant: &TenantId, id: RecoveryId) -> Key {
    [partition(tenant), id.to_string()]
}

fn latest_key(tenant: &TenantId, endpoint: EndpointId) -> Key {
    [partition(tenant), format!("#{endpoint}")]
}
