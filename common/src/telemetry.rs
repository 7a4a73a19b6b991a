//! What operators see of a function: logs and metrics.

pub mod log;
pub mod metrics;
