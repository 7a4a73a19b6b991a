//! The second factor: setting it up, and entering codes.

pub(crate) mod code;
pub(crate) mod setup;
