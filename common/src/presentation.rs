//! The parts of routes and pages that several functions share: fields and responses of the API, and the frame of the
//! console.

pub mod console;
pub mod sign_up;
