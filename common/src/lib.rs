//! What the functions share, in layers: each module imports only what is below it, and a test holds that.
//!
//! - [`http`]: requests to handlers, and what they return to answers. It alone knows HTTP and its status codes.
//! - [`accounts`] and [`webhooks`]: the domain. Values are parsed at the edge into types that prove what they hold; a store
//!   is a struct with domain verbs, each of them one DynamoDB call or one transaction. `webhooks` knows nothing of
//!   `accounts`.
//! - [`aws`]: clients, items and transactions.
//! - [`telemetry`]: the log and the metrics.
//! - Beside them, small values that know nothing of any of these.

pub mod accounts;
pub mod aws;
pub mod base_url;
pub mod config;
pub mod error;
pub mod http;
pub mod id;
pub mod issue;
pub mod name;
pub mod patch;
pub mod random;
pub mod telemetry;
pub mod timestamp;
pub mod webhooks;
