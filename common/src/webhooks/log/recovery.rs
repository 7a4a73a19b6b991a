//! Recoveries: resending the failed, held or pending deliveries of a period, to one endpoint or to all, at a limited
//! rate.
//!
//! A recovery is an item with its progress, which is stored after every [page]. A page can be repeated safely, because
//! only deliveries that are still failed or held are resent. After a crash, `resent` does not count the deliveries of
//! the page whose progress was not stored. A pending delivery is resent only if its last attempt began before the
//! recovery was requested and its next attempt is later. A repeated page therefore does not resend it again, and an
//! attempt in progress is not repeated. Failed tests are not resent. Until a recovery has begun, further calls can
//! extend it.
//!
//! For each endpoint, and for all of them together, another item names the latest recovery. A call that adds a recovery
//! replaces this item on condition that it is unchanged, so concurrent calls detect each other's recoveries.

pub mod page;

use std::{
    ops::{
        ControlFlow::{Break, Continue},
        Range,
    },
    string::ToString,
};

pub use api::deliveries::Missed;
use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    items::{DELIVERY, DESTINATION, LEASE, OPEN, OUTCOME, STATUS, WORKFLOW},
    table::{DeliveryLog, INDEX, ItemKey, key_of},
};
use crate::{
    audit::{self, Action, Change, Entry, Recorder, Target, TargetKind, initial},
    aws::{
        dynamo::{Attribute, Item, ItemReader, attributes, number, query_all, query_page, text},
        expression::select,
        retry_conflicts,
        transaction::{Marker, Transaction},
    },
    error::{Conflict, Error, Result},
    id::{EndpointId, LeaseId, RecoveryId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, Delivery, DestinationId, Shard, Status, Trigger, kept_workflow},
};

/// The deliveries that a recovery resends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The endpoint; `None` for all active endpoints and the callbacks of jobs.
    pub endpoint: Option<EndpointId>,
    /// The period in which the deliveries were created.
    pub time: Range<Timestamp>,
    pub status: Missed,
    /// Only deliveries whose last attempt had this outcome.
    pub outcome: Option<String>,
    /// Only deliveries about jobs of this workflow.
    pub workflow: Option<String>,
}

/// A recovery and its progress.
#[derive(Clone, Debug)]
pub struct Recovery {
    pub id: RecoveryId,
    pub selection: Selection,
    /// The number of deliveries that have been resent so far.
    pub resent: u32,
    /// Whether all deliveries in the period have been resent.
    pub done: bool,
    /// The end of the part of the log that has been read.
    place: Option<LogPosition>,
    /// Whether the first page has been read or is being read.
    begun: bool,
    /// The lease of the process that resends a page.
    lease: Option<LeaseId>,
}

/// A place in the log: a shard, and the last key that was read in it, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogPosition {
    shard: Shard,
    after: String,
}

/// The maximum number of recoveries in a list, and the number of a tenant's recoveries that are searched for the list.
const MAX_LISTED: usize = 10;
const MAX_SEARCHED: usize = 200;
/// The maximum number of a tenant's unfinished recoveries. Concurrent calls may exceed it.
const MAX_UNFINISHED: usize = 100;
/// The partition of the index with the unfinished recoveries.
const UNFINISHED_PARTITION: &str = "recovery";
attributes! {
    ENDPOINT = "endpoint", SINCE = "since", UNTIL = "until", BEGUN = "begun", RESENT = "resent", OF = "of",
    SHARD = "shard", AFTER = "after",
    // The id of the latest recovery.
    RECOVERY = "recovery",
}

