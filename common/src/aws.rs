//! Access to the AWS services: DynamoDB, SQS and SES.

use std::{error::Error as StdError, fmt};

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::error::{Error, chain};

pub(crate) mod batch;
pub mod clients;
pub(crate) mod dynamo;
pub(crate) mod expression;
pub mod from_env;
pub mod gathered_reads;
mod https;
mod retry_conflicts;
pub(crate) mod transaction;

pub use self::retry_conflicts::retry_conflicts;

/// Converts a failed call to an [`Error`] that names the operation (`doing`, such as "reading the user"). Throttling
/// becomes [`Error::Busy`]; all other failures become [`Error::Internal`].
pub fn failure<E, R>(doing: &'static str) -> impl FnOnce(SdkError<E, R>) -> Error
where
    E: StdError + ProvideErrorMetadata + 'static,
    R: fmt::Debug + 'static,
{
    move |error| {
        if error.code().is_some_and(is_throttling) {
            crate::log!("aws.throttled", doing);
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
