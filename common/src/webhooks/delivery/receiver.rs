//! Receivers: the servers that deliveries wait for. Deliveries that cannot be made at once wait by receiver.

use std::{fmt, str::FromStr};

use api::deliveries::Trigger;
use sha2::{Digest, Sha256};

use super::{
    id::{DeliveryId, DestinationId},
    payload::Destination,
    state::Delivery,
};
use crate::{
    id::{EndpointId, NotAnId, TenantId},
    timestamp::Timestamp,
    webhooks::destination::EndpointUrl,
};

/// A receiver of an organization's deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Receiver {
    Endpoint(EndpointId),
    /// The origin of jobs' own callbacks.
    Origin(Origin),
    /// A destination, for the deliveries whose results a person is waiting for: tests and resends.
    Asked(DestinationId),
}

/// A hash of a callback's scheme, host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(u64);

impl Origin {
    #[must_use]
    pub fn of(url: &EndpointUrl) -> Self {
        let hash = Sha256::digest(url.origin());
        Self(u64::from_be_bytes(hash.first_chunk::<8>().copied().unwrap_or_default()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Destination {
    /// The origin of a callback.
    #[must_use]
    pub fn origin(&self) -> Option<Origin> {
        self.callback().map(|(url, _)| Origin::of(url))
    }
}

const ORIGIN: &str = "origin.";
// Sorts before all others.
const ASKED: &str = ".asked.";

impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(id) => id.fmt(f),
            Self::Origin(origin) => write!(f, "{ORIGIN}{origin}"),
            Self::Asked(destination) => write!(f, "{ASKED}{destination}"),
        }
    }
}

impl FromStr for Receiver {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        if let Some(destination) = text.strip_prefix(ASKED) {
            return destination.parse().map(Self::Asked);
        }
        match text.strip_prefix(ORIGIN) {
            Some(origin) => {
                u64::from_str_radix(origin, 16).map(|hash| Self::Origin(Origin(hash))).map_err(|_not_hex| NotAnId)
            }
            None => text.parse().map(Self::Endpoint),
        }
    }
}

/// An attempt that waits for its receiver's drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub tenant: TenantId,
    pub receiver: Receiver,
    /// The delivery's deadline.
    pub fails_at: Timestamp,
    /// When the attempt was due.
    pub at: Timestamp,
    pub id: DeliveryId,
}

impl Parked {
    /// The attempt that `delivery` to `destination` waits for, if it is pending.
    #[must_use]
    pub fn of(tenant: &TenantId, delivery: &Delivery, destination: &Destination) -> Option<Self> {
        let receiver = match (destination, delivery.trigger) {
            // A person is waiting for the result.
            (_, Trigger::Test | Trigger::Resend) => Receiver::Asked(delivery.id.destination),
            (Destination::Endpoint(id), _) => Receiver::Endpoint(*id),
            (Destination::Callback { url, .. }, _) => Receiver::Origin(Origin::of(url)),
        };
        let Delivery { fails_at, next_attempt_at: at, id, .. } = *delivery;
        Some(Self { tenant: tenant.clone(), receiver, fails_at, at: at?, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_read_as_it_was_written() {
        let endpoint: EndpointId = "01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id");
        for receiver in [
            Receiver::Endpoint(endpoint),
            Receiver::Origin(Origin(7)),
            Receiver::Asked(DestinationId::Endpoint(endpoint)),
            Receiver::Asked(DestinationId::Callback),
        ] {
            assert_eq!(receiver.to_string().parse(), Ok(receiver));
        }
    }
}
