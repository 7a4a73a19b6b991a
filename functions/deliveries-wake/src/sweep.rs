//! Passes over minutes: wakes long waits, and finds the deliveries whose message was lost.
//!
//! What goes wrong with one row holds up no other: a row that cannot be checked goes into the present minute, and is checked
//! again with that. A minute is repeated only if the table or the queue takes nothing at all.

use std::{collections::BTreeMap, time::Duration};

use common::{
    error::{Error, Result},
    id::TenantId,
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DueAttempt},
        log::due::{CHECK_AFTER, DueRow, KEPT, Minute, Sweep, Sweeper},
    },
};
use futures::future::try_join_all;
use tokio::time::{Instant, sleep};

use crate::{App, PAUSE};

/// How long after its time an attempt is overdue. An attempt takes half a minute, and one that was put off comes back
/// within seconds, or after three minutes if its record failed.
const OVERDUE: Duration = Duration::from_secs(10 * 60);
/// How often the sweep comes.
const MINUTE: Duration = Duration::from_secs(60);
/// How often states are read that DynamoDB leaves out, with a [`PAUSE`] after each time. A partition has 3,000 read units a
/// second, and all states of an endpoint may be in one.
const READS: u32 = 10;

/// How the check of a minute, or of some rows, went.
#[derive(Default)]
struct Checked {
    /// How many deliveries were overdue, and have been woken.
    overdue: usize,
    /// The rows to check again later.
    left: Vec<DueRow>,
}

