//! Webhook endpoints, stored per tenant.
//!
//! [`Endpoints`] is their table. An endpoint's item also contains the [`Health`] of its receiver, and a
//! [`Notice`](notice::Notice) while an email to the tenant is pending.

pub mod announce;
mod attempts;
mod audited;
mod concurrency;
mod draining;
mod follow;
mod forget;
mod gate;
mod headers;
mod health;
pub(crate) mod item;
mod kind;
mod last_error;
mod logged;
pub mod notice;
mod options;
mod pulled;
mod records;
mod same_url;
mod streak;
mod table;
mod tested;
mod view;
mod wanted;

pub use self::{
    attempts::Attempts,
    concurrency::Concurrency,
    draining::Draining,
    gate::{Gate, Gated, SECOND, Shown},
    health::{Consequence, DisabledReason, Health, disable_after, rotation_overlap},
    kind::{Address, Kind, Pulled},
    last_error::LastError,
    options::{Options, OptionsChange},
    records::{Endpoint, HoldFor, MAX_ENDPOINTS, max_endpoints},
    same_url::SAME_URL,
    streak::{LONG, Streak},
    table::Endpoints,
    view::EndpointView,
    wanted::{Change, NewEndpoint},
};
