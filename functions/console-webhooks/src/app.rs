//! The dependencies of the handlers.

use std::time::Duration;

use common::{
    accounts::organizations::Organizations,
    application::idempotency::Calls,
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    id::TenantId,
    presentation::console::Console,
    webhooks::{
        delivery::{DeliveryId, Retention, Status},
        destination::DestinationPolicy,
        endpoints::{Endpoints, HoldFor, MAX_ENDPOINTS, disable_after},
        log::Log,
        queue::SharedQueue,
    },
};
use tokio::time::{Instant, sleep};

/// The stores and clients of the pages.
pub(crate) struct App {
    pub(crate) calls: Calls,
    pub(crate) destinations: DestinationPolicy,
    /// The time after which a failing endpoint is disabled. Zero means never.
    pub(crate) disable_after: Duration,
    pub(crate) endpoints: Endpoints,
    pub(crate) hold_for: HoldFor,
    /// The maximum number of endpoints per tenant.
    pub(crate) limit: u32,
    pub(crate) log: Log,
    organizations: Organizations,
    pub(crate) queue: SharedQueue,
    pub(crate) retention: Retention,
    pub(crate) rotation_overlap: Duration,
}

/// The time that a page waits for an attempt before showing it as in progress.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time between two reads of the log.
const PAUSE: Duration = Duration::from_millis(150);

impl App {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            calls: Calls::from_env(env, aws)?,
            destinations: DestinationPolicy::from_env(env)?,
            disable_after: disable_after(env)?,
            endpoints: Endpoints::from_env(env, aws)?,
            hold_for: HoldFor::from_env(env)?,
            limit: env.number("MAX_ENDPOINTS_PER_TENANT", 1..=MAX_ENDPOINTS)?,
            log: Log::from_env(env, aws)?,
            organizations: Organizations::from_env(env, aws)?,
            queue: SharedQueue::from_env(env, aws)?,
            retention: Retention::from_env(env)?,
            rotation_overlap: Duration::from_secs(env.number("ROTATION_OVERLAP", 0..=2_592_000)?),
        })
    }

    /// Reads the data for a page's header.
    pub(crate) async fn console(&self, tenant: &TenantId, here: &'static str) -> Result<Console> {
        let organization = self.organizations.get(tenant).await?.name;
        Ok(Console { organization, here })
    }

    /// Waits up to [`PATIENCE`] for the next attempt of a pending delivery that has already had `attempts`. Returns
    /// immediately for a delivery to a pull endpoint, which is held until a client receives it.
    pub(crate) async fn wait_for_attempt(&self, tenant: &TenantId, id: &DeliveryId, attempts: u32) -> Result<()> {
        self.wait_for_attempts(tenant, &[(*id, attempts)]).await
    }

    /// Waits like [`Self::wait_for_attempt`], for several deliveries.
    pub(crate) async fn wait_for_attempts(&self, tenant: &TenantId, sent: &[(DeliveryId, u32)]) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut waiting = sent.to_vec();
        loop {
            // This read is repeated, so it does not include payloads, which may be large.
            let ids: Vec<_> = waiting.iter().map(|(id, _)| *id).collect();
            let known = self.log.known(tenant, &ids).await?;
            waiting.retain(|(id, attempts)| {
                known.get(id).is_none_or(|known| known.attempts <= *attempts && known.status == Status::Pending)
            });
            if waiting.is_empty() || Instant::now() + PAUSE > end {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }
}
