//! The use cases and stores that belong to neither accounts nor webhooks alone. They know nothing of HTTP.

pub mod deletion;
pub mod idempotency;
pub mod moving;
