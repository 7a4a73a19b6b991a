//! What the code itself keeps to.

mod layers;
