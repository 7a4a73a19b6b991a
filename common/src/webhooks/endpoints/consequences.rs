//! The consequences of an attempt: operators are informed and the endpoint's health is updated. The service's own
//! attempts and those settled by clients of pull endpoints have the same consequences.

use std::time::Duration;

use super::{attempts::EndpointAttempts, health::Health, table::Endpoints};
use crate::{
    audit::Recorder,
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, Status},
};

impl Endpoints {
    /// Reports a failed delivery, and records the consequences of its last attempt for the endpoint. `health` is the
    /// endpoint's health before the attempt; `None` if the endpoint is inactive or does not exist. The caller has recorded
    /// the attempt with [`Self::note_attempts`]. If a process stopped before it recorded the consequences, the call is
    /// repeated with `is_new` set to false, and also records the attempt. The repeated call does not report anything, and
    /// leaves everything that was already recorded unchanged.
    pub async fn apply_outcome(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        delivery: &Delivery,
        health: Option<Health>,
        disable_after: Duration,
        is_new: bool,
        now: Timestamp,
    ) -> Result<()> {
        if is_new && delivery.status == Status::Failed {
            delivery.report_failed(tenant);
        }
        let Some((id, health)) = delivery.webhook_endpoint_id.zip(health) else { return Ok(()) };
        if delivery.status == Status::Failed {
            self.delivery_failed(recorder, tenant, delivery, health, disable_after, now).await?;
        }
        if is_new {
            Ok(())
        } else {
            self.note_attempts(tenant, id, health, &EndpointAttempts::last_of(delivery), now).await
        }
    }
}
