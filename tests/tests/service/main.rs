//! Tests of the service through its public interfaces, `<noun>/<rule>.rs`.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a missing field should fail the test; figures are for the person who runs it"
)]

mod accounts;
mod api_keys {
    mod delete;
}
mod cli_logins {
    mod approve;
}
mod code;
mod deliveries;
mod docs;
mod endpoints;
mod functions;
mod fuzz;
mod http;
mod local {
    mod queues;
    mod restarts;
    mod runner;
}
mod notices {
    mod mails;
}
mod organization;
mod pages {
    mod every_page;
    mod home;
    mod invite;
    mod sign_in;
}
mod sessions {
    mod get;
    mod list_and_revoke;
}
mod template;
