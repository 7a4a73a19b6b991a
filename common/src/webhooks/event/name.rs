//! The names of events.

pub use api::webhooks::EventName;
use serde::{Deserialize, Deserializer, de::Error};

use crate::issue::Problem;

/// The `job_id` of a test event.
pub const TEST_JOB: &str = "test";
pub const TEST_BODY: &[u8] = br#"{"event":"webhook.test","job_id":"test","nonce":null,"workflow":null,"deployment_id":null,"status":null,"result":null,"error":null,"mapped_stack":null}"#;

/// Parses a name from a request.
///
/// # Errors
/// There is no such event.
pub fn parse_event(text: &str) -> Result<EventName, Vec<Problem>> {
    text.parse().map_err(|_unknown| vec![Problem::format("Must be the name of an event")])
}

/// Reads the name of an event that producers can send.
pub(super) fn of_a_job<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EventName, D::Error> {
    let name = EventName::deserialize(deserializer)?;
    if name.is_of_a_job() { Ok(name) } else { Err(D::Error::custom("not an event about a job")) }
}
