//! Sweeps minutes: wakes deliveries after long waits, and finds deliveries whose messages were lost.
//!
//! An error in one row does not delay other rows. If SQS rejects a message, the delivery waits a quarter of an hour,
//! until its minute is checked. A row that cannot be checked is copied to the current minute, and checked again with
//! that minute. A minute is repeated only if its rows cannot be read, or the rows for the current minute cannot be
//! written.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use common::{
    error::{Error, Result},
    id::TenantId,
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DueAttempt},
        log::due_rows::{CHECK_DELAY, DrainRow, DueRow, Minute, ROW_LIFETIME, Sweep, Sweeper},
    },
};
use futures::{StreamExt, TryStreamExt, future::join_all, stream};
use tokio::time::{Instant, sleep};

use crate::{App, PAUSE};

/// The time after which a due attempt is overdue. An attempt takes up to half a minute, or three minutes more if its
/// record failed.
const OVERDUE_TIME: Duration = Duration::from_mins(10);
/// The time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Attempts of an organization that are due within this time share a message. Their waits exceed a quarter of an hour.
const MESSAGE_SPAN: Duration = Duration::from_secs(30);
/// The maximum number of reads of a page's states while DynamoDB leaves some unprocessed, with a [`PAUSE`] between
/// reads. A partition has 3,000 read units per second, and may contain all of an endpoint's states.
const MAX_READS: u32 = 10;
/// The maximum number of tries to write rows while DynamoDB leaves some unprocessed, with a [`PAUSE`] between tries.
const MAX_WRITES: u32 = 3;
/// The number of tenants whose overdue deliveries are woken concurrently.
const CONCURRENCY: usize = 8;

/// The result of checking all or part of a minute.
#[derive(Default)]
struct SweepCounts {
    /// The number of overdue deliveries that have been woken.
    overdue: usize,
    /// The number of deliveries that could not be checked and are checked again later.
    left: usize,
}

impl App {
    /// Sweeps the minutes since the last sweep, until `end`.
    ///
    /// # Errors
    /// A minute could not be finished and will be repeated, or some deliveries must be checked again later.
    pub(super) async fn sweep(
        &self,
        sweeper: Sweeper,
        progress: &mut Sweep,
        now: Timestamp,
        end: Instant,
    ) -> Result<()> {
        let woken = self.wake_minutes(sweeper, progress, now, end).await;
        let checked = self.check_minutes(sweeper, progress, now, end).await;
        woken.and(checked)
    }

    async fn wake_minutes(&self, sweeper: Sweeper, progress: &mut Sweep, now: Timestamp, end: Instant) -> Result<()> {
        let mut refused = 0;
        // After an outage, the check wakes the deliveries of earlier minutes, which would otherwise get two messages.
        let last = progress.woken.max(Minute::of(now.before(CHECK_DELAY)));
        for minute in last.until(Minute::of(now)).take_while(|_| Instant::now() < end) {
            refused += self.wake(sweeper, minute, now, end).await?;
            progress.woken = minute;
            self.log.save_sweep(sweeper, *progress, false).await?;
        }
        match refused {
            0 => Ok(()),
            refused => Err(Error::Internal(format!("{refused} messages were rejected"))),
        }
    }

    async fn check_minutes(&self, sweeper: Sweeper, progress: &mut Sweep, now: Timestamp, end: Instant) -> Result<()> {
        let last = Minute::of(now.before(CHECK_DELAY)).min(progress.woken);
        let mut all = SweepCounts::default();
        for minute in progress.checked.until(last).take_while(|_| Instant::now() < end) {
            let checked = self.check(sweeper, minute, now, end).await?;
            (all.overdue, all.left) = (all.overdue + checked.overdue, all.left + checked.left);
            progress.checked = minute;
            self.log.save_sweep(sweeper, *progress, false).await?;
        }
        metrics::emit(&[Metric::count("Overdue", all.overdue)], &[]);
        match all.left {
            0 => Ok(()),
            left => {
                Err(Error::Internal(format!("{left} deliveries could not be checked, and will be checked again later")))
            }
        }
    }

