//! Deliveries to pull endpoints: each waits until somebody takes it, for the time of a lease.

use super::state::Delivery;
use crate::{id::LeaseId, timestamp::Timestamp};

/// What a delivery to a pull endpoint has besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pull {
    /// From when on it can be taken; `None` if nothing is to come.
    pub due: Option<Timestamp>,
    /// The latest lease.
    pub lease: Option<Lease>,
}

/// The right to settle a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Tells it from every other lease.
    pub id: LeaseId,
    /// When it ends; `None` once it has been settled.
    pub ends: Option<Timestamp>,
}

/// How a lease stands that somebody wants to settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It can be settled.
    Valid,
    /// It has been settled: the answer may have been lost.
    Settled,
    /// It has ended, or the delivery was taken or sent again since.
    Over,
}

impl Delivery {
    /// How the lease `id` stands `now`.
    #[must_use]
    pub fn claim(&self, id: LeaseId, now: Timestamp) -> Claim {
        match self.pull.as_ref().and_then(|pull| pull.lease).filter(|lease| lease.id == id) {
            Some(Lease { ends: None, .. }) => Claim::Settled,
            Some(Lease { ends: Some(ends), .. }) if now < ends => Claim::Valid,
            Some(_) | None => Claim::Over,
        }
    }

    /// The state after the lease was given back without an attempt: the delivery can be taken at once.
    #[must_use]
    pub fn released(&self, now: Timestamp) -> Self {
        let next_attempt_at = self.next_attempt_at.map(|_| now);
        Self { next_attempt_at, pull: self.pull.as_ref().map(|pull| pull.settled(Some(now))), ..self.clone() }
    }

    /// When it has to be looked at, even if nobody asks for it: at its next attempt or, if somebody has to take it, when the
    /// time for that is over. `None` if nothing is to come.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let Some(pull) = &self.pull else { return self.next_attempt_at };
        let fails_at = pull.due.map(|_| Timestamp::from_millisecond(self.fails_at.get()))?;
        // Whoever has taken it may still settle it.
        Some(pull.lease.and_then(|lease| lease.ends).map_or(fails_at, |ends| ends.max(fails_at)))
    }
}

impl Pull {
    /// The same once its lease has been settled. `due` says when the delivery can be taken again.
    pub(super) fn settled(&self, due: Option<Timestamp>) -> Self {
        Self { due, lease: self.lease.map(|lease| Lease { ends: None, ..lease }) }
    }
}
