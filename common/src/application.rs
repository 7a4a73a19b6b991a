//! The use cases and stores that span accounts and webhooks. None of them depends on HTTP.

pub mod deletion;
pub mod idempotency;
pub mod moves;
