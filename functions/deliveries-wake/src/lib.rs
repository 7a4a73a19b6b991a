//! Wakes deliveries, every minute.
//!
//! SQS delays a message by 15 minutes at most. A delivery that waits longer has a due row in the minute of its attempt, and
//! this function sends its message when that minute has come. A quarter of an hour later it looks at the minute once more,
//! and wakes all deliveries that are still due: none rests forever because its message got lost. It also carries on the
//! recoveries, and sends the notices about endpoints and the mails about failed jobs.
//!
//! Several sweepers share the work, with a schedule and a lease each, so that one invocation at a time sweeps for each. It
//! saves how far it is after each minute, so a sweep that dies only sends some messages twice. A message that is late or sent
//! twice is harmless: it is dropped if the delivery has got past its attempt.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    accounts::{mail::Mailer, members::Members, organizations::Organizations},
    aws::clients::{Aws, CALL_TIMEOUT},
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    random,
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DueAttempt},
        endpoints::{Endpoints, HoldFor, disable_after},
        failures::JobFailures,
        log::{
            Log,
            due::{CHECK_AFTER, DueRow, Minute, Sweep, Sweeper},
            recovery::Recovery,
        },
        queue::Queues,
    },
};
use futures::{
    StreamExt,
    future::{join_all, try_join_all},
    stream,
};
use lambda_runtime::LambdaEvent;
use serde::Deserialize;
use tokio::time::Instant;

use crate::{failures::Failures, notices::Notices};

mod failures;
mod mail;
mod notices;

/// How long after its time an attempt is overdue. An attempt takes half a minute, and one that was put off comes back
/// within seconds, or after three minutes if its record failed.
const OVERDUE: Duration = Duration::from_secs(10 * 60);
/// How many pages of a recovery are sent again in a minute: with a hundred deliveries each, a hundred a second.
const PAGES: u32 = 60;
/// How many recoveries go on side by side. Each has as many calls under way as the log allows one caller.
const SIDE_BY_SIDE: usize = 8;
/// The time over which a page of recovered deliveries is spread. Each page of a minute has a time of its own, so that a few
/// deliveries do not wait for a minute because there might be many.
const SPREAD: Duration = Duration::from_secs(1);
/// How often the sweep comes.
const MINUTE: Duration = Duration::from_secs(60);
/// The time kept free at the end of an invocation for calls under way.
const RESERVE: Duration = CALL_TIMEOUT.saturating_mul(2);

/// The function, ready to be called. Cloning is cheap.
#[derive(Clone)]
pub struct Wake {
    app: Arc<App>,
}

struct App {
    log: Log,
    queues: Queues,
    notices: Notices,
    failures: Failures,
}

/// The event of a schedule.
#[derive(Debug, Deserialize)]
pub struct Tick {
    /// The sweeper that is to sweep. Without a number, all do, side by side.
    sweeper: Option<Sweeper>,
    /// The time it was sent for, in RFC 3339, if it says so.
    time: Option<String>,
}

/// The function, with the settings in `env`.
pub fn function(env: &Env) -> Result<Wake, ConfigError> {
    let aws = Aws::new(env)?;
    let log = Log::from_env(env, &aws)?;
    let notices = Notices {
        log: log.clone(),
        endpoints: Endpoints::from_env(env, &aws)?,
        organizations: Organizations::from_env(env, &aws)?,
        mailer: Mailer::from_env(env, &aws)?,
        // The template always gives it here.
        base: BaseUrl::from_env(env)?.unwrap_or_else(|| BaseUrl::of_domain("localhost")),
        disable_after: disable_after(env)?,
        hold_for: HoldFor::from_env(env)?,
    };
    let failures = Failures {
        table: JobFailures::from_env(env, &aws)?,
        organizations: notices.organizations.clone(),
        members: Members::from_env(env, &aws)?,
        mailer: notices.mailer.clone(),
        base: notices.base.clone(),
    };
    let app = App { log, queues: Queues::from_env(env, &aws)?, notices, failures };
    Ok(Wake { app: Arc::new(app) })
}

