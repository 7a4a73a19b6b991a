//! The webhook endpoints of a tenant.

mod create;
mod delete;
pub(crate) mod failing;
mod headers;
mod list;
mod options;
mod races;
mod rotation;
mod same_url;
mod test_event;
mod update;
mod verify;
mod workflows;
