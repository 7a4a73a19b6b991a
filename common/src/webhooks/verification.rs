//! Finds out why a request that a receiver got does not verify.
//!
//! [`Verifying`] reads what is known about a [`Seen`] request: secrets, and the log. The diagnosis itself is pure, and gets
//! the time. Nothing of a request is stored or logged.

mod body;
mod diagnosis;
mod finding;
mod headers;
mod json;
mod keys;
mod known;
mod message;
mod reading;
mod search;
mod seen;
mod signature;
mod values;

/// The maximum size of a call that contains a request, in base64 or as a form.
pub const MOST_REQUEST_BYTES: usize = 2 << 20;

pub use self::{
    headers::SeenHeaders,
    reading::Verifying,
    seen::{Computed, Seen, SeenBody},
};
