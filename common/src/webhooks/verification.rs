//! Finds out why a request that a receiver got does not verify.
//!
//! [`Verifying`] reads what is known about a request that a receiver saw, a [`ReceivedRequest`]: the secrets, and the log. The
//! diagnosis itself is pure, and gets the time. Nothing of a request is stored or logged.

mod body;
mod diagnosis;
mod evidence;
mod facts;
mod finding;
mod headers;
mod json;
mod keys;
mod message;
mod received_request;
mod search;
mod signature;
mod values;

/// The maximum size of a call that contains a request, in base64 or as a form.
pub const MAX_REQUEST_BYTES: usize = 2 << 20;

pub use self::{
    evidence::Verifying,
    headers::ReceivedHeaders,
    received_request::{Computed, ReceivedBody, ReceivedRequest},
};
