//! The parts of routes and pages that several functions share: API fields and responses, the console's frame, relative
//! times, and the address of the documentation.

pub mod console;
pub mod docs;
pub mod invitation_link;
pub mod sign_up;
pub mod times;
