//! Sessions: what one says, where one is signed in, and ending that.

mod get;
mod list_and_revoke;
