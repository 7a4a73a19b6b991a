//! A delivery on its way to its destination.

use common::webhooks::{
    delivery::{AttemptResult, Delivery, Destination, Payload, Queue, SHARDS, Trigger},
    destination::Target,
    endpoints::{Endpoint, Health},
    event::JobEvent,
};

use crate::{
    plan::{Due, Ended},
    record::Record,
};

/// A delivery that is due, with its endpoint.
pub(crate) struct Outgoing<'a> {
    pub(crate) due: Due,
    /// The endpoint, if it exists.
    pub(crate) endpoint: Option<&'a Endpoint>,
}

impl<'a> Outgoing<'a> {
    /// The first attempt of a delivery.
    pub(crate) fn first(
        record: &Record,
        event: &JobEvent,
        destination: Destination,
        endpoint: Option<&'a Endpoint>,
    ) -> Self {
        // Reads always include the first shard of a deleted endpoint.
        let shards = match &destination {
            Destination::Endpoint(_) => endpoint.map_or(1, |endpoint| endpoint.log_shards),
            Destination::Callback { .. } => SHARDS,
        };
        let due = Due {
            index: record.index,
            tenant: event.tenant.clone(),
            delivery: Delivery::first(event, &destination, shards),
            payload: Payload { destination, body: event.body.clone(), trace: event.trace.clone() },
            is_stored: false,
            mark: None,
        };
        Self { due, endpoint }
    }

    /// The endpoint, if it may get this delivery. Tests are also sent to inactive endpoints.
    pub(crate) fn recipient(&self) -> Option<&'a Endpoint> {
        self.endpoint.filter(|endpoint| endpoint.is_active() || self.is_test())
    }

    /// Whether the delivery is a test, whose result a person waits for.
    pub(crate) fn is_test(&self) -> bool {
        self.due.delivery.trigger == Trigger::Test
    }

    /// The URL, secrets and headers for the attempt. `None` for a deleted, inactive or pull endpoint.
    pub(crate) fn target(&self) -> Option<Target<'_>> {
        match &self.due.payload.destination {
            Destination::Endpoint(_) => self.recipient().and_then(Endpoint::target),
            Destination::Callback { url, secret } => Some(Target { url, keys: secret.into(), headers: None }),
        }
    }

    /// The result of a delivery that cannot be posted: its endpoint has been deleted or made inactive, or its
    /// organization has to receive it, or has not received it in time.
    pub(crate) fn missed(&self) -> Option<AttemptResult> {
        match (self.target(), self.endpoint) {
            (Some(_), _) => None,
            (None, Some(_)) if self.due.delivery.pull.is_some() => Some(AttemptResult::Expired),
            (None, Some(endpoint)) if endpoint.address.url().is_none() => Some(AttemptResult::ToBeTaken),
            (None, Some(_)) => Some(AttemptResult::Inactive),
            (None, None) => Some(AttemptResult::NoEndpoint),
        }
    }

    /// The health of the receiver.
    pub(crate) fn health(&self) -> Option<&'a Health> {
        self.recipient().map(|endpoint| &endpoint.health)
    }

    /// The delivery with its result. `queue` carries the next attempt.
    pub(crate) fn ended(self, result: AttemptResult, queue: Queue) -> Ended {
        let health = self.health().copied();
        Ended { due: self.due, result, health, shown: None, queue }
    }
}
