//! Wakes deliveries every minute.
//!
//! SQS delays a message by at most 15 minutes. If a delivery waits longer, there is a due row in the minute of its
//! attempt, and this function sends the message in that minute. A quarter of an hour later, it checks the rows of the
//! minute again and wakes all deliveries that are still due, so a lost message never leaves a delivery waiting forever.
//! It also continues recoveries, ends the deliveries of deleted endpoints, and sends the notices about endpoints and the
//! emails about failed jobs.
//!
//! Several sweepers share the work. Each has its own schedule and its own lease, so only one invocation at a time runs
//! a given sweeper. A sweeper saves its progress after each minute, so a sweep that dies causes only a few duplicate
//! messages. Late and duplicate messages are harmless: a message is dropped if its attempt has already been made.

use std::{sync::Arc, time::Duration};

use common::{
    accounts::{
        consent::Consents, mail::Mailer, members::Members, organizations::Organizations, rate_limits::RateLimits,
    },
    aws::clients::{Aws, CALL_TIMEOUT},
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::Result,
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::{
        drains::Drains,
        endpoints::{Endpoints, HoldFor, disable_after},
        job_failures::JobFailures,
        log::{DeliveryLog, due_rows::Sweeper},
        queue::Queues,
        recoveries::Recoveries,
    },
};
use futures::future::join_all;
use lambda_runtime::LambdaEvent;
use serde::Deserialize;
use tokio::time::Instant;

use crate::{job_failures::FailedJobs, notices::Notices, recipients::Recipients};

mod endings;
mod index;
mod job_failures;
mod mail;
mod notices;
mod recipients;
mod recovery_sweep;
mod sweep;

/// The pause between tries of a call.
const PAUSE: Duration = Duration::from_secs(1);
/// The time reserved for calls in progress at the end of an invocation.
const RESERVE: Duration = CALL_TIMEOUT.saturating_mul(2);

/// The function, ready to handle events. Clones share their state.
#[derive(Clone)]
pub struct Wake {
    app: Arc<App>,
}

struct App {
    log: DeliveryLog,
    queues: Queues,
    drains: Drains,
    recoveries: Recoveries,
    notices: Notices,
    failures: FailedJobs,
}

/// A scheduled invocation.
#[derive(Debug, Deserialize)]
pub struct Tick {
    /// The sweeper to run. Without a number, all sweepers run concurrently.
    sweeper: Option<Sweeper>,
    /// The scheduled time, in RFC 3339, if given.
    time: Option<String>,
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Wake, ConfigError> {
    let aws = Aws::new(env)?;
    let log = DeliveryLog::from_env(env, &aws)?;
    let queues = Queues::from_env(env, &aws)?;
    let recipients = Recipients {
        rate_limits: RateLimits::from_env(env, &aws)?,
        consents: Consents::from_env(env, &aws)?,
        // The template always sets this variable.
        base: BaseUrl::from_env(env)?.unwrap_or_else(|| BaseUrl::of_domain("localhost")),
    };
    let notices = Notices {
        log: log.clone(),
        endpoints: Endpoints::from_env(env, &aws)?,
        queues: queues.clone(),
        organizations: Organizations::from_env(env, &aws)?,
        mailer: Mailer::from_env(env, &aws)?,
        quotas: JobFailures::from_env(env, &aws)?,
        recipients: recipients.clone(),
        disable_after: disable_after(env)?,
        hold_for: HoldFor::from_env(env)?,
    };
    let failures = FailedJobs {
        table: notices.quotas.clone(),
        organizations: notices.organizations.clone(),
        members: Members::from_env(env, &aws)?,
        mailer: notices.mailer.clone(),
        recipients,
    };
    let drains = Drains { endpoints: notices.endpoints.clone(), log: log.clone(), queues: queues.clone() };
    let recoveries = Recoveries { endpoints: notices.endpoints.clone(), log: log.clone(), queues: queues.clone() };
    let app = App { log, queues, drains, recoveries, notices, failures };
    Ok(Wake { app: Arc::new(app) })
}

impl Wake {
    /// Sweeps up to the current minute, unless another invocation is sweeping.
    ///
    /// # Errors
    /// A call to AWS failed, or the event is malformed. Work done before the error remains done.
    pub async fn handle(&self, event: LambdaEvent<Tick>) -> Result<(), lambda_runtime::Error> {
        let left = event.context.deadline().duration_since(Timestamp::now().into()).unwrap_or_default();
        let end = Instant::now() + left.saturating_sub(RESERVE);
        let Tick { sweeper, time } = event.payload;
        // Events may be late, but not early. Only tests send a time in the future.
        let now = match time {
            Some(time) => Timestamp::now().max(time.parse()?),
            None => Timestamp::now(),
        };
        let sweepers = Sweeper::all().filter(|other| sweeper.is_none_or(|sweeper| sweeper == *other));
        let swept = sweepers.map(|sweeper| self.app.run(sweeper, now, now.after(left), end));
        let swept: Result<()> = join_all(swept).await.into_iter().collect();
        swept.and(self.app.report_lag(now).await).map_err(Into::into)
    }
}

impl App {
    /// Runs a sweeper, unless another invocation is running it. Indexes and recoveries run concurrently with the sweep, so
    /// none delays another in a busy minute.
    async fn run(&self, sweeper: Sweeper, now: Timestamp, until: Timestamp, end: Instant) -> Result<()> {
        let Some(mut progress) = self.log.take_sweep(sweeper, now, until).await? else {
            common::log!("sweep.skipped", ?sweeper);
            return Ok(());
        };
        let woken = progress.woken;
        let (swept, (), recovered, ended, notified) = futures::join!(
            self.sweep(sweeper, &mut progress, now, end),
            self.index(sweeper, woken, now, end),
            self.recover(sweeper, now, end),
            self.end(sweeper, now, end),
            self.send_notices(sweeper, now, end),
        );
        let saved = self.log.save_sweep(sweeper, progress, true).await;
        swept.and(notified).and(recovered).and(ended).and(saved)
    }

    /// Sends the notices about endpoints and the emails about failed jobs. There are only a few, so the first sweeper
    /// sends all of them.
    async fn send_notices(&self, sweeper: Sweeper, now: Timestamp, end: Instant) -> Result<()> {
        if !sweeper.is_first() {
            return Ok(());
        }
        let sent = self.notices.send(now, end).await;
        sent.and(self.failures.notify(now, end).await)
    }

    /// Reports the lag of the slowest sweeper.
    async fn report_lag(&self, now: Timestamp) -> Result<()> {
        if let Some(lag) = self.log.sweep_lag(now).await? {
            let lag = lag.as_secs_f64();
            metrics::emit(&[Metric { name: "SweepLag", unit: "Seconds", values: vec![lag] }], &[]);
        }
        Ok(())
    }
}
