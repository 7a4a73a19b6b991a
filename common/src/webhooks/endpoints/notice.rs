//! Notices inform a tenant that an endpoint is failing, has been disabled, or works again. They are sent by email, and
//! as an [event](super::announcements) to the endpoints that subscribe to it.
//!
//! The write that changes the endpoint also creates the pending notice, so neither can be lost. A sparse index of
//! pending notices serves as an outbox. A notice describes the endpoint's state when it is sent, and is removed on
//! condition that it is unchanged. If a process stops before it has counted a try, the next sweep sends the notice; if
//! it stops between the email and the removal, a second email is sent.
//!
//! Each try is counted before it is made. Two processes therefore never send the same notice at the same time, no
//! notice is sent while the table cannot be written, and the pauses between tries grow regardless of the result.

use std::time::Duration;

use super::{
    health::{DisabledReason, Health, NOTING, PENDING, disabled},
    item::*,
    kind::DeliveryMethod,
    last_error::LastError,
    log_shards::log_shards,
    options::Options,
    store::readable,
    table::{Endpoints, record},
};
use crate::{
    aws::{
        dynamo::{Attribute, Item, number, text},
        expression::{Condition, Update, query},
        failure,
    },
    error::Result,
    id::{EndpointId, TenantId},
    name::Description,
    runtime_sources,
    timestamp::Timestamp,
    webhooks::delivery::{DestinationId, Shard},
};

/// A pending notice, and the current state of its endpoint.
#[derive(Debug)]
pub struct Notice {
    pub endpoint: EndpointId,
    /// The URL of the endpoint, if it has one.
    pub method: DeliveryMethod,
    /// The tenant's description of the endpoint.
    pub description: Option<Description>,
    /// The endpoint's health.
    pub health: Health,
    /// Since when the endpoint is failing; `None` if it is not failing.
    pub failing_since: Option<Timestamp>,
    /// When and why the service disabled the endpoint, if it did.
    pub disabled: Option<(Timestamp, DisabledReason)>,
    /// The shards of the delivery log that contain the endpoint's deliveries.
    pub shards: Vec<Shard>,
    /// The endpoint's last error, if any.
    pub last_error: Option<LastError>,
    /// The time of the change. A notice about a streak is pending before the streak is long enough.
    pub at: Timestamp,
    /// The number of tries to send it.
    tries: u32,
    /// The time of the last email about the endpoint.
    mailed_at: Option<Timestamp>,
}

/// The next step for a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeStep {
    /// Send the notice now.
    Send,
    /// Try again later.
    Wait,
    /// Remove the notice, because it is obsolete.
    Drop,
    /// Remove the notice, because it could not be sent for too long.
    GiveUp,
}

/// The attributes of a [`Notice`].
#[rustfmt::skip]
const NOTICED: [Attribute; 18] = [
    WEBHOOK_ENDPOINT_ID, URL, FIRST_FAILED_AT, DISABLED_AT, DISABLED_REASON, LOG_SHARDS, KIND, NOTICE,
    NOTICE_AT, NOTICE_TRIES, MAILED_AT, TOLD_SINCE, HEALTHY_AT, ERRED_AT, ERRED_WITH, ERRED_CODE, ERRED_BECAUSE, STREAK,
];
/// The index of pending notices.
const INDEX: &str = "by-notice";
/// The time after which the service stops trying to send a notice.
const GIVE_UP_AFTER: Duration = Duration::from_hours(24);
/// The time between the first and the second try. It doubles with each try.
const FIRST_RETRY_DELAY: Duration = Duration::from_mins(1);
/// The minimum time between two emails about an endpoint's failures. Without this limit, an endpoint that repeatedly
/// fails and recovers would cause many emails.
const APART: Duration = Duration::from_hours(1);

/// The time from the creation of a notice to its next try, after `tries` tries.
pub(in crate::webhooks) fn after_tries(tries: u32) -> Duration {
    FIRST_RETRY_DELAY.saturating_mul(2_u32.saturating_pow(tries).saturating_sub(1))
}

impl Notice {
    fn from_item(item: &Item, now: Timestamp) -> Result<Option<Self>> {
        let record = record(item);
        if record.optional_text(NOTICE).is_none() {
            return Ok(None);
        }
        let endpoint = record.parsed(WEBHOOK_ENDPOINT_ID)?;
        let health = Health::from_item(item);
        Ok(Some(Self {
            endpoint,
            method: DeliveryMethod::read(&record)?,
            description: Options::read(&record)?.description,
            health,
            failing_since: health.failing_since(now),
            disabled: disabled(&record)?,
            shards: Shard::first(DestinationId::Endpoint(endpoint), log_shards(&record)).collect(),
            last_error: LastError::read(&record),
            at: record.time(NOTICE_AT)?,
            tries: record.optional_integer(NOTICE_TRIES).unwrap_or(0),
            mailed_at: record.optional_time(MAILED_AT),
        }))
    }

