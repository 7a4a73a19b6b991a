//! The audit log: who changed what in an organization, and from where.
//!
//! A store adds the entry to the transaction that makes the change, so either both are stored or neither is. The caller
//! and their client are task-local: `http` sets them once it has identified the caller, so they do not have to be
//! passed through every store. If only the store knows the caller, as during a sign-in, the store names the actor in
//! the entry. A change without a known actor fails.

mod entry;
mod log;
mod recorder;
mod table;

pub use api::audit::{Action, Actor, ActorKind, Change, Target, TargetKind};

pub(crate) use self::{
    entry::{Entry, change, hidden, initial, target},
    recorder::within,
};
pub use self::{
    log::{AuditLog, Filter, Page},
    recorder::{Origin, Recorder},
    table::Position,
};