    /// Sends the messages for long waits that end in `minute`. Returns the number of rejected messages.
    async fn wake(&self, sweeper: Sweeper, minute: Minute, now: Timestamp, end: Instant) -> Result<usize> {
        let woken = sweeper.partitions().map(async |partition| {
            let mut refused = 0;
            let mut pages = pin!(self.log.waits(minute, partition));
            while let Some(rows) = pages.try_next().await? {
                // Reads the clock again, because earlier pages may have taken a long time.
                let now = now.max(Timestamp::now());
                let due: Vec<_> = rows.iter().map(|row| (row.attempt.clone(), spread(row.at, now))).collect();
                refused += self.queues.send_again(due, MESSAGE_SPAN, now, end).await;
            }
            Ok(refused)
        });
        join_all(woken).await.into_iter().sum()
    }

    /// Wakes the deliveries that were due in `minute` and are still due.
    async fn check(&self, sweeper: Sweeper, minute: Minute, now: Timestamp, end: Instant) -> Result<SweepCounts> {
        let partitions = sweeper.partitions().map(|partition| self.check_partition(minute, partition, now, end));
        let mut all = SweepCounts::default();
        // All partitions are checked, even if one fails.
        for checked in join_all(partitions).await {
            let checked = checked?;
            (all.overdue, all.left) = (all.overdue + checked.overdue, all.left + checked.left);
        }
        Ok(all)
    }

    async fn check_partition(
        &self,
        minute: Minute,
        partition: u8,
        now: Timestamp,
        end: Instant,
    ) -> Result<SweepCounts> {
        let (mut all, mut reads) = (SweepCounts::default(), MAX_READS);
        let mut pages = pin!(self.log.all_due(minute, partition));
        while let Some(rows) = pages.try_next().await? {
            let (states, mut left) = self.states(rows, &mut reads, end).await;
            let late = states.into_iter().filter(|(_, state)| is_overdue(state, now));
            let (overdue, unwoken) = self.wake_overdue(late, now, end).await;
            left.extend(unwoken);
            all.overdue += overdue;
            all.left += left.len();
            self.check_later(left, now, end).await?;
        }
        all.overdue += self.check_drains(minute, partition, now).await?;
        Ok(all)
    }

    /// Replaces the messages of drains that were expected in `minute` and have been lost. Returns their number. A drain
    /// that cannot be read is checked again later.
    async fn check_drains(&self, minute: Minute, partition: u8, now: Timestamp) -> Result<usize> {
        let mut lost = 0;
        let mut pages = pin!(self.log.drains_due(minute, partition));
        while let Some(rows) = pages.try_next().await? {
            let checked = rows.iter().map(async |row| {
                match self.drains.replace_lost(row).await {
                    Ok(false) => {}
                    Ok(true) => {
                        common::log!("drain.overdue", tenant = %row.tenant);
                        return (1, None);
                    }
                    Err(error) => {
                        common::log!("deliveries.wake_failed", tenant = %row.tenant, ?error);
                        return (0, Some(self.log.drain_row(&DrainRow { at: now, ..row.clone() }, now)));
                    }
                }
                (0, None)
            });
            let checked = stream::iter(checked.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY);
            let (replaced, left): (Vec<_>, Vec<_>) = checked.collect::<Vec<_>>().await.into_iter().unzip();
            lost += replaced.into_iter().sum::<usize>();
            self.log.put_all(left.into_iter().flatten()).await?;
        }
        Ok(lost)
    }

    /// Returns the delivery states for these rows, and the rows whose state could not be read. If DynamoDB leaves
    /// states unprocessed, they are read up to `reads` times; if a page needs even more reads, later pages are read
    /// only once.
    async fn states(
        &self,
        mut rows: Vec<DueRow>,
        reads: &mut u32,
        end: Instant,
    ) -> (Vec<(DueRow, Delivery)>, Vec<DueRow>) {
        let (mut states, mut left) = (Vec::new(), Vec::new());
        for read in 1..=*reads {
            if Instant::now() >= end {
                break;
            }
            let mut unread = Vec::new();
            for (row, state) in self.log.states(rows).await {
                match state {
                    Ok(state) => states.push((row, state)),
                    Err(Error::Busy) => unread.push(row),
                    Err(error) => {
                        let DueAttempt { tenant, id, .. } = &row.attempt;
                        common::log!("delivery.unreadable", %tenant, delivery_id = %id, ?error);
                        left.push(row);
                    }
                }
            }
            rows = unread;
            if rows.is_empty() {
                return (states, left);
            }
            if read < *reads {
                sleep(PAUSE).await;
            }
        }
        *reads = 1;
        left.extend(rows);
        (states, left)
    }

