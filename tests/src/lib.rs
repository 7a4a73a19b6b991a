//! A world to test in: the whole service on loopback ports, clients for its interfaces, and a receiver for its
//! deliveries.

#![expect(clippy::indexing_slicing, reason = "in tests, a missing element fails the test")]

mod description;
pub mod interceptor;
pub mod lambda;
pub mod log;
pub mod proxy;
pub mod receiver;
pub mod rough;
pub mod world;

pub use interceptor::Interceptor;
pub use lambda::Lambda;
pub use proxy::Proxy;
pub use receiver::{Received, Receiver};
pub use rough::{Manner, Rough};
pub use world::{Answer, Tenant, World};

/// The sample event of a function, from `events/`.
#[must_use]
pub fn sample_event(function: &str) -> serde_json::Value {
    let path = format!("{}/../events/{function}.json", env!("CARGO_MANIFEST_DIR"));
    let event = std::fs::read_to_string(&path).unwrap_or_else(|error| unreachable!("{path}: {error}"));
    serde_json::from_str(&event).expect("JSON")
}
