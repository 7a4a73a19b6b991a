//! Continues recoveries: resends deliveries that endpoints missed, page by page.

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
use tokio::time::Instant;

use crate::App;

/// The number of pages that a recovery resends per minute. A page contains a hundred deliveries, so the rate is a
/// hundred deliveries per second.
const PAGES: u32 = 60;
/// The number of recoveries that run concurrently. Each one may have as many calls in progress as the log allows per
/// caller.
const SIDE_BY_SIDE: usize = 8;
/// The time over which a page's attempts are spread. The pages themselves are handled without pauses, so a small
/// recovery is not as slow as a large one.
const SPREAD: Duration = Duration::from_secs(1);
/// The number of consecutive throttled pages after which a recovery waits for the next sweep. Each throttled page
/// delays the other recoveries.
const THROTTLED: u32 = 3;

impl App {
    /// Continues the oldest recovery of each tenant, one page of each in turn, until `end`. A tenant's next recovery
    /// follows once the one before it is done. If a recovery fails, it resumes in the next sweep without delaying others.
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
                    Ok(()) => Ok(Some((tenant, recovery, 0))),
                    // The partition was throttled for most of a second. The rest of the page is resent in the next
                    // round.
                    Err(Error::Busy) if throttled < THROTTLED => Ok(Some((tenant, recovery, throttled + 1))),
                    Err(error) => {
                        common::log!("recovery.failed", %tenant, recovery_id = %recovery.id, ?error);
                        Err(error)
                    }
                }
            });
            let sent: Vec<_> = sent.collect();
            let sent: Vec<Result<_>> = stream::iter(sent).buffered(SIDE_BY_SIDE).collect().await;
            let mut done = Vec::new();
            open = Vec::new();
            for sent in sent {
                match sent {
                    Ok(Some((tenant, Recovery { done: true, .. }, _))) => done.push(tenant),
                    Ok(recovery) => open.extend(recovery),
                    Err(error) => failed = Err(error),
                }
            }
            if !done.is_empty() {
                match self.log.open_recoveries(|tenant| done.contains(tenant)).await {
                    Ok(next) => open.extend(next.into_iter().map(|(tenant, recovery)| (tenant, recovery, 0))),
                    Err(error) => failed = Err(error),
                }
            }
        }
        failed
    }

    /// Resends a recovery's next page. The attempts are due from `start` on.
    ///
    /// # Errors
    /// [`Error::Busy`] if the rest of the page can follow immediately. After any other error, the recovery
    /// should wait.
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
        let refused = self.send(&due.collect::<Vec<_>>(), now, end).await;
        // Saved even if messages were rejected, because the deliveries are now pending, so repeating the page would not
        // find them.
        self.log.save_recovery(tenant, recovery).await?;
        if refused > 0 {
            // SQS would probably reject the messages from the next page, too.
            return Err(Error::Internal(format!("{refused} messages of a page were rejected")));
        }
        rest
    }
}
