//! What holds for every route.

mod callers;
mod cookies;
mod cors;
mod envelope;
mod idempotency;
mod openapi;
