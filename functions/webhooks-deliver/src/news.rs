//! Writes what attempts have shown about their receivers: their gates, and the health of endpoints.

use std::collections::BTreeMap;

use common::{
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Delivery, Outcome},
        endpoints::{Endpoints, Gate, Gated, LastError, Shown},
    },
};
use futures::future::join_all;

use crate::outgoing::{Due, Ended};

/// The evidence of the attempts at a receiver.
struct Seen<'a> {
    tenant: &'a TenantId,
    /// The gate before the first of these attempts, and after the last.
    gate: Gate,
    after: Gate,
    /// The evidence that has changed the gate.
    shown: Vec<(Shown, Timestamp)>,
    /// Whether the receiver has accepted a delivery, although the endpoint was failing or silent.
    is_healed: bool,
}

/// Updates the gates of receivers, and the items of endpoints: whether they have become healthy, and the latest error
/// of each, for the console and `deliveries/stats`. `ended` pairs each completed attempt with the resulting state of its
/// delivery. If a write fails, the next attempt repeats it.
pub(crate) async fn note<'a>(
    endpoints: &Endpoints,
    ended: impl Iterator<Item = (&'a Ended, &'a Delivery)>,
    now: Timestamp,
) {
    let mut receivers = BTreeMap::<_, Seen<'_>>::new();
    let mut errors = BTreeMap::<_, (Timestamp, &TenantId, &Delivery, Option<Timestamp>)>::new();
    for (ended, after) in ended {
        let Due { tenant, delivery, gate, .. } = &ended.due;
        let health = ended.due.health();
        if let Some((shown, gated)) = ended.shown.zip(ended.due.gated()) {
            let seen = receivers.entry((tenant, gated)).or_insert_with(|| Seen {
                tenant,
                gate: *gate,
                after: *gate,
                shown: Vec::new(),
                is_healed: false,
            });
            let next = seen.after.after(shown.0, shown.1, now);
            if next != seen.after {
                seen.after = next;
                seen.shown.push(shown);
            }
            let is_success = matches!(ended.result, AttemptResult::Made(_, Outcome::Delivered(_)));
            seen.is_healed |= is_success && health.is_some_and(|health| health.is_impaired());
        }
        let Some((id, health)) = delivery.webhook_endpoint_id.zip(health) else { continue };
        let error = LastError::of(after).filter(|_| after.last_attempt != delivery.last_attempt);
        if let Some(LastError { at, .. }) = error
            && errors.get(&id).is_none_or(|(latest, ..)| *latest < at)
        {
            errors.insert(id, (at, tenant, after, health.erred_at));
        }
    }
    let noted = receivers.into_iter().map(async |((_, gated), seen)| {
        let Seen { tenant, gate, shown, is_healed, .. } = seen;
        let endpoint = match gated {
            Gated::Endpoint(id) => Some(id),
            Gated::Origin(_) => None,
        };
        if let Some(id) = endpoint.filter(|_| is_healed) {
            report(tenant, endpoint, endpoints.note_answered(tenant, id, now).await);
        }
        for shown in shown {
            report(tenant, endpoint, endpoints.shift_gate(tenant, gated, gate, shown, now).await);
        }
    });
    join_all(noted).await;
    let noted = errors.into_iter().map(async |(id, (_, tenant, after, erred_at))| {
        report(tenant, Some(id), endpoints.note_error(tenant, after, erred_at).await);
    });
    join_all(noted).await;
}

fn report(tenant: &TenantId, endpoint: Option<EndpointId>, noted: Result<()>) {
    if let Err(error) = noted {
        let endpoint = endpoint.map(|id| id.to_string());
        common::log!("endpoint.health_unnoted", %tenant, endpoint, ?error);
    }
}
