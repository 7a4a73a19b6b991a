//! Deliveries on their way to their destinations.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use common::{
    id::TenantId,
    lock::lock,
    webhooks::{
        delivery::{AttemptResult, Delivery, Destination, DueAttempt, Payload, Queue, SHARDS, Trigger},
        destination::Target,
        endpoints::{Endpoint, Health},
        event::JobEvent,
    },
};

use crate::{record::Record, standing::Shown};

/// A delivery with an attempt that is due.
pub(crate) struct Due {
    /// The number of the delivery's record in the batch.
    pub(crate) index: usize,
    pub(crate) tenant: TenantId,
    /// The delivery before the attempt.
    pub(crate) delivery: Delivery,
    pub(crate) payload: Payload,
    /// The endpoint, if it exists.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    /// Whether the log already contains the delivery.
    pub(crate) is_stored: bool,
    /// Marks the message as in progress until the result is stored; `None` for first attempts from an event.
    pub(crate) mark: Option<Mark>,
}

/// A delivery whose due attempt has ended, or could not be made.
pub(crate) struct Ended {
    pub(crate) due: Due,
    pub(crate) result: AttemptResult,
    /// The behavior that the receiver showed, if the attempt was made.
    pub(crate) shown: Option<Shown>,
    /// The queue that the message for the next attempt goes to, if there is one.
    pub(crate) queue: Queue,
}

impl Due {
    /// Builds the delivery of `event` to an endpoint or, without one, to the callback `destination`.
    pub(crate) fn first(
        record: &Record,
        event: &JobEvent,
        destination: Destination,
        endpoint: Option<Arc<Endpoint>>,
    ) -> Self {
        let shards = endpoint.as_ref().map_or(SHARDS, |endpoint| endpoint.log_shards);
        Self {
            index: record.index,
            tenant: event.tenant.clone(),
            delivery: Delivery::first(event, &destination, shards),
            payload: Payload { destination, body: event.body.clone(), trace: event.trace.clone() },
            endpoint,
            is_stored: false,
            mark: None,
        }
    }

    /// Returns the endpoint if it may receive this delivery. Inactive endpoints receive only tests.
    pub(crate) fn recipient(&self) -> Option<&Endpoint> {
        self.endpoint.as_deref().filter(|endpoint| endpoint.is_active() || self.is_test())
    }

    /// Whether the delivery is a test. A person is waiting for its result.
    pub(crate) fn is_test(&self) -> bool {
        self.delivery.trigger == Trigger::Test
    }

    /// Returns the URL, secrets and headers for the attempt, or `None` for a deleted, inactive or pull endpoint.
    pub(crate) fn target(&self) -> Option<Target<'_>> {
        match &self.payload.destination {
            Destination::Endpoint(_) => self.recipient().and_then(Endpoint::target),
            Destination::Callback { url, secret } => Some(Target { url, keys: secret.into(), headers: None }),
        }
    }

    /// Returns the result of a delivery that cannot be posted, because its endpoint is deleted or inactive, or because
    /// it is waiting to be received or was not received in time.
    pub(crate) fn missed(&self) -> Option<AttemptResult> {
        match (self.target(), &self.endpoint) {
            (Some(_), _) => None,
            (None, Some(_)) if self.delivery.pull.is_some() => Some(AttemptResult::Expired),
            (None, Some(endpoint)) if endpoint.address.url().is_none() => Some(AttemptResult::ToBeTaken),
            (None, Some(_)) => Some(AttemptResult::Inactive),
            (None, None) => Some(AttemptResult::NoEndpoint),
        }
    }

    /// The receiver's health before the attempt.
    pub(crate) fn health(&self) -> Option<Health> {
        self.recipient().map(|endpoint| endpoint.health)
    }

    /// Combines the delivery with its result. The message for the next attempt goes to `queue`.
    pub(crate) fn ended(self, result: AttemptResult, queue: Queue) -> Ended {
        Ended { due: self, result, shown: None, queue }
    }
}

/// The due attempts that this process is working on. Two messages for the same attempt are often in one batch. Clones
/// share the attempts.
#[derive(Clone, Default)]
pub(crate) struct InProgress(Arc<Mutex<HashSet<DueAttempt>>>);

/// Keeps an attempt marked as in progress until dropped.
pub(crate) struct Mark(InProgress, DueAttempt);

impl InProgress {
    /// Marks an attempt as in progress. Returns `None` if it already is: another message then represents both.
    pub(crate) fn begin(&self, due: DueAttempt) -> Option<Mark> {
        let is_new = lock(&self.0).insert(due.clone());
        is_new.then(|| Mark(self.clone(), due))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let Self(InProgress(attempts), due) = self;
        lock(attempts).remove(due);
    }
}
