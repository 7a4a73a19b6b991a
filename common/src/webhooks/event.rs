//! Events: producers' messages, and endpoints' filters.

mod envelope;
mod filter;
mod job_event;
mod json_text;
mod name;
mod thin_form;
mod trace;

pub use api::MAX_WORKFLOWS;

pub use self::{
    filter::{EventFilter, WorkflowFilter},
    job_event::{Audience, JobEvent, MAX_MESSAGE_BYTES, Malformed},
    name::{EventName, TEST_JOB, named_in, parse_event},
    thin_form::PayloadForm,
    trace::TraceParent,
};
pub(in crate::webhooks) use self::{job_event::malformed, thin_form::thin};
