//! A world to test in: the whole service on loopback ports, clients for its doors, and a receiver for what it
//! delivers.

#![expect(clippy::indexing_slicing, reason = "in a test world, what goes wrong ends the test")]

pub mod faults;
pub mod lambda;
pub mod log;
pub mod receiver;
pub mod rough;
pub mod world;

pub use faults::Faults;
pub use lambda::Lambda;
pub use receiver::{Received, Receiver};
pub use rough::{Manner, Rough};
pub use world::{Answer, Tenant, World};
