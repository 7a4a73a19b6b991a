//! The organization, its settings, its members, and invitations into it.

mod acceptance;
mod active;
mod invitations;
mod members;
mod settings;