impl DeliveryLog {
    /// Adds a recovery of the deliveries in `selection`.
    ///
    /// If a recovery of an overlapping period that selects the same deliveries has not begun, it is extended instead, so
    /// repeated calls do not add work. A recovery that has begun is not extended, because it may already have passed a
    /// delivery that failed recently.
    ///
    /// # Errors
    /// The tenant has too many unfinished recoveries.
    pub async fn start_recovery(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        selection: &Selection,
        marker: impl Fn(RecoveryId) -> Result<Option<Marker>>,
        now: Timestamp,
    ) -> Result<RecoveryId> {
        let marker = &marker;
        retry_conflicts((), |()| async move {
            let latest = self.latest_recovery(tenant, selection.endpoint).await?;
            let recoveries = self.newest_recoveries(tenant).await?;
            let waiting = joined(&recoveries, selection)?;
            let recovery =
                waiting.map_or_else(|| Recovery::new(selection.clone()), |waiting| waiting.widened(&selection.time));
            let call = marker(recovery.id)?;
            let transaction = Transaction::new("writing a recovery").once(call.as_ref());
            let transaction = match waiting {
                Some(waiting) if waiting.selection.contains(&selection.time) && call.is_none() => {
                    return Ok(Break(recovery.id));
                }
                Some(_) => self.widen(transaction, tenant, &recovery),
                None => self.add(transaction, tenant, &recovery, latest, now),
            };
            let entry = Entry::new(Action::RecoveryStarted, tenant, selection.target(tenant));
            let entry = entry.with(recovery.selection.changes());
            match transaction.record(recorder, entry)?.first_refused(&self.dynamodb).await? {
                None => Ok(Break(recovery.id)),
                // The same call was made concurrently and came first. The caller reads its response.
                Some(0) if call.is_some() => Err(Error::Busy),
                // A concurrent call came first, or the recovery has begun.
                Some(_) => Ok(Continue(())),
            }
        })
        .await
    }

    /// Checks that a recovery of these deliveries can be added now.
    ///
    /// # Errors
    /// The tenant has too many unfinished recoveries.
    pub async fn check_recovery(&self, tenant: &TenantId, selection: &Selection) -> Result<()> {
        joined(&self.newest_recoveries(tenant).await?, selection).map(drop)
    }

    /// Writes a new recovery, on condition that `latest` is still the latest of its endpoint, or of all endpoints.
    fn add(
        &self,
        transaction: Transaction,
        tenant: &TenantId,
        recovery: &Recovery,
        latest: Option<String>,
        now: Timestamp,
    ) -> Transaction {
        let attributes = [(OPEN, text(UNFINISHED_PARTITION))].into_iter().chain(recovery.selection.attributes());
        let added = self.item(recovery_key(tenant, recovery.id), attributes, now);
        let last = latest_key(tenant, recovery.selection.endpoint);
        let last = self.item(last, [(RECOVERY, text(recovery.id))], now);
        let is_latest = latest.map_or_else(|| DELIVERY.is_absent(), |latest| RECOVERY.equals(text(latest)));
        transaction.put_if(&self.table, last, is_latest).put(&self.table, added)
    }

    /// Extends the period of a recovery, if it has not begun and no other call has extended it further.
    fn widen(&self, transaction: Transaction, tenant: &TenantId, recovery: &Recovery) -> Transaction {
        let Range { start, end } = recovery.selection.time;
        let [since, until] = [start, end].map(|time| number(time.as_millisecond()));
        let is_wider = SINCE.is_at_least(since.clone()).and(UNTIL.is_at_most(until.clone()));
        let update = self.update(recovery_key(tenant, recovery.id)).set(SINCE, since).set(UNTIL, until);
        transaction.update(update.only_if(OPEN.exists().and(BEGUN.is_absent()).and(is_wider)))
    }

    /// Lists the newest recoveries of `tenant`, newest first: those of this endpoint, or all of them.
    pub async fn recoveries(&self, tenant: &TenantId, endpoint: Option<EndpointId>) -> Result<Vec<Recovery>> {
        let recoveries = self.newest_recoveries(tenant).await?;
        let wanted = |recovery: &Recovery| endpoint.is_none() || endpoint == recovery.selection.endpoint;
        Ok(recoveries.into_iter().filter(wanted).take(MAX_LISTED).collect())
    }

    async fn newest_recoveries(&self, tenant: &TenantId) -> Result<Vec<Recovery>> {
        let keys = DESTINATION.equals(text(partition(tenant))).and(DELIVERY.is_above(text(BEFORE_IDS)));
        let query = self.query(keys).consistent_read(true).scan_index_forward(false);
        let newest = query_page(query, MAX_SEARCHED, "listing recoveries").await?;
        Ok(newest.items.iter().filter_map(Recovery::read_or_log).collect())
    }

