//! Failed jobs, kept until their organization has been notified: one email for each workflow, at most once an hour.
//!
//! A failing workflow has an item in the table of endpoints, among those of its tenant. The process that handles a
//! `job.failed` event writes the item without reading it, and so makes a notice pending. The sweep finds the notice in
//! a sparse index and sends the email. [`Failing`] is the item that the sweep reads; it decides when to send.
//!
//! The item stores the id of each failure, so repetitions of an event count once. After an email, the ids of the
//! reported failures are kept until the next email. Beyond [`FULL`] failures between two emails, failures are only
//! counted: each process counts on its own, and writes its count once a minute ([`storm`]).
//!
//! A process that dies before it has noted a failure leaves its record, which is retried. One that dies before it has
//! counted a try leaves the notice to the next sweep; one that dies between that and the email leaves a try, and an email
//! of the day, too many; and one that dies between the email and the removal of the notice causes a second email.

mod failing;
mod failure;
mod notes;
mod quota;
pub mod storm;
mod table;

pub use self::{
    failing::{Count, FULL, Failing, Step},
    failure::{FailedJob, FailureId, JobFailure, Workflow, WorkflowKey},
    quota::MAILS_A_DAY,
    table::JobFailures,
};
