//! The daily limits on emails to an organization about its failed jobs and its endpoints.

use std::time::Duration;

use super::table::{CALL, JobFailures, once};
use crate::{
    aws::{
        dynamo::{ItemReader, attributes, number, text},
        expression::Update,
    },
    error::Result,
    id::TenantId,
    runtime_sources,
    timestamp::Timestamp,
    webhooks::endpoints::item::DELETE_AT,
};

/// The limit on emails about failed jobs per UTC day. The day's last email mentions the limit.
pub const MAILS_A_DAY: i64 = 50;
/// The limit on emails about endpoints per UTC day: enough for each endpoint to fail once. Without a limit, an
/// organization whose endpoints keep failing and recovering could fill a stranger's mailbox.
pub const NOTICES_A_DAY: i64 = 100;

/// The kinds of emails that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Emails about failed jobs.
    Failures,
    /// Emails about endpoints.
    Notices,
}

impl Quota {
    /// The sort key of the item that counts a tenant's emails.
    const fn key(self) -> &'static str {
        match self {
            Self::Failures => "#failure-mails",
            Self::Notices => "#notice-mails",
        }
    }

    const fn limit(self) -> i64 {
        match self {
            Self::Failures => MAILS_A_DAY,
            Self::Notices => NOTICES_A_DAY,
        }
    }
}

attributes! {
    MAILS = "mails", MAIL_DAY = "mail_day",
}
const DOING: &str = "counting emails to an organization";

impl JobFailures {
    /// Counts an email before it is sent. Returns its number within the day, or `None` if the day's limit has been
    /// reached.
    pub async fn take_mail(&self, tenant: &TenantId, quota: Quota, now: Timestamp) -> Result<Option<i64>> {
        let day = now.day();
        // The writes may be repeated, if a response is lost, but must count this email once.
        let call = text(runtime_sources::uuid());
        // If another call counts the first email of the day between these two writes, the second round counts again.
        for _ in 0..2 {
            let more = once(self.change_mails(tenant, quota, 1, now), &call);
            let more = more.only_if(MAILS.is_below(number(quota.limit())));
            let (is_counted, counted) = more.send_and_read(&self.dynamodb, DOING).await?;
            if is_counted || counted.get(CALL.name()) == Some(&call) {
                return ItemReader::new("email count", &counted).number(MAILS).map(Some);
            }
            let first = self
                .update(tenant, quota.key())
                .set(MAIL_DAY, number(day.as_second()))
                .set(MAILS, number(1))
                .set(CALL, call.clone())
                .set(DELETE_AT, number(day.after(Duration::from_hours(48)).as_second()))
                .only_if(
                    MAIL_DAY.is_absent().or(MAIL_DAY.is_below(number(day.as_second()))).or(CALL.equals(call.clone())),
                );
            if first.send(&self.dynamodb, DOING).await? {
                return Ok(Some(1));
            }
        }
        Ok(None)
    }

    /// Undoes the count of an email that was not sent.
    pub async fn give_back_mail(&self, tenant: &TenantId, quota: Quota, now: Timestamp) -> Result<()> {
        let less = once(self.change_mails(tenant, quota, -1, now), &text(runtime_sources::uuid()));
        let less = less.only_if(MAILS.is_above(number(0)));
        less.send(&self.dynamodb, DOING).await.map(drop)
    }

    /// Changes the number of today's emails by `by`, if emails have been counted today.
    fn change_mails(&self, tenant: &TenantId, quota: Quota, by: i64, now: Timestamp) -> Update {
        self.update(tenant, quota.key()).change_by(MAILS, by).only_if(MAIL_DAY.equals(number(now.day().as_second())))
    }
}
