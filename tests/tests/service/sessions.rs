//! Sessions: what is said of the current one, where a user is signed in, and ending that.

mod get;
mod list_and_revoke;
