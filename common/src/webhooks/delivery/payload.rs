//! A delivery's body, and its destination.

use bytes::Bytes;

use crate::{
    id::EndpointId,
    webhooks::{
        destination::{EndpointUrl, SigningSecret},
        event::{EventName, TraceParent},
    },
};

/// The data that an attempt needs in addition to the delivery's state.
#[derive(Clone, Debug)]
pub struct Payload {
    pub destination: Destination,
    /// The JSON to send, byte for byte.
    pub body: Bytes,
    /// The trace that the job belongs to.
    pub trace: Option<TraceParent>,
}

impl Payload {
    /// Builds the payload of an endpoint test: a sample event.
    pub fn test(endpoint: EndpointId, sample: EventName) -> Self {
        let body = Bytes::from_static(sample.sample().as_bytes());
        Self { destination: Destination::Endpoint(endpoint), body, trace: None }
    }
}

/// A delivery's destination.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A stored endpoint. Its URL and secret are read again for each attempt.
    Endpoint(EndpointId),
    /// A job's callback.
    Callback {
        url: EndpointUrl,
        /// The secret for signing the delivery.
        secret: SigningSecret,
    },
}

impl Destination {
    /// The URL and secret of a callback. An endpoint's URL and secret are in its item.
    pub fn callback(&self) -> Option<(&EndpointUrl, &SigningSecret)> {
        match self {
            Self::Endpoint(_) => None,
            Self::Callback { url, secret } => Some((url, secret)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_printed_without_its_secret() {
        let url = EndpointUrl::parse("https://example.com/hook").expect("a URL");
        let secret = SigningSecret::parse("canary").expect("a secret");
        let payload = Payload { destination: Destination::Callback { url, secret }, body: Bytes::new(), trace: None };
        assert!(!format!("{payload:?}").contains("canary"));
    }
}
