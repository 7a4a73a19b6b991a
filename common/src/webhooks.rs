//! Webhooks: the endpoints that tenants register, and all that a delivery consists of.
//!
//! A [`JobEvent`](event::JobEvent) says what happened. What goes to one destination is a
//! [`Delivery`](delivery::Delivery). A [`Client`](client::Client) makes the attempts,
//! [`next_step`](outcome::next_step) decides what follows each, the [`Log`](log::Log) keeps what became of it, and the
//! [`Queue`](queue::Queue) says when the next one is due.

pub mod client;
mod connection;
pub mod delivery;
pub mod delivery_id;
pub mod destination;
pub mod dialer;
pub mod endpoint_url;
pub mod endpoints;
pub mod event;
pub mod event_filter;
pub mod log;
pub mod once;
pub mod outcome;
mod pool;
pub mod queue;
pub mod signing;
pub mod signing_secret;
