//! Responses of routes that return nothing else.

pub(crate) use api::account::Success;
use schemars::JsonSchema;
use serde::Serialize;

/// The response of routes whose clients expect the field `status` instead of `success`.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub(crate) struct Status {
    /// Always `true`; failures are returned as errors.
    status: bool,
}

impl Status {
    pub(crate) const DONE: Self = Self { status: true };
}
