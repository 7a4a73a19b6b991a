//! Carries on recoveries: sends again what endpoints missed, a page at a time.

use std::time::Duration;

use common::{
    error::{Error, Result},
    id::TenantId,
    random,
    timestamp::Timestamp,
    webhooks::{
        delivery::DueAttempt,
        log::{due::Sweeper, recovery::Recovery},
    },
};
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::{App, PAUSE};

/// How many pages of a recovery are sent again in a minute: with a hundred deliveries each, a hundred a second.
const PAGES: u32 = 60;
/// How many recoveries go on side by side. Each has as many calls under way as the log allows one caller.
const SIDE_BY_SIDE: usize = 8;
/// The time over which a page of recovered deliveries is spread. Each page of a minute has a time of its own, so that a few
/// deliveries do not wait for a minute because there might be many.
const SPREAD: Duration = Duration::from_secs(1);

impl App {
    /// Carries on the recoveries, a page of each in turn, as far as there is time. A recovery that fails goes on with the
    /// next sweep, and does not hold up the others.
    pub(super) async fn recover(&self, sweeper: Sweeper, now: Timestamp, end: Instant) -> Result<()> {
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
                    // The partition of its log takes no more for now: the rest of the page follows.
                    Err(Error::Busy) => {
                        sleep(PAUSE).await;
                        Ok(Some((tenant, recovery)))
                    }
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
    ///
    /// # Errors
    /// A part of the page is left. What was sent again is so all the same.
    async fn recover_page(
        &self,
        tenant: &TenantId,
        recovery: &mut Recovery,
        start: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        let due = || start.after(SPREAD.mul_f64(random::fraction()));
        let (resent, rest) = self.log.recover_page(tenant, recovery, due, now).await?;
        let due = resent.iter().filter_map(|delivery| DueAttempt::soon(tenant, delivery, now));
        let sent = self.send(&due.collect::<Vec<_>>(), false, now).await;
        // They are pending now: nobody would find them among what was missed.
        self.log.save_recovery(tenant, recovery).await?;
        sent.and(rest)
    }
}
