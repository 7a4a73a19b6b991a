//! The names of events.

use serde::{Deserialize, Serialize};

use crate::{
    id::{NotAnId, names},
    issue::Problem,
};

/// The name of an event, in the messages of producers and the headers of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventName {
    /// `job.completed`
    #[serde(rename = "job.completed")]
    Completed,
    /// `job.failed`
    #[serde(rename = "job.failed")]
    Failed,
    /// `webhook.test`: the test of an endpoint. Producers cannot send it.
    #[serde(rename = "webhook.test", skip_deserializing)]
    Test,
}

names! { EventName {
    Completed => "job.completed",
    Failed => "job.failed",
    Test => "webhook.test",
} }

/// The `job_id` of a test event.
pub const TEST_JOB: &str = "test";
/// The body of a test event.
pub const TEST_BODY: &[u8] = br#"{"event":"webhook.test","job_id":"test","nonce":null,"workflow":null,"deployment_id":null,"status":null,"result":null,"error":null,"mapped_stack":null}"#;

impl EventName {
    /// Parses a name from a request.
    ///
    /// # Errors
    /// There is no such event.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be the name of an event")])
    }

    /// Whether the event is about a job. Only such events count for the health of an endpoint.
    #[must_use]
    pub fn is_of_a_job(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}
