//! Deliveries on their way to their destinations.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use common::{
    id::TenantId,
    lock::lock,
    timestamp::Timestamp,
    webhooks::{
        delivery::{
            AttemptResult, Body, Delivery, Destination, DueAttempt, Origin, Outcome, Parked, Payload, SHARDS, Trigger,
        },
        destination::RequestTarget,
        endpoints::{Endpoint, Evidence, Gate, GateOwner, Health},
        event::{JobEvent, PayloadForm},
        log::{HELD_WITH_STATE, Shared},
    },
};
use tokio::sync::oneshot;

use crate::record::Record;

/// A delivery with an attempt that is due.
#[derive(Clone)]
pub(crate) struct DueDelivery {
    /// The number of the delivery's record in the batch.
    pub(crate) index: usize,
    pub(crate) tenant: TenantId,
    /// The delivery before the attempt.
    pub(crate) delivery: Delivery,
    pub(crate) payload: Payload,
    /// The endpoint, if it exists.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    /// The receiver's gate before the attempt.
    pub(crate) gate: Gate,
    /// Whether the log already contains the delivery.
    pub(crate) is_stored: bool,
    /// The payload that the event's deliveries share, if they do.
    pub(crate) shared: Option<Arc<Shared>>,
    /// The attempt's row, if it was parked.
    pub(crate) parked: Option<Parked>,
    /// Marks the message as in progress until the result is stored; `None` for first attempts from an event.
    pub(crate) mark: Option<Arc<Mark>>,
}

/// A delivery whose due attempt has ended, was parked, or could not be made.
pub(crate) struct EndedAttempt {
    pub(crate) due: DueDelivery,
    pub(crate) result: AttemptResult,
    /// The evidence about the receiver, and when the attempt began.
    pub(crate) evidence: Option<(Evidence, Timestamp)>,
    /// Told whether the result has been stored.
    pub(crate) stored: Option<oneshot::Sender<bool>>,
}

impl DueDelivery {
    /// Builds the delivery of `event`, with its `body`, to an endpoint or, without one, to the callback `destination`.
    pub(crate) fn first(
        record: &Record,
        event: &JobEvent,
        body: &Body,
        shared: Option<&Arc<Shared>>,
        destination: Destination,
        endpoint: Option<Arc<Endpoint>>,
        gate: Gate,
    ) -> Self {
        let shards = endpoint.as_ref().map_or(SHARDS, |endpoint| endpoint.log_shards);
        let delivery = Delivery { is_shared: shared.is_some(), ..Delivery::first(event, &destination, shards) };
        Self {
            index: record.index,
            tenant: event.tenant.clone(),
            delivery,
            payload: Payload { destination, body: body.clone(), trace: event.trace.clone() },
            endpoint,
            gate,
            is_stored: false,
            shared: shared.cloned(),
            parked: None,
            mark: None,
        }
    }

    /// The same delivery, to be written while its attempt is in progress.
    pub(crate) fn copy(&self) -> Self {
        Self { parked: None, mark: None, ..self.clone() }
    }

    /// Returns the endpoint if it may receive this delivery. Inactive endpoints receive only tests.
    pub(crate) fn recipient(&self) -> Option<&Endpoint> {
        let is_test = self.delivery.trigger == Trigger::Test;
        self.endpoint.as_deref().filter(|endpoint| endpoint.is_active() || is_test)
    }

    /// Returns the URL, secrets and headers for the attempt, or `None` for a deleted, inactive or pull endpoint.
    pub(crate) fn target(&self) -> Option<RequestTarget<'_>> {
        match &self.payload.destination {
            Destination::Endpoint(_) => self.recipient().and_then(Endpoint::target),
            Destination::Callback { url, secret } => Some(RequestTarget { url, keys: secret.into(), headers: None }),
        }
    }

    pub(crate) fn form(&self) -> PayloadForm {
        self.endpoint.as_ref().map_or(PayloadForm::Full, |endpoint| endpoint.payload_form())
    }

    /// Returns the result of a delivery that cannot be posted, because its endpoint is deleted or inactive, or because
    /// it is waiting to be received or was not received in time.
    pub(crate) fn missed(&self) -> Option<AttemptResult> {
        match (self.target(), &self.endpoint) {
            (Some(_), _) => None,
            (None, Some(_)) if self.delivery.pull.is_some() => Some(AttemptResult::Expired),
            (None, Some(endpoint)) if endpoint.method.url().is_none() => Some(AttemptResult::ToBeTaken),
            (None, Some(_)) => Some(AttemptResult::Inactive),
            (None, None) => Some(AttemptResult::NoEndpoint),
        }
    }

    /// The receiver's health before the attempt.
    pub(crate) fn health(&self) -> Option<Health> {
        self.recipient().map(|endpoint| endpoint.health)
    }

    /// The receiver whose gate this attempt changes.
    pub(crate) fn gate_owner(&self) -> Option<GateOwner> {
        match &self.payload.destination {
            Destination::Endpoint(_) => self.recipient().map(|endpoint| GateOwner::Endpoint(endpoint.id)),
            Destination::Callback { url, .. } => Some(GateOwner::Origin(Origin::of(url))),
        }
    }

    /// Combines the delivery with its result.
    pub(crate) fn ended(self, result: AttemptResult) -> EndedAttempt {
        EndedAttempt { due: self, result, evidence: None, stored: None }
    }
}

impl EndedAttempt {
    pub(crate) fn with_evidence(self, evidence: Evidence, began: Timestamp) -> Self {
        Self { evidence: Some((evidence, began)), ..self }
    }

    /// Whether storing this result writes a large body.
    pub(crate) fn is_heavy(&self) -> bool {
        let is_delivered = matches!(self.result, AttemptResult::Made(_, Outcome::Delivered(_)));
        (!is_delivered || self.due.form() == PayloadForm::Thin)
            && !self.due.is_stored
            && self.due.payload.body.len() > HELD_WITH_STATE
    }

    pub(crate) fn stored_to(self, stored: oneshot::Sender<bool>) -> Self {
        Self { stored: Some(stored), ..self }
    }
}

/// The due attempts in progress in this process. Two messages for an attempt are often in one batch. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct AttemptsInProgress(Arc<Mutex<HashSet<DueAttempt>>>);

/// Keeps an attempt marked as in progress until dropped.
pub(crate) struct Mark(AttemptsInProgress, DueAttempt);

impl AttemptsInProgress {
    /// Marks an attempt as in progress. Returns `None` if it already is: another message then represents both.
    pub(crate) fn begin(&self, due: DueAttempt) -> Option<Arc<Mark>> {
        let is_new = lock(&self.0).insert(due.clone());
        is_new.then(|| Arc::new(Mark(self.clone(), due)))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let Self(AttemptsInProgress(attempts), due) = self;
        lock(attempts).remove(due);
    }
}
