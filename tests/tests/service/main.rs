//! Tests the service through its public interfaces. The tests for a rule are in `<noun>/<rule>.rs`.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a missing field should fail the test; figures are for the person who runs it"
)]

mod accounts;
mod api_keys;
mod audit;
mod cli_logins;
mod code;
mod console;
mod deliveries;
mod docs;
mod endpoints;
mod events;
mod functions;
mod fuzz;
mod http;
mod job_failures;
mod local;
mod lost_responses;
mod notices;
mod organization;
mod pages;
mod sessions;
mod template;

/// Several instances of the service allocate memory at once, which is slow with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
