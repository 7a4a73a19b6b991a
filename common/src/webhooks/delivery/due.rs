//! Due attempts, which messages and log items identify by their keys.

use std::time::Duration;

use super::{id::DeliveryId, state::Delivery};
use crate::{id::TenantId, timestamp::Timestamp};

/// The maximum delay of an SQS message. The log's sweep wakes deliveries that wait longer.
pub const MAX_DELAY: Duration = Duration::from_secs(900);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DueAttempt {
    /// The delivery's owner.
    pub tenant: TenantId,
    /// The delivery that the attempt belongs to.
    pub id: DeliveryId,
    /// The number of the attempt. The message is obsolete once the attempt has been made. 0 marks the end of the period
    /// in which a pull delivery can be received.
    pub attempt: u32,
}

/// The queue for an attempt, chosen by the receiver's response time. Each queue has its own invocations, so an attempt
/// never waits for a slower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// `deliveries`: for receivers that are good or unknown.
    Shared,
    /// `slow-deliveries`: for receivers that respond late or with errors.
    Slow,
    /// `hanging-deliveries`: for receivers that do not respond.
    Hanging,
}

impl Queue {
    /// All queues, from the fastest to the slowest.
    pub const ALL: [Self; 3] = [Self::Shared, Self::Slow, Self::Hanging];

    /// The name of the queue in logs and metrics.
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
    pub fn next(tenant: &TenantId, delivery: &Delivery) -> Self {
        let attempt = if delivery.pull.is_some() { 0 } else { delivery.attempts.saturating_add(1) };
        Self { tenant: tenant.clone(), id: delivery.id, attempt }
    }

    /// The [next](Self::next) attempt and its time, if a message can be delayed until then.
    pub fn soon(tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Option<(Self, Timestamp)> {
        let at = delivery.wakes_at().filter(|at| at.since(now) <= MAX_DELAY)?;
        Some((Self::next(tenant, delivery), at))
    }
}
