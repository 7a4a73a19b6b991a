//! The request of an attempt, with its signatures. It is not stored: it follows from the payload, the time of the attempt,
//! and the destination, unless the endpoint was changed since.

use bytes::Bytes;
use hyper::HeaderMap;

use super::{
    delivery::{Delivery, Destination, Payload, Status},
    destination::EndpointUrl,
    endpoints::Endpoint,
    event::PayloadForm,
    post::Content,
};
use crate::timestamp::Timestamp;

/// The source of a delivery's requests.
#[derive(Clone, Copy, Debug)]
pub struct RequestSource<'a> {
    /// The URL that the requests are sent to; `None` for a pull endpoint.
    pub url: Option<&'a EndpointUrl>,
    content: Content<'a>,
}

impl<'a> RequestSource<'a> {
    /// Returns `None` if the delivery's endpoint was deleted. A job's callback has no `endpoint`.
    #[must_use]
    pub fn of(delivery: &Delivery, payload: &'a Payload, endpoint: Option<&'a Endpoint>) -> Option<Self> {
        let (url, keys, headers) = match (&payload.destination, endpoint) {
            (Destination::Callback { url, secret }, _) => (Some(url), secret.into(), None),
            (Destination::Endpoint(_), Some(endpoint)) => {
                (endpoint.method.url(), endpoint.keys(), Some(&endpoint.headers))
            }
            (Destination::Endpoint(_), None) => return None,
        };
        Some(Self { url, content: Content::of(delivery, payload, form(delivery, endpoint), keys, headers) })
    }

    /// The body, byte for byte.
    #[must_use]
    pub fn body(&self) -> &'a Bytes {
        self.content.body.0
    }

    /// Builds the headers of an attempt at this time. The values of the endpoint's own headers are marked as sensitive.
    ///
    /// # Errors
    /// A stored header is not valid.
    pub fn headers(&self, at: Timestamp) -> Result<HeaderMap, hyper::http::Error> {
        self.content.headers(at)
    }
}

/// The form in which a delivery was sent. A success is marked if it was sent thin. Other attempts have the form that the
/// endpoint has now.
#[must_use]
pub fn form(delivery: &Delivery, endpoint: Option<&Endpoint>) -> PayloadForm {
    match endpoint {
        _ if delivery.is_thin => PayloadForm::Thin,
        Some(endpoint) if delivery.status != Status::Delivered => endpoint.payload_form(),
        _ => PayloadForm::Full,
    }
}