impl Wake {
    /// Sweeps up to the present minute, unless another invocation does.
    ///
    /// # Errors
    /// A call failed, or the event is malformed. What was done up to then stays done.
    pub async fn handle(&self, event: LambdaEvent<Tick>) -> Result<(), lambda_runtime::Error> {
        let left = event.context.deadline().duration_since(Timestamp::now().into()).unwrap_or_default();
        let end = Instant::now() + left.saturating_sub(RESERVE);
        let Tick { sweeper, time } = event.payload;
        // The event may be late, but not early; only a test sends one from the future.
        let now = match time {
            Some(time) => Timestamp::now().max(time.parse()?),
            None => Timestamp::now(),
        };
        let sweepers = Sweeper::all().filter(|other| sweeper.is_none_or(|sweeper| sweeper == *other));
        let swept = sweepers.map(|sweeper| self.app.run(sweeper, now, now.after(left), end));
        let swept: Result<()> = join_all(swept).await.into_iter().collect();
        swept.and(self.app.report_lag(now).await).map_err(report)
    }
}

/// Fails the invocation: EventBridge then repeats it, and an alarm counts it.
fn report(error: Error) -> lambda_runtime::Error {
    match error {
        Error::Internal(cause) => cause.into(),
        error => format!("{error:?}").into(),
    }
}

impl App {
    /// Does the work of a sweeper, unless another invocation does. The recoveries go on while it sweeps: neither waits for the
    /// other in a minute of much work.
    async fn run(&self, sweeper: Sweeper, now: Timestamp, until: Timestamp, end: Instant) -> Result<()> {
        let Some(mut progress) = self.log.take_sweep(sweeper, now, until).await? else {
            tracing::info!(?sweeper, "another invocation is sweeping");
            return Ok(());
        };
        let (swept, recovered, told) = futures::join!(
            self.sweep(sweeper, &mut progress, now, end),
            self.recover(sweeper, now, end),
            self.tell(sweeper, now, end),
        );
        let saved = self.log.save_sweep(sweeper, progress, true).await;
        swept.and(told).and(recovered).and(saved)
    }

    /// Sends the notices about endpoints and the mails about failed jobs, which are few: the first sweeper does it.
    async fn tell(&self, sweeper: Sweeper, now: Timestamp, end: Instant) -> Result<()> {
        if !sweeper.is_first() {
            return Ok(());
        }
        let sent = self.notices.send(now, end).await;
        sent.and(self.failures.tell(now, end).await)
    }

    /// Reports how far the last of all sweepers is.
    async fn report_lag(&self, now: Timestamp) -> Result<()> {
        if let Some(swept) = self.log.swept().await? {
            let lag = swept.age(now).as_secs_f64();
            metrics::emit(&[Metric { name: "SweepLag", unit: "Seconds", values: vec![lag] }], &[]);
        }
        Ok(())
    }

