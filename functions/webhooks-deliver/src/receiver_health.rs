//! Writes what attempts have shown about their receivers: their gates, and the health of endpoints.

use std::collections::BTreeMap;

use common::{
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::AttemptResult,
        endpoints::{EndpointAttempts, Endpoints, Gate, Gated, Shown},
    },
};
use futures::future::join_all;

use crate::due_deliveries::{Due, Ended};

/// The evidence of the attempts at a receiver.
struct Seen<'a> {
    tenant: &'a TenantId,
    /// The gate before the first of these attempts, and after the last.
    gate: Gate,
    after: Gate,
    /// The evidence that has changed the gate.
    shown: Vec<(Shown, Timestamp)>,
}

/// Updates the gates of receivers, and the health of endpoints. If a write fails, the next attempt repeats it.
pub(crate) async fn note<'a>(endpoints: &Endpoints, ended: impl Iterator<Item = &'a Ended>, now: Timestamp) {
    let (mut receivers, mut attempts) = (BTreeMap::<_, Seen<'_>>::new(), BTreeMap::new());
    for ended in ended {
        let Due { tenant, delivery, gate, .. } = &ended.due;
        if let Some((shown, gated)) = ended.shown.zip(ended.due.gated()) {
            let seen = receivers.entry((tenant, gated)).or_insert_with(|| Seen {
                tenant,
                gate: *gate,
                after: *gate,
                shown: Vec::new(),
            });
            let next = seen.after.after(shown.0, shown.1, now);
            if next != seen.after {
                seen.after = next;
                seen.shown.push(shown);
            }
        }
        if let Some((id, health)) = delivery.webhook_endpoint_id.zip(ended.due.health())
            && let AttemptResult::Made(attempt, _) = &ended.result
        {
            let (.., made) = attempts.entry(id).or_insert_with(|| (tenant, health, EndpointAttempts::default()));
            made.add(delivery.event, attempt);
        }
    }
    let noted = attempts.into_iter().map(async |(id, (tenant, health, attempts))| {
        report(tenant, Some(id), endpoints.note_attempts(tenant, id, health, &attempts, now).await);
    });
    join_all(noted).await;
    let noted = receivers.into_iter().map(async |((_, gated), seen)| {
        let Seen { tenant, gate, shown, .. } = seen;
        let endpoint = match gated {
            Gated::Endpoint(id) => Some(id),
            Gated::Origin(_) => None,
        };
        for (shown, began) in shown {
            report(tenant, endpoint, endpoints.shift_gate(tenant, gated, gate, shown, began, now).await);
        }
    });
    join_all(noted).await;
}

fn report(tenant: &TenantId, endpoint: Option<EndpointId>, noted: Result<()>) {
    if let Err(error) = noted {
        let endpoint = endpoint.map(|id| id.to_string());
        common::log!("endpoint.health_unnoted", %tenant, endpoint, ?error);
    }
}
