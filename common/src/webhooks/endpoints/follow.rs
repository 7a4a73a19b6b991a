//! The consequences of an attempt: operators are informed and the endpoint's health is updated. The service's own
//! attempts and those settled by clients of pull endpoints have the same consequences.

use std::time::Duration;

use super::{health::Health, table::Endpoints};
use crate::{
    error::Result,
    id::TenantId,
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Status},
        event::EventName,
    },
};

impl Endpoints {
    /// Reports a failed delivery, and records the consequences of its last attempt for the endpoint. `health` is the
    /// endpoint's health before the attempt; `None` if the endpoint is inactive or does not exist. If a process stopped
    /// before it recorded the consequences, the call is repeated with `is_new` set to false. The repeated call does not
    /// report anything, and leaves everything that was already recorded unchanged.
    pub async fn follow(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        health: Option<Health>,
        (disable_after, is_new): (Duration, bool),
        now: Timestamp,
    ) -> Result<()> {
        if is_new && delivery.status == Status::Failed {
            report_failed(tenant, delivery);
        }
        match (delivery.status, delivery.webhook_endpoint_id.zip(health)) {
            (Status::Delivered, Some((id, health))) if health.is_impaired() => {
                self.note_answered(tenant, id, now).await
            }
            (Status::Failed, Some((_, health))) => {
                self.delivery_failed(tenant, delivery, health, disable_after, now).await.map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// Logs and counts a delivery that has failed permanently. A failed test is not counted, because it concerns only its
/// tenant and must not raise an alarm.
fn report_failed(tenant: &TenantId, delivery: &Delivery) {
    let reason = delivery.last_attempt.as_ref().map_or("", |attempt| &attempt.outcome);
    crate::log!("delivery.failed", %tenant, delivery_id = %delivery.id, attempts = delivery.attempts, reason);
    if delivery.event != EventName::Test {
        metrics::emit(&[Metric::count("DeliveryFailed", 1)], &[("Reason", reason)]);
    }
}
