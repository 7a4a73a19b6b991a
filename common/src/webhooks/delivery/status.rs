//! The status of a delivery, and the reasons for its attempts.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    id::{NotAnId, names},
    issue::Problem,
};

/// The status of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// An attempt is due.
    Pending,
    /// The receiver accepted the delivery.
    Delivered,
    /// The delivery failed permanently; no attempt follows.
    Failed,
    /// The endpoint is inactive. The delivery is sent only after a resend or a recovery.
    Held,
    /// The endpoint was deleted, or has been inactive for longer than deliveries are held.
    Ended,
}

/// The reason for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The event: the first attempt.
    Event,
    /// The retry schedule.
    Schedule,
    /// A resend.
    Resend,
    /// A recovery.
    Recovery,
    /// A test of the endpoint.
    Test,
}

impl Status {
    /// Parses a status from a request.
    ///
    /// # Errors
    /// There is no such status.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be pending, delivered, failed, held or ended")])
    }
}

names! { Status {
    Pending => "pending",
    Delivered => "delivered",
    Failed => "failed",
    Held => "held",
    Ended => "ended",
} }

names! { Trigger {
    Event => "event",
    Schedule => "schedule",
    Resend => "resend",
    Recovery => "recovery",
    Test => "test",
} }
