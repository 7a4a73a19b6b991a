//! Rules that apply to every route.

mod auth_routes;
mod callers;
mod cookies;
mod cors;
mod envelope;
mod head;
mod idempotency;
mod openapi;
mod paths;
