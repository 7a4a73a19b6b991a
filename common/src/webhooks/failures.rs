//! Jobs that failed, until the organization has been told: a mail for each workflow, at most once an hour.
//!
//! A workflow that fails has an item in the table of endpoints, among those of its tenant. The process that handles a
//! `job.failed` writes it, without a read, and so makes a notice pending; the sweep finds it by a sparse index and sends the
//! mail. [`Failing`] is what the sweep reads, and decides when.
//!
//! Each failure is in the item with its id, so the same event counts once, however often it comes. The ids stay for one
//! mail longer, as those that were told. Of more than [`FULL`] failures between two mails, the others are only counted:
//! by each process for itself, which writes its count once in a while ([`storm`]).

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
