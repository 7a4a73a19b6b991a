//! Runs recoveries, page by page. The message of a new recovery begins it at once, and the sweep continues those that
//! take longer than a minute, or whose message or process was lost.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    delivery::{Delivery, DueAttempt},
    endpoints::{EndpointView, Endpoints, Evidence, GateOwner, Kind},
    log::{
        DeliveryLog,
        recovery::{
            Recovery,
            page::{Active, DELIVERY_INTERVAL},
        },
    },
    queue::Queues,
};
use crate::{
    error::{Error, Result},
    id::{RecoveryId, TenantId},
    random,
    timestamp::Timestamp,
};

/// The tables and queues of recoveries. Cloning is cheap.
#[derive(Clone)]
pub struct Recoveries {
    pub endpoints: Endpoints,
    pub log: DeliveryLog,
    pub queues: Queues,
}

/// The step after a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStep {
    /// Another page follows.
    More,
    /// The recovery is done.
    Done,
    /// Enough attempts are scheduled until the next sweep, another process is resending a page, or the endpoint is
    /// unreadable.
    Waits,
}

/// The time after which a recovery continues in another invocation, because other organizations may be waiting.
const RUN_TIME: Duration = Duration::from_secs(2);
/// The number of consecutive throttled pages after which a recovery waits for the next sweep. Each throttled page
/// delays other recoveries.
pub const MAX_THROTTLED_PAGES: u32 = 3;

impl Recoveries {
    /// Resends pages of a recovery for some seconds, at most until `end`, and sends the message that continues it. The
    /// sweep continues it after enough attempts have been scheduled.
    pub async fn run(&self, tenant: &TenantId, id: RecoveryId, end: Instant) -> Result<()> {
        let end = end.min(Instant::now() + RUN_TIME);
        let mut throttled = 0;
        while Instant::now() < end {
            match self.resend_page(tenant, id, Timestamp::now(), end).await {
                Ok(RecoveryStep::More) => throttled = 0,
                Ok(RecoveryStep::Done | RecoveryStep::Waits) => return Ok(()),
                Err(Error::Busy) if throttled < MAX_THROTTLED_PAGES => throttled += 1,
                Err(error) => return Err(error),
            }
        }
        self.queues.send_recovery(tenant, id, Timestamp::now()).await
    }

    /// Resends a page of a recovery and stores the progress.
    ///
    /// # Errors
    /// [`Error::Busy`] if the rest of the page can follow immediately. After any other error, the recovery should wait.
    pub async fn resend_page(
        &self,
        tenant: &TenantId,
        id: RecoveryId,
        now: Timestamp,
        end: Instant,
    ) -> Result<RecoveryStep> {
        let Some(mut recovery) = self.log.take_recovery(tenant, id, now).await? else { return Ok(RecoveryStep::Waits) };
        let turn = self.resend(tenant, &mut recovery, now, end).await;
        // Saved after an error, too: the resent deliveries are pending now, so a repeated page would not find them.
        self.log.save_recovery(tenant, &recovery).await?;
        turn
    }

    async fn resend(
        &self,
        tenant: &TenantId,
        recovery: &mut Recovery,
        now: Timestamp,
        end: Instant,
    ) -> Result<RecoveryStep> {
        let Some(endpoints) = self.endpoints_of(tenant, recovery).await? else { return Ok(RecoveryStep::Waits) };
        let active = endpoints.iter().filter(|endpoint| endpoint.active);
        let active = active.map(|endpoint| Active { shards: endpoint.shards(), is_pull: endpoint.kind == Kind::Pull });
        let sources = recovery.sources(&active.collect::<Vec<_>>());
        let mut page = self.log.recovery_page(tenant, recovery, &sources, now).await?;
        while page.ids.is_empty() && !page.is_last() && Instant::now() < end {
            recovery.pass(page);
            page = self.log.recovery_page(tenant, recovery, &sources, now).await?;
        }
        if !page.ids.is_empty() {
            let paced = self.log.pace_recovery(tenant, page.ids.len(), recovery.is_new(), now).await?;
            let Some(start) = paced else { return Ok(RecoveryStep::Waits) };
            let span = DELIVERY_INTERVAL * u32::try_from(page.ids.len()).unwrap_or(u32::MAX);
            let due = || start.after(span.mul_f64(random::fraction()));
            let (resent, rest) = self.log.resend_missed(tenant, recovery, &page.ids, due, now).await;
            // Before the messages, whose attempts wait for the receivers. Without it, they only wait longer.
            let expected = self.expect(tenant, &endpoints, &resent, now).await;
            let due = resent.iter().filter_map(|delivery| DueAttempt::delayable(tenant, delivery, now));
            let refused = self.queues.send_again(due.collect(), Duration::ZERO, now, end).await;
            if refused > 0 {
                // SQS would probably reject the messages of the next page, too.
                return Err(Error::Internal(format!("{refused} messages of a page were rejected")));
            }
            rest.and(expected)?;
        }
        recovery.pass(page);
        Ok(if recovery.done { RecoveryStep::Done } else { RecoveryStep::More })
    }

    /// Reads the endpoint of a recovery, or all endpoints. Returns `None` if the endpoint is unreadable.
    async fn endpoints_of(&self, tenant: &TenantId, recovery: &Recovery) -> Result<Option<Vec<EndpointView>>> {
        match recovery.selection.endpoint {
            None => self.endpoints.list(tenant).await.map(Some),
            Some(id) => match self.endpoints.readable_view(tenant, id).await {
                Ok(endpoint) => Ok(endpoint.map(|endpoint| vec![endpoint])),
                Err(Error::NotFound(_)) => Ok(Some(Vec::new())),
                Err(error) => Err(error),
            },
        }
    }

    /// Ends the long pauses between attempts at silent receivers of these deliveries, because their owner expects them
    /// to answer.
    async fn expect(
        &self,
        tenant: &TenantId,
        endpoints: &[EndpointView],
        resent: &[Delivery],
        now: Timestamp,
    ) -> Result<()> {
        for endpoint in endpoints {
            if resent.iter().any(|delivery| delivery.webhook_endpoint_id == Some(endpoint.id)) {
                let (of, gate) = (GateOwner::Endpoint(endpoint.id), endpoint.health.gate);
                self.endpoints.shift_gate(tenant, of, gate, Evidence::Expected, now, now).await?;
            }
        }
        Ok(())
    }
}
