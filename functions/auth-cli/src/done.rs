//! Confirmations, for routes without other results.

use schemars::JsonSchema;
use serde::Serialize;

/// A confirmation, for routes that return nothing else.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub(crate) struct Success {
    /// Always `true`; refusals are returned as errors.
    success: bool,
}

impl Success {
    pub(crate) const DONE: Self = Self { success: true };
}

/// The same confirmation, for routes whose clients expect the field `status`.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub(crate) struct Status {
    /// Always `true`; refusals are returned as errors.
    status: bool,
}

impl Status {
    pub(crate) const DONE: Self = Self { status: true };
}
