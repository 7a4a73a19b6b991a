//! An endpoint's latest failed attempt, stored in the endpoint's item.
//!
//! Searching the log for it would be slow, because the log is sorted by creation, and a retried or recovered delivery
//! can fail much later. A failing receiver may get thousands of attempts a minute, so an attempt is recorded only with
//! the first ones of a [streak](super::streak), and if a minute has passed since the last recorded one. An endpoint
//! without failed attempts costs no writes, and any other endpoint costs at most one write per minute per process. If a
//! process stops before the write, the previous error remains until the next failed attempt.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    item::{ERRED_AT, ERRED_BECAUSE, ERRED_CODE, ERRED_WITH, WEBHOOK_ENDPOINT_ID},
    table::{Endpoints, is_absent_or_before},
};
use crate::{
    aws::dynamo::{Attribute, ItemReader, number, text},
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, Detail},
        event::EventName,
    },
};

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// When the attempt began.
    pub at: Timestamp,
    /// The reason for the failure, as in the log.
    pub reason: String,
    /// The HTTP status of the response, if there was one.
    pub status_code: Option<u16>,
    /// The cause of the failure, if it is known.
    pub detail: Option<Detail>,
}

/// The time after a recorded error during which no other errors are recorded.
const INTERVAL: Duration = Duration::from_mins(1);
/// The attributes of the error. A new URL removes them.
pub(super) const ERROR: [Attribute; 4] = [ERRED_AT, ERRED_WITH, ERRED_CODE, ERRED_BECAUSE];

impl Endpoints {
    /// Records an error, unless another was recorded shortly before, at `noted`.
    pub(super) async fn note_error(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        error: &LastError,
        noted: Option<Timestamp>,
    ) -> Result<()> {
        if noted.is_some_and(|noted| error.at <= noted || error.at.since(noted) < INTERVAL) {
            return Ok(());
        }
        let update = self.change(tenant, id).replace(&ERROR, error.attributes()).only_if(WEBHOOK_ENDPOINT_ID.exists());
        let update = update.only_if(is_absent_or_before(ERRED_AT, error.at));
        update.send(&self.dynamodb, "noting an error at an endpoint").await.map(drop)
    }
}

impl LastError {
    /// A delivery's last attempt, if it failed and was not a test.
    pub fn of(delivery: &Delivery) -> Option<Self> {
        let attempt = delivery.last_attempt.as_ref().filter(|_| delivery.event != EventName::Test)?;
        (attempt.outcome != "delivered").then(|| attempt.into())
    }

    /// The attributes of the error in an endpoint's item.
    pub(super) fn attributes(&self) -> Vec<(Attribute, AttributeValue)> {
        let mut set = vec![(ERRED_AT, number(self.at.as_millisecond())), (ERRED_WITH, text(&self.reason))];
        set.extend(self.status_code.map(|code| (ERRED_CODE, number(code.into()))));
        set.extend(self.detail.as_ref().map(|detail| (ERRED_BECAUSE, text(detail.as_str()))));
        set
    }

    pub(super) fn read(record: &ItemReader<'_>) -> Option<Self> {
        let at = record.optional_time(ERRED_AT)?;
        let reason = record.optional_text(ERRED_WITH)?.to_owned();
        let status_code = record.optional_integer(ERRED_CODE);
        let detail = record.optional_text(ERRED_BECAUSE).map(|detail| Detail::new(detail.to_owned()));
        Some(Self { at, reason, status_code, detail })
    }
}

/// The error of an attempt that failed.
impl From<&Attempt> for LastError {
    fn from(attempt: &Attempt) -> Self {
        let Attempt { at, outcome, status_code, detail, .. } = attempt.clone();
        Self { at, reason: outcome.into_owned(), status_code, detail }
    }
}
