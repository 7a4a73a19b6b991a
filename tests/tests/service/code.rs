//! Rules of the source code.

mod layers;
mod log_lines;
