//! The tests' environment: the whole service on loopback ports, clients for its interfaces, and a receiver for its
//! deliveries.

#![expect(clippy::indexing_slicing, reason = "in tests, a missing element fails the test")]

pub mod authenticator;
pub mod browser;
pub mod description;
pub mod doomed;
pub mod event;
pub mod lambda;
pub mod log;
pub mod moody;
pub mod port;
pub mod proxy;
pub mod receiver;
pub mod rough;
pub mod world;

pub use authenticator::{Authenticator, Protected};
pub use browser::Browser;
pub use doomed::{Doomed, Lives, at_each_call, context};
pub use event::{callback, event, records};
pub use lambda::Lambda;
pub use moody::Moody;
pub use port::{RefusingPort, unused_port};
pub use proxy::{Call, CutOff, Pages, Proxy};
pub use receiver::{Received, Receiver};
pub use rough::{Manner, Rough};
pub use world::{Answer, Tenant, World, faults::Switch};

/// A client for plain HTTP. The command-line client enables TLS in `reqwest`, so a crypto provider must be installed
/// even for plain HTTP. No root certificates are loaded, because loading them is slow.
pub fn plain_http() -> reqwest::ClientBuilder {
    let _may_be_installed = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().tls_certs_only([]).no_proxy()
}

/// Cargo, as if run from a shell. The variables that Cargo sets for this process's package are removed; otherwise,
/// Cargo would recompile `ring` and its dependents.
#[must_use]
pub fn cargo() -> std::process::Command {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Whether the variable `THOROUGH` is set, as in `.ci/run`. Without it, the tests that would take many seconds of CPU time
/// are smaller: see [`size`] and [`at_each_call`].
#[must_use]
pub fn is_thorough() -> bool {
    std::env::var_os("THOROUGH").is_some()
}

/// The number of objects in a test: `full` in a thorough run, otherwise `usual`.
#[must_use]
pub fn size(full: usize, usual: usize) -> usize {
    if is_thorough() { full } else { usual }
}

/// A string value.
#[must_use]
pub fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_else(|| unreachable!("{value} is not a string"))
}

/// The sample event of a function, from `events/`.
#[must_use]
pub fn sample_event(function: &str) -> serde_json::Value {
    let path = format!("{}/../events/{function}.json", env!("CARGO_MANIFEST_DIR"));
    let event = std::fs::read_to_string(&path).unwrap_or_else(|error| unreachable!("{path}: {error}"));
    serde_json::from_str(&event).expect("JSON")
}
