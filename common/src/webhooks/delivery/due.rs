//! Due attempts, identified by their keys in messages and in items of the log.

use std::time::Duration;

use super::{id::DeliveryId, state::Delivery};
use crate::{id::TenantId, timestamp::Timestamp};

/// The longest delay that SQS offers. The sweep of the log wakes deliveries that wait longer.
pub const MAX_DELAY: Duration = Duration::from_secs(900);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DueAttempt {
    /// The owner of the delivery.
    pub tenant: TenantId,
    /// The delivery that the attempt belongs to.
    pub id: DeliveryId,
    /// The number of the attempt. The attempt is obsolete once the delivery has made it. 0 is not an attempt, but the
    /// end of the time in which a pull delivery can be received.
    pub attempt: u32,
}

/// The queue that carries an attempt, chosen by the response time of the receiver. Each queue has its own invocations,
/// so an attempt never waits for a slower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// `deliveries`: for receivers that are good or unknown. All organizations share its invocations.
    Shared,
    /// `slow-deliveries`: for receivers that answer late or with errors.
    Slow,
    /// `hanging-deliveries`: for receivers that do not answer, or have not answered yet.
    Hanging,
}

impl Queue {
    /// All queues, from the fastest to the slowest.
    pub const ALL: [Self; 3] = [Self::Shared, Self::Slow, Self::Hanging];

    /// The name of the queue in logs and metrics.
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
