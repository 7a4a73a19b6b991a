//! The organization, its members, and invitations into it.

mod acceptance;
mod active;
mod invitations;
mod members;
