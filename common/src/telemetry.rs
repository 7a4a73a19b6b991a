//! A function's output for operators: logs and metrics.

pub mod line;
pub mod log;
pub mod metrics;

#[doc(hidden)]
pub use tracing;
