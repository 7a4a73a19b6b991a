//! The values of the API: the functions return them, and the client reads them. Each name of a field, a status or a
//! reason is declared only here, so renaming one is a compile error on both sides.
//!
//! A call is a struct with the fields that the client sends. Functions parse them one by one, so that the caller gets all
//! issues at once, under the names in `NAMES`. Answers hold texts, not the domain's types: a value is checked where it
//! enters the service. Outputs of routes that the client does not call are declared by their functions.

#[macro_use]
mod call;
#[macro_use]
mod name;

pub mod account;
pub mod auth;
pub mod deliveries;
pub mod error;
pub mod team;
mod text;
pub mod webhooks;

pub use call::{Call, Done, MAX_ELEMENTS};
pub use name::{ClosedSet, NotAName, Open};
pub use text::{
    CliLoginId, Cursor, DeliveryId, Description, Email, EndpointId, InvitationId, KeyId, LeaseId, Name, RecoveryId,
    Secret, Slug, TenantId, Timestamp, UserId, WebhookId, Workflow,
};
pub use webhooks::{EventFilter, MAX_WORKFLOWS, WorkflowFilter};
