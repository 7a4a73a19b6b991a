//! The values of the API, shared by the functions that return them and the client that reads them. The name of each
//! field, status and reason is declared only here, so renaming one on only one side is a compile-time error.
//!
//! A call is a struct with the fields that the client sends. Functions parse these fields one by one, by the names in
//! `NAMES`, so the caller gets all issues at once. Responses contain plain strings instead of domain types, because
//! values are checked where they enter the service. Routes that the client does not call declare their outputs in the
//! functions instead.

#[macro_use]
mod call;
#[macro_use]
mod name;

pub mod account;
pub mod audit;
pub mod auth;
pub mod deliveries;
pub mod error;
pub mod outcome;
mod strings;
pub mod team;
pub mod verification;
pub mod webhooks;

pub use call::{Call, Done, MAX_ELEMENTS};
pub use name::{ClosedSet, Extensible, NotAName};
pub use strings::{
    CliLoginId, Cursor, DeliveryId, Description, EmailAddress, EndpointId, InvitationId, KeyId, LeaseId, Name,
    RecoveryId, Secret, Slug, TenantId, Timestamp, UserId, WebhookId, Workflow,
};
pub use webhooks::{EventFilter, MAX_WORKFLOWS, WorkflowFilter};
