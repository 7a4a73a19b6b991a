//! The audit log: who changed what in an organization, and from where.
//!
//! A store adds the entry to the transaction that makes the change, so either both are stored or neither is. Methods that
//! do so take a [`Recorder`], which has the caller and their client. `http` hands it to the handlers of the routes that
//! declare which changes they record, and to no others. If only the store knows the caller, as during a sign-in, the
//! store names the actor in the entry. A change without a known actor fails.

mod entry;
mod log;
mod recorder;
mod table;

pub use api::audit::{Action, Actor, ActorKind, Change, Target, TargetKind};

pub(crate) use self::entry::{Entry, change, hidden, initial, target};
pub use self::{
    log::{AuditLog, EntryFilter, EntryPage},
    recorder::{ChangeOrigin, Recorder, RouteRecorder},
    table::Position,
};
