//! An endpoint's latest failed attempt, stored in the endpoint's item.
//!
//! Searching the log for it would be slow, because the log is sorted by creation, and a retried or recovered delivery
//! can fail much later. A failing receiver may get thousands of attempts a minute, so an attempt is recorded only if a
//! minute has passed since the last recorded one. An endpoint without failed attempts costs no writes, and any other
//! endpoint costs at most one write per minute per process. If a process stops before the write, the previous error
//! remains until the next failed attempt.

use std::time::Duration;

use super::{
    item::{ERRED_AT, ERRED_BECAUSE, ERRED_CODE, ERRED_WITH, WEBHOOK_ENDPOINT_ID},
    table::Endpoints,
};
use crate::{
    aws::dynamo::{Attribute, Record, number, text},
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
const INTERVAL: Duration = Duration::from_secs(60);
/// The attributes of the error. A new URL removes them.
pub(super) const ERROR: [Attribute; 4] = [ERRED_AT, ERRED_WITH, ERRED_CODE, ERRED_BECAUSE];

impl Endpoints {
    /// Records the last attempt of `delivery` if it failed, unless an error was recorded shortly before, at `noted`.
    /// Tests are not recorded.
    pub async fn note_error(&self, tenant: &TenantId, delivery: &Delivery, noted: Option<Timestamp>) -> Result<()> {
        let is_new = |at: Timestamp| noted.is_none_or(|noted| at > noted && at.since(noted) >= INTERVAL);
        let error = LastError::of(delivery).filter(|error| is_new(error.at));
        let Some((id, error)): Option<(EndpointId, _)> = delivery.webhook_endpoint_id.zip(error) else { return Ok(()) };
        let mut set = vec![(ERRED_AT, number(error.at.as_millisecond())), (ERRED_WITH, text(error.reason))];
        set.extend(error.status_code.map(|code| (ERRED_CODE, number(code.into()))));
        set.extend(error.detail.map(|detail| (ERRED_BECAUSE, text(detail.as_str()))));
        let is_later = ERRED_AT.is_absent().or(ERRED_AT.is_below(number(error.at.as_millisecond())));
        let update = self.change(tenant, id).replace(&ERROR, set);
        let update = update.only_if(WEBHOOK_ENDPOINT_ID.exists().and(is_later));
        update.send(&self.dynamodb, "noting an error at an endpoint").await.map(drop)
    }
}

impl LastError {
    /// A delivery's last attempt, if it failed and was not a test.
    pub fn of(delivery: &Delivery) -> Option<Self> {
        let attempt = delivery.last_attempt.as_ref().filter(|_| delivery.event != EventName::Test)?;
        let Attempt { at, outcome, status_code, detail, .. } = attempt.clone();
        (outcome != "delivered").then(|| Self { at, reason: outcome.into_owned(), status_code, detail })
    }

    pub(super) fn read(record: &Record<'_>) -> Option<Self> {
        let at = record.optional_time(ERRED_AT)?;
        let reason = record.optional_text(ERRED_WITH)?.to_owned();
        let status_code = record.optional_integer(ERRED_CODE);
        let detail = record.optional_text(ERRED_BECAUSE).map(|detail| Detail::new(detail.to_owned()));
        Some(Self { at, reason, status_code, detail })
    }
}
