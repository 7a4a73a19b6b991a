//! People's accounts, from sign-up to deletion.

mod addresses_and_names;
mod alerts;
mod bounces;
pub(crate) mod consent;
mod deletion;
mod email_change;
mod mail_walk;
mod mails;
mod password_change;
mod password_reset;
mod purge;
mod sign_in;
mod sign_up;
mod story;
mod two_factor;
mod verification;
