//! Sessions: the current one, the list of a user's sessions, and their end.

mod get;
mod list_and_revoke;
