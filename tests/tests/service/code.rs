//! What the code itself keeps to.

mod layers;
mod log_lines;
