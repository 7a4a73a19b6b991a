//! The dependencies of the handlers.

use std::time::Duration;

use common::{
    accounts::organizations::Organizations,
    application::idempotency::RememberedCalls,
    audit::Recorder,
    error::Result,
    id::{RecoveryId, TenantId},
    presentation::console::Console,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, Retention, Status},
        destination::DestinationPolicy,
        endpoints::{Endpoints, HoldFor, disable_after, max_endpoints, rotation_overlap},
        erasure::Erasure,
        job_failures::JobFailures,
        log::{DeliveryLog, endings::Endings, recovery::Selection},
        queue::{RecoveryQueue, SharedQueue},
    },
};
use tokio::time::{Instant, sleep};

common::from_env! {
    /// The stores and clients of the pages.
    pub(crate) struct App {
        pub(crate) calls: RememberedCalls,
        pub(crate) destinations: DestinationPolicy = DestinationPolicy::from_env,
        /// The time after which a failing endpoint is disabled. Zero means never.
        pub(crate) disable_after: Duration = disable_after,
        pub(crate) endings: Endings,
        pub(crate) endpoints: Endpoints,
        pub(crate) failures: JobFailures,
        pub(crate) hold_for: HoldFor = HoldFor::from_env,
        /// The maximum number of endpoints per tenant.
        pub(crate) limit: u32 = max_endpoints,
        pub(crate) log: DeliveryLog,
        organizations: Organizations,
        pub(crate) queue: SharedQueue,
        pub(crate) recoveries: RecoveryQueue,
        pub(crate) retention: Retention = Retention::from_env,
        pub(crate) rotation_overlap: Duration = rotation_overlap,
    }
}

/// The time that a page waits for an attempt before showing it as in progress.
const ATTEMPT_WAIT: Duration = Duration::from_secs(3);
/// The time between two reads of the log.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

impl App {
    /// Erases deliveries of the tenant.
    pub(crate) fn erasure<'a>(&'a self, tenant: &'a TenantId) -> Erasure<'a> {
        Erasure { endpoints: &self.endpoints, log: &self.log, tenant, now: Timestamp::now() }
    }

    /// Starts a recovery, which begins at once.
    pub(crate) async fn recover(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        selection: &Selection,
    ) -> Result<RecoveryId> {
        let now = Timestamp::now();
        let id = self.log.start_recovery(recorder, tenant, selection, |_| Ok(None), now).await?;
        self.recoveries.begin(tenant, id, now).await;
        Ok(id)
    }

    /// Reads the data for a page's header.
    pub(crate) async fn console(&self, tenant: &TenantId, here: &'static str) -> Result<Console> {
        let organization = self.organizations.get(tenant).await?.name;
        Ok(Console { organization, here })
    }

    /// Waits up to [`ATTEMPT_WAIT`] for the next attempt of a pending delivery that has already had `attempts`. Returns
    /// immediately for a delivery to a pull endpoint, which is held until a client receives it.
    pub(crate) async fn wait_for_attempt(&self, tenant: &TenantId, id: &DeliveryId, attempts: u32) -> Result<()> {
        self.wait_for_attempts(tenant, &[(*id, attempts)]).await
    }

    /// Waits like [`Self::wait_for_attempt`], for several deliveries.
    pub(crate) async fn wait_for_attempts(&self, tenant: &TenantId, sent: &[(DeliveryId, u32)]) -> Result<()> {
        let end = Instant::now() + ATTEMPT_WAIT;
        let mut waiting = sent.to_vec();
        loop {
            // This read is repeated, so it does not include payloads, which may be large.
            let ids: Vec<_> = waiting.iter().map(|(id, _)| *id).collect();
            let known = self.log.known(tenant, &ids).await?;
            waiting.retain(|(id, attempts)| {
                known.get(id).is_none_or(|known| known.attempts <= *attempts && known.status == Status::Pending)
            });
            if waiting.is_empty() || Instant::now() + POLL_INTERVAL > end {
                return Ok(());
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}
