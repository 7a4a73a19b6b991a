//! The organization, its settings, its members and its invitations.

mod acceptance;
mod active;
mod invitations;
mod members;
mod moving;
mod settings;
mod site;
mod two_factor;
