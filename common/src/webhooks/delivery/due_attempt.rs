//! Due attempts, which messages and log items identify by their keys.

use std::{str::FromStr, time::Duration};

use super::{id::DeliveryId, state::Delivery};
use crate::{
    id::{NotAnId, TenantId},
    timestamp::Timestamp,
};

/// The maximum delay of an SQS message. The log's sweep wakes deliveries that wait longer.
pub const MAX_DELAY: Duration = Duration::from_mins(15);

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

/// A drain of an organization: the invocations that make its parked attempts. Each kind has a queue of its own, so
/// receivers that answer never wait for silent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Drain {
    /// Of all receivers that are not silent. Its messages are in `slow-deliveries`.
    Answering,
    /// Of silent receivers. Its messages are in `hanging-deliveries`.
    Silent,
}

impl Drain {
    pub const ALL: [Self; 2] = [Self::Answering, Self::Silent];

    /// The name in messages, keys, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answering => "late",
            Self::Silent => "silent",
        }
    }
}

impl FromStr for Drain {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        Self::ALL.into_iter().find(|drain| drain.as_str() == text).ok_or(NotAnId)
    }
}

impl DueAttempt {
    /// The attempt that a pending delivery waits for.
    pub fn next(tenant: &TenantId, delivery: &Delivery) -> Self {
        let attempt = if delivery.pull.is_some() { 0 } else { delivery.attempts.saturating_add(1) };
        Self { tenant: tenant.clone(), id: delivery.id, attempt }
    }

    /// The [next](Self::next) attempt and its time, if a message can be delayed until then.
    pub fn delayable(tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Option<(Self, Timestamp)> {
        let at = delivery.wakes_at().filter(|at| at.since(now) <= MAX_DELAY)?;
        Some((Self::next(tenant, delivery), at))
    }
}
