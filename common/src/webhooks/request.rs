//! The request of an attempt, with its signatures. It is not stored: it follows from the payload, the time of the attempt,
//! and the destination, unless the endpoint was changed since.

use bytes::Bytes;
use hyper::HeaderMap;

use super::{
    delivery::{Delivery, Destination, Payload, Status},
    destination::{EndpointUrl, Headers, SigningKeys},
    endpoints::Endpoint,
    event::PayloadForm,
    post::Content,
};
use crate::timestamp::Timestamp;

/// The source of a delivery's requests.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    delivery: &'a Delivery,
    payload: &'a Payload,
    /// The URL that the requests are sent to; `None` for a pull endpoint.
    pub url: Option<&'a EndpointUrl>,
    keys: SigningKeys<'a>,
    headers: Option<&'a Headers>,
    form: PayloadForm,
}

impl<'a> Requests<'a> {
    /// Returns `None` if the delivery's endpoint was deleted. A job's callback has no `endpoint`.
    #[must_use]
    pub fn of(delivery: &'a Delivery, payload: &'a Payload, endpoint: Option<&'a Endpoint>) -> Option<Self> {
        let (url, keys, headers) = match (&payload.destination, endpoint) {
            (Destination::Callback { url, secret }, _) => (Some(url), secret.into(), None),
            (Destination::Endpoint(_), Some(endpoint)) => {
                (endpoint.address.url(), endpoint.keys(), Some(&endpoint.headers))
            }
            (Destination::Endpoint(_), None) => return None,
        };
        Some(Self { delivery, payload, url, keys, headers, form: form(delivery, endpoint) })
    }

    /// The body, byte for byte.
    #[must_use]
    pub fn body(&self) -> &'a Bytes {
        self.payload.body.in_form(self.form).0
    }

    /// Builds the headers of an attempt at this time. The values of the endpoint's own headers are marked as sensitive.
    ///
    /// # Errors
    /// A stored header is not valid.
    pub fn headers(&self, at: Timestamp) -> Result<HeaderMap, hyper::http::Error> {
        let content = Content {
            keys: self.keys,
            headers: self.headers,
            id: self.delivery.webhook_id,
            event: self.delivery.event_in(&self.payload.body),
            event_at: self.delivery.created_at,
            trace: self.payload.trace.as_ref(),
            body: self.payload.body.in_form(self.form),
        };
        content.headers(at)
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
