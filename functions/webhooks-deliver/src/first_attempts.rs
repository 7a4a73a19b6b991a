//! Events from the job events queue, and their first attempts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use common::{
    error::Result,
    timestamp::Timestamp,
    webhooks::{
        delivery::{
            Body, Delivery, DeliveryId, Destination, Drain, DueAttempt, JOB_ID_BYTES, Origin, Parked, SHARDS, Status,
        },
        destination::{EndpointUrl, SigningSecret},
        endpoints::Endpoint,
        event::{Audience, JobEvent},
        log::Shared,
    },
};

use crate::{
    attempt::Sender,
    batch::{Batch, all},
    due_deliveries::DueDelivery,
    ledger::Ledger,
    record::{Record, RecordError},
};

/// Events of at least this age are checked against the log: SQS may deliver a late copy with a receive count of one.
const MAX_UNCHECKED_AGE: Duration = Duration::from_mins(1);

/// Handles an event until its first attempts have ended.
pub(crate) async fn event(
    record: &Record,
    event: JobEvent,
    sender: &Sender,
    ledger: &Ledger,
    batch: &Batch,
) -> Result<(), RecordError> {
    let endpoints = match event.audience {
        Audience::Endpoints => ledger.reads.all(&event.tenant).await?,
        Audience::None | Audience::Callback { .. } => Arc::default(),
    };
    let now = Timestamp::now();
    let interested = endpoints.iter().filter(|endpoint| endpoint.wants(event.name, event.workflow.as_deref()));
    let interested = interested.filter(|endpoint| endpoint.takes_events(ledger.hold_for, now));
    let body = Body::from(event.body.clone());
    let mut firsts: Vec<_> = match event.audience.callback() {
        Some((url, secret)) => {
            let gate = ledger.reads.gate(&event.tenant, Origin::of(url)).await?;
            vec![DueDelivery::first(record, &event, &body, None, callback(url, secret), None, gate)]
        }
        None => {
            let to: Vec<_> = interested.collect();
            // The log finds a shared payload by the id of the job, of which it contains only so much.
            let may_share = to.len() > 1 && event.job_id.len() <= JOB_ID_BYTES;
            let shared = may_share.then(Arc::<Shared>::default);
            let first = |it: &Arc<Endpoint>| {
                // A payload that is erased before the others is not shared.
                let shared = shared.as_ref().filter(|_| it.keeps_payloads());
                let to = Destination::Endpoint(it.id);
                DueDelivery::first(record, &event, &body, shared, to, Some(Arc::clone(it)), it.health.gate)
            };
            to.into_iter().map(first).collect()
        }
    };
    if record.is_repeated || now.since(event.at) > MAX_UNCHECKED_AGE {
        match Box::pin(keep_new(record, &event, &mut firsts, ledger)).await {
            // Most late events are new, so they are delivered even if the log cannot be read.
            Err(error) if !record.is_repeated => {
                common::log!("event.unchecked", tenant = %event.tenant, ?error);
            }
            asked => asked?,
        }
    }
    batch.tally.event(&event.tenant, !record.is_repeated, firsts.len());
    all(firsts.into_iter().map(|first| sender.send(first, batch))).await;
    Ok(())
}

fn callback(url: &EndpointUrl, secret: &SigningSecret) -> Destination {
    Destination::Callback { url: url.clone(), secret: secret.clone() }
}

/// Keeps the deliveries that are not in the log. For the others, finishes what an earlier process may not have: sends
/// the messages of pending deliveries and of their drains, and records failed deliveries on their endpoints.
async fn keep_new(record: &Record, event: &JobEvent, firsts: &mut Vec<DueDelivery>, ledger: &Ledger) -> Result<()> {
    let tenant = &event.tenant;
    let mut ids: Vec<_> = firsts.iter().flat_map(possible_ids).collect();
    if record.is_repeated {
        ids.extend(elsewhere(event, ledger).await?);
    }
    let known = ledger.log.known(tenant, &ids).await?;
    let now = Timestamp::now();
    let waiting = known.values().filter(|delivery| delivery.status == Status::Pending);
    let (parked, waiting): (Vec<_>, Vec<_>) = waiting.partition(|delivery| delivery.is_parked);
    let waiting: Vec<_> = waiting.into_iter().filter_map(|state| DueAttempt::delayable(tenant, state, now)).collect();
    ledger.queues.send(&waiting, now).await.into_iter().collect::<Result<()>>()?;
    if !parked.is_empty() {
        let callback = event.audience.callback().map(|(url, secret)| callback(url, secret));
        let rows = parked.into_iter().filter_map(|delivery| {
            let endpoint = delivery.webhook_endpoint_id.map(Destination::Endpoint);
            let parked = Parked::of(tenant, delivery, endpoint.as_ref().or(callback.as_ref())?)?;
            Some(ledger.log.parked_row(&parked, now))
        });
        ledger.log.put_all(rows).await?;
        // A drain without work ends at once.
        for drain in Drain::ALL {
            ledger.drains.ensure(tenant, drain, now, record.is_repeated).await?;
        }
    }
    let known: HashMap<_, _> = known.values().map(|delivery| (delivery.webhook_id, delivery)).collect();
    for first in firsts.iter() {
        if let Some(delivery) = known
            .get(&first.delivery.webhook_id)
            .filter(|delivery| delivery.attempts <= 1 || delivery.erased_at.is_some())
        {
            ledger.apply_outcome(tenant, delivery, first.health(), false, now).await?;
        }
    }
    firsts.retain(|first| !known.contains_key(&first.delivery.webhook_id));
    Ok(())
}

/// Returns the possible ids of the event's deliveries to all endpoints of its tenant. When the record was first
/// received, the event may have been sent to endpoints that have since been deleted or made inactive.
async fn elsewhere(event: &JobEvent, ledger: &Ledger) -> Result<Vec<DeliveryId>> {
    if !matches!(event.audience, Audience::Endpoints) {
        return Ok(Vec::new());
    }
    let shards = ledger.endpoints.shards(&event.tenant, None).await?;
    let ids = shards.into_iter().filter_map(|shard| {
        let endpoint = shard.destination.endpoint()?;
        let first = Delivery::first(event, &Destination::Endpoint(endpoint), SHARDS).id;
        let is_here = shard.number == 0 || shard.number == first.shard;
        is_here.then_some(DeliveryId { shard: shard.number, ..first })
    });
    Ok(ids.collect())
}

/// Returns the possible ids of a delivery in the log: its endpoint's log may have been spread over more shards since.
fn possible_ids(first: &DueDelivery) -> impl Iterator<Item = DeliveryId> + use<> {
    let id = first.delivery.id;
    let is_spread = first.endpoint.as_ref().is_none_or(|endpoint| endpoint.log_shards > 1);
    [0, if is_spread { id.webhook_id.shard(SHARDS) } else { 0 }].map(|shard| DeliveryId { shard, ..id }).into_iter()
}
