//! Where a delivery may go, what it is signed with, and which headers its receiver gets besides.

mod destination_policy;
mod endpoint_url;
pub(crate) mod headers;
mod signing;
mod signing_secret;

pub use self::{
    destination_policy::{DestinationPolicy, Refused},
    endpoint_url::EndpointUrl,
    headers::Headers,
    signing::{PreviousSecret, SigningKeys, body_signature, standard_signatures},
    signing_secret::SigningSecret,
};

/// Where to post, what to sign with, and what to send along.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The receiver's URL.
    pub url: &'a EndpointUrl,
    /// What the receiver verifies signatures with.
    pub keys: SigningKeys<'a>,
    /// The tenant's own headers. A job's own callback has none.
    pub headers: Option<&'a Headers>,
}
