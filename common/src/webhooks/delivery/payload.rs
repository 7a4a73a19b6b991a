//! A delivery's body, and its destination.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use crate::{
    id::EndpointId,
    webhooks::{
        destination::{EndpointUrl, SigningSecret},
        event::{EventName, PayloadForm, TraceParent, thin},
    },
};

/// The data that an attempt needs in addition to the delivery's state.
#[derive(Clone, Debug)]
pub struct Payload {
    pub destination: Destination,
    pub body: Body,
    /// The trace that the job belongs to.
    pub trace: Option<TraceParent>,
}

/// The JSON of the event, byte for byte. Clones share the bytes, and their other forms once they have been computed.
#[derive(Clone, Debug)]
pub struct Body(Arc<BodyForms>);

#[derive(Debug)]
struct BodyForms {
    json: Bytes,
    compressed: OnceLock<Vec<u8>>,
    thin: OnceLock<Option<Bytes>>,
}

impl Body {
    /// Returns the form that `compress` computes. It is called only once for all clones.
    pub(in crate::webhooks) fn compressed(&self, compress: impl FnOnce(&[u8]) -> Vec<u8>) -> &[u8] {
        self.0.compressed.get_or_init(|| compress(&self.0.json))
    }

    /// Returns what an endpoint gets that wants this form, and the form that it is in: a notice has only one. The thin
    /// form is computed only once for all clones.
    pub fn in_form(&self, form: PayloadForm) -> (&Bytes, PayloadForm) {
        let thin = || self.0.thin.get_or_init(|| thin(&self.0.json).map(Bytes::from)).as_ref();
        match form {
            PayloadForm::Full => (&self.0.json, form),
            PayloadForm::Thin => thin().map_or((&self.0.json, PayloadForm::Full), |thin| (thin, form)),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(json: T) -> Self {
        Self(Arc::new(BodyForms { json: json.into(), compressed: OnceLock::new(), thin: OnceLock::new() }))
    }
}

impl Deref for Body {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.0.json
    }
}

impl Payload {
    /// Builds the payload of an endpoint test: a sample event.
    pub fn test(endpoint: EndpointId, sample: EventName) -> Self {
        Self { destination: Destination::Endpoint(endpoint), body: sample.sample().into(), trace: None }
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
        let payload =
            Payload { destination: Destination::Callback { url, secret }, body: Bytes::new().into(), trace: None };
        assert!(!format!("{payload:?}").contains("canary"));
    }
}
