//! Events: what producers send, and which of them an endpoint wants.

mod filter;
mod job_event;
mod name;

pub(in crate::webhooks) use self::job_event::malformed;
pub use self::{
    filter::EventFilter,
    job_event::{Audience, JobEvent, Malformed},
    name::{EventName, TEST_BODY, TEST_JOB},
};
