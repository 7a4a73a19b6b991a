//! The facts that a request is compared with.

use bytes::Bytes;

use crate::{
    id::EndpointId,
    timestamp::Timestamp,
    webhooks::{
        delivery::DeliveryId,
        destination::{PreviousSecret, SigningSecret},
    },
};

/// The facts that a request is compared with.
pub(super) struct Facts {
    pub(super) own: Secrets,
    /// The organization's other endpoints.
    pub(super) others: Vec<(EndpointId, Secrets)>,
    pub(super) logged: Logged,
    /// Other deliveries around the time of the request.
    pub(super) nearby: Vec<SentDelivery>,
}

/// An endpoint's secrets.
pub(super) struct Secrets {
    pub(super) current: SigningSecret,
    /// The secret before the latest rotation, also after its overlap.
    pub(super) previous: Option<PreviousSecret>,
}

/// The delivery that the log has under the request's `webhook-id`.
pub(super) enum Logged {
    /// The request has no valid id.
    NotSought,
    Absent,
    Found(SentDelivery),
}

/// A delivery in the log.
pub(super) struct SentDelivery {
    pub(super) id: DeliveryId,
    /// The body in the form in which it was sent, and in other forms; empty if it is not kept.
    pub(super) bodies: Vec<Bytes>,
    /// The times of the latest attempts.
    pub(super) at: Vec<Timestamp>,
    /// The secret of a job's callback.
    pub(super) callback: Option<SigningSecret>,
}
