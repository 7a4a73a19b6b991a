//! The names of events.

pub use api::webhooks::EventName;
use serde::{Deserialize, Deserializer, de::Error};

use crate::issue::Problem;

/// The `job_id` in samples.
pub const TEST_JOB: &str = "test";

/// Parses a name from a request.
pub fn parse_event(text: &str) -> Result<EventName, Vec<Problem>> {
    text.parse().map_err(|_unknown| vec![Problem::format("Must be the name of an event")])
}

/// The name of the event in a body.
pub fn named_in(body: &[u8]) -> Option<EventName> {
    #[derive(Deserialize)]
    struct NamedEvent {
        event: EventName,
    }
    serde_json::from_slice::<NamedEvent>(body).ok().map(|body| body.event)
}

/// Deserializes the name of an event that producers can send.
pub(super) fn of_a_job<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EventName, D::Error> {
    let name = EventName::deserialize(deserializer)?;
    if name.is_of_a_job() { Ok(name) } else { Err(D::Error::custom("not a job event")) }
}
