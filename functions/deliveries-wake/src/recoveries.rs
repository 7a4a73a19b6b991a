//! Carries on recoveries: sends again what endpoints missed, a page at a time.

use std::time::Duration;

use common::{
    error::{Error, Result},
    id::TenantId,
    random,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DueAttempt, Queue},
        log::{due::Sweeper, recovery::Recovery},
    },
};
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::App;

/// How many pages of a recovery are sent again in a minute: with a hundred deliveries each, a hundred a second.
const PAGES: u32 = 60;
/// How many recoveries go on side by side. Each has as many calls under way as the log allows one caller.
const SIDE_BY_SIDE: usize = 8;
/// The time over which a page of recovered deliveries is spread. Each page of a minute has a time of its own, so that a few
/// deliveries do not wait for a minute because there might be many.
const SPREAD: Duration = Duration::from_secs(1);
/// How many pages in a row may be throttled. Others wait for each, so the recovery then goes on with the next sweep.
const THROTTLED: u32 = 3;

impl App {
    /// Carries on the recoveries, a page of each in turn, as far as there is time. A recovery that fails goes on with the
    /// next sweep, and does not hold up the others.
    pub(super) async fn recover(&self, sweeper: Sweeper, now: Timestamp, end: Instant) -> Result<()> {
        let open = self.log.open_recoveries(|tenant| sweeper.recovers(tenant)).await?;
        let mut open: Vec<_> = open.into_iter().map(|(tenant, recovery)| (tenant, recovery, 0)).collect();
        let mut failed = Ok(());
        for page in 0..PAGES {
            let start = now.after(SPREAD * page);
            let sent = open.into_iter().map(async |(tenant, mut recovery, throttled)| {
                if Instant::now() >= end {
                    return Ok(None);
                }
                match self.recover_page(&tenant, &mut recovery, start, now, end).await {
                    Ok(()) if recovery.done => Ok(None),
                    Ok(()) => Ok(Some((tenant, recovery, 0))),
                    // The partition of its log took no more, for the better part of a second: the rest of the page follows.
                    Err(Error::Busy) if throttled < THROTTLED => Ok(Some((tenant, recovery, throttled + 1))),
                    Err(error) => {
                        common::log!("recovery.failed", %tenant, recovery_id = %recovery.id, ?error);
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
    /// [`Error::Busy`]: a part of the page is left, and can follow. Another error: it had better wait.
    async fn recover_page(
        &self,
        tenant: &TenantId,
        recovery: &mut Recovery,
        start: Timestamp,
        now: Timestamp,
        end: Instant,
    ) -> Result<()> {
        let due = || start.after(SPREAD.mul_f64(random::fraction()));
        let (resent, rest) = self.log.recover_page(tenant, recovery, due, now).await?;
        let due = resent.iter().filter_map(|delivery| DueAttempt::soon(tenant, delivery, now));
        let refused = self.send(&due.collect::<Vec<_>>(), Queue::Shared, now, end).await;
        // They are pending now: nobody would find them among what was missed.
        self.log.save_recovery(tenant, recovery).await?;
        if refused > 0 {
            // The next page would have to wait for its check, too.
            return Err(Error::Internal(format!("{refused} messages of a page were refused")));
        }
        rest
    }
}
