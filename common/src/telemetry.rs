//! What can be seen of a function from outside.

pub mod log;
pub mod metrics;
