//! The parts of routes and pages that several functions share: API fields and responses, the console's frame, times on
//! pages, and the documentation's address.

pub mod console;
pub mod docs;
pub mod sign_up;
pub mod times;