    /// When the endpoint started to fail or, if it is not failing, was disabled. If the endpoint works again, when it
    /// had started to fail.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        self.failing_since.or(self.disabled.map(|(at, _)| at)).or(self.health.told_since).unwrap_or(now)
    }

    /// Whether the endpoint works again.
    pub fn is_recovery(&self) -> bool {
        self.failing_since.is_none() && self.disabled.is_none()
    }

    /// The step to take now.
    pub fn step(&self, now: Timestamp) -> NoticeStep {
        let pause = after_tries(self.tries);
        let is_soon = |mailed_at| now.since(mailed_at) < APART;
        match (self.failing_since, self.disabled) {
            _ if self.at > now => NoticeStep::Wait,
            // The tenant was not notified of a failure, or the endpoint has not worked since.
            (None, None) if self.health.told_since.is_none() || self.health.is_told() => NoticeStep::Drop,
            _ if now.since(self.at) >= GIVE_UP_AFTER => NoticeStep::GiveUp,
            _ if now.since(self.at) < pause => NoticeStep::Wait,
            (Some(_), None) if self.mailed_at.is_some_and(is_soon) => NoticeStep::Wait,
            _ => NoticeStep::Send,
        }
    }
}

impl Endpoints {
    /// Lists endpoints with a pending notice, from the first page of the index, which lags behind the table.
    pub async fn pending_notices(&self) -> Result<Vec<(TenantId, EndpointId)>> {
        let query = query(&self.dynamodb, &self.table, NOTICE.equals(text(PENDING))).index_name(INDEX);
        let items = query.send().await.map_err(failure("listing pending notices"))?.items.unwrap_or_default();
        let keys = items.iter().map(record);
        keys.map(|key| Ok((key.parsed(TENANT_ID)?, key.parsed(WEBHOOK_ENDPOINT_ID)?))).collect()
    }

    /// Reads the pending notice about an endpoint, if there is one, at `now`. The notice of an unreadable endpoint waits.
    /// The read is strongly consistent.
    pub async fn notice(&self, tenant: &TenantId, id: EndpointId, now: Timestamp) -> Result<Option<Notice>> {
        let found = self.get(tenant, id, &[&NOTICED, Options::ATTRIBUTES].concat()).await?;
        Ok(found.and_then(|item| readable(&item, |item| Notice::from_item(item, now))).flatten())
    }

    /// Counts a try to send a notice. Returns the updated notice, or `None` if it has changed in the meantime, or the
    /// receiver has become healthy, and it must not be sent. Before the email is sent, records that the tenant is
    /// notified of a failure, so a recovery in the meantime is reported, too. Logs the first notice that the endpoint is
    /// failing.
    pub async fn try_notice(&self, tenant: &TenantId, notice: Notice) -> Result<Option<Notice>> {
        let told = notice.failing_since.filter(|_| notice.disabled.is_none());
        let update = self
            .change(tenant, notice.endpoint)
            .only_if(match notice.health.healthy_at {
                Some(at) => HEALTHY_AT.equals(number(at.as_millisecond())),
                None => HEALTHY_AT.is_absent(),
            })
            .set_all(told.map(|since| (TOLD_SINCE, number(since.as_millisecond()))));
        let (update, tries) = one_try(update, notice.at, notice.tries);
        let is_counted = update.send(&self.dynamodb, NOTING).await?;
        if is_counted && tries == 1 && told.is_some() {
            crate::log!("endpoint.failing", %tenant, endpoint = %notice.endpoint);
        }
        Ok(is_counted.then_some(Notice { tries, ..notice }))
    }

    /// Removes a notice, unless it has changed. `mailed_at` is when its email was sent, if any. An email about a
    /// recovery does not delay the next email about a failure.
    pub async fn settle_notice(&self, tenant: &TenantId, notice: &Notice, mailed_at: Option<Timestamp>) -> Result<()> {
        let mailed_at = mailed_at.filter(|_| !notice.is_recovery());
        self.if_unchanged(tenant, notice)
            .set_all(mailed_at.map(|at| (MAILED_AT, number(at.as_millisecond()))))
            .remove([NOTICE, NOTICE_AT, NOTICE_TRIES, NOTICE_TRY])
            .remove(notice.is_recovery().then_some(TOLD_SINCE))
            .send(&self.dynamodb, NOTING)
            .await
            .map(drop)
    }

