//! Failed jobs, kept until their organization has been notified by email, at most once an hour per workflow.
//!
//! A failing workflow has an item in the endpoints table, under its tenant. The process that handles a `job.failed`
//! event writes the item without reading it. This creates a pending notice. The sweep finds the notice in a sparse
//! index and sends the email. The sweep reads the item as a [`Failing`], which determines when the email is sent.
//!
//! The item stores the id of each failure, so duplicate events count only once. After an email, the ids of the reported
//! failures are kept until the next email. After [`FULL`] failures since the last email, further failures are only
//! counted: each process counts separately, and writes its count once a minute ([`storm`]).
//!
//! A process may stop at any step. If it stops before it has recorded a failure, the SQS record is redelivered. If the
//! sweep stops before it has counted its try, the next sweep sends the notice. If it stops between the count and the
//! email, one try and one email from the daily quota are lost. If it stops between sending the email and removing the
//! notice, the email is sent twice.

mod erasure;
mod failing_workflow;
mod failure;
mod notes;
mod quota;
pub mod storm;
mod table;

pub use self::{
    failing_workflow::{FULL, Failing, FailureCount, NoticeStep},
    failure::{FailedJob, FailureId, JobFailure, Workflow, WorkflowKey},
    quota::{MAILS_A_DAY, NOTICES_A_DAY, Quota},
    table::JobFailures,
};
