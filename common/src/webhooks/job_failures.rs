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
//! A process may die at any step. Before it has noted a failure, the record is retried. Before the sweep has counted its
//! try, the notice waits for the next sweep. After that and before the email, one try and one email of the daily quota are
//! wasted. After the email and before the notice is removed, the email is sent twice.

mod failing;
mod failure;
mod notes;
mod quota;
pub mod storm;
mod table;

pub use self::{
    failing::{Count, FULL, Failing, NoticeStep},
    failure::{FailedJob, FailureId, JobFailure, Workflow, WorkflowKey},
    quota::MAILS_A_DAY,
    table::JobFailures,
};
