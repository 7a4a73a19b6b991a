//! Webhook endpoints, and what deliveries are made of.

pub mod destination;
pub mod endpoint_url;
pub mod endpoints;
pub mod signing;
pub mod signing_secret;
