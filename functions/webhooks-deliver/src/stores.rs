//! The stores that deliveries read and write.

use std::time::Duration;

use common::{
    audit::Recorder,
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Queue},
        endpoints::{Endpoints, Health, HoldFor},
        log::Log,
        queue::Queues,
    },
};
use tokio::sync::Semaphore;

use crate::reads::Reads;

/// The number of concurrent writes for each queue that is not shared. More writes could delay the shared queues if a
/// table is busy.
const WRITES: usize = 4;

/// The endpoints, the log, and the queues for due attempts.
pub(crate) struct Stores {
    pub(crate) endpoints: Endpoints,
    pub(crate) reads: Reads,
    /// Events for an inactive endpoint are held for this long.
    pub(crate) hold_for: HoldFor,
    pub(crate) log: Log,
    pub(crate) queues: Queues,
    recorder: Recorder,
    slow: Semaphore,
    hanging: Semaphore,
}

impl Stores {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            endpoints: Endpoints::from_env(env, aws)?,
            reads: Reads::default(),
            hold_for: HoldFor::from_env(env)?,
            log: Log::from_env(env, aws)?.gathering(),
            queues: Queues::from_env(env, aws)?,
            recorder: Recorder::system(env)?,
            slow: Semaphore::new(WRITES),
            hanging: Semaphore::new(WRITES),
        })
    }

    /// Notes the consequences of a delivery for its endpoint, as [`Endpoints::follow`] does, and records them.
    pub(crate) async fn follow(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        health: Option<Health>,
        follow: (Duration, bool),
        now: Timestamp,
    ) -> Result<()> {
        let following = self.endpoints.follow(tenant, delivery, health, follow, now);
        self.recorder.clone().within(following).await
    }

    /// Returns the limit on concurrent writes for records from `queue`, if there is one.
    pub(crate) fn gate(&self, queue: Queue) -> Option<&Semaphore> {
        match queue {
            Queue::Shared => None,
            Queue::Slow => Some(&self.slow),
            Queue::Hanging => Some(&self.hanging),
        }
    }
}
