//! Attempts in the delivery log.

use std::borrow::Cow;

use api::deliveries::Trigger;

use super::{
    detail::Detail,
    outcome::{Failure, Outcome},
};
use crate::timestamp::Timestamp;

/// The maximum length of a receiver's response in the log, in bytes.
pub const RESPONSE_BYTES: usize = 1024;

/// One POST to the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When the attempt started.
    pub at: Timestamp,
    /// `delivered`, or the reason for the failure.
    pub outcome: Cow<'static, str>,
    /// The HTTP status of the response, if any.
    pub status_code: Option<u16>,
    /// The cause of the failure, if it is known.
    pub detail: Option<Detail>,
    /// The duration of the attempt, in milliseconds.
    pub duration_ms: u32,
    /// The beginning of the response to a failed attempt, if any, with the values of the endpoint's headers masked.
    pub response: Option<String>,
    /// The reason for the attempt.
    pub trigger: Trigger,
}

impl Attempt {
    /// Builds an attempt that started `at` and ended with `outcome` after `duration_ms`.
    pub fn new(at: Timestamp, duration_ms: u32, outcome: Outcome, response: Option<String>, trigger: Trigger) -> Self {
        let (name, status_code) = match outcome {
            Outcome::Delivered(status) => ("delivered", Some(status)),
            Outcome::Failed(failure @ Failure::Status(status, _)) => (failure.reason(), Some(status)),
            Outcome::Failed(failure) => (failure.reason(), None),
        };
        Self { at, outcome: name.into(), status_code, detail: None, duration_ms, response, trigger }
    }

    /// Removes the receiver's text: the response, and the detail, which may quote the receiver.
    pub(in crate::webhooks) fn bare(self) -> Self {
        Self { detail: None, response: None, ..self }
    }

    /// The approximate size of the attempt in an item, in bytes, including attribute names.
    fn stored_bytes(&self) -> usize {
        let response = self.response.as_ref().map_or(0, |response| "response".len() + response.len());
        let detail = self.detail.as_ref().map_or(0, |detail| "detail".len() + detail.as_str().len());
        48 + self.outcome.len() + detail + response
    }
}

/// The space for earlier attempts in a delivery's state, in bytes. This limit keeps the item below one kilobyte,
/// because DynamoDB rounds the cost of an update up to whole kilobytes.
const ATTEMPTS_BYTES: usize = 560;

/// Whether a delivery's state has room for these earlier attempts. `workflow` is the length of the delivery's workflow
/// name.
pub(super) fn have_room(attempts: &[Attempt], workflow: usize) -> bool {
    attempts.iter().map(Attempt::stored_bytes).sum::<usize>() + workflow <= ATTEMPTS_BYTES
}
