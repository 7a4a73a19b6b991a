//! The options of `verify`.

use std::path::PathBuf;

use api::Timestamp;
use clap::Args;

use super::values::since;

/// A request as a receiver saw it: in one file, or its headers and its body apart.
#[derive(Args)]
pub(crate) struct Verify {
    /// File with the whole request: headers, an empty line and the body [default: standard input]
    #[arg(conflicts_with_all = ["headers", "header", "body"])]
    pub(crate) request: Option<PathBuf>,
    /// File with the headers, one per line as in `name: value`, or as JSON
    #[arg(long, value_name = "FILE", conflicts_with = "header")]
    pub(crate) headers: Option<PathBuf>,
    /// Header, as 'name: value'; can be repeated
    #[arg(long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// File with the bytes of the body [default: standard input]
    #[arg(long, value_name = "FILE")]
    pub(crate) body: Option<PathBuf>,
    /// Signature that the receiver's code computed, to find mistakes in that code
    #[arg(long, value_name = "SIGNATURE")]
    pub(crate) computed: Option<String>,
    /// Time that the receiver's clock showed, in RFC 3339, or an age such as 10m
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) received_at: Option<Timestamp>,
    /// Id of the endpoint, or its first characters [default: the only endpoint]
    #[arg(long, value_name = "ID")]
    pub(crate) endpoint: Option<String>,
}
