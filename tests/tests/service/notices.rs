//! What the owner of an endpoint is told about it.

mod mails;
