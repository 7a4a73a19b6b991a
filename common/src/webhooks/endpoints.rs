//! Webhook endpoints, stored per tenant.
//!
//! [`Endpoints`] is their table. An endpoint's item also contains the [`Health`] of its receiver, and a
//! [`Notice`](notice::Notice) while an email to the tenant is pending.

pub mod announcements;
mod attempts;
mod audit_trail;
mod changes;
mod concurrency;
mod consequences;
mod deletion;
mod drain_state;
mod gate;
mod headers;
mod health;
pub(crate) mod item;
mod kind;
mod last_error;
mod log_shards;
pub mod notice;
mod options;
mod pull_calls;
mod store;
mod streak;
mod table;
mod test_events;
mod url_remarks;
mod view;

pub use self::{
    attempts::EndpointAttempts,
    changes::{EndpointChange, NewEndpoint},
    concurrency::Concurrency,
    drain_state::Draining,
    gate::{Evidence, Gate, GateOwner, SECOND},
    health::{Consequence, DisabledReason, Health, disable_after, rotation_overlap},
    kind::{DeliveryMethod, Kind, Pulled},
    last_error::LastError,
    options::{Options, OptionsChange},
    store::{Endpoint, HoldFor, MAX_ENDPOINTS, max_endpoints},
    streak::{LONG, Streak},
    table::Endpoints,
    url_remarks::SAME_URL,
    view::EndpointView,
};
