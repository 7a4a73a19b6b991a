//! The daily limit on emails about failed jobs to an organization.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;

use super::table::JobFailures;
use crate::{
    aws::{
        dynamo::{Attribute, Record, number},
        expression::Update,
    },
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::endpoints::item::DELETE_AT,
};

/// The limit per UTC day. The last email of a day mentions the limit.
pub const MAILS_A_DAY: i64 = 50;

/// The sort key of the item that counts a tenant's emails.
const KEY: &str = "#failure-mails";
const MAILS: Attribute = Attribute("mails");
const MAIL_DAY: Attribute = Attribute("mail_day");
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DOING: &str = "counting emails about failed jobs";

impl JobFailures {
    /// Counts an email before it is sent. Returns its number within the day, or `None` if the day's limit has been
    /// reached.
    pub async fn take_mail(&self, tenant: &TenantId, now: Timestamp) -> Result<Option<i64>> {
        let day = now.day();
        let more = self.change_mails(tenant, 1, now).only_if(MAILS.is_below(number(MAILS_A_DAY)));
        if let Some(counted) = more.send_for(&self.dynamodb, ReturnValue::UpdatedNew, DOING).await? {
            return Record::new("email count", &counted).number(MAILS).map(Some);
        }
        let first = self
            .update(tenant, KEY)
            .set(MAIL_DAY, number(day.as_second()))
            .set(MAILS, number(1))
            .set(DELETE_AT, number(day.after(DAY * 2).as_second()))
            .only_if(MAIL_DAY.is_absent().or(MAIL_DAY.is_below(number(day.as_second()))));
        Ok(first.send(&self.dynamodb, DOING).await?.then_some(1))
    }

    /// Undoes the count of an email that was not sent.
    pub async fn give_back_mail(&self, tenant: &TenantId, now: Timestamp) -> Result<()> {
        let less = self.change_mails(tenant, -1, now).only_if(MAILS.is_above(number(0)));
        less.send(&self.dynamodb, DOING).await.map(drop)
    }

    /// Changes the number of today's emails by `by`, if emails have been counted today.
    fn change_mails(&self, tenant: &TenantId, by: i64, now: Timestamp) -> Update {
        self.update(tenant, KEY).change_by(MAILS, by).only_if(MAIL_DAY.equals(number(now.day().as_second())))
    }
}
