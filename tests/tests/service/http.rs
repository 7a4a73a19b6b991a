//! Rules for every route.

mod auth_routes;
mod callers;
mod cookies;
mod cors;
mod envelope;
mod idempotency;
mod openapi;
