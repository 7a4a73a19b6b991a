//! Due attempts, as messages and rows of the log name them: by their keys.

use std::time::Duration;

use super::{id::DeliveryId, state::Delivery};
use crate::{id::TenantId, timestamp::Timestamp};

/// The longest delay that SQS offers. Longer waits are woken from the log.
pub const MAX_DELAY: Duration = Duration::from_secs(900);

/// An attempt that is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DueAttempt {
    /// Whose delivery it is.
    pub tenant: TenantId,
    /// The delivery.
    pub id: DeliveryId,
    /// The number of the attempt, which is no longer due once the delivery has got past it. 0 is no attempt: the time for
    /// somebody to take the delivery is over.
    pub attempt: u32,
}

/// The queue that brings an attempt, chosen by how long its receiver takes. Each queue has invocations of its own, so no
/// attempt waits for one that takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// `deliveries`: the receiver answers soon, or is new. All organizations share its invocations.
    Shared,
    /// `slow-deliveries`: the receiver answers, but late or with errors.
    Slow,
    /// `hanging-deliveries`: the receiver does not answer, or has not answered yet.
    Hanging,
}

impl Queue {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Shared, Self::Slow, Self::Hanging];

    /// Its name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Slow => "slow",
            Self::Hanging => "hanging",
        }
    }
}

impl DueAttempt {
    /// The attempt that a pending delivery waits for.
    #[must_use]
    pub fn next(tenant: &TenantId, delivery: &Delivery) -> Self {
        let attempt = if delivery.pull.is_some() { 0 } else { delivery.attempts.saturating_add(1) };
        Self { tenant: tenant.clone(), id: delivery.id, attempt }
    }

    /// The [next](Self::next) attempt and its time, if a message can wait for that long.
    #[must_use]
    pub fn soon(tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Option<(Self, Timestamp)> {
        let at = delivery.wakes_at().filter(|at| at.since(now) <= MAX_DELAY)?;
        Some((Self::next(tenant, delivery), at))
    }
}
