//! An endpoint's health: whether its receiver responds and accepts deliveries.
//!
//! The health is part of the endpoint's item, which every delivery reads anyway, and is written only when it changes.
//! The write that marks an endpoint as failing or inactive also creates a pending notice to its tenant.

use std::time::Duration;

pub use api::webhooks::DisabledReason;

use super::{
    audited,
    item::*,
    table::{Endpoints, record},
};
use crate::{
    audit::{Action, Entry, change, initial},
    aws::{
        dynamo::{Attribute, Item, Record, boolean, number, text},
        expression::Condition,
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
    /// When the first attempt since the last success went without a response. While this is set, the receiver is silent
    /// and slow.
    pub unanswered_since: Option<Timestamp>,
    /// Whether the receiver fails to respond within seconds. If so, its deliveries use the queue for hanging receivers.
    pub hangs: bool,
    /// When the receiver last stopped hanging.
    pub replied_at: Option<Timestamp>,
    /// When an attempt was first cut off. This starts a trial, because the receiver may merely be slow.
    pub suspected_at: Option<Timestamp>,
    /// When deliveries started to fail. None has succeeded since.
    pub failing_since: Option<Timestamp>,
    /// When the receiver last became healthy again.
    pub healthy_at: Option<Timestamp>,
    /// When a process last began to probe the receiver while it did not respond.
    pub probed_at: Option<Timestamp>,
    /// When the receiver was found to be slow or hanging; `None` once it is good again. While this is set, its
    /// deliveries use a separate queue.
    pub slow_at: Option<Timestamp>,
    /// When the receiver last became good again.
    pub good_at: Option<Timestamp>,
    /// When the latest attempt failed, accurate to within a minute.
    pub erred_at: Option<Timestamp>,
}

/// A change in the health of a receiver.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// It accepted a delivery.
    Answered,
    /// It is good again, because it has responded quickly to many consecutive attempts since this time.
    Good { since: Timestamp },
    /// It did not respond. The first such attempt makes it silent and slow.
    Unanswered { hangs: bool },
    /// It responds again, or at least fails quickly.
    HangsNoMore,
    /// It responded late.
    Slow,
    /// It hangs.
    Hangs,
}

/// The effect of a failed delivery on its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The endpoint has started to fail.
    Failing,
    /// The service has disabled the endpoint.
    Disabled(DisabledReason),
}

impl Consequence {
    /// Logs the consequence, and counts an endpoint that was disabled.
    fn report(self, tenant: &TenantId, endpoint: EndpointId) {
        match self {
            Self::Failing => crate::log!("endpoint.failing", %tenant, %endpoint),
            Self::Disabled(reason) => {
                crate::log!("endpoint.disabled", %tenant, %endpoint, %reason);
                metrics::emit(&[Metric::count("EndpointDisabled", 1)], &[("Reason", reason.as_str())]);
            }
        }
    }
}

/// The attributes of a receiver that does not respond. A success or a new URL removes them.
pub(super) const SILENT: [Attribute; 4] = [UNANSWERED_SINCE, HANGS, SUSPECTED_AT, PROBED_AT];
/// The other attributes that are removed when a user enables the endpoint.
pub(super) const DISABLED: [Attribute; 6] = [DISABLED_AT, DISABLED_REASON, NOTICE, NOTICE_AT, NOTICE_TRIES, TOLD_SINCE];
/// The value of `notice` while a notice is pending.
pub(super) const PENDING: &str = "pending";

/// The operation named in errors from this module's writes.
pub(super) const NOTING: &str = "noting the health of an endpoint";

/// Decides the consequence for the endpoint when a delivery has failed with `attempt`.
fn consequence(health: Health, attempt: &Attempt, disable_after: Duration) -> Option<Consequence> {
    match health.failing_since {
        _ if attempt.status_code == Some(410) => Some(Consequence::Disabled(DisabledReason::Gone)),
        None => Some(Consequence::Failing),
        Some(since) => {
            let is_over = !disable_after.is_zero() && attempt.at.since(since) >= disable_after;
            is_over.then_some(Consequence::Disabled(DisabledReason::Failing))
        }
    }
}

/// When and why the service disabled the endpoint, if it did.
pub(super) fn disabled(record: &Record<'_>) -> Result<Option<(Timestamp, DisabledReason)>> {
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
            unanswered_since: time(UNANSWERED_SINCE),
            failing_since: time(FAILING_SINCE),
            healthy_at: time(HEALTHY_AT),
            probed_at: time(PROBED_AT),
            slow_at: time(SLOW_AT),
            good_at: time(GOOD_AT),
            erred_at: time(ERRED_AT),
            replied_at: time(REPLIED_AT),
            suspected_at: time(SUSPECTED_AT),
            hangs: record.boolean(HANGS).unwrap_or_default(),
        }
    }

    /// Whether a success would change the health.
    pub fn is_impaired(&self) -> bool {
        self.unanswered_since.is_some() || self.failing_since.is_some()
    }
}

