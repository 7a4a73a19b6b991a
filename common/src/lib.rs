//! The functions' shared code, in layers. Each module imports only from the layers below it; a test enforces this.
//!
//! - [`presentation`]: the parts of routes and pages that several functions share.
//! - [`http`]: turns requests into handler calls, and results into responses. Only this module uses HTTP and its status
//!   codes.
//! - [`application`]: the use cases and stores that span accounts and webhooks.
//! - [`accounts`] and [`webhooks`]: the domain. Values are parsed at the edge into types that guarantee their validity;
//!   the methods of a store are domain verbs, and each makes one DynamoDB call or one transaction. `webhooks` does not
//!   depend on `accounts`.
//! - [`audit`]: the log of changes, below the domain, whose stores record their changes in it.
//! - [`aws`]: clients, items and transactions.
//! - [`telemetry`]: the log and the metrics.
//! - The remaining modules: small values that depend on none of these.

pub mod accounts;
pub mod application;
pub mod audit;
pub mod aws;
pub mod base_url;
pub mod config;
pub mod error;
pub mod http;
pub mod id;
pub mod issue;
mod json_members;
pub mod lock;
pub mod name;
pub mod own_time;
pub mod paging;
pub mod patch;
pub mod presentation;
pub mod random;
pub mod runtime_sources;
pub mod streams;
pub mod telemetry;
pub mod timestamp;
pub mod webhooks;
