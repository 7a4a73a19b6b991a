//! Deliveries: one event on its way to one destination.
//!
//! A [`Delivery`] is the logged state of a delivery, and the module `state` contains every state change. An [`Attempt`]
//! is a POST to the receiver, an [`Outcome`] is its result, and [`next_step`] decides what follows. This module does
//! not call AWS.

mod attempt;
mod detail;
mod due_attempt;
mod id;
mod outcome;
mod payload;
mod pull;
mod reason;
mod receiver;
mod retention;
mod state;

pub use api::deliveries::{Status, Trigger};

pub use self::{
    attempt::{Attempt, RESPONSE_BYTES},
    detail::Detail,
    due_attempt::{Drain, DueAttempt, MAX_DELAY},
    id::{DeliveryId, DestinationId, Millis, SHARDS, Shard, WebhookId},
    outcome::{Failure, LAST_HOURS, MAX_AGE, NextStep, Outcome, next_step, retry_schedule},
    payload::{Body, Destination, Payload},
    pull::{Claim, Lease, Pull},
    reason::{OUTCOMES, error_meaning, error_name, parse_outcome},
    receiver::{Origin, Parked, Receiver},
    retention::Retention,
    state::{AttemptResult, Delivery, JOB_ID_BYTES, parse_job_id},
};
pub(in crate::webhooks) use self::{
    outcome::retry_after,
    state::{kept_job_id, kept_workflow},
};
