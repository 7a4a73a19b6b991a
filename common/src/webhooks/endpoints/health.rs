//! The health of an endpoint: whether its receiver answers and accepts its deliveries.
//!
//! The health is in the endpoint's item, which every delivery reads anyway, and is written only when it changes. The
//! write that makes an endpoint failing or inactive also makes a notice to its tenant pending.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    last_error::ERRED_AT,
    table::{Endpoints, record},
};
use crate::{
    aws::dynamo::{Item, Record, boolean, change, number, text, update_if},
    config::{ConfigError, Env},
    error::Result,
    id::{EndpointId, TenantId, names},
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, Delivery},
};

/// The health of a receiver, as the item of its endpoint stores it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Health {
    /// The time of the first attempt without an answer, without a success since. The receiver is then silent, and slow.
    pub unanswered_since: Option<Timestamp>,
    /// Whether the receiver fails to answer within seconds. Its deliveries then use the queue for hanging receivers.
    pub hangs: bool,
    /// The time since which deliveries have failed without a success.
    pub failing_since: Option<Timestamp>,
    /// The time at which the receiver last became healthy again.
    pub healthy_at: Option<Timestamp>,
    /// The time at which a process last began to probe a receiver that does not answer.
    pub probed_at: Option<Timestamp>,
    /// The time at which the receiver was last slow or hanging, unless good since. Its deliveries have a separate
    /// queue.
    pub slow_at: Option<Timestamp>,
    /// The time at which the receiver last became good again.
    pub good_at: Option<Timestamp>,
    /// The time of the latest failed attempt, to the minute.
    pub erred_at: Option<Timestamp>,
}

/// The reason why the service disabled an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// The receiver responded with HTTP 410.
    Gone,
    /// The endpoint had been failing for too long.
    Failing,
}

/// The consequence of a failed delivery for its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The endpoint is failing from now on.
    Failing,
    /// The endpoint has been made inactive.
    Disabled(DisabledReason),
}

impl Consequence {
    /// Logs the consequence, and counts an endpoint that was made inactive.
    fn report(self, tenant: &TenantId, endpoint: EndpointId) {
        match self {
            Self::Failing => crate::log!("endpoint.failing", %tenant, %endpoint),
            Self::Disabled(reason) => {
                crate::log!("endpoint.disabled", %tenant, %endpoint, %reason);
                let disabled = Metric { name: "EndpointDisabled", unit: "Count", values: vec![1.0] };
                metrics::emit(&[disabled], &[("Reason", reason.as_str())]);
            }
        }
    }
}

/// The attributes of a receiver that does not answer. A success or a new URL removes them.
pub(super) const SILENT: [&str; 3] = ["unanswered_since", "hangs", "probed_at"];
/// The attribute of an endpoint whose deliveries fail. A success removes it.
pub(super) const FAILING: &str = "failing_since";
/// The attribute of a slow receiver. A new URL removes it, a single success does not.
pub(super) const SLOW: &str = "slow_at";
/// The attribute with the time at which an endpoint became inactive. A fresh start removes it.
pub(super) const INACTIVE: &str = "inactive_since";
/// The other attributes that a fresh start removes.
pub(super) const DISABLED: [&str; 5] = ["disabled_at", "disabled_reason", "notice", "notice_at", "notice_tries"];
/// The value of `notice` while a notice is pending.
pub(super) const PENDING: &str = "pending";

/// The operation that the errors of this module's writes name.
pub(super) const NOTING: &str = "noting the health of an endpoint";

/// Decides the consequence for an endpoint of a delivery that has failed with `attempt`.
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

/// The time and the reason of the service's decision to make the endpoint inactive, if it did.
pub(super) fn disabled(record: &Record<'_>) -> Result<Option<(Timestamp, DisabledReason)>> {
    let at = record.optional_number("disabled_at").map(Timestamp::from_millisecond);
    at.map(|at| Ok((at, record.parsed("disabled_reason")?))).transpose()
}

names! { DisabledReason {
    Gone => "gone",
    Failing => "failing",
} }

/// Reads `DISABLE_AFTER`: how long an endpoint may be failing. Zero means forever.
///
/// # Errors
/// The variable is missing, does not parse or is out of range.
pub fn disable_after(env: &Env) -> Result<Duration, ConfigError> {
    env.number("DISABLE_AFTER", 0..=31_536_000).map(Duration::from_secs)
}