impl Endpoints {
    /// Records that the receiver accepted a delivery at `at` and is therefore healthy. A disabled endpoint stays
    /// disabled. If the tenant was notified, or is being notified, that the endpoint is failing, the same write creates
    /// a pending notice of the recovery. Otherwise, any pending notice remains, and the sweep finds that it is
    /// obsolete.
    pub async fn note_answered(&self, tenant: &TenantId, id: EndpointId, at: Timestamp) -> Result<()> {
        let answered = || {
            self.change(tenant, id).set(HEALTHY_AT, number(at.as_millisecond())).remove(SILENT).remove([FAILING_SINCE])
        };
        let is_told = FAILING_SINCE.exists().and(TOLD_SINCE.exists()).and(DISABLED_AT.is_absent());
        let recovered = answered()
            .set(NOTICE, text(PENDING))
            .set(NOTICE_AT, number(at.as_millisecond()))
            .remove([NOTICE_TRIES])
            .only_if(is_told);
        if recovered.send(&self.dynamodb, NOTING).await? {
            crate::log!("endpoint.recovered", %tenant, endpoint = %id);
            return Ok(());
        }
        let answered = answered().only_if(UNANSWERED_SINCE.exists().or(FAILING_SINCE.exists()));
        answered.send(&self.dynamodb, NOTING).await.map(drop)
    }

    /// Records a change that an attempt revealed when it ended, at `at`, unless the item already has it or a newer one.
    pub async fn note(&self, tenant: &TenantId, id: EndpointId, news: News, at: Timestamp) -> Result<()> {
        let (update, now) = (self.change(tenant, id), number(at.as_millisecond()));
        let update = match news {
            News::Answered => return self.note_answered(tenant, id, at).await,
            News::Hangs => return self.note_hangs(tenant, id, at, None).await.map(drop),
            News::Slow => update
                .set(SLOW_AT, now)
                .only_if(WEBHOOK_ENDPOINT_ID.exists().and(SLOW_AT.is_absent()).and(is_absent_or_before(GOOD_AT, at))),
            News::Good { since } => update
                .set(GOOD_AT, now)
                .remove([SLOW_AT, HANGS])
                .only_if(SLOW_AT.is_below(number(since.as_millisecond()))),
            News::Unanswered { hangs } => update
                .set_once(UNANSWERED_SINCE, now.clone())
                .set(HANGS, boolean(hangs))
                .set(SLOW_AT, now)
                .only_if(WEBHOOK_ENDPOINT_ID.exists())
                .only_if(UNANSWERED_SINCE.is_absent().or(HANGS.differs_from(boolean(hangs))))
                .only_if(is_absent_or_before(HEALTHY_AT, at)),
            News::HangsNoMore => {
                update.set(HANGS, boolean(false)).set(REPLIED_AT, now).only_if(HANGS.equals(boolean(true)))
            }
        };
        update.send(&self.dynamodb, NOTING).await.map(drop)
    }

    /// Records that the receiver has been hanging since `since` and, if it is on trial, that the trial began at
    /// `suspected_at`. Returns `false` if this is already recorded, or if the receiver has stopped hanging or become
    /// good since.
    pub async fn note_hangs(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        since: Timestamp,
        suspected_at: Option<Timestamp>,
    ) -> Result<bool> {
        let update = self
            .change(tenant, id)
            .set(SLOW_AT, number(since.as_millisecond()))
            .set(HANGS, boolean(true))
            .set_all(suspected_at.map(|at| (SUSPECTED_AT, number(at.as_millisecond()))))
            .only_if(WEBHOOK_ENDPOINT_ID.exists())
            .only_if(SLOW_AT.is_absent().or(HANGS.is_absent()).or(HANGS.differs_from(boolean(true))))
            .only_if(is_absent_or_before(GOOD_AT, since))
            .only_if(is_absent_or_before(REPLIED_AT, since));
        update.send(&self.dynamodb, NOTING).await
    }

