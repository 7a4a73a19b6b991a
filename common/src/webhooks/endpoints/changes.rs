//! Requested endpoints: new ones, and changes to stored ones.

use std::time::Duration;

use super::{
    kind::DeliveryMethod,
    options::{Options, OptionsChange},
};
use crate::{
    id::EndpointId,
    patch::Patch,
    timestamp::Timestamp,
    webhooks::destination::{EndpointUrl, Headers, SigningSecret},
};

/// An endpoint to store.
#[derive(Debug)]
pub struct NewEndpoint {
    /// The endpoint's id; ids sort by creation time.
    pub id: EndpointId,
    /// The URL of a push endpoint, or `Pull`.
    pub method: DeliveryMethod,
    /// The secret for signing deliveries.
    pub signing_secret: SigningSecret,
    /// The headers that the receiver gets with each attempt.
    pub headers: Headers,
    /// Whether events are delivered to the endpoint.
    pub active: bool,
    pub options: Options,
    /// When the endpoint was created.
    pub created_at: Timestamp,
}

/// A change to an endpoint; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct EndpointChange {
    /// The new URL.
    pub url: Option<EndpointUrl>,
    /// The new signing secret.
    pub signing_secret: Option<SigningSecret>,
    /// The time for which the previous secret stays in use. Without a value, it is the default time after a new secret.
    /// Without a new secret, the time can only become shorter.
    pub overlap: Option<Duration>,
    /// The headers that replace all previous headers.
    pub headers: Patch<Headers>,
    /// Whether to deliver events to the endpoint.
    pub active: Option<bool>,
    pub options: OptionsChange,
    /// The [revision](super::EndpointView::revision) that the endpoint must still have.
    pub revision: Option<i64>,
}

impl EndpointChange {
    /// Whether the change leaves every field unchanged.
    pub fn is_empty(&self) -> bool {
        let Self { url, signing_secret, overlap, headers, active, options, revision: _ } = self;
        let is_kept = matches!((url, signing_secret, overlap, headers, active), (None, None, None, Patch::Keep, None));
        is_kept && *options == OptionsChange::default()
    }

    /// Whether the change would send the existing headers to another URL, which may belong to another party. Even a
    /// caller who may change an endpoint may not read its header values.
    pub(super) fn takes_headers_along(&self) -> bool {
        self.url.is_some() && matches!(self.headers, Patch::Keep)
    }
}
