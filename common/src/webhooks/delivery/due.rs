//! Due attempts and events, as messages and rows of the log name them: by their keys.

use std::{fmt, str::FromStr, time::Duration};

use super::{
    id::{DeliveryId, WebhookId},
    state::Delivery,
};
use crate::{
    id::{NotAnId, TenantId},
    timestamp::Timestamp,
};

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

/// A parked event whose first attempts are due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DueEvent {
    /// Whose event it is.
    pub tenant: TenantId,
    /// Its key in the log.
    pub parked: ParkedId,
}

/// The key of a parked event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParkedId {
    /// It waits for a single destination: its row is the payload that the delivery will have, so that it is written once.
    Delivery(DeliveryId),
    /// It waits for several endpoints of its tenant, in a row of its own.
    Event(WebhookId),
}

impl fmt::Display for ParkedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivery(id) => id.fmt(f),
            Self::Event(id) => id.fmt(f),
        }
    }
}

impl FromStr for ParkedId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        text.parse().map(Self::Delivery).or_else(|NotAnId| text.parse().map(Self::Event))
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