    /// Reads the id of the latest recovery of `endpoint`, or of all endpoints together.
    async fn latest_recovery(&self, tenant: &TenantId, endpoint: Option<EndpointId>) -> Result<Option<String>> {
        let found = self.get(latest_key(tenant, endpoint), "reading the latest recovery").await?;
        found.map(|item| ItemReader::new("latest recovery", &item).text(RECOVERY).map(str::to_owned)).transpose()
    }

    /// Lists the unfinished recoveries of each wanted tenant, starting with those that have resent the fewest
    /// deliveries: a sweep may end before it gets to all of them.
    pub async fn open_recoveries(&self, is_wanted: impl Fn(&TenantId) -> bool) -> Result<Vec<(TenantId, Recovery)>> {
        let query = self.query(OPEN.equals(text(UNFINISHED_PARTITION))).index_name(INDEX);
        let keys = query_all(select(query, &[DESTINATION, DELIVERY]), "listing open recoveries").await?;
        let tenant = |partition: &str| -> Option<TenantId> { partition.strip_prefix(PREFIX)?.parse().ok() };
        let wanted =
            keys.iter().map(key_of).filter(|[partition, _]| tenant(partition).as_ref().is_some_and(&is_wanted));
        let mut open = Vec::new();
        for ([partition, _], item) in self.get_all(wanted.collect()).await? {
            let recovery = Recovery::read_or_log(&item).filter(|recovery| !recovery.done);
            open.extend(tenant(&partition).zip(recovery));
        }
        open.sort_by_key(|(_, recovery)| (recovery.resent, recovery.id));
        Ok(open)
    }
}

impl Selection {
    /// Whether a recovery of these deliveries can also cover `other`.
    fn is_joined_by(&self, other: &Self) -> bool {
        let overlaps = self.time.start <= other.time.end && other.time.start <= self.time.end;
        overlaps && *self == Self { time: self.time.clone(), ..other.clone() }
    }

    fn contains(&self, time: &Range<Timestamp>) -> bool {
        self.time.start <= time.start && time.end <= self.time.end
    }

    fn attributes(&self) -> impl Iterator<Item = (Attribute, AttributeValue)> {
        let optional = [
            (ENDPOINT, self.endpoint.map(|id| id.to_string())),
            (OUTCOME, self.outcome.clone()),
            (WORKFLOW, self.workflow.clone()),
        ];
        let optional = optional.into_iter().filter_map(|(name, value)| Some((name, text(value?))));
        let [since, until] = [self.time.start, self.time.end].map(|time| number(time.as_millisecond()));
        optional.chain([(SINCE, since), (UNTIL, until), (STATUS, text(self.status))])
    }

    /// The object of the entry in the audit log.
    fn target(&self, tenant: &TenantId) -> Target {
        match self.endpoint {
            Some(id) => audit::target(TargetKind::Endpoint, id, None),
            None => audit::target(TargetKind::Organization, tenant, None),
        }
    }

    /// The fields of the entry in the audit log.
    fn changes(&self) -> impl Iterator<Item = Change> {
        let fields = [
            ("status", Some(self.status.as_str().to_owned())),
            ("since", Some(self.time.start.to_string())),
            ("until", Some(self.time.end.to_string())),
            ("outcome", self.outcome.clone()),
            ("workflow", self.workflow.clone()),
        ];
        fields.into_iter().filter_map(|(field, value)| Some(initial(field, value?)))
    }

    /// Whether a delivery's state must be read to decide whether it is selected.
    fn is_beyond_the_index(&self) -> bool {
        self.outcome.is_some() || self.workflow.is_some()
    }

    /// Whether a delivery has the selected outcome and workflow.
    fn passes(&self, delivery: &Delivery) -> bool {
        let outcome = delivery.last_attempt.as_ref().map(|last| &*last.outcome);
        let workflow = delivery.workflow.as_deref();
        self.outcome.as_deref().is_none_or(|wanted| outcome == Some(wanted))
            && self.workflow.as_deref().is_none_or(|wanted| workflow == Some(kept_workflow(wanted)))
    }
}

