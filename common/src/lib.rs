//! What two functions share, cut by domain noun.
//!
//! Values are parsed at the edge ([`http`]) into types that prove what they hold ([`email`], [`name`],
//! [`password`], [`endpoint_url`], ...); a store is a concrete struct with domain verbs ([`accounts`],
//! [`invitations`], [`sessions`], [`api_keys`], [`endpoints`]), each one DynamoDB call or one transaction.

pub mod accounts;
pub mod api_keys;
pub mod attempts;
pub mod aws;
pub mod base_url;
pub mod config;
pub mod destination;
mod dynamo;
pub mod email;
pub mod endpoint_url;
pub mod endpoints;
pub mod error;
pub mod http;
pub mod id;
pub mod invitations;
pub mod issue;
pub mod log;
pub mod mail;
pub mod metrics;
pub mod name;
pub mod organizations;
pub mod password;
pub mod patch;
pub mod random;
mod schemas;
pub mod sessions;
pub mod signature;
pub mod signing_secret;
pub mod signup;
pub mod timestamp;
pub mod token;
pub mod users;
pub mod verification;
