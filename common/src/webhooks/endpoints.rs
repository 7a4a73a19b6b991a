//! Webhook endpoints, stored per tenant.
//!
//! [`Endpoints`] is their table. An endpoint's item also has the [`Health`] of its receiver, and a
//! [`Notice`](notice::Notice) if its tenant has to be told something.

mod forget;
mod headers;
mod health;
mod kind;
mod logged;
pub mod notice;
mod pulled;
mod records;
mod table;
mod tested;
mod view;

pub use self::{
    health::{Consequence, DisabledReason, Health, disable_after},
    kind::{Address, Kind, Pulled},
    records::{Change, Endpoint, HoldFor, MAX_ENDPOINTS, NewEndpoint},
    table::Endpoints,
    view::EndpointView,
};
