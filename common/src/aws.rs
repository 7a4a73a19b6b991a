//! The services of AWS that everything is built on.

use std::{error::Error as StdError, fmt};

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::error::{Error, chain};

pub mod clients;
pub(crate) mod dynamo;
pub(crate) mod transaction;

/// Turns the failure of a call into an [`Error`] that says what was being done ("reading the user"): throttling is
/// [`Error::Busy`], everything else is ours.
pub fn failure<E, R>(doing: &'static str) -> impl FnOnce(SdkError<E, R>) -> Error
where
    E: StdError + ProvideErrorMetadata + 'static,
    R: fmt::Debug + 'static,
{
    move |error| {
        if error.code().is_some_and(is_throttling) {
            tracing::warn!(doing, "throttled");
            Error::Busy
        } else {
            Error::Internal(chain(doing, &error))
        }
    }
}

fn is_throttling(code: &str) -> bool {
    matches!(
        code,
        "ThrottlingException"
            | "Throttling"
            | "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded"
            | "TransactionInProgressException"
            | "TransactionConflictException"
    )
}
