//! Recoveries: resend the failed and held deliveries that an endpoint missed in a time range, at a bounded rate.
//!
//! A recovery is an item with its progress, which is stored after every page. A page is safe to repeat, since only
//! deliveries that are still failed or held are resent; after a crash, `resent` omits the deliveries of the page that
//! was not stored. Failed tests are left alone. Calls may join a recovery until it has begun.
//!
//! For each endpoint, another item names its latest recovery. A call that adds a recovery replaces that item on
//! condition that it is unchanged, so that concurrent calls notice each other's recoveries.

use std::{
    collections::HashSet,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use aws_sdk_dynamodb::types::{Put, ReturnValue};
use futures::{StreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    search::{Filter, KeyRange, id},
    table::{CONCURRENCY, INDEX, Log, key},
};
use crate::{
    aws::{
        dynamo::{Item, Record, boolean, change, is_refused, item, number, query_all, text},
        failure,
        transaction::{Marker, Transaction},
    },
    error::{Conflict, Error, Result},
    id::{EndpointId, NotAnId, RecoveryId, TenantId, names},
    issue::Problem,
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, DeliveryId, DestinationId, SHARDS, Shard, Status, Trigger},
};

/// A recovery and its progress.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Recovery {
    /// The id of the recovery.
    #[serde(rename = "recovery_id")]
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
    /// Whether all of these deliveries have been resent.
    pub done: bool,
    /// The number of the shard that is being read.
    #[serde(skip)]
    shard: u8,
    /// The last key of that shard that was read.
    #[serde(skip)]
    after: String,
    /// Whether its first page has been read, or is being read.
    #[serde(skip)]
    begun: bool,
}

/// The deliveries that a recovery resends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Failed deliveries.
    Failed,
    /// Held deliveries.
    Held,
    /// Failed and held deliveries.
    #[default]
    Both,
}

/// The number of deliveries that are resent between two saves.
pub const PAGE: usize = 100;
/// The number of recoveries in a list, and the number of a tenant's recoveries that are searched for it.
const LISTED: usize = 10;
const LOOKED_AT: i32 = 200;
/// The number of unfinished recoveries that a tenant may have. Concurrent calls may exceed it.
const UNFINISHED: usize = 100;
/// The number of times that a call starts over because a concurrent call was faster.
const ROUNDS: u32 = 10;
/// The partition of the index with the unfinished recoveries.
const OPEN: &str = "recovery";

impl Log {
    /// Adds a recovery of the deliveries to `endpoint` created in `time` with this status, and remembers the call.
    ///
    /// If a recovery of the same status and an overlapping time still waits, it is widened instead, so that repeated
    /// calls add no work. A recovery that has begun is never joined: it may have passed a recently failed delivery.
    ///
    /// # Errors
    /// The tenant has too many unfinished recoveries, or a call failed.
    pub async fn start_recovery(
        &self,
        tenant: &TenantId,
        endpoint: EndpointId,
        time: Range<Timestamp>,
        status: Missed,
        marker: impl Fn(RecoveryId) -> Result<Option<Marker>>,
        now: Timestamp,
    ) -> Result<RecoveryId> {
        for _ in 0..ROUNDS {
            let latest = self.latest_recovery(tenant, endpoint).await?;
            let recoveries = self.newest_recoveries(tenant).await?;
            let waiting = recoveries.iter().find(|other| {
                let overlaps = other.since <= time.end && time.start <= other.until;
                other.waits() && other.webhook_endpoint_id == endpoint && other.status == status && overlaps
            });
            let recovery =
                waiting.map_or_else(|| Recovery::new(endpoint, &time, status), |waiting| waiting.widened(&time));
            let call = marker(recovery.id)?;
            let transaction = Transaction::new("writing a recovery").once(call.as_ref());
            let transaction = match waiting {
                Some(waiting) if waiting.since <= time.start && time.end <= waiting.until && call.is_none() => {
                    return Ok(recovery.id);
                }
                Some(_) => self.widen(transaction, tenant, &recovery),
                None if recoveries.iter().filter(|other| !other.done).count() >= UNFINISHED => {
                    return Err(Error::Conflict(Conflict::RecoveryLimit(UNFINISHED)));
                }
                None => self.add(transaction, tenant, &recovery, latest, now),
            };
            match transaction.first_refused(&self.dynamodb).await? {
                None => return Ok(recovery.id),
                // The same call was made concurrently and was faster. The caller looks for its answer.
                Some(0) if call.is_some() => return Err(Error::Busy),
                // A concurrent call was faster, or the recovery has begun.
                Some(_) => {}
            }
        }
        Err(Error::Busy)
    }

