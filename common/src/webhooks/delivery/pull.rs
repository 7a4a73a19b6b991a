//! Deliveries to pull endpoints. Each one waits until a client receives it under a lease.

use crate::{id::LeaseId, timestamp::Timestamp};

/// The additional state of a delivery to a pull endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pull {
    /// When the delivery becomes available to clients; `None` if it can no longer be received.
    pub due: Option<Timestamp>,
    /// The latest lease.
    pub lease: Option<Lease>,
}

/// The right to settle a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The unique id of the lease.
    pub id: LeaseId,
    /// The end of the lease; `None` if it has been settled.
    pub ends: Option<Timestamp>,
}

/// Whether a lease can be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The lease can be settled.
    Valid,
    /// The lease has already been settled. The client may not have received the first response.
    Settled,
    /// The lease has ended, or the delivery was received again or resent.
    Over,
}

impl Pull {
    /// The state after the lease is settled. `due` is when the delivery can be received again.
    pub(super) fn settled(&self, due: Option<Timestamp>) -> Self {
        Self { due, lease: self.lease.map(|lease| Lease { ends: None, ..lease }) }
    }
}
