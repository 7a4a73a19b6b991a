//! Webhook endpoints, stored per tenant.
//!
//! [`Endpoints`] is their table. An endpoint's item also has what is known of its receiver, which is its [`Health`], and
//! what its tenant has to be told, which is a [`Notice`](notice::Notice).

mod forget;
mod health;
mod logged;
pub mod notice;
mod records;
mod table;
mod tested;

pub use self::{
    health::{Consequence, DisabledReason, Health, disable_after},
    records::{Change, Endpoint, EndpointView, MAX_ENDPOINTS, Receiver},
    table::Endpoints,
};