    /// Returns whether the caller may probe a receiver that does not respond, which is the case unless another process
    /// began a probe at `since` or later.
    pub async fn begin_probe(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<bool> {
        let update = self
            .change(tenant, id)
            .set(PROBED_AT, number(now.as_millisecond()))
            .only_if(UNANSWERED_SINCE.exists().and(is_absent_or_before(PROBED_AT, since)));
        update.send(&self.dynamodb, NOTING).await
    }

    /// Records that `delivery` has failed. If this disables the endpoint, the audit log names the caller who settled
    /// the delivery, or the service itself. `health` is the endpoint's health when the last attempt began. Returns and
    /// logs the consequence that this write caused. Repeated calls and test deliveries have no effect.
    pub async fn delivery_failed(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        health: Health,
        disable_after: Duration,
        now: Timestamp,
    ) -> Result<Option<Consequence>> {
        let attempt = delivery.last_attempt.as_ref().filter(|_| delivery.event != EventName::Test);
        let Some((id, attempt)) = delivery.webhook_endpoint_id.zip(attempt) else { return Ok(None) };
        let Some(consequence) = consequence(health, attempt, disable_after) else { return Ok(None) };
        let mut update = self
            .change(tenant, id)
            .set(NOTICE, text(PENDING))
            .set(NOTICE_AT, number(now.as_millisecond()))
            .remove([NOTICE_TRIES])
            .set_once(FAILING_SINCE, number(attempt.at.as_millisecond()))
            .only_if(ACTIVE.equals(boolean(true)))
            // The attempt is outdated if the receiver has become healthy since then.
            .only_if(is_absent_or_before(HEALTHY_AT, attempt.at));
        if let Consequence::Disabled(reason) = consequence {
            update = update
                .set(ACTIVE, boolean(false))
                .set(INACTIVE_SINCE, number(now.as_millisecond()))
                .set(DISABLED_AT, number(now.as_millisecond()))
                .set(DISABLED_REASON, text(reason));
        }
        let update = update.only_if(match (consequence, health.failing_since) {
            (Consequence::Failing, _) => FAILING_SINCE.is_absent(),
            (Consequence::Disabled(DisabledReason::Failing), Some(since)) => {
                FAILING_SINCE.equals(number(since.as_millisecond()))
            }
            // The endpoint's URL may have been changed, or the endpoint enabled, since then.
            (Consequence::Disabled(_), _) => is_absent_or_before(GOOD_AT, attempt.at),
        });
        let is_noted = match consequence {
            Consequence::Failing => update.send(&self.dynamodb, NOTING).await?,
            Consequence::Disabled(reason) => {
                let url = self.get(tenant, id, &[URL]).await?;
                let target = audited::target(id, url.as_ref().and_then(|item| record(item).optional_text(URL)));
                let changes =
                    [change("active", Some(true.to_string()), Some(false.to_string())), initial("reason", reason)];
                let entry = Entry::new(Action::WebhookDisabled, tenant, target).with(changes);
                Transaction::new(NOTING).update(update).record(entry)?.try_commit(&self.dynamodb).await?
            }
        };
        if !is_noted {
            return Ok(None);
        }
        consequence.report(tenant, id);
        Ok(Some(consequence))
    }
}

fn is_absent_or_before(attribute: Attribute, time: Timestamp) -> Condition {
    attribute.is_absent().or(attribute.is_below(number(time.as_millisecond())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::delivery::{Failure, Outcome, Trigger};

    fn after(failing_for: Option<u64>, status: u16, disable_after: u64) -> Option<Consequence> {
        let failing_since = failing_for.map(|seconds| Timestamp::now().before(Duration::from_secs(seconds)));
        let failed = Outcome::Failed(Failure::Status(status, None));
        let attempt = Attempt::new(Timestamp::now(), 1, failed, None, Trigger::Schedule);
        consequence(Health { failing_since, ..Health::default() }, &attempt, Duration::from_secs(disable_after))
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

    /// An attribute missing from these lists would not be read, and would not be removed by a success or by enabling
    /// the endpoint.
    #[test]
    fn each_attribute_of_the_health_is_listed() {
        let value = |attribute| if attribute == HANGS { boolean(true) } else { number(7) };
        let listed = SILENT.into_iter().chain([FAILING_SINCE, HEALTHY_AT, REPLIED_AT, SLOW_AT, GOOD_AT, ERRED_AT]);
        let item: Item = listed.map(|attribute| attribute.with(value(attribute))).collect();
        let health = Health::from_item(&item);
        let Health { unanswered_since, hangs, replied_at, suspected_at, failing_since, .. } = health;
        let Health { healthy_at, probed_at, slow_at, good_at, erred_at, .. } = health;
        let silent = [unanswered_since, suspected_at, probed_at];
        let times = [silent.as_slice(), &[failing_since, healthy_at, replied_at, slow_at, good_at, erred_at]].concat();
        assert!(hangs && times.iter().all(Option::is_some), "{times:?}");
    }
}
