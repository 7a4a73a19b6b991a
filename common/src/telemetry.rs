//! The output of a function for operators: logs and metrics.

pub mod log;
pub mod metrics;
