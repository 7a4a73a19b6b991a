//! Tests of the service through its public interfaces, by route and by topic.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a missing field should fail the test; figures are for the person who runs it"
)]

mod accept_invite_and_signup;
mod access;
mod active_organization;
mod addresses_and_names;
mod api_keys;
mod auth_cli;
mod batches;
mod binaries;
mod cli_logins;
mod cookies;
mod cors;
mod crashes;
mod delete_user;
mod deliveries;
mod delivery;
mod delivery_log;
mod docs;
mod envelope;
mod events;
mod failing;
mod faults;
mod fuzz;
mod home_page;
mod idempotency;
mod invitations;
mod invite_page;
mod isolation;
mod layers;
mod local;
mod members;
mod notices;
mod openapi;
mod pages;
mod password_reset;
mod passwords;
mod queues;
mod receivers;
mod restarts;
mod rotation;
mod secrets;
mod sessions;
mod sign_in;
mod signin_page;
mod signup_and_create_org;
mod story;
mod sweep;
mod template;
mod test_event;
mod verify_email;
mod webhooks;
