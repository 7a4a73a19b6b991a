//! Whether the receiver of an endpoint answers and takes its deliveries.
//!
//! What is known is in the endpoint's record, which every delivery reads anyway. It is written only where it changes.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Endpoints, key, record};
use crate::{
    aws::{
        dynamo::{self, Item, is_refused, number},
        failure,
    },
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
};

/// What the record of an endpoint says about its receiver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Health {
    /// Since when attempts have timed out or not connected, without a success. First attempts then have to wait for their
    /// turn among the retries: a circuit breaker that is open.
    pub unanswered_since: Option<Timestamp>,
    /// When it last became healthy again.
    pub healthy_at: Option<Timestamp>,
}

impl Health {
    pub(super) fn from_item(item: &Item) -> Self {
        let record = record(item);
        let time = |name| record.optional_number(name).map(Timestamp::from_millisecond);
        Self { unanswered_since: time("unanswered_since"), healthy_at: time("healthy_at") }
    }

    /// Whether a success is news.
    #[must_use]
    pub fn is_impaired(&self) -> bool {
        self.unanswered_since.is_some()
    }
}

impl Endpoints {
    /// Notes that the receiver took a delivery at `at`, which ends all that was wrong with it.
    ///
    /// # Errors
    /// The write fails.
    pub async fn answered(&self, tenant: &TenantId, id: EndpointId, at: Timestamp) -> Result<()> {
        let set = vec![("healthy_at", number(at.as_millisecond()))];
        self.note(tenant, id, (set, &["unanswered_since"]), "attribute_exists(unanswered_since)").await.map(drop)
    }

    /// Notes that an attempt at `at` timed out or could not connect.
    ///
    /// # Errors
    /// The write fails.
    pub async fn unanswered(&self, tenant: &TenantId, id: EndpointId, at: Timestamp) -> Result<()> {
        let condition = "attribute_exists(webhook_endpoint_id) AND attribute_not_exists(unanswered_since) \
                         AND (attribute_not_exists(healthy_at) OR healthy_at < :unanswered_since)";
        let set = vec![("unanswered_since", number(at.as_millisecond()))];
        self.note(tenant, id, (set, &[]), condition).await.map(drop)
    }

    /// Changes the record on a condition. Returns whether it held: if not, what was to be noted is no news.
    async fn note(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        (set, remove): (Vec<(&'static str, AttributeValue)>, &[&'static str]),
        condition: &str,
    ) -> Result<bool> {
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(key(tenant, id)));
        let update = dynamo::change(update, set, remove).condition_expression(condition);
        match Box::pin(update.send()).await {
            Ok(_) => Ok(true),
            Err(error) if is_refused(&error) => Ok(false),
            Err(error) => Err(failure("noting the health of an endpoint")(error)),
        }
    }
}
