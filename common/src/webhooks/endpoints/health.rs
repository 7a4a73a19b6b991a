//! An endpoint's health: whether its receiver responds and accepts deliveries.
//!
//! The health is part of the endpoint's item, which every delivery reads anyway, and is written only when it changes.
//! The write that makes an endpoint failing or inactive also creates a pending notice to its tenant.
//!
//! [`Health::failing_since`] is the only definition of *failing*. The console, the API, the client, the emails and the
//! notices use it.

use std::time::Duration;

pub use api::webhooks::DisabledReason;

use super::{
    audit_trail,
    gate::Gate,
    item::*,
    streak::Streak,
    table::{Endpoints, is_absent_or_before, record},
};
use crate::{
    audit::{Action, Entry, Recorder, change, initial},
    aws::{
        dynamo::{Attribute, Item, ItemReader, boolean, number, text},
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::Result,
    id::{EndpointId, TenantId},
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery},
        event::EventName,
    },
};

/// The health of a receiver, as stored in its endpoint's item.
#[derive(Clone, Copy, Debug, Default)]
pub struct Health {
    /// Whether attempts are made at once.
    pub gate: Gate,
    /// The failed attempts since the last success, if any.
    pub streak: Option<Streak>,
    /// When a delivery first failed permanently. No attempt has succeeded since.
    pub first_failed_at: Option<Timestamp>,
    /// The start of the failure that the tenant was last notified of; `None` once they have been notified of the
    /// recovery.
    pub told_since: Option<Timestamp>,
    /// When the receiver last became healthy again.
    pub healthy_at: Option<Timestamp>,
    /// When the latest failed attempt began, accurate to within a minute.
    pub erred_at: Option<Timestamp>,
}

/// The effect of a failed delivery on its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The endpoint is failing, if it was not before.
    Failing,
    /// The service has disabled the endpoint.
    Disabled(DisabledReason),
}

impl Consequence {
    /// Logs and counts an endpoint that was disabled.
    fn report(self, tenant: &TenantId, endpoint: EndpointId) {
        if let Self::Disabled(reason) = self {
            crate::log!("endpoint.disabled", %tenant, %endpoint, %reason);
            metrics::emit(&[Metric::count("EndpointDisabled", 1)], &[("Reason", reason.as_str())]);
        }
    }
}

/// The attributes of a disabled endpoint and of its notices, which are removed when a user enables it. Without the time
/// of the last email, the next failure is reported at once.
pub(super) const DISABLED: [Attribute; 8] =
    [DISABLED_AT, DISABLED_REASON, NOTICE, NOTICE_AT, NOTICE_TRIES, NOTICE_TRY, TOLD_SINCE, MAILED_AT];
/// The value of `notice` while a notice is pending.
pub(super) const PENDING: &str = "pending";

/// The operation named in errors from this module's writes.
pub(super) const NOTING: &str = "noting the health of an endpoint";

/// Decides the consequence for the endpoint when a delivery has failed with `attempt`.
fn consequence(health: Health, attempt: &Attempt, disable_after: Duration) -> Option<Consequence> {
    match health.first_failed_at {
        _ if attempt.status_code == Some(410) => Some(Consequence::Disabled(DisabledReason::Gone)),
        None => Some(Consequence::Failing),
        Some(since) => {
            let is_over = !disable_after.is_zero() && attempt.at.since(since) >= disable_after;
            is_over.then_some(Consequence::Disabled(DisabledReason::Failing))
        }
    }
}

/// When and why the service disabled the endpoint, if it did.
pub(super) fn disabled(record: &ItemReader<'_>) -> Result<Option<(Timestamp, DisabledReason)>> {
    let at = record.optional_time(DISABLED_AT);
    at.map(|at| Ok((at, record.parsed(DISABLED_REASON)?))).transpose()
}

/// Reads `DISABLE_AFTER`, the time that an endpoint may be failing before it is disabled. With zero, endpoints are not
/// disabled for failing.
pub fn disable_after(env: &Env) -> Result<Duration, ConfigError> {
    env.number("DISABLE_AFTER", 0..=31_536_000).map(Duration::from_secs)
}

