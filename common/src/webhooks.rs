//! Webhooks: the endpoints that tenants register, and every part of a delivery.
//!
//! Each module uses only the modules above it in this list; a test enforces this:
//!
//! - [`destination`]: the allowed URLs of receivers, and the signatures and headers of a delivery.
//! - [`event`]: the events that producers send.
//! - [`delivery`]: one event on its way to one destination, its state, and the changes to that state.
//! - [`post`]: one attempt, over the network.
//! - [`log`]: the deliveries table.
//! - [`queue`]: the messages that identify due attempts.
//! - [`endpoints`]: the endpoints table, and the health of receivers.
//! - [`request`]: the request of an attempt, rebuilt from the log and the endpoint.
//! - [`erasure`]: erases payloads and responses.
//! - [`drains`]: the messages that schedule an organization's drains.
//! - [`recoveries`]: runs recoveries, page by page.
//! - [`verification`]: finds out why a request does not verify.
//! - [`job_failures`]: failed jobs, kept until their organization has been notified.

pub mod delivery;
pub mod destination;
pub mod drains;
pub mod endpoints;
pub mod erasure;
pub mod event;
pub mod job_failures;
pub mod log;
pub mod post;
pub mod queue;
pub mod recoveries;
pub mod request;
pub mod verification;
