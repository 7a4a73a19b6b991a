//! Events from the job events queue: their first attempts, and parking them for slow receivers.

use std::{collections::HashMap, time::Duration};

use common::{
    error::Error,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DeliveryId, Destination, DueAttempt, SHARDS, Status},
        endpoints::Endpoint,
        event::{Audience, JobEvent},
    },
};

use crate::{
    batch::{Batch, all},
    finished::Parking,
    ledger::Ledger,
    observe,
    record::{Record, Undone},
    sender::{Outgoing, Sender, Sent},
    standing::put_off,
    stores::Stores,
};

/// For older events, the log is asked first: SQS may hand over a copy late, and count it as received for the first time.
const LATE: Duration = Duration::from_secs(60);

/// Handles an event, up to the end of its first attempts.
pub(crate) async fn handle(
    record: &Record,
    event: JobEvent,
    sender: &Sender,
    ledger: &Ledger,
    batch: &Batch,
) -> Result<(), Undone> {
    let Stores { log, hold_for, .. } = &ledger.stores;
    let endpoints = batch.endpoints(&event, &ledger.stores).await?;
    let now = Timestamp::now();
    let interested = endpoints.iter().filter(|endpoint| endpoint.wants(event.name));
    let interested = interested.filter(|endpoint| endpoint.takes_events(*hold_for, now));
    // What an inactive endpoint misses is held at once.
    let (slow, others): (Vec<_>, Vec<_>) =
        interested.partition(|endpoint| endpoint.is_active() && sender.is_slow_endpoint(&event.tenant, endpoint, now));
    let mut firsts = firsts(record, &event, others.into_iter());
    if record.is_repeated || now.since(event.at) > LATE {
        match Box::pin(leave_out_known(&event.tenant, &mut firsts, false, ledger)).await {
            // Most late events are new: without the log, they go out all the same.
            Err(error) if !record.is_repeated => observe::unasked(&event.tenant, &error),
            asked => asked?,
        }
    }
    let sent = firsts.into_iter().map(async |first| match sender.send(first, batch).await {
        Sent::Ended(ended) => {
            batch.finish(ended);
            None
        }
        Sent::Parked(first) => Some(first),
    });
    let parked: Vec<_> = all(sent).await.into_iter().flatten().collect();
    // What was cut off goes on at once. The others can wait, for as long as it takes to find out more about the receiver.
    let now = Timestamp::now();
    let until = if parked.iter().any(|first| first.is_cut) { now } else { put_off(None, now) };
    let slow = slow
        .into_iter()
        .map(|endpoint| Delivery::first(&event, &Destination::Endpoint(endpoint.id), endpoint.log_shards).id);
    let to: Vec<_> = slow.chain(ids_of(&parked)).collect();
    if !to.is_empty() {
        let (message, row) = log.parked_row(&event, &to, now);
        batch.finish(Parking { index: record.index, row: Some(row), message: message.into(), until });
    }
    Ok(())
}

/// The ids of these deliveries.
pub(crate) fn ids_of(firsts: &[Outgoing<'_>]) -> impl Iterator<Item = DeliveryId> {
    firsts.iter().map(|first| first.delivery.id)
}

/// The deliveries of an event to these endpoints of its tenant, or to its callback.
pub(crate) fn firsts<'a>(
    record: &Record,
    event: &JobEvent,
    endpoints: impl Iterator<Item = &'a Endpoint>,
) -> Vec<Outgoing<'a>> {
    match &event.audience {
        Audience::Nobody => Vec::new(),
        Audience::Callback { url, secret } => {
            let callback = Destination::Callback { url: url.clone(), secret: secret.clone() };
            vec![Outgoing::first(record, event, callback, None)]
        }
        Audience::Endpoints => {
            let first = |endpoint: &'a Endpoint| {
                Outgoing::first(record, event, Destination::Endpoint(endpoint.id), Some(endpoint))
            };
            endpoints.map(first).collect()
        }
    }
}

/// Leaves out the deliveries that the log already knows, of an event that may have come before, and does what the process may
/// have left undone that made their first attempts: it sends the messages of those that are pending, and notes what follows
/// for the endpoints of those that have failed. `is_slow` says to which queue.
pub(crate) async fn leave_out_known(
    tenant: &TenantId,
    firsts: &mut Vec<Outgoing<'_>>,
    is_slow: bool,
    ledger: &Ledger,
) -> Result<(), Error> {
    let Stores { log, queues, .. } = &ledger.stores;
    let known = log.known(tenant, &firsts.iter().flat_map(places).collect::<Vec<_>>()).await?;
    let now = Timestamp::now();
    let waiting = known.values().filter(|delivery| delivery.status == Status::Pending);
    let waiting: Vec<_> = waiting.filter_map(|delivery| DueAttempt::soon(tenant, delivery, now)).collect();
    queues.of(is_slow).send(&waiting, now).await.into_iter().collect::<Result<(), _>>()?;
    let known: HashMap<_, _> = known.values().map(|delivery| (delivery.webhook_id, delivery)).collect();
    for first in firsts.iter() {
        match known.get(&first.delivery.webhook_id) {
            Some(delivery) if delivery.failed_with(1) => {
                ledger.note_failed(tenant, delivery, first.health().copied(), now).await?;
            }
            _ => {}
        }
    }
    firsts.retain(|first| !known.contains_key(&first.delivery.webhook_id));
    Ok(())
}

/// The ids that a delivery may have in the log, which may have been spread over more shards since. How many a deleted endpoint
/// had is not known.
fn places(first: &Outgoing<'_>) -> impl Iterator<Item = DeliveryId> + use<> {
    let id = first.delivery.id;
    let (shard, is_spread) = (id.webhook_id.shard(SHARDS), first.endpoint.is_none_or(|it| it.log_shards > 1));
    [Some(DeliveryId { shard: 0, ..id }), (is_spread && shard != 0).then_some(DeliveryId { shard, ..id })]
        .into_iter()
        .flatten()
}
