//! People: who they are, what they sign in with, and what they belong to.

pub mod api_keys;
pub mod attempts;
pub mod email;
pub mod invitations;
pub mod mail;
pub mod organizations;
pub mod password;
pub mod sessions;
pub mod signup;
pub mod token;
pub mod users;
pub mod verification;
