//! The latest failed attempt at an endpoint, in the endpoint's item.
//!
//! The log cannot name it at once: it sorts by creation, and a delivery that is retried or recovered fails long after
//! that. A receiver that fails may get thousands of attempts a minute, so an attempt within a minute of the noted one is
//! not noted. Endpoints without failed attempts cost no write, others at most one a minute and process. A process that
//! dies before the write leaves the previous error, until the next failed attempt.

use std::time::Duration;

use super::table::Endpoints;
use crate::{
    aws::dynamo::{Record, change, number, text, update_if},
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, Delivery},
};

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// When it began.
    pub at: Timestamp,
    /// The reason for the failure, as the log names it.
    pub reason: String,
    /// The HTTP status of the response, if there was one.
    pub status_code: Option<u16>,
}

/// The time after an error for which further errors are not noted.
const INTERVAL: Duration = Duration::from_secs(60);
/// The attribute with the time of the error. A new URL removes all three.
pub(super) const ERRED_AT: &str = "erred_at";
pub(super) const ERROR: [&str; 3] = [ERRED_AT, "erred_with", "erred_code"];

impl Endpoints {
    /// Notes the last attempt of `delivery` if it failed, unless an error was noted just before: the endpoint's item had
    /// an error of the time `noted`. Tests are not noted.
    ///
    /// # Errors
    /// The write failed.
    pub async fn note_error(&self, tenant: &TenantId, delivery: &Delivery, noted: Option<Timestamp>) -> Result<()> {
        let is_new = |at: Timestamp| noted.is_none_or(|noted| at > noted && at.since(noted) >= INTERVAL);
        let error = LastError::of(delivery).filter(|error| is_new(error.at));
        let Some((id, error)): Option<(EndpointId, _)> = delivery.webhook_endpoint_id.zip(error) else { return Ok(()) };
        let (mut set, mut remove) = (vec![(ERRED_AT, number(error.at.as_millisecond()))], Vec::new());
        set.push(("erred_with", text(error.reason)));
        match error.status_code {
            Some(code) => set.push(("erred_code", number(code.into()))),
            None => remove.push("erred_code"),
        }
        let update = change(self.change(tenant, id), set, &remove).condition_expression(
            "attribute_exists(webhook_endpoint_id) AND (attribute_not_exists(erred_at) OR erred_at < :erred_at)",
        );
        update_if(update, "noting an error of an endpoint").await.map(drop)
    }
}

impl LastError {
    /// The last attempt of a delivery, if it failed and was no test.
    #[must_use]
    pub fn of(delivery: &Delivery) -> Option<Self> {
        let attempt = delivery.last_attempt.as_ref().filter(|_| delivery.event.is_of_a_job())?;
        let Attempt { at, outcome, status_code, .. } = attempt;
        (outcome != "delivered").then(|| Self { at: *at, reason: outcome.to_string(), status_code: *status_code })
    }

    pub(super) fn read(record: &Record<'_>) -> Option<Self> {
        let at = record.optional_number(ERRED_AT).map(Timestamp::from_millisecond)?;
        let reason = record.optional_text("erred_with")?.to_owned();
        let status_code = record.optional_number("erred_code").and_then(|code| u16::try_from(code).ok());
        Some(Self { at, reason, status_code })
    }
}
