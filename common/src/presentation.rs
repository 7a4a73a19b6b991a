//! The parts of routes and pages that several functions share: fields and responses of the API, the frame of the console,
//! and the address of the documentation.

pub mod console;
pub mod docs;
pub mod sign_up;
