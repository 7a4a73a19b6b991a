//! The stores that a delivery touches.

use std::sync::Arc;

use common::{
    aws::clients::Aws,
    config::{ConfigError, Env},
    webhooks::{
        delivery::Queue,
        endpoints::{Endpoints, HoldFor},
        log::Log,
        queue::Queues,
    },
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The number of concurrent calls for each queue that is not shared. More could delay the shared queues at busy tables.
const CALLS: usize = 4;

/// The endpoints, the log, and the queues of due attempts. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) endpoints: Endpoints,
    /// The time for which inactive endpoints collect held deliveries.
    pub(crate) hold_for: HoldFor,
    pub(crate) log: Log,
    pub(crate) queues: Queues,
    slow: Arc<Semaphore>,
    hanging: Arc<Semaphore>,
}

impl Stores {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            endpoints: Endpoints::from_env(env, aws)?,
            hold_for: HoldFor::from_env(env)?,
            log: Log::from_env(env, aws)?.gathering(),
            queues: Queues::from_env(env, aws)?,
            slow: Arc::new(Semaphore::new(CALLS)),
            hanging: Arc::new(Semaphore::new(CALLS)),
        })
    }

    /// The gate for the calls of records of `queue`.
    pub(crate) fn gate(&self, queue: Queue) -> Gate<'_> {
        Gate(match queue {
            Queue::Shared => None,
            Queue::Slow => Some(&*self.slow),
            Queue::Hanging => Some(&*self.hanging),
        })
    }
}

/// Lets the calls of a batch pass: immediately, or a few at a time if their queue is not shared.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a>(Option<&'a Semaphore>);

impl<'a> Gate<'a> {
    /// Waits until a call may pass. The call counts as in progress until the answer is dropped.
    pub(crate) async fn pass(self) -> Option<SemaphorePermit<'a>> {
        // The semaphore is never closed.
        self.0?.acquire().await.ok()
    }
}
