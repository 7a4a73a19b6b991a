//! Due rows: the attempts that are due in each minute.
//!
//! Every pending delivery whose next attempt waits for a time has a row in the minute of that time. A delivery that waits
//! for its receiver is parked, and has a row elsewhere. The row is written before the delivery's state.
//! The sweep processes each minute twice. In the minute itself, it wakes the deliveries whose wait exceeds SQS's
//! maximum delay. Fifteen minutes later, it checks the states of all deliveries from that minute: a delivery that is
//! still due has lost its message and is woken again. Rows expire and are not deleted, because a delete costs as much
//! as a write.
//!
//! Several sweepers share the partitions of each minute. Each sweeper has a lease and a cursor.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;
use futures::{Stream, TryStreamExt};
use serde::Deserialize;

use super::{
    items::{DELIVERY, DESTINATION, EXPIRES_AT, LEASE},
    search::moment,
    table::{DeliveryLog, ItemKey, Row, keyed},
};
use crate::{
    aws::{
        dynamo::{Item, ItemReader, attributes, number, query_all, query_pages, text},
        expression::{Condition, select},
    },
    error::Result,
    id::{LeaseId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, Drain, DueAttempt, MAX_DELAY},
};

/// The number of partitions per minute. Each accepts a thousand rows per second.
pub const PARTITIONS: u8 = 16;
/// The number of sweepers, which share the partitions. The template has a schedule for each.
pub const SWEEPERS: u8 = 4;
/// The number of rows per read. During an outage, a minute can have more rows than fit in a function's memory.
const PAGE_SIZE: i32 = 1000;
/// A due row is checked this long after its minute. It exceeds every SQS delay and every attempt's duration.
pub const CHECK_DELAY: Duration = MAX_DELAY;
/// Due rows are kept for this long. A sweep starts at most this long ago.
pub const ROW_LIFETIME: Duration = Duration::from_hours(7 * 24);

// The attributes of a cursor.
attributes! { TAKEN_UNTIL = "taken_until", WOKEN = "woken", CHECKED = "checked", }

/// A due row: an attempt and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRow {
    pub attempt: DueAttempt,
    /// When it is due.
    pub at: Timestamp,
}

/// The message of a drain, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainRow {
    pub tenant: TenantId,
    pub drain: Drain,
    /// When it is expected.
    pub at: Timestamp,
}

/// A number of minutes since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minute(i64);

/// A sweeper, identified by its number. It sweeps the partitions whose number modulo [`SWEEPERS`] is this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub struct Sweeper(u8);

impl TryFrom<u8> for Sweeper {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        if number < SWEEPERS { Ok(Self(number)) } else { Err(format!("there is no sweeper {number}")) }
    }
}

impl Sweeper {
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SWEEPERS).map(Self)
    }

    /// Whether this is the first sweeper, which also does the work that is not divided.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.0 == 0
    }

    /// The partitions of a minute that it sweeps.
    pub fn partitions(self) -> impl Iterator<Item = u8> {
        (self.0..PARTITIONS).step_by(SWEEPERS.into())
    }

    /// Whether this sweeper continues the recoveries of `tenant`. Only one sweeper does, which limits their rate.
    #[must_use]
    pub fn recovers(self, tenant: &TenantId) -> bool {
        let sum = tenant.as_str().bytes().fold(0_u8, u8::wrapping_add);
        sum % SWEEPERS == self.0
    }

    /// The key of its lease and its cursor.
    fn key(self) -> ItemKey {
        ["due".to_owned(), format!("cursor.{}", self.0)]
    }
}

/// The progress of a sweeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The last minute whose long-waiting deliveries have been woken.
    pub woken: Minute,
    /// The last minute whose rows have been checked.
    pub checked: Minute,
}

impl Minute {
    /// The minute of `time`.
    #[must_use]
    pub fn of(time: Timestamp) -> Self {
        Self(time.as_second().div_euclid(60))
    }

    /// The minutes after this one, up to `last`.
    pub fn until(self, last: Self) -> impl Iterator<Item = Self> {
        (self.0.saturating_add(1)..=last.0).map(Self)
    }

    /// The time from the beginning of the minute to `now`, in whole seconds.
    fn age(self, now: Timestamp) -> Duration {
        Duration::from_secs(u64::try_from(now.as_second() - self.0.saturating_mul(60)).unwrap_or(0))
    }
}