/// Reads from `ROTATION_OVERLAP` how long events are also signed with the previous secret.
pub fn rotation_overlap(env: &Env) -> Result<Duration, ConfigError> {
    env.number("ROTATION_OVERLAP", 0..=2_592_000).map(Duration::from_secs)
}

impl Health {
    pub(super) fn from_item(item: &Item) -> Self {
        let record = record(item);
        let time = |name| record.optional_time(name);
        Self {
            gate: Gate::from_item(item),
            streak: record.optional_text(STREAK).and_then(|text| text.parse().ok()),
            first_failed_at: time(FIRST_FAILED_AT),
            told_since: time(TOLD_SINCE),
            healthy_at: time(HEALTHY_AT),
            erred_at: time(ERRED_AT),
        }
    }

    /// Since when the endpoint is failing: since the first failed attempt after its last success, if a delivery has failed
    /// permanently or the [streak](Streak) is long enough. `None` if it is not failing.
    pub fn failing_since(&self, now: Timestamp) -> Option<Timestamp> {
        let first = self.streak.map(|streak| streak.since);
        match self.first_failed_at {
            Some(since) => Some(first.map_or(since, |first| first.min(since))),
            None => first.filter(|_| self.streak.is_some_and(|streak| streak.is_long(now))),
        }
    }

    /// Whether the tenant was notified, or is being notified, of a failure, and no attempt has succeeded since.
    pub(super) fn is_told(&self) -> bool {
        self.told_since > self.healthy_at
    }

    /// Whether a success would change the health.
    pub fn is_impaired(&self) -> bool {
        self.streak.is_some()
            || self.first_failed_at.is_some()
            || self.is_told()
            || matches!(self.gate, Gate::Silent { .. })
    }
}

impl Endpoints {
    /// Records that the receiver accepted a delivery at `at` and is therefore healthy. A disabled endpoint stays
    /// disabled. If the tenant was notified, or is being notified, that the endpoint is failing, the same write creates
    /// a pending notice of the recovery. Otherwise, any pending notice remains, and the sweep finds that it is
    /// obsolete.
    pub async fn note_answered(&self, tenant: &TenantId, id: EndpointId, at: Timestamp) -> Result<()> {
        let answered =
            || self.change(tenant, id).set(HEALTHY_AT, number(at.as_millisecond())).remove([STREAK, FIRST_FAILED_AT]);
        let is_told = TOLD_SINCE.exists().and(HEALTHY_AT.is_absent().or(HEALTHY_AT.is_below_that_of(TOLD_SINCE)));
        // An earlier try may have made this write, but its response was lost.
        let noted_at = number(at.as_millisecond());
        let is_noted = HEALTHY_AT.equals(noted_at.clone()).and(NOTICE_AT.equals(noted_at.clone()));
        let recovered = answered()
            .set(NOTICE, text(PENDING))
            .set(NOTICE_AT, noted_at)
            .remove([NOTICE_TRIES])
            .only_if(is_told.or(is_noted.and(NOTICE_TRIES.is_absent())))
            .only_if(DISABLED_AT.is_absent());
        if recovered.send(&self.dynamodb, NOTING).await? {
            crate::log!("endpoint.recovered", %tenant, endpoint = %id);
            return Ok(());
        }
        let is_impaired = STREAK.exists().or(FIRST_FAILED_AT.exists()).or(GATE.begins_with(text("silent")));
        answered().only_if(is_impaired).send(&self.dynamodb, NOTING).await.map(drop)
    }

