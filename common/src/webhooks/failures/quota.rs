//! The daily limit on emails about failed jobs to an organization.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;

use super::table::JobFailures;
use crate::{
    aws::{
        dynamo::{Record, is_refused, number, update_if},
        failure,
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
};

/// The limit per day, which begins at midnight UTC. The last email of a day mentions the limit.
pub const MAILS_A_DAY: i64 = 50;

/// The sort key of the item that counts a tenant's emails.
const KEY: &str = "#failure-mails";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DOING: &str = "counting emails about failed jobs";

impl JobFailures {
    /// Counts an email of the day before it is sent. Returns its number, or `None` if the day's limit has been reached.
    pub async fn take_mail(&self, tenant: &TenantId, now: Timestamp) -> Result<Option<i64>> {
        let day = now.day();
        let update = self
            .change(tenant, KEY)
            .update_expression("SET mails = mails + :one")
            .condition_expression("mail_day = :day AND mails < :most")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":day", number(day.as_second()))
            .expression_attribute_values(":most", number(MAILS_A_DAY))
            .return_values(ReturnValue::UpdatedNew);
        match update.send().await {
            Ok(counted) => {
                let counted = counted.attributes.unwrap_or_default();
                return Record::new("email count", &counted).number("mails").map(Some);
            }
            Err(error) if is_refused(&error) => {}
            Err(error) => return Err(failure(DOING)(error)),
        }
        let first = self
            .change(tenant, KEY)
            .update_expression("SET mail_day = :day, mails = :one, delete_at = :end")
            .condition_expression("attribute_not_exists(mail_day) OR mail_day < :day")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":day", number(day.as_second()))
            .expression_attribute_values(":end", number(day.after(DAY * 2).as_second()));
        Ok(update_if(first, DOING).await?.then_some(1))
    }

    /// Undoes the count of an email that was not sent.
    pub async fn give_back_mail(&self, tenant: &TenantId, now: Timestamp) -> Result<()> {
        let update = self
            .change(tenant, KEY)
            .update_expression("SET mails = mails - :one")
            .condition_expression("mail_day = :day AND mails > :none")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":none", number(0))
            .expression_attribute_values(":day", number(now.day().as_second()));
        update_if(update, DOING).await.map(drop)
    }
}
