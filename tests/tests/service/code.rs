//! Rules for the source code.

mod layers;
mod log_lines;
