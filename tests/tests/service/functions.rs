//! Each Lambda function as it is deployed: its binary, its sample event, its log.

pub(crate) mod binaries;
mod log_secrets;
mod sample_events;
