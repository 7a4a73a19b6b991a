//! Sessions: reading the current one, and listing and ending the sessions of a user.

mod get;
mod list_and_revoke;