    fn if_unchanged(&self, tenant: &TenantId, notice: &Notice) -> Update {
        let is_unchanged = is_pending_since(notice.at).and(has_tries(notice.tries));
        self.change(tenant, notice.endpoint).only_if(is_unchanged)
    }
}

/// Adds to `update` that it counts a try to send the notice that has been pending since `at`, unless another process has
/// counted one since `tries`. Returns the number of tries after the update.
pub(in crate::webhooks) fn one_try(update: Update, at: Timestamp, tries: u32) -> (Update, u32) {
    let (this, more) = (text(runtime_sources::uuid()), tries.saturating_add(1));
    // This call may already have counted its try, if the response to an earlier write was lost.
    let is_free = has_tries(tries).or(NOTICE_TRY.equals(this.clone()));
    let update = update.set(NOTICE_TRIES, number(more.into())).set(NOTICE_TRY, this);
    (update.only_if(is_pending_since(at)).only_if(is_free), more)
}

/// The condition that a notice has been pending since `at`.
pub(in crate::webhooks) fn is_pending_since(at: Timestamp) -> Condition {
    NOTICE_AT.equals(number(at.as_millisecond()))
}

/// The condition that a notice has been tried this many times.
fn has_tries(tries: u32) -> Condition {
    if tries == 0 { NOTICE_TRIES.is_absent() } else { NOTICE_TRIES.equals(number(tries.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn notice(tries: u32) -> Notice {
        Notice {
            endpoint: EndpointId::generate(),
            method: DeliveryMethod::Pull,
            description: None,
            health: Health::default(),
            failing_since: Some(Timestamp::now()),
            disabled: None,
            shards: Vec::new(),
            last_error: None,
            at: Timestamp::now(),
            tries,
            mailed_at: None,
        }
    }

    #[test]
    fn an_unsent_notice_is_retried_at_growing_intervals_for_a_day() {
        let tries: Vec<u32> = (0..u32::from(u16::MAX))
            .scan(0, |tries, minute| {
                let notice = notice(*tries);
                match notice.step(notice.at.after(MINUTE * minute)) {
                    NoticeStep::Send => {
                        *tries += 1;
                        Some(Some(minute))
                    }
                    NoticeStep::Wait => Some(None),
                    NoticeStep::Drop | NoticeStep::GiveUp => None,
                }
            })
            .flatten()
            .collect();
        assert_eq!(tries, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023]);
        let old = notice(3);
        assert_eq!(old.step(old.at.after(GIVE_UP_AFTER)), NoticeStep::GiveUp);
    }

    #[test]
    fn a_flapping_endpoint_is_reported_once_an_hour() {
        let mailed_at = Some(Timestamp::now().before(MINUTE * 59));
        let failing = Notice { mailed_at, ..notice(0) };
        assert_eq!(failing.step(failing.at), NoticeStep::Wait);
        assert_eq!(failing.step(failing.at.after(MINUTE)), NoticeStep::Send);
        let disabled = Notice { disabled: Some((failing.at, DisabledReason::Gone)), ..failing };
        assert_eq!(disabled.step(disabled.at), NoticeStep::Send, "a disabled endpoint is reported at once");
    }

    #[test]
    fn a_recovered_endpoint_has_no_notice() {
        let recovered = Notice { failing_since: None, ..notice(0) };
        assert_eq!(recovered.step(recovered.at), NoticeStep::Drop);
        let (since, now) = (Some(Timestamp::now().before(MINUTE)), Some(Timestamp::now()));
        let health = Health { told_since: since, healthy_at: now, ..Health::default() };
        let told = Notice { failing_since: None, health, mailed_at: now, ..notice(0) };
        assert_eq!(told.step(told.at), NoticeStep::Send, "unless its tenant was notified of the failure");
        let health = Health { healthy_at: None, ..health };
        let replaced = Notice { failing_since: None, health, ..notice(0) };
        assert_eq!(replaced.step(replaced.at), NoticeStep::Drop, "nothing has shown that the new URL works");
        let disabled = Notice { disabled: Some((recovered.at, DisabledReason::Failing)), ..recovered };
        assert_eq!(disabled.step(disabled.at), NoticeStep::Send, "it is still disabled");
    }
}