    /// Writes a new recovery, on condition that `latest` is still the latest of the endpoint.
    fn add(
        &self,
        transaction: Transaction,
        tenant: &TenantId,
        recovery: &Recovery,
        latest: Option<String>,
        now: Timestamp,
    ) -> Transaction {
        let mut added = recovery_key(tenant, recovery.id);
        added.extend(item([
            ("open", text(OPEN)),
            ("endpoint", text(recovery.webhook_endpoint_id)),
            ("since", number(recovery.since.as_millisecond())),
            ("until", number(recovery.until.as_millisecond())),
            ("status", text(recovery.status)),
            ("expires_at", self.expiry(now)),
        ]));
        let mut last = latest_key(tenant, recovery.webhook_endpoint_id);
        last.extend(item([("recovery", text(recovery.id)), ("expires_at", self.expiry(now))]));
        let last = Put::builder().table_name(&self.table).set_item(Some(last));
        let last = match latest {
            Some(latest) => {
                last.condition_expression("recovery = :latest").expression_attribute_values(":latest", text(latest))
            }
            None => last.condition_expression("attribute_not_exists(delivery)"),
        };
        transaction.put(last).put(Put::builder().table_name(&self.table).set_item(Some(added)))
    }

    /// Stores the wider time of a recovery, if it still waits and no other call has widened it further.
    fn widen(&self, transaction: Transaction, tenant: &TenantId, recovery: &Recovery) -> Transaction {
        let key = recovery_key(tenant, recovery.id);
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(key));
        let [since, until] = [recovery.since, recovery.until].map(|time| number(time.as_millisecond()));
        let update = change(update, vec![("since", since), ("until", until)], &[])
            .condition_expression(
                "attribute_exists(#open) AND attribute_not_exists(begun) AND #since >= :since AND #until <= :until",
            )
            .expression_attribute_names("#open", "open");
        transaction.update_item(&update)
    }

    /// The newest recoveries of `tenant`, newest first: of one endpoint, or of all endpoints.
    pub async fn recoveries(&self, tenant: &TenantId, endpoint: Option<EndpointId>) -> Result<Vec<Recovery>> {
        let recoveries = self.newest_recoveries(tenant).await?;
        let wanted = |recovery: &Recovery| endpoint.is_none_or(|endpoint| endpoint == recovery.webhook_endpoint_id);
        Ok(recoveries.into_iter().filter(wanted).take(LISTED).collect())
    }

    async fn newest_recoveries(&self, tenant: &TenantId) -> Result<Vec<Recovery>> {
        let query = self.dynamodb.query().table_name(&self.table);
        let query = query
            .key_condition_expression("destination = :tenant AND delivery > :ids")
            .expression_attribute_values(":tenant", text(partition(tenant)))
            .expression_attribute_values(":ids", text(BEFORE_IDS));
        let answer = query.consistent_read(true).scan_index_forward(false).limit(LOOKED_AT).send().await;
        let items = answer.map_err(failure("listing recoveries"))?.items.unwrap_or_default();
        items.iter().map(Recovery::from_item).collect()
    }

    /// The id of the latest recovery of `endpoint`.
    async fn latest_recovery(&self, tenant: &TenantId, endpoint: EndpointId) -> Result<Option<String>> {
        let get = self.dynamodb.get_item().table_name(&self.table).set_key(Some(latest_key(tenant, endpoint)));
        let found = get.consistent_read(true).send().await.map_err(failure("reading the latest recovery"))?.item;
        found.map(|item| Record::new("latest recovery", &item).text("recovery").map(str::to_owned)).transpose()
    }

    /// The oldest unfinished recovery of each wanted tenant. One recovery at a time bounds the rate of each tenant, and
    /// keeps a tenant with many recoveries from delaying others.
    pub async fn open_recoveries(&self, is_wanted: impl Fn(&TenantId) -> bool) -> Result<Vec<(TenantId, Recovery)>> {
        let query = self.dynamodb.query().table_name(&self.table).index_name(INDEX);
        let query = query
            .key_condition_expression("#open = :recovery")
            .expression_attribute_names("#open", "open")
            .expression_attribute_values(":recovery", text(OPEN));
        let keys = query_all(query, "listing open recoveries").await?;
        let tenant = |partition: &str| -> Option<TenantId> { partition.strip_prefix(PREFIX)?.parse().ok() };
        let wanted = keys.into_iter().filter(|key| {
            let partition = key.get("destination").and_then(|partition| partition.as_s().ok());
            partition.and_then(|partition| tenant(partition)).is_some_and(|tenant| is_wanted(&tenant))
        });
        let mut open = Vec::new();
        for ([partition, _], item) in self.get(wanted.map(only_key).collect()).await? {
            let tenant = tenant(&partition);
            // An unreadable recovery must not stop the other recoveries.
            match Recovery::from_item(&item) {
                Ok(recovery) => open.extend(tenant.filter(|_| !recovery.done).map(|tenant| (tenant, recovery))),
                Err(error) => crate::log!("recovery.unreadable", partition, ?error),
            }
        }
        open.sort_by_key(|(_, recovery)| recovery.id);
        let mut tenants = HashSet::new();
        open.retain(|(tenant, _): &(TenantId, _)| tenants.insert(tenant.clone()));
        Ok(open)
    }

    /// Makes the next page of deliveries pending again, each at the time that `due` gives. Returns the reopened
    /// deliveries, and an error if others could not be reopened. Without an error, it moves `recovery` to the end of
    /// the page, unsaved.
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
            self.begin_recovery(tenant, recovery).await?;
        }
        if recovery.done {
            return Ok((Vec::new(), Ok(())));
        }
        let filter = Filter { since: Some(recovery.since), until: Some(recovery.until), ..Filter::default() };
        let KeyRange { from, to } = self.range(&filter, None, now);
        // The position just after the last key, since keys have a fixed length.
        let from = if recovery.after.is_empty() { from } else { format!("{}+", recovery.after) };
        let destination = DestinationId::Endpoint(recovery.webhook_endpoint_id);
        let shard = Shard { destination, number: recovery.shard };
        let ids = self.missed(tenant, shard, recovery.status, &KeyRange { to: to.max(from.clone()), from }).await?;
        // Once the partition is throttled, the remaining deliveries wait for the next call.
        let is_throttled = AtomicBool::new(false);
        let calls = ids.iter().map(|id| (id, due())).map(async |(id, due)| {
            if is_throttled.load(Ordering::Relaxed) {
                return Err(Error::Busy);
            }
            match self.resend(tenant, id, Trigger::Recovery, due, None, now).await {
                Ok(delivery) => Ok(Some(delivery)),
                // The delivery has been resent or has expired, or its payload was never kept.
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
        let (mut resent, mut failed) = (Vec::new(), None);
        while let Some(call) = calls.next().await {
            match call {
                Ok(delivery) => resent.extend(delivery),
                Err(error) => failed = Some(error),
            }
        }
        recovery.resent = recovery.resent.saturating_add(u32::try_from(resent.len()).unwrap_or(u32::MAX));
        if let Some(error) = failed {
            return Ok((resent, Err(error)));
        }
        match ids.last().filter(|_| ids.len() == PAGE) {
            Some(last) => recovery.after = last.moment(),
            None => (recovery.shard, recovery.after) = (recovery.shard.saturating_add(1), String::new()),
        }
        recovery.done = recovery.shard >= SHARDS;
        Ok((resent, Ok(())))
    }

    /// Closes a recovery to further calls, and reads its final time. A deleted recovery counts as done.
    async fn begin_recovery(&self, tenant: &TenantId, recovery: &mut Recovery) -> Result<()> {
        let key = recovery_key(tenant, recovery.id);
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(key));
        let update = change(update, vec![("begun", boolean(true))], &[]);
        let update = update.condition_expression("attribute_exists(delivery)").return_values(ReturnValue::AllNew);
        match update.send().await {
            Ok(answer) => *recovery = Recovery::from_item(&answer.attributes.unwrap_or_default())?,
            Err(error) if is_refused(&error) => recovery.done = true,
            Err(error) => return Err(failure("beginning a recovery")(error)),
        }
        Ok(())
    }

    /// The first page of the deliveries in a shard that the endpoint missed, oldest first.
    async fn missed(
        &self,
        tenant: &TenantId,
        shard: Shard,
        missed: Missed,
        range: &KeyRange,
    ) -> Result<Vec<DeliveryId>> {
        let mut ids = Vec::new();
        for status in missed.statuses() {
            let query = self.query(tenant, shard, Some(*status), range);
            let query = query.limit(i32::try_from(PAGE).unwrap_or(i32::MAX));
            let answer = Box::pin(query.send()).await.map_err(failure("listing missed deliveries"))?;
            ids.extend(answer.items.unwrap_or_default().iter().filter_map(|item| id(shard, item)));
        }
        // These are the oldest of each status, so the oldest of both are among them.
        ids.sort_by_key(DeliveryId::moment);
        ids.truncate(PAGE);
        Ok(ids)
    }

    /// Stores the progress of a recovery, unless it was deleted.
    pub async fn save_recovery(&self, tenant: &TenantId, recovery: &Recovery) -> Result<()> {
        let key = recovery_key(tenant, recovery.id);
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(key));
        let set = vec![
            ("resent", number(recovery.resent.into())),
            ("shard", number(recovery.shard.into())),
            ("after", text(&recovery.after)),
        ];
        let remove: &[&str] = if recovery.done { &["open"] } else { &[] };
        match change(update, set, remove).condition_expression("attribute_exists(delivery)").send().await {
            Err(error) if !is_refused(&error) => Err(failure("saving a recovery")(error)),
            _ => Ok(()),
        }
    }
}

