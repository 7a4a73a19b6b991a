//! The webhook endpoints of a tenant.

mod create;
pub(crate) mod failing;
mod rotation;
pub(crate) mod test_event;
