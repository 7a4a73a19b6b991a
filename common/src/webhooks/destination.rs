//! Permitted destinations, signatures and custom headers of deliveries.

mod destination_policy;
mod endpoint_url;
pub(crate) mod headers;
mod signing;
mod signing_secret;

pub use self::{
    destination_policy::{DestinationError, DestinationPolicy},
    endpoint_url::EndpointUrl,
    headers::Headers,
    signing::{PreviousSecret, SigningKeys, body_signature, standard_signatures},
    signing_secret::SigningSecret,
};
pub(in crate::webhooks) use self::{signing::hmac, signing_secret::PREFIX};

/// The URL, the keys and an attempt's headers.
#[derive(Clone, Copy, Debug)]
pub struct RequestTarget<'a> {
    pub url: &'a EndpointUrl,
    /// The keys for signing the attempt.
    pub keys: SigningKeys<'a>,
    /// The endpoint's custom headers. A job's callback has no custom headers.
    pub headers: Option<&'a Headers>,
}
