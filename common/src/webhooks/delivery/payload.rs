//! What a delivery sends, and where.

use bytes::Bytes;

use crate::{
    id::EndpointId,
    webhooks::{
        destination::{EndpointUrl, SigningSecret},
        event::TEST_BODY,
    },
};

/// What an attempt needs besides the state.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Where the delivery goes.
    pub destination: Destination,
    /// The JSON to send, byte for byte.
    pub body: Bytes,
}

impl Payload {
    /// The payload of a test of an endpoint.
    #[must_use]
    pub fn test(endpoint: EndpointId) -> Self {
        Self { destination: Destination::Endpoint(endpoint), body: Bytes::from_static(TEST_BODY) }
    }
}

/// Where a delivery goes.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A stored endpoint. Its URL and secret are read again before each attempt.
    Endpoint(EndpointId),
    /// A job's own callback.
    Callback {
        /// Where to deliver.
        url: EndpointUrl,
        /// The secret to sign the delivery with.
        secret: SigningSecret,
    },
}

impl Destination {
    /// The URL and secret of a callback; an endpoint's are in its record.
    #[must_use]
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
        let payload = Payload { destination: Destination::Callback { url, secret }, body: Bytes::new() };
        assert!(!format!("{payload:?}").contains("canary"));
    }
}