    /// Records that `delivery` has failed permanently. If this disables the endpoint, the audit log names the caller who settled
    /// the delivery, or the service itself. `health` is the endpoint's health when the last attempt began. Returns and
    /// logs the consequence that this write caused. Repeated calls and test deliveries have no effect.
    pub async fn delivery_failed(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        delivery: &Delivery,
        health: Health,
        disable_after: Duration,
        now: Timestamp,
    ) -> Result<Option<Consequence>> {
        let attempt = delivery.last_attempt.as_ref().filter(|_| delivery.event != EventName::Test);
        let Some((id, attempt)) = delivery.webhook_endpoint_id.zip(attempt) else { return Ok(None) };
        let Some(consequence) = consequence(health, attempt, disable_after) else { return Ok(None) };
        let failed = || {
            let update = self.change(tenant, id).set_once(FIRST_FAILED_AT, number(attempt.at.as_millisecond()));
            // The attempt is outdated if the receiver has become healthy since then.
            update.only_if(ACTIVE.equals(boolean(true))).only_if(is_absent_or_before(HEALTHY_AT, attempt.at))
        };
        let mut update =
            failed().set(NOTICE, text(PENDING)).set(NOTICE_AT, number(now.as_millisecond())).remove([NOTICE_TRIES]);
        if let Consequence::Disabled(reason) = consequence {
            update = update
                .set(ACTIVE, boolean(false))
                .set(INACTIVE_SINCE, number(now.as_millisecond()))
                .set(DISABLED_AT, number(now.as_millisecond()))
                .set(DISABLED_REASON, text(reason));
        }
        let update = update.only_if(match (consequence, health.first_failed_at) {
            (Consequence::Failing, _) => FIRST_FAILED_AT.is_absent(),
            (Consequence::Disabled(DisabledReason::Failing), Some(since)) => {
                FIRST_FAILED_AT.equals(number(since.as_millisecond()))
            }
            // The endpoint's URL may have been changed, or the endpoint enabled, since then.
            (Consequence::Disabled(_), _) => is_absent_or_before(RENEWED_AT, attempt.at),
        });
        let is_noted = match consequence {
            Consequence::Failing => {
                // The notice of the streak must not be repeated, and one that is being sent must not be replaced.
                let update = update.only_if(match health.told_since {
                    Some(since) => TOLD_SINCE.equals(number(since.as_millisecond())),
                    None => TOLD_SINCE.is_absent(),
                });
                let has_notice = !health.is_told() && update.send(&self.dynamodb, NOTING).await?;
                has_notice || failed().only_if(FIRST_FAILED_AT.is_absent()).send(&self.dynamodb, NOTING).await?
            }
            Consequence::Disabled(reason) => {
                let url = self.get(tenant, id, &[URL]).await?;
                let target = audit_trail::target(id, url.as_ref().and_then(|item| record(item).optional_text(URL)));
                let changes =
                    [change("active", Some(true.to_string()), Some(false.to_string())), initial("reason", reason)];
                let entry = Entry::new(Action::WebhookDisabled, tenant, target).with(changes);
                Transaction::new(NOTING).update(update).record(recorder, entry)?.try_commit(&self.dynamodb).await?
            }
        };
        if !is_noted {
            return Ok(None);
        }
        consequence.report(tenant, id);
        Ok(Some(consequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::delivery::{Failure, Outcome, Trigger};

    fn after(failing_for: Option<u64>, status: u16, disable_after: u64) -> Option<Consequence> {
        let first_failed_at = failing_for.map(|seconds| Timestamp::now().before(Duration::from_secs(seconds)));
        let failed = Outcome::Failed(Failure::Status(status, None));
        let attempt = Attempt::new(Timestamp::now(), 1, failed, None, Trigger::Schedule);
        consequence(Health { first_failed_at, ..Health::default() }, &attempt, Duration::from_secs(disable_after))
    }

    #[test]
    fn an_endpoint_that_keeps_failing_is_eventually_disabled() {
        assert_eq!(after(None, 500, 60), Some(Consequence::Failing));
        assert_eq!(after(Some(50), 500, 60), None);
        assert_eq!(after(Some(60), 500, 60), Some(Consequence::Disabled(DisabledReason::Failing)));
        assert_eq!(after(Some(1_000_000), 500, 0), None, "0 means never");
        for failing_for in [None, Some(50), Some(60)] {
            assert_eq!(after(failing_for, 410, 0), Some(Consequence::Disabled(DisabledReason::Gone)));
        }
    }
}
