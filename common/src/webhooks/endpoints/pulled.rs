//! Pull endpoints: their tenants take what comes for them. Their records say when somebody last did.

use std::time::Duration;

use super::{
    health::NOTING,
    kind::{Address, Pulled},
    records::Endpoint,
    table::{Endpoints, NOT_FOUND},
};
use crate::{
    aws::dynamo::{change, number, update_if},
    error::{Conflict, Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
};

/// For how long an endpoint's record need not say that somebody asks: an idle client asks thousands of times an hour.
const ASKED: Duration = Duration::from_secs(10 * 60);
/// For how long it need not say that something is taken.
const TAKEN: Duration = Duration::from_secs(60);

impl Endpoints {
    /// The pull endpoint `id` of `tenant`, active, read consistently.
    ///
    /// # Errors
    /// The tenant has no such endpoint, it is inactive, or deliveries are posted to it; or the read fails.
    pub async fn pulled(&self, tenant: &TenantId, id: EndpointId) -> Result<Endpoint> {
        let endpoint = self.find(tenant, id).await?.ok_or(NOT_FOUND)?;
        match endpoint.address {
            Address::Push(_) => Err(Error::Conflict(Conflict::NotAPullEndpoint)),
            Address::Pull if !endpoint.is_active() => Err(Error::Conflict(Conflict::EndpointInactive)),
            Address::Pull => Ok(endpoint),
        }
    }

    /// Notes that somebody asked for what waits for an endpoint, and whether there was something to take, unless its record
    /// says so already.
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
        if is_old(asked_at, ASKED) {
            set.push(("asked_at", number(now.as_millisecond())));
        }
        if has_taken && is_old(taken_at, TAKEN) {
            set.push(("taken_at", number(now.as_millisecond())));
        }
        if set.is_empty() {
            return Ok(());
        }
        // It may have been deleted meanwhile.
        let update = change(self.change(tenant, endpoint.id), set, &[]);
        update_if(update.condition_expression("attribute_exists(webhook_endpoint_id)"), NOTING).await.map(drop)
    }
}