impl App {
    /// Passes over the minutes since the last sweep, as far as there is time.
    ///
    /// # Errors
    /// A minute could not be finished, and is repeated; or rows have to be checked again later.
    pub(super) async fn sweep(
        &self,
        sweeper: Sweeper,
        progress: &mut Sweep,
        now: Timestamp,
        end: Instant,
    ) -> Result<()> {
        let last = Minute::of(now);
        let is_early = || Instant::now() < end;
        for minute in progress.woken.until(last).take_while(|_| is_early()) {
            self.wake(sweeper, minute, now).await?;
            progress.woken = minute;
            self.log.save_sweep(sweeper, *progress, false).await?;
        }
        let checkable = last.before(CHECK_AFTER).min(progress.woken);
        let (mut overdue, mut left) = (0, 0);
        for minute in progress.checked.until(checkable).take_while(|_| is_early()) {
            let checked = self.check(sweeper, minute, now, end).await?;
            (overdue, left) = (overdue + checked.overdue, left + checked.left.len());
            progress.checked = minute;
            self.log.save_sweep(sweeper, *progress, false).await?;
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let overdue = overdue as f64;
        metrics::emit(&[Metric { name: "Overdue", unit: "Count", values: vec![overdue] }], &[]);
        if left > 0 {
            return Err(Error::Internal(format!(
                "{left} deliveries could not be checked, and are checked again later"
            )));
        }
        Ok(())
    }

    /// Sends the messages of the long waits that end in `minute`.
    async fn wake(&self, sweeper: Sweeper, minute: Minute, now: Timestamp) -> Result<()> {
        let woken = sweeper.partitions().map(async |partition| {
            let mut next = None;
            loop {
                let page = self.log.waits(minute, partition, next).await?;
                // A sweep with much to do takes a while.
                let now = now.max(Timestamp::now());
                let (slow, others): (Vec<_>, Vec<_>) = page.rows.into_iter().partition(|row| row.is_slow);
                for (is_slow, rows) in [(true, slow), (false, others)] {
                    let due: Vec<_> = rows.into_iter().map(|row| (row.attempt, spread(row.at, now))).collect();
                    self.send(&due, is_slow, now).await?;
                }
                next = page.next;
                if next.is_none() {
                    return Ok(());
                }
            }
        });
        try_join_all(woken).await.map(drop)
    }

    /// Wakes the deliveries that were due in `minute` and still are.
    async fn check(&self, sweeper: Sweeper, minute: Minute, now: Timestamp, end: Instant) -> Result<Checked> {
        let partitions = sweeper.partitions().map(|partition| self.check_partition(minute, partition, now, end));
        let mut all = Checked::default();
        for checked in try_join_all(partitions).await? {
            all.overdue += checked.overdue;
            all.left.extend(checked.left);
        }
        Ok(all)
    }

    async fn check_partition(&self, minute: Minute, partition: u8, now: Timestamp, end: Instant) -> Result<Checked> {
        let (mut all, mut next) = (Checked::default(), None);
        loop {
            let page = self.log.all_due(minute, partition, next).await?;
            let checked = self.check_rows(page.rows, now, end).await;
            self.check_later(&checked.left, now).await?;
            all.overdue += checked.overdue;
            all.left.extend(checked.left);
            next = page.next;
            if next.is_none() {
                return Ok(all);
            }
        }
    }

    /// Wakes those of these deliveries that are overdue.
    async fn check_rows(&self, mut rows: Vec<DueRow>, now: Timestamp, end: Instant) -> Checked {
        let (mut late, mut left) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
        for read in 1..=READS {
            let mut unread = Vec::new();
            for (row, state) in self.log.states(rows).await {
                match state {
                    Ok(state) if is_overdue(&state, now) => {
                        late.entry((row.is_slow, row.attempt.tenant.clone())).or_default().push((row, state));
                    }
                    Ok(_) => {}
                    Err(Error::Busy) => unread.push(row),
                    Err(error) => {
                        let DueAttempt { tenant, id, .. } = &row.attempt;
                        tracing::error!(%tenant, delivery_id = %id, ?error, "a delivery cannot be checked");
                        left.push(row);
                    }
                }
            }
            rows = unread;
            if rows.is_empty() || read == READS || Instant::now() >= end {
                break;
            }
            sleep(PAUSE).await;
        }
        left.extend(rows);
        let mut overdue = 0;
        for ((is_slow, tenant), late) in late {
            let (rows, states): (Vec<_>, Vec<_>) = late.into_iter().unzip();
            match self.rouse(&tenant, &states, is_slow, now).await {
                Ok(()) => overdue += states.len(),
                Err(error) => {
                    tracing::error!(%tenant, ?error, "overdue deliveries could not be woken, and are checked again");
                    left.extend(rows);
                }
            }
        }
        Checked { overdue, left }
    }

    /// Puts rows into the present minute, which is checked in a quarter of an hour.
    ///
    /// # Errors
    /// The table does not take them.
    async fn check_later(&self, rows: &[DueRow], now: Timestamp) -> Result<()> {
        let (given_up, rows): (Vec<_>, Vec<_>) = rows.iter().partition(|row| now.since(row.at) > KEPT);
        for DueRow { attempt: DueAttempt { tenant, id, .. }, .. } in given_up {
            tracing::error!(%tenant, delivery_id = %id, "a delivery could not be checked for a week, and is given up");
        }
        let rows = rows.into_iter().map(|row| ((), self.log.due_row_again(row, now))).collect();
        if self.log.put(rows).await.is_empty() { Ok(()) } else { Err(Error::Busy) }
    }

    /// Sends a message for each of these deliveries, with a due row in case that gets lost, too.
    async fn rouse(&self, tenant: &TenantId, late: &[Delivery], is_slow: bool, now: Timestamp) -> Result<()> {
        let rows = late.iter().map(|delivery| ((), self.log.due_row(tenant, delivery, is_slow, now))).collect();
        if !self.log.put(rows).await.is_empty() {
            return Err(Error::Busy);
        }
        for delivery in late {
            tracing::warn!(%tenant, delivery_id = %delivery.id, "an attempt is overdue: its message was lost");
        }
        let due: Vec<_> = late.iter().map(|delivery| (DueAttempt::next(tenant, delivery), now)).collect();
        self.send(&due, is_slow, now).await
    }
}

/// When to make an attempt that is due in the minute of a sweep. The sweep comes somewhere in its minute: what was due before
/// comes a minute later, so that a receiver does not get the waits of most of a minute at once. What was due a minute ago or
/// more has waited for long enough.
fn spread(at: Timestamp, now: Timestamp) -> Timestamp {
    if at < now { at.after(MINUTE) } else { at }
}

fn is_overdue(delivery: &Delivery, now: Timestamp) -> bool {
    delivery.wakes_at().is_some_and(|at| now.since(at) > OVERDUE)
}
