//! Where a delivery may go, and what it is signed with.

mod destination_policy;
mod endpoint_url;
mod signing;
mod signing_secret;

pub use self::{
    destination_policy::{DestinationPolicy, Refused},
    endpoint_url::EndpointUrl,
    signing::{PreviousSecret, SigningKeys, body_signature, standard_signatures},
    signing_secret::SigningSecret,
};

/// Where to post, and what to sign with.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The receiver's URL.
    pub url: &'a EndpointUrl,
    /// What the receiver verifies signatures with.
    pub keys: SigningKeys<'a>,
}
