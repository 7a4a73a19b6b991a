//! Webhooks: the endpoints that tenants register, and all that a delivery consists of.
//!
//! Each module uses only those before it, which a test enforces:
//!
//! - [`destination`]: where a delivery may go, and what it is signed with.
//! - [`event`]: what producers send.
//! - [`delivery`]: one event on its way to one destination. Its state, and how that changes.
//! - [`post`]: one attempt, over the network.
//! - [`log`]: the table of deliveries.
//! - [`queue`]: the messages that say what is due.
//! - [`endpoints`]: the table of endpoints, and how their receivers do.
//! - [`failures`]: jobs that failed, until their organization has been told.

pub mod delivery;
pub mod destination;
pub mod endpoints;
pub mod event;
pub mod failures;
pub mod log;
pub mod post;
pub mod queue;
