//! Deliveries to pull endpoints: each waits until somebody takes it, for the time of a lease.

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

impl Pull {
    /// The same once its lease has been settled. `due` says when the delivery can be taken again.
    pub(super) fn settled(&self, due: Option<Timestamp>) -> Self {
        Self { due, lease: self.lease.map(|lease| Lease { ends: None, ..lease }) }
    }
}