/// The kind of rows whose wait exceeds SQS's maximum delay.
const WAKE: &str = "wake";
/// The kind of the other rows. Messages wake their deliveries, so these rows are only checked.
const CHECK: &str = "check";
/// The kind of the rows of drains.
const DRAIN: &str = "drain";
/// The kind of the rows that request the [index](super::index) of a tenant's deliveries.
const INDEX: &str = "index";

impl DeliveryLog {
    /// Builds the due row of a pending delivery.
    #[must_use]
    pub fn due_row(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Row {
        let at = delivery.wakes_at().unwrap_or(now);
        let kind = if at.since(now) > MAX_DELAY { WAKE } else { CHECK };
        DueRow { attempt: DueAttempt::next(tenant, delivery), at }.to_row(kind, now)
    }

    /// Moves a due row to the current minute, to be checked again.
    #[must_use]
    pub fn due_row_again(&self, row: &DueRow, now: Timestamp) -> Row {
        row.to_row(CHECK, now)
    }

    /// Reads the pages of all due attempts in a partition of a minute.
    pub fn all_due(&self, minute: Minute, shard: u8) -> impl Stream<Item = Result<Vec<DueRow>>> + use<> {
        self.due_pages(DESTINATION.equals(text(partition(minute, shard))))
    }

    /// Reads the pages of the long waits in a partition of a minute.
    pub fn waits(&self, minute: Minute, shard: u8) -> impl Stream<Item = Result<Vec<DueRow>>> + use<> {
        self.due_pages(DESTINATION.equals(text(partition(minute, shard))).and(DELIVERY.begins_with(text(WAKE))))
    }

    /// Builds the row of a drain's message.
    #[must_use]
    pub fn drain_row(&self, row: &DrainRow, now: Timestamp) -> Row {
        let DrainRow { tenant, drain, at } = row;
        let due = now.max(*at);
        let partition = partition(Minute::of(due), of_tenant(tenant));
        let key = [partition, format!("{DRAIN}/{}/{}/{tenant}", at.as_millisecond(), drain.as_str())];
        Row(keyed(key, [(EXPIRES_AT, number(due.after(ROW_LIFETIME).as_second()))]))
    }

    /// Reads the pages of the drains' messages in a partition of a minute.
    pub fn drains_due(&self, minute: Minute, shard: u8) -> impl Stream<Item = Result<Vec<DrainRow>>> + use<> {
        let is_of_a_drain = DELIVERY.begins_with(text(format!("{DRAIN}/")));
        let keys = DESTINATION.equals(text(partition(minute, shard))).and(is_of_a_drain);
        let rows = select(self.query(keys), &[DELIVERY]).consistent_read(true).limit(PAGE_SIZE);
        query_pages(rows, "reading the rows of drains").map_ok(|page| page.iter().filter_map(parse_drain_row).collect())
    }

    /// Builds the row that requests the index of a tenant's deliveries at `at`. A tenant has one row per minute.
    pub(super) fn index_row(&self, tenant: &TenantId, at: Timestamp) -> Row {
        let key = [partition(Minute::of(at), of_tenant(tenant)), format!("{INDEX}/{tenant}")];
        Row(keyed(key, [(EXPIRES_AT, number(at.after(ROW_LIFETIME).as_second()))]))
    }

    /// Moves the request of a tenant's index to the minute after `now`.
    #[must_use]
    pub fn index_row_again(&self, tenant: &TenantId, now: Timestamp) -> Row {
        self.index_row(tenant, now.after(Duration::from_mins(1)))
    }

    /// Reads the tenants whose index is requested in a partition of a minute.
    pub async fn index_requests(&self, minute: Minute, shard: u8) -> Result<Vec<TenantId>> {
        let prefix = format!("{INDEX}/");
        let keys = DESTINATION.equals(text(partition(minute, shard))).and(DELIVERY.begins_with(text(&prefix)));
        let rows =
            query_all(select(self.query(keys), &[DELIVERY]).consistent_read(true), "reading index requests").await?;
        Ok(rows.iter().filter_map(|row| moment(row)?.strip_prefix(&prefix)?.parse().ok()).collect())
    }

    fn due_pages(&self, keys: Condition) -> impl Stream<Item = Result<Vec<DueRow>>> + use<> {
        let rows = select(self.query(keys), &[DELIVERY]).consistent_read(true).limit(PAGE_SIZE);
        query_pages(rows, "reading due rows").map_ok(|page| page.iter().filter_map(parse_due_row).collect())
    }

    /// Takes the lease of `sweeper` until `until`, and returns the sweeper's progress. Returns `None` if the lease is
    /// taken.
    pub async fn take_sweep(&self, sweeper: Sweeper, now: Timestamp, until: Timestamp) -> Result<Option<Sweep>> {
        let lease = text(LeaseId::generate());
        let is_free = TAKEN_UNTIL.is_absent().or(TAKEN_UNTIL.is_below(number(now.as_millisecond())));
        let update = self
            .update(sweeper.key())
            .set(TAKEN_UNTIL, number(until.as_millisecond()))
            .set(LEASE, lease.clone())
            // This call may already hold the lease, if the response to an earlier try was lost.
            .only_if(is_free.or(LEASE.equals(lease)));
        let taken = update.send_for(&self.dynamodb, ReturnValue::AllNew, "taking the sweep").await?;
        let Some(item) = taken else { return Ok(None) };
        let (record, ago) = (ItemReader::new("sweep", &item), |time| Minute::of(now.before(time)));
        // A new deployment has no older rows.
        let minute = |name| record.optional_number(name).map_or(ago(CHECK_DELAY * 2), Minute);
        // If an earlier sweep had a fast clock, its minutes may still get rows.
        Ok(Some(Sweep {
            woken: minute(WOKEN).clamp(ago(ROW_LIFETIME), Minute::of(now)),
            checked: minute(CHECKED).clamp(ago(ROW_LIFETIME), ago(CHECK_DELAY)),
        }))
    }

    /// Stores the progress of `sweeper`. If the sweep `is_over`, also releases the lease, so the next sweep does not
    /// have to wait.
    pub async fn save_sweep(&self, sweeper: Sweeper, sweep: Sweep, is_over: bool) -> Result<()> {
        self.update(sweeper.key())
            .set(WOKEN, number(sweep.woken.0))
            .set(CHECKED, number(sweep.checked.0))
            .set_all(is_over.then(|| (TAKEN_UNTIL, number(0))))
            .send(&self.dynamodb, "saving the sweep")
            .await
            .map(drop)
    }

    /// The lag of the slowest sweeper; `None` if no sweeper has run. It reveals a sweeper whose schedule has stopped.
    pub async fn sweep_lag(&self, now: Timestamp) -> Result<Option<Duration>> {
        let cursors = self.get_all(Sweeper::all().map(Sweeper::key).collect()).await?;
        let lags = cursors.values().filter_map(|item| {
            let age =
                |name, now| ItemReader::new("sweep", item).optional_number(name).map(|minute| Minute(minute).age(now));
            Some(age(WOKEN, now)?.max(age(CHECKED, now.before(CHECK_DELAY))?))
        });
        Ok(lags.max())
    }
}

impl DueRow {
    fn to_row(&self, kind: &str, now: Timestamp) -> Row {
        let Self { attempt: DueAttempt { tenant, id, attempt }, at } = self;
        // An overdue row is written to the current minute, because past minutes have been swept.
        let due = now.max(*at);
        let partition = partition(Minute::of(due), id.webhook_id.shard(PARTITIONS));
        let key = [partition, format!("{kind}/{}/{attempt}/{id}/{tenant}", at.as_millisecond())];
        Row(keyed(key, [(EXPIRES_AT, number(due.after(ROW_LIFETIME).as_second()))]))
    }
}

/// Reads a row from its key.
fn parse_due_row(item: &Item) -> Option<DueRow> {
    // The tenant's id is last, because it may contain slashes.
    let mut parts = item.get(DELIVERY.name())?.as_s().ok()?.splitn(5, '/');
    let _kind = parts.next()?;
    let at = Timestamp::from_millisecond(parts.next()?.parse().ok()?);
    let (attempt, id) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(DueRow { attempt: DueAttempt { tenant: parts.next()?.parse().ok()?, id, attempt }, at })
}

fn parse_drain_row(item: &Item) -> Option<DrainRow> {
    let mut parts = item.get(DELIVERY.name())?.as_s().ok()?.splitn(4, '/');
    let _kind = parts.next()?;
    let at = Timestamp::from_millisecond(parts.next()?.parse().ok()?);
    let drain = parts.next()?.parse().ok()?;
    Some(DrainRow { tenant: parts.next()?.parse().ok()?, drain, at })
}

/// The partition of a minute that contains the rows about a tenant.
fn of_tenant(tenant: &TenantId) -> u8 {
    tenant.as_str().bytes().fold(0_u8, u8::wrapping_add) % PARTITIONS
}

fn partition(minute: Minute, shard: u8) -> String {
    format!("due/{}.{shard}", minute.0)
}
