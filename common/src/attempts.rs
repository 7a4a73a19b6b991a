//! Counting what somebody might do too often: signing in with wrong passwords, asking for mails.

use aws_sdk_dynamodb::{
    Client,
    operation::{put_item::PutItemError, update_item::UpdateItemError},
    types::ReturnValuesOnConditionCheckFailure,
};

use crate::{
    aws::Aws,
    config::{ConfigError, Env},
    dynamo::{Record, item, number, text},
    error::{Error, Result},
    timestamp::Timestamp,
    token::SecretHash,
};

/// A thing that may be tried so often in a window of time, for one subject.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// What is tried.
    pub what: &'static str,
    /// How often.
    pub attempts: i64,
    /// Within how many seconds of the first.
    pub window_seconds: i64,
}

/// Signing in to one address with a wrong password.
pub const SIGN_IN: Limit = Limit { what: "sign_in", attempts: 10, window_seconds: 600 };
/// Asking for another verification mail to one address.
pub const VERIFICATION_MAIL: Limit = Limit { what: "verification_mail", attempts: 5, window_seconds: 3600 };

/// The counters, in the table of tokens: they expire by the same TTL.
#[derive(Clone)]
pub struct Attempts {
    dynamodb: Client,
    table: String,
}

impl Attempts {
    /// The store over the table that `env` names.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { dynamodb: aws.dynamodb(), table: env.required("TOKENS_TABLE")? })
    }

    /// Counts an attempt before it is made, so that any number at once stays within the limit.
    ///
    /// # Errors
    /// There were too many: [`Error::TooMany`], with the seconds until the window ends; or a write fails.
    pub async fn count(&self, limit: Limit, subject: &str, now: Timestamp) -> Result<()> {
        // A window may be opened by somebody else between the two calls; then there is one to count in.
        for _ in 0..2 {
            let Some(window_ends) = self.count_in_window(limit, subject, now).await? else { return Ok(()) };
            if window_ends > now.as_second() {
                return Err(Error::TooMany { retry_after_seconds: window_ends - now.as_second() });
            }
            if self.open_window(limit, subject, now).await? {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// Forgets the attempts of `subject`.
    ///
    /// # Errors
    /// The write fails.
    pub async fn forget(&self, limit: Limit, subject: &str) -> Result<()> {
        let delete = self.dynamodb.delete_item().table_name(&self.table).key("token_hash", text(key(limit, subject)));
        delete.send().await.map_err(Error::aws("forgetting attempts"))?;
        Ok(())
    }

    /// Counts in an open window; where it is full, over or missing, answers when it ends or ended.
    async fn count_in_window(&self, limit: Limit, subject: &str, now: Timestamp) -> Result<Option<i64>> {
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .key("token_hash", text(key(limit, subject)))
            .condition_expression("expires_at > :now AND attempts < :limit")
            .update_expression("ADD attempts :one")
            .expression_attribute_values(":now", number(now.as_second()))
            .expression_attribute_values(":limit", number(limit.attempts))
            .expression_attribute_values(":one", number(1))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let Err(error) = update.send().await else { return Ok(None) };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failed)) => match &failed.item {
                Some(window) => Record::new("attempts", window).number("expires_at").map(Some),
                None => Ok(Some(0)),
            },
            _ => Err(Error::aws("counting an attempt")(error)),
        }
    }

    /// Opens a window with its first attempt, if none is open.
    async fn open_window(&self, limit: Limit, subject: &str, now: Timestamp) -> Result<bool> {
        let window = item([
            ("token_hash", text(key(limit, subject))),
            ("kind", text(limit.what)),
            ("attempts", number(1)),
            ("expires_at", number(now.as_second() + limit.window_seconds)),
        ]);
        let put = self
            .dynamodb
            .put_item()
            .table_name(&self.table)
            .set_item(Some(window))
            .condition_expression("attribute_not_exists(token_hash) OR expires_at <= :now")
            .expression_attribute_values(":now", number(now.as_second()));
        match put.send().await {
            Ok(_) => Ok(true),
            Err(error) if error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) => {
                Ok(false)
            }
            Err(error) => Err(Error::aws("counting an attempt")(error)),
        }
    }
}

/// The subject is hashed: an address that nobody has an account for is nobody's to read in a table.
fn key(limit: Limit, subject: &str) -> String {
    format!("{}#{}", limit.what, SecretHash::of(subject).as_str())
}