/// Finds the recovery that a call for these deliveries extends, if there is one.
///
/// # Errors
/// There is none, and too many are unfinished.
fn joined<'a>(recoveries: &'a [Recovery], selection: &Selection) -> Result<Option<&'a Recovery>> {
    let waiting = recoveries.iter().find(|other| other.waits() && other.selection.is_joined_by(selection));
    if waiting.is_none() && recoveries.iter().filter(|other| !other.done).count() >= MAX_UNFINISHED {
        return Err(Error::Conflict(Conflict::RecoveryLimit(MAX_UNFINISHED)));
    }
    Ok(waiting)
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
    fn new(selection: Selection) -> Self {
        let id = RecoveryId::generate();
        Self { id, selection, resent: 0, done: false, place: None, begun: false, lease: None }
    }

    /// Whether the recovery resends a delivery in this state, with an attempt at `due`. It does not resend pending
    /// deliveries to pull endpoints, which wait for a client, or those whose first or next attempt is already due.
    fn resends(&self, delivery: &Delivery, due: Timestamp) -> bool {
        let is_of_status = match (self.selection.status, delivery.status) {
            (Missed::Pending, Status::Pending) => {
                let is_before = |attempt: &Attempt| attempt.at < self.id.made_at();
                let is_new = delivery.tries == 0 && delivery.trigger == Trigger::Recovery;
                let is_retried = delivery.last_attempt.as_ref().is_some_and(is_before) && !is_new;
                is_retried && delivery.pull.is_none() && delivery.next_attempt_at.is_some_and(|next| next > due)
            }
            (Missed::Pending, _) => false,
            (_, status) => statuses(self.selection.status).contains(&status),
        };
        is_of_status && self.selection.passes(delivery)
    }

    /// Returns the recovery, extended by `time`.
    fn widened(&self, time: &Range<Timestamp>) -> Self {
        let time = self.selection.time.start.min(time.start)..self.selection.time.end.max(time.end);
        Self { selection: Selection { time, ..self.selection.clone() }, ..self.clone() }
    }

    /// Whether the recovery has not begun yet.
    fn waits(&self) -> bool {
        !self.done && !self.begun
    }

    /// Reads a recovery, and logs one that is unreadable: it must not stop or hide the others.
    fn read_or_log(item: &Item) -> Option<Self> {
        let [partition, _] = key_of(item);
        Self::from_item(item).inspect_err(|error| crate::log!("recovery.unreadable", partition, ?error)).ok()
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = ItemReader::new("recovery", item);
        let endpoint = record.optional_parsed(ENDPOINT)?;
        let selection = Selection {
            endpoint,
            time: record.time(SINCE)?..record.time(UNTIL)?,
            status: record.optional_parsed(STATUS)?.unwrap_or_default(),
            outcome: record.optional_text(OUTCOME).map(ToString::to_string),
            workflow: record.optional_text(WORKFLOW).map(ToString::to_string),
        };
        // Earlier versions stored only the number of the shard, because each recovery had one endpoint.
        let destination = record.optional_parsed(OF)?.or(endpoint.map(DestinationId::Endpoint));
        let place = destination.zip(record.optional_integer(SHARD)).map(|(destination, number)| LogPosition {
            shard: Shard { destination, number },
            after: record.optional_text(AFTER).unwrap_or_default().to_owned(),
        });
        Ok(Self {
            id: record.parsed(DELIVERY)?,
            selection,
            resent: record.optional_integer(RESENT).unwrap_or(0),
            done: record.optional_text(OPEN).is_none(),
            begun: place.is_some() || item.contains_key(BEGUN.name()),
            place,
            lease: record.optional_parsed(LEASE)?,
        })
    }
}

/// The prefix of recovery partitions.
const PREFIX: &str = "recovery/";
/// A key that sorts before every id, and after the keys of the other items of a partition.
const BEFORE_IDS: &str = "$";

pub(super) fn partition(tenant: &TenantId) -> String {
    format!("{PREFIX}{tenant}")
}

fn recovery_key(tenant: &TenantId, id: RecoveryId) -> ItemKey {
    [partition(tenant), id.to_string()]
}

fn latest_key(tenant: &TenantId, endpoint: Option<EndpointId>) -> ItemKey {
    let of = endpoint.map_or_else(|| "all".to_owned(), |id| id.to_string());
    [partition(tenant), format!("#{of}")]
}
