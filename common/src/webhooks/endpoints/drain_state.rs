//! The state of an organization's drains: the invocations that make its parked attempts.
//!
//! An organization has at most one drain for its receivers that answer and one for its silent receivers, so it occupies
//! at most two invocations, however many slow receivers it has. The item of a drain holds the time when its next
//! message is expected, and locks the drain while a round runs. A message that arrives before that time, or while a
//! round runs, is obsolete.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;

use super::{
    item::DELETE_AT,
    table::{Endpoints, key, record},
};
use crate::{
    aws::{
        dynamo::{Item, attributes, get, number, text},
        expression::{Condition, Update},
    },
    error::Result,
    id::{LeaseId, TenantId},
    timestamp::Timestamp,
    webhooks::{delivery::Drain, queue::EARLY_DELIVERY_TOLERANCE},
};

attributes! {
    EXPECTED_AT = "expected_at", RUNS_UNTIL = "runs_until",
    // Changes with each write. A call may repeat its write if the response was lost.
    VERSION = "version",
}

const DOING: &str = "scheduling a drain";
/// A message that is this late is considered lost.
const LOST_AFTER: Duration = Duration::from_mins(5);
/// The lock of a drain whose process has died expires after this time, which is longer than an invocation.
const LOCK: Duration = Duration::from_secs(45);
/// The state of a drain is forgotten this long after its last change, which is longer than it can wait.
const MEMORY: Duration = Duration::from_hours(30 * 24);

/// The state of an organization's drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draining {
    version: Option<LeaseId>,
    /// When the next message is expected; `None` if there is none.
    pub expected_at: Option<Timestamp>,
    /// The end of the lock, while a round runs.
    pub runs_until: Option<Timestamp>,
}

impl Draining {
    fn from_item(item: &Item) -> Result<Self> {
        let record = record(item);
        Ok(Self {
            version: record.optional_parsed(VERSION)?,
            expected_at: record.optional_time(EXPECTED_AT),
            runs_until: record.optional_time(RUNS_UNTIL),
        })
    }

    /// Whether a round runs at `now`. It looks for parked attempts before it ends.
    #[must_use]
    pub fn runs(&self, now: Timestamp) -> bool {
        self.runs_until > Some(now)
    }

    /// Whether a message is expected at `at` or earlier, and is not lost.
    #[must_use]
    pub fn begins_by(&self, at: Timestamp, now: Timestamp) -> bool {
        self.expected_at.is_some_and(|expected| expected <= at) && !self.is_lost(now)
    }

    /// Whether the process of a round has died, or the expected message is so late that it must have been lost.
    #[must_use]
    pub fn is_lost(&self, now: Timestamp) -> bool {
        match self.runs_until {
            Some(until) => until <= now,
            None => self.expected_at.is_some_and(|expected| now >= expected.after(LOST_AFTER)),
        }
    }
}

impl Endpoints {
    fn drain_key(tenant: &TenantId, drain: Drain) -> Item {
        key(tenant, format!("#drain#{}", drain.as_str()))
    }

    /// Builds the update of a drain that has not changed since a read showed `version`.
    fn update_drain(&self, tenant: &TenantId, drain: Drain, is_unchanged: Condition) -> Update {
        let this = text(LeaseId::generate());
        let update = Update::of(&self.table, Self::drain_key(tenant, drain)).set(VERSION, this.clone());
        // The callbacks of a deleted organization are still called, so its purge may be over.
        let update = update.set(DELETE_AT, number(Timestamp::now().after(MEMORY).as_second()));
        update.only_if(is_unchanged.or(VERSION.equals(this)))
    }

    /// Reads the state of a drain. The read is strongly consistent.
    pub async fn draining(&self, tenant: &TenantId, drain: Drain) -> Result<Draining> {
        let item = get(&self.dynamodb, &self.table, Self::drain_key(tenant, drain), DOING).await?;
        item.as_ref().map_or_else(|| Ok(Draining::default()), Draining::from_item)
    }

    /// Ends the round that runs, and schedules the drain's next message for `at`, unless the drain has changed since
    /// `seen`. If this returns `true`, the caller must send the message.
    pub async fn schedule_drain(
        &self,
        tenant: &TenantId,
        drain: Drain,
        seen: &Draining,
        at: Timestamp,
    ) -> Result<bool> {
        let update = self.update_drain(tenant, drain, is_still(seen));
        let update = update.set(EXPECTED_AT, number(at.as_millisecond())).remove([RUNS_UNTIL]);
        update.send(&self.dynamodb, DOING).await
    }

    /// Begins a round, and locks the drain. Returns the state with the lock, or `None` if no round is due, or one runs.
    pub async fn begin_drain(&self, tenant: &TenantId, drain: Drain, now: Timestamp) -> Result<Option<Draining>> {
        let ms = |time: Timestamp| number(time.as_millisecond());
        let is_free = RUNS_UNTIL.is_absent().or(RUNS_UNTIL.is_at_most(ms(now)));
        let is_due = EXPECTED_AT.is_at_most(ms(now.after(EARLY_DELIVERY_TOLERANCE))).and(is_free);
        let update = self.update_drain(tenant, drain, is_due).set(RUNS_UNTIL, ms(now.after(LOCK)));
        let begun = update.send_for(&self.dynamodb, ReturnValue::AllNew, DOING).await?;
        begun.as_ref().map(Draining::from_item).transpose()
    }

    /// Ends a drain that has found no more parked attempts, unless it has changed since `seen`. The caller then looks
    /// for attempts that were parked in the meantime.
    pub async fn end_drain(&self, tenant: &TenantId, drain: Drain, seen: &Draining) -> Result<bool> {
        let update = self.update_drain(tenant, drain, is_still(seen)).remove([EXPECTED_AT, RUNS_UNTIL]);
        update.send(&self.dynamodb, DOING).await
    }
}

fn is_still(seen: &Draining) -> Condition {
    match seen.version {
        None => VERSION.is_absent(),
        Some(version) => VERSION.equals(text(version)),
    }
}
