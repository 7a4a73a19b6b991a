//! Pull endpoints, whose deliveries are received by the tenant's clients. The endpoint's item stores the times of the
//! latest calls.

use std::time::Duration;

use super::{
    health::NOTING,
    item::{ASKED_AT, TAKEN_AT, WEBHOOK_ENDPOINT_ID},
    kind::{DeliveryMethod, Pulled},
    store::Endpoint,
    table::{Endpoints, NOT_FOUND},
};
use crate::{
    aws::dynamo::number,
    error::{Conflict, Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
};

/// The minimum time between two writes of `asked_at`, because an idle client calls thousands of times an hour.
const ASKED_AT_INTERVAL: Duration = Duration::from_mins(10);
/// The minimum time between two writes of `taken_at`.
const TAKEN: Duration = Duration::from_mins(1);

impl Endpoints {
    /// Reads the pull endpoint `id` of `tenant`. The read is strongly consistent.
    ///
    /// # Errors
    /// The tenant has no such endpoint, or it is a push endpoint.
    pub async fn pulled(&self, tenant: &TenantId, id: EndpointId) -> Result<Endpoint> {
        let endpoint = self.find(tenant, id).await?.ok_or(NOT_FOUND)?;
        match endpoint.method {
            DeliveryMethod::Push(_) => Err(Error::Conflict(Conflict::NotAPullEndpoint)),
            DeliveryMethod::Pull => Ok(endpoint),
        }
    }

    /// Records that a client requested deliveries and whether it received any, unless this was recorded recently.
    pub async fn note_pulled(
        &self,
        tenant: &TenantId,
        endpoint: &Endpoint,
        has_taken: bool,
        now: Timestamp,
    ) -> Result<()> {
        let is_old = |at: Option<Timestamp>, after| at.is_none_or(|at| now.since(at) >= after);
        let Pulled { asked_at, taken_at } = endpoint.pulled;
        let mut set = Vec::new();
        if is_old(asked_at, ASKED_AT_INTERVAL) {
            set.push((ASKED_AT, number(now.as_millisecond())));
        }
        if has_taken && is_old(taken_at, TAKEN) {
            set.push((TAKEN_AT, number(now.as_millisecond())));
        }
        if set.is_empty() {
            return Ok(());
        }
        // The endpoint may have been deleted in the meantime.
        let update = self.change(tenant, endpoint.id).set_all(set).only_if(WEBHOOK_ENDPOINT_ID.exists());
        update.send(&self.dynamodb, NOTING).await.map(drop)
    }
}
