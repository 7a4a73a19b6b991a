//! Records the latest failed attempts in the items of their endpoints, for the console and `deliveries/stats`.

use std::collections::BTreeMap;

use common::{
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::Delivery,
        endpoints::{Endpoints, LastError},
    },
};
use futures::future::join_all;

use crate::{observe, plan::Ended};

/// Notes the latest error of each endpoint among attempts that have ended, each with its delivery after it. If a write
/// fails, the next failed attempt notes its error.
pub(crate) async fn note<'a>(endpoints: &Endpoints, ended: impl Iterator<Item = (&'a Ended, &'a Delivery)>) {
    let mut latest = BTreeMap::<EndpointId, (Timestamp, &TenantId, &Delivery, Option<Timestamp>)>::new();
    for (ended, after) in ended.filter(|(ended, after)| after.last_attempt != ended.due.delivery.last_attempt) {
        let (Some(health), Some(error)) = (ended.health, LastError::of(after)) else { continue };
        let Some(id) = after.webhook_endpoint_id else { continue };
        if latest.get(&id).is_none_or(|(at, ..)| *at < error.at) {
            latest.insert(id, (error.at, &ended.due.tenant, after, health.erred_at));
        }
    }
    let noted = latest.into_iter().map(async |(id, (_, tenant, delivery, noted))| {
        if let Err(error) = endpoints.note_error(tenant, delivery, noted).await {
            observe::not_noted(tenant, id, &error);
        }
    });
    join_all(noted).await;
}
