//! Accounts: users, their sign-in, API keys, and organizations.

pub mod alerts;
pub mod api_keys;
pub mod attempts;
pub mod cli_logins;
pub mod deleted_organizations;
pub mod email;
pub mod email_change;
pub mod invitations;
pub mod inviting;
pub mod key_owners;
pub mod leaving;
pub mod mail;
pub mod members;
pub mod moving;
pub mod organizations;
pub mod password;
pub mod password_reset;
pub mod permissions;
pub mod sessions;
pub mod settings;
pub mod sign_in;
pub mod signup;
pub mod token;
pub mod two_factor;
pub mod users;
pub mod verification;
