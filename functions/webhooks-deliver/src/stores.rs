//! The stores that a delivery touches.

use common::{
    aws::clients::Aws,
    config::{ConfigError, Env},
    webhooks::{endpoints::Endpoints, log::Log, queue::Queue},
};

/// The endpoints, the log, and the queue that brings deliveries back. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) endpoints: Endpoints,
    pub(crate) log: Log,
    pub(crate) queue: Queue,
}

impl Stores {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            endpoints: Endpoints::from_env(env, aws)?,
            log: Log::from_env(env, aws)?,
            queue: Queue::from_env(env, aws)?,
        })
    }
}
