//! Rules of the source code.

mod layers;
