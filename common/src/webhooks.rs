//! Webhook endpoints, and all that a delivery is made of.

pub mod destination;
pub mod endpoint_url;
pub mod endpoints;
pub mod signing;
pub mod signing_secret;