impl Health {
    pub(super) fn from_item(item: &Item) -> Self {
        let record = record(item);
        let time = |name| record.optional_number(name).map(Timestamp::from_millisecond);
        Self {
            unanswered_since: time("unanswered_since"),
            failing_since: time("failing_since"),
            healthy_at: time("healthy_at"),
            probed_at: time("probed_at"),
            slow_at: time(SLOW),
            good_at: time("good_at"),
            erred_at: time(ERRED_AT),
            hangs: record.boolean("hangs").unwrap_or_default(),
        }
    }

    /// Whether a success would change the health.
    #[must_use]
    pub fn is_impaired(&self) -> bool {
        self.unanswered_since.is_some() || self.failing_since.is_some()
    }
}

impl Endpoints {
    /// Notes that the receiver accepted a delivery at `at`, and so is healthy. A disabled endpoint stays disabled. A
    /// pending notice also stays: the sweep finds that it has become obsolete.
    pub async fn note_answered(&self, tenant: &TenantId, id: EndpointId, at: Timestamp) -> Result<()> {
        let set = vec![("healthy_at", number(at.as_millisecond()))];
        let update = change(self.change(tenant, id), set, &[SILENT.as_slice(), &[FAILING]].concat());
        let condition = "attribute_exists(unanswered_since) OR attribute_exists(failing_since)";
        update_if(update.condition_expression(condition), NOTING).await.map(drop)
    }

    /// Notes that the receiver was slow in an attempt that ended at `at`, unless it has been good since.
    pub async fn note_slow(&self, tenant: &TenantId, id: EndpointId, at: Timestamp) -> Result<()> {
        let update = change(self.change(tenant, id), vec![(SLOW, number(at.as_millisecond()))], &[])
            .condition_expression(
                "attribute_exists(webhook_endpoint_id) AND attribute_not_exists(slow_at) \
             AND (attribute_not_exists(good_at) OR good_at < :slow_at)",
            );
        update_if(update, NOTING).await.map(drop)
    }

    /// Notes that the receiver did not answer an attempt that was cut off at `at`, unless it has been good since.
    pub async fn note_hangs(&self, tenant: &TenantId, id: EndpointId, at: Timestamp) -> Result<()> {
        let set = vec![(SLOW, number(at.as_millisecond())), ("hangs", boolean(true))];
        let update = change(self.change(tenant, id), set, &[]).condition_expression(
            "attribute_exists(webhook_endpoint_id) AND (attribute_not_exists(slow_at) OR attribute_not_exists(hangs) OR hangs <> :hangs) \
             AND (attribute_not_exists(good_at) OR good_at < :slow_at)",
        );
        update_if(update, NOTING).await.map(drop)
    }

    /// Notes that the receiver is good again: since `since`, it has answered many attempts in a row quickly.
    pub async fn note_good(&self, tenant: &TenantId, id: EndpointId, since: Timestamp, now: Timestamp) -> Result<()> {
        let set = vec![("good_at", number(now.as_millisecond()))];
        let update = change(self.change(tenant, id), set, &[SLOW, "hangs"])
            .condition_expression("slow_at < :since")
            .expression_attribute_values(":since", number(since.as_millisecond()));
        update_if(update, NOTING).await.map(drop)
    }

    /// Notes that an attempt that ended at `at` had no answer, and whether the receiver hangs. From the first such
    /// attempt on, the receiver is silent and slow.
    pub async fn note_unanswered(&self, tenant: &TenantId, id: EndpointId, at: Timestamp, hangs: bool) -> Result<()> {
        let update = self
            .change(tenant, id)
            .update_expression(
                "SET unanswered_since = if_not_exists(unanswered_since, :at), hangs = :hangs, slow_at = :at",
            )
            .condition_expression(
                "attribute_exists(webhook_endpoint_id) AND (attribute_not_exists(unanswered_since) OR hangs <> :hangs) \
                 AND (attribute_not_exists(healthy_at) OR healthy_at < :at)",
            )
            .expression_attribute_values(":at", number(at.as_millisecond()))
            .expression_attribute_values(":hangs", boolean(hangs));
        update_if(update, NOTING).await.map(drop)
    }

    /// Notes that a hanging receiver answers again, or at least fails quickly.
    pub async fn note_hangs_no_more(&self, tenant: &TenantId, id: EndpointId) -> Result<()> {
        let update = change(self.change(tenant, id), vec![("hangs", boolean(false))], &[]);
        update_if(
            update.condition_expression("hangs = :hung").expression_attribute_values(":hung", boolean(true)),
            NOTING,
        )
        .await
        .map(drop)
    }

