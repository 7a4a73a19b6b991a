//! Requested endpoints: new ones, and changes to stored ones.

use super::kind::Address;
use crate::{
    id::EndpointId,
    name::Description,
    patch::Patch,
    timestamp::Timestamp,
    webhooks::{
        destination::{EndpointUrl, Headers, SigningSecret},
        event::{EventFilter, WorkflowFilter},
    },
};

/// An endpoint to store.
#[derive(Debug)]
pub struct NewEndpoint {
    /// The endpoint's id; ids sort by creation time.
    pub id: EndpointId,
    /// The URL of a push endpoint, or `Pull`.
    pub address: Address,
    /// The secret for signing deliveries.
    pub signing_secret: SigningSecret,
    /// The headers that the receiver gets with each attempt.
    pub headers: Headers,
    /// The tenant's own description.
    pub description: Option<Description>,
    /// Whether events are delivered to the endpoint.
    pub active: bool,
    /// The events to deliver; `None` for all job events.
    pub events: Option<EventFilter>,
    /// The workflows whose events to deliver; `None` for all.
    pub workflows: Option<WorkflowFilter>,
    /// When the endpoint was created.
    pub created_at: Timestamp,
}

/// A change to an endpoint; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct Change {
    /// The new URL.
    pub url: Option<EndpointUrl>,
    /// The new signing secret.
    pub signing_secret: Option<SigningSecret>,
    /// The headers that replace all previous headers.
    pub headers: Patch<Headers>,
    /// The new description.
    pub description: Patch<Description>,
    /// Whether to deliver events to the endpoint.
    pub active: Option<bool>,
    /// The events to deliver; cleared for all job events.
    pub events: Patch<EventFilter>,
    /// The workflows whose events to deliver; cleared for all.
    pub workflows: Patch<WorkflowFilter>,
    /// The [revision](super::EndpointView::revision) that the endpoint must still have.
    pub revision: Option<i64>,
}

impl Change {
    /// Whether the change leaves every field unchanged.
    pub fn is_empty(&self) -> bool {
        matches!(
            self,
            Self {
                url: None,
                signing_secret: None,
                headers: Patch::Keep,
                description: Patch::Keep,
                active: None,
                events: Patch::Keep,
                workflows: Patch::Keep,
                revision: _
            }
        )
    }

    /// Whether the change would send the existing headers to another URL, which may belong to another party. Even a
    /// caller who may change an endpoint may not read its header values.
    pub(super) fn takes_headers_along(&self) -> bool {
        self.url.is_some() && matches!(self.headers, Patch::Keep)
    }
}
