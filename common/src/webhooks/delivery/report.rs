//! Reports failed deliveries to operators, from every place that can fail a delivery.

use super::state::Delivery;
use crate::{
    id::TenantId,
    telemetry::metrics::{self, Metric},
    webhooks::event::EventName,
};

/// Logs and counts a delivery that has failed permanently. A failed test is not counted, since it concerns only its
/// tenant and must not raise an alarm.
pub fn report_failed(tenant: &TenantId, delivery: &Delivery) {
    let reason = delivery.last_attempt.as_ref().map_or("", |attempt| &attempt.outcome);
    crate::log!("delivery.failed", %tenant, delivery_id = %delivery.id, attempts = delivery.attempts, reason);
    if delivery.event != EventName::Test {
        let failed = Metric { name: "DeliveryFailed", unit: "Count", values: vec![1.0] };
        metrics::emit(&[failed], &[("Reason", reason)]);
    }
}
