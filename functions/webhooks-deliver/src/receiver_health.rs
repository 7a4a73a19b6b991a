//! Writes what attempts have shown about their receivers: their gates, and the health of endpoints.

use std::collections::BTreeMap;

use common::{
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::AttemptResult,
        endpoints::{EndpointAttempts, Endpoints, Evidence, Gate, GateOwner},
    },
};
use futures::future::join_all;

use crate::due_deliveries::{DueDelivery, EndedAttempt};

/// The evidence of the attempts at a receiver.
struct ReceiverEvidence<'a> {
    tenant: &'a TenantId,
    /// The gate before the first of these attempts, and after the last.
    gate: Gate,
    after: Gate,
    /// The evidence that has changed the gate.
    evidence: Vec<(Evidence, Timestamp)>,
}

/// Updates the gates of receivers, and the health of endpoints. If a write fails, the next attempt repeats it.
pub(crate) async fn note<'a>(endpoints: &Endpoints, ended: impl Iterator<Item = &'a EndedAttempt>, now: Timestamp) {
    let (mut receivers, mut attempts) = (BTreeMap::<_, ReceiverEvidence<'_>>::new(), BTreeMap::new());
    for ended in ended {
        let DueDelivery { tenant, delivery, gate, .. } = &ended.due;
        if let Some((evidence, gate_owner)) = ended.evidence.zip(ended.due.gate_owner()) {
            let seen = receivers.entry((tenant, gate_owner)).or_insert_with(|| ReceiverEvidence {
                tenant,
                gate: *gate,
                after: *gate,
                evidence: Vec::new(),
            });
            let next = seen.after.after(evidence.0, evidence.1, now);
            if next != seen.after {
                seen.after = next;
                seen.evidence.push(evidence);
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
    let noted = receivers.into_iter().map(async |((_, gate_owner), seen)| {
        let ReceiverEvidence { tenant, gate, evidence, .. } = seen;
        let endpoint = match gate_owner {
            GateOwner::Endpoint(id) => Some(id),
            GateOwner::Origin(_) => None,
        };
        for (evidence, began) in evidence {
            report(tenant, endpoint, endpoints.shift_gate(tenant, gate_owner, gate, evidence, began, now).await);
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