    /// Passes over the minutes since the last sweep, as far as there is time.
    async fn sweep(&self, sweeper: Sweeper, progress: &mut Sweep, now: Timestamp, end: Instant) -> Result<()> {
        let last = Minute::of(now);
        let is_early = || Instant::now() < end;
        let mut overdue = 0;
        for minute in progress.woken.until(last).take_while(|_| is_early()) {
            self.wake(sweeper, minute, now).await?;
            progress.woken = minute;
            self.log.save_sweep(sweeper, *progress, false).await?;
        }
        let checkable = last.before(CHECK_AFTER).min(progress.woken);
        for minute in progress.checked.until(checkable).take_while(|_| is_early()) {
            overdue += self.check(sweeper, minute, now).await?;
            progress.checked = minute;
            self.log.save_sweep(sweeper, *progress, false).await?;
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let overdue = overdue as f64;
        metrics::emit(&[Metric { name: "Overdue", unit: "Count", values: vec![overdue] }], &[]);
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

    /// Wakes the deliveries that were due in `minute` and still are. Returns how many.
    async fn check(&self, sweeper: Sweeper, minute: Minute, now: Timestamp) -> Result<usize> {
        let overdue = sweeper.partitions().map(|partition| self.check_partition(minute, partition, now));
        join_all(overdue).await.into_iter().sum()
    }

    async fn check_partition(&self, minute: Minute, partition: u8, now: Timestamp) -> Result<usize> {
        let (mut overdue, mut checked, mut next) = (0, Ok(()), None);
        loop {
            let page = self.log.all_due(minute, partition, next).await?;
            let mut late: BTreeMap<(bool, &TenantId), Vec<Delivery>> = BTreeMap::new();
            for (DueRow { attempt, is_slow, .. }, state) in self.log.states(&page.rows).await? {
                match state {
                    Ok(state) if is_overdue(&state, now) => {
                        late.entry((*is_slow, &attempt.tenant)).or_default().push(state);
                    }
                    Ok(_) => {}
                    // A delivery that cannot be read does not hold up the others.
                    Err(error) => {
                        let DueAttempt { tenant, id, .. } = attempt;
                        tracing::error!(%tenant, delivery_id = %id, ?error, "a delivery cannot be checked");
                        checked = Err(error);
                    }
                }
            }
            for ((is_slow, tenant), late) in late {
                match self.rouse(tenant, &late, is_slow, now).await {
                    Ok(()) => overdue += late.len(),
                    // One tenant's failure does not hold up the others.
                    Err(error) => {
                        tracing::error!(%tenant, ?error, "overdue deliveries could not be woken, and are checked again");
                        checked = Err(error);
                    }
                }
            }
            next = page.next;
            if next.is_none() {
                return checked.map(|()| overdue);
            }
        }
    }

    /// Sends a message for each of these deliveries, with a due row in case that gets lost, too.
    async fn rouse(&self, tenant: &TenantId, late: &[Delivery], is_slow: bool, now: Timestamp) -> Result<()> {
        let rows = late.iter().map(|delivery| ((), self.log.due(tenant, delivery, is_slow, now))).collect();
        if !self.log.put(rows).await.is_empty() {
            return Err(Error::Busy);
        }
        for delivery in late {
            tracing::warn!(%tenant, delivery_id = %delivery.id, "an attempt is overdue: its message was lost");
        }
        let due: Vec<_> = late.iter().map(|delivery| (DueAttempt::next(tenant, delivery), now)).collect();
        self.send(&due, is_slow, now).await
    }

    async fn send(&self, due: &[(DueAttempt, Timestamp)], is_slow: bool, now: Timestamp) -> Result<()> {
        self.queues.of(is_slow).send(due, now).await.into_iter().collect()
    }

    /// Carries on the recoveries, a page of each in turn, as far as there is time. A recovery that fails goes on with the
    /// next sweep, and does not hold up the others.
    async fn recover(&self, sweeper: Sweeper, now: Timestamp, end: Instant) -> Result<()> {
        let (mut open, mut failed) = (self.log.open_recoveries(|tenant| sweeper.recovers(tenant)).await?, Ok(()));
        for page in 0..PAGES {
            let start = now.after(SPREAD * page);
            let sent = open.into_iter().map(async |(tenant, mut recovery)| {
                if Instant::now() >= end {
                    return Ok(None);
                }
                match self.recover_page(&tenant, &mut recovery, start, now).await {
                    Ok(()) if recovery.done => Ok(None),
                    Ok(()) => Ok(Some((tenant, recovery))),
                    Err(error) => {
                        tracing::error!(%tenant, recovery_id = %recovery.id, ?error, "a recovery failed, and goes on later");
                        Err(error)
                    }
                }
            });
            let sent: Vec<_> = sent.collect();
            let sent: Vec<Result<_>> = stream::iter(sent).buffered(SIDE_BY_SIDE).collect().await;
            open = Vec::new();
            for sent in sent {
                match sent {
                    Ok(recovery) => open.extend(recovery),
                    Err(error) => failed = Err(error),
                }
            }
        }
        failed
    }

    /// Sends the next page of a recovery again, from `start` on.
    async fn recover_page(
        &self,
        tenant: &TenantId,
        recovery: &mut Recovery,
        start: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        let due = || start.after(SPREAD.mul_f64(random::fraction()));
        let resent = self.log.recover_page(tenant, recovery, due, now).await?;
        let due = resent.iter().filter_map(|delivery| DueAttempt::soon(tenant, delivery, now));
        self.send(&due.collect::<Vec<_>>(), false, now).await?;
        self.log.save_recovery(tenant, recovery).await
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