    /// Permits the caller to probe a receiver that does not answer, unless another process began at `since` or later.
    pub async fn begin_probe(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<bool> {
        let set = vec![("probed_at", number(now.as_millisecond()))];
        let update = change(self.change(tenant, id), set, &[])
            .condition_expression(
                "attribute_exists(unanswered_since) AND (attribute_not_exists(probed_at) OR probed_at < :since)",
            )
            .expression_attribute_values(":since", number(since.as_millisecond()));
        update_if(update, NOTING).await
    }

    /// Notes that `delivery` has failed, to an endpoint that had this `health` when the last attempt began. Returns the
    /// consequence that this write caused, and logs it. Repetitions and tests change nothing.
    pub async fn delivery_failed(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        health: Health,
        disable_after: Duration,
        now: Timestamp,
    ) -> Result<Option<Consequence>> {
        let attempt = delivery.last_attempt.as_ref().filter(|_| delivery.event.is_of_a_job());
        let Some((id, attempt)) = delivery.webhook_endpoint_id.zip(attempt) else { return Ok(None) };
        let Some(consequence) = consequence(health, attempt, disable_after) else { return Ok(None) };
        let mut set =
            "notice = :pending, notice_at = :now, failing_since = if_not_exists(failing_since, :at)".to_owned();
        // The attempt is outdated if the receiver has become healthy since.
        let mut condition = "active = :active AND (attribute_not_exists(healthy_at) OR healthy_at < :at)".to_owned();
        let mut update = self
            .change(tenant, id)
            .expression_attribute_values(":pending", text(PENDING))
            .expression_attribute_values(":now", number(now.as_millisecond()))
            .expression_attribute_values(":at", number(attempt.at.as_millisecond()))
            .expression_attribute_values(":active", boolean(true));
        if let Consequence::Disabled(reason) = consequence {
            set.push_str(", active = :inactive, inactive_since = :now, disabled_at = :now, disabled_reason = :reason");
            update = update
                .expression_attribute_values(":inactive", boolean(false))
                .expression_attribute_values(":reason", text(reason));
        }
        match (consequence, health.failing_since) {
            (Consequence::Failing, _) => condition.push_str(" AND attribute_not_exists(failing_since)"),
            (Consequence::Disabled(DisabledReason::Failing), Some(since)) => {
                condition.push_str(" AND failing_since = :since");
                update = update.expression_attribute_values(":since", number(since.as_millisecond()));
            }
            // The endpoint may have got another URL, or a fresh start, since.
            (Consequence::Disabled(_), _) => {
                condition.push_str(" AND (attribute_not_exists(good_at) OR good_at < :at)");
            }
        }
        let update = update.update_expression(format!("SET {set} REMOVE notice_tries"));
        if !update_if(update.condition_expression(condition), NOTING).await? {
            return Ok(None);
        }
        consequence.report(tenant, id);
        Ok(Some(consequence))
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use crate::webhooks::delivery::{Failure, Outcome, Trigger};

    fn after(failing_for: Option<u64>, status: u16, disable_after: u64) -> Option<Consequence> {
        let failing_since = failing_for.map(|seconds| Timestamp::now().before(Duration::from_secs(seconds)));
        let failed = Outcome::Failed(Failure::Status(status, None));
        let attempt = Attempt::new(Timestamp::now(), 1, failed, None, Trigger::Schedule);
        consequence(Health { failing_since, ..Health::default() }, &attempt, Duration::from_secs(disable_after))
    }

    #[test]
    fn an_endpoint_that_keeps_failing_is_disabled_in_the_end() {
        assert_eq!(after(None, 500, 60), Some(Consequence::Failing));
        assert_eq!(after(Some(50), 500, 60), None);
        assert_eq!(after(Some(60), 500, 60), Some(Consequence::Disabled(DisabledReason::Failing)));
        assert_eq!(after(Some(1_000_000), 500, 0), None, "0 means never");
        for failing_for in [None, Some(50), Some(60)] {
            assert_eq!(after(failing_for, 410, 0), Some(Consequence::Disabled(DisabledReason::Gone)));
        }
    }

    /// An attribute that is not listed would be neither read nor removed by a success or a fresh start.
    #[test]
    fn each_attribute_of_the_health_is_listed() {
        let value = |name| if name == "hangs" { boolean(true) } else { number(7) };
        let listed = SILENT.into_iter().chain([FAILING, "healthy_at", SLOW, "good_at", ERRED_AT]);
        let item: Item = listed.map(|name| -> (String, AttributeValue) { (name.to_owned(), value(name)) }).collect();
        let health = Health::from_item(&item);
        let Health { unanswered_since, hangs, failing_since, healthy_at, probed_at, slow_at, good_at, erred_at } =
            health;
        let times = [unanswered_since, failing_since, healthy_at, probed_at, slow_at, good_at, erred_at];
        assert!(hangs && times.iter().all(Option::is_some), "{times:?}");
    }
}
