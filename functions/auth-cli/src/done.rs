//! The answers of routes with nothing to return.

use schemars::JsonSchema;
use serde::Serialize;

/// A plain confirmation, for routes with nothing else to return.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub(crate) struct Success {
    /// Always `true`: a refusal is an error.
    success: bool,
}

impl Success {
    pub(crate) const DONE: Self = Self { success: true };
}

/// The same, where clients know it by another name.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub(crate) struct Status {
    /// Always `true`: a refusal is an error.
    status: bool,
}

impl Status {
    pub(crate) const DONE: Self = Self { status: true };
}