    /// Wakes overdue deliveries. Returns the number of woken deliveries, and the rows of those that could not be woken.
    /// Tenants do not delay each other.
    async fn wake_overdue(
        &self,
        late: impl Iterator<Item = (DueRow, Delivery)>,
        now: Timestamp,
        end: Instant,
    ) -> (usize, Vec<DueRow>) {
        let mut tenants = BTreeMap::<_, (Vec<_>, Vec<_>)>::new();
        for (row, state) in late {
            let (rows, states) = tenants.entry(row.attempt.tenant.clone()).or_default();
            rows.push(row);
            states.push(state);
        }
        let wakes = tenants.into_iter().map(async |(tenant, (rows, states))| {
            match self.wake_overdue_of(&tenant, &states, now, end).await {
                Ok(()) => (states.len(), Vec::new()),
                Err(error) => {
                    common::log!("deliveries.wake_failed", %tenant, ?error);
                    (0, rows)
                }
            }
        });
        let wakes: Vec<_> = wakes.collect();
        let (mut overdue, mut left) = (0, Vec::new());
        let mut wakes = stream::iter(wakes).buffer_unordered(CONCURRENCY);
        while let Some((woken, rows)) = wakes.next().await {
            overdue += woken;
            left.extend(rows);
        }
        (overdue, left)
    }

    /// Sends a message for each of these deliveries, and writes a due row in case that message is lost, too.
    async fn wake_overdue_of(&self, tenant: &TenantId, late: &[Delivery], now: Timestamp, end: Instant) -> Result<()> {
        self.log.put_all(late.iter().map(|delivery| self.log.due_row(tenant, delivery, now))).await?;
        for delivery in late {
            common::log!("attempt.overdue", %tenant, delivery_id = %delivery.id);
        }
        let due: Vec<_> = late.iter().map(|delivery| (DueAttempt::next(tenant, delivery), now)).collect();
        self.queues.send_again(due, MESSAGE_SPAN, now, end).await;
        Ok(())
    }

    /// Copies rows to the current minute, which will be checked in a quarter of an hour.
    ///
    /// # Errors
    /// The rows cannot be written.
    async fn check_later(&self, rows: Vec<DueRow>, now: Timestamp, end: Instant) -> Result<()> {
        let (given_up, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| now.since(row.at) > ROW_LIFETIME);
        for DueRow { attempt: DueAttempt { tenant, id, .. }, .. } in given_up {
            common::log!("delivery.abandoned", %tenant, delivery_id = %id);
        }
        let mut left: Vec<_> =
            rows.iter().enumerate().map(|(number, row)| (number, self.log.due_row_again(row, now))).collect();
        for write in 1..=MAX_WRITES {
            let unwritten = self.log.put(left.clone()).await;
            left.retain(|(number, _)| unwritten.iter().any(|(unwritten, _)| unwritten == number));
            if left.is_empty() {
                return Ok(());
            }
            if write == MAX_WRITES || Instant::now() + PAUSE >= end {
                break;
            }
            sleep(PAUSE).await;
        }
        Err(Error::Busy)
    }
}

/// Returns the time for an attempt that is due in the minute of a sweep. The sweep runs at some point during that
/// minute. Attempts that were due before that point are postponed by a minute, so a receiver does not get most of a
/// minute's attempts at once. Attempts that were due a minute ago or earlier are made immediately.
fn spread(at: Timestamp, now: Timestamp) -> Timestamp {
    if at < now { at.after(SWEEP_INTERVAL) } else { at }
}

/// A parked delivery waits for its receiver's drain, not for a message.
fn is_overdue(delivery: &Delivery, now: Timestamp) -> bool {
    !delivery.is_parked && delivery.wakes_at().is_some_and(|at| now.since(at) > OVERDUE_TIME)
}