impl Missed {
    /// Parses a status from a request.
    ///
    /// # Errors
    /// There is no such status, or recoveries do not resend it.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be failed, held or both")])
    }

    fn statuses(self) -> &'static [Status] {
        match self {
            Self::Failed => &[Status::Failed],
            Self::Held => &[Status::Held],
            Self::Both => &[Status::Failed, Status::Held],
        }
    }
}

names! { Missed {
    Failed => "failed",
    Held => "held",
    Both => "both",
} }

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

    /// The same recovery, extended by `time`.
    fn widened(&self, time: &Range<Timestamp>) -> Self {
        Self { since: self.since.min(time.start), until: self.until.max(time.end), ..self.clone() }
    }

    /// Whether it has not begun yet.
    fn waits(&self) -> bool {
        !self.done && !self.begun && self.shard == 0 && self.after.is_empty()
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = Record::new("recovery", item);
        let count = |name: &str| record.optional_number(name).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        Ok(Self {
            id: record.parsed("delivery")?,
            webhook_endpoint_id: record.parsed("endpoint")?,
            since: record.time("since")?,
            until: record.time("until")?,
            status: if item.contains_key("status") { record.parsed("status")? } else { Missed::default() },
            resent: count("resent"),
            done: record.optional_text("open").is_none(),
            shard: u8::try_from(count("shard")).unwrap_or(SHARDS),
            after: record.optional_text("after").unwrap_or_default().to_owned(),
            begun: item.contains_key("begun"),
        })
    }
}

/// The prefix of the partitions of recoveries.
const PREFIX: &str = "recovery/";
/// Sorts before every id, and after the keys of the items that name latest recoveries.
const BEFORE_IDS: &str = "$";

pub(super) fn partition(tenant: &TenantId) -> String {
    format!("{PREFIX}{tenant}")
}

fn recovery_key(tenant: &TenantId, id: RecoveryId) -> Item {
    key(partition(tenant), id)
}

fn latest_key(tenant: &TenantId, endpoint: EndpointId) -> Item {
    key(partition(tenant), format!("#{endpoint}"))
}

/// The table's key from an item of the index.
fn only_key(mut item: Item) -> Item {
    item.remove("open");
    item
}
