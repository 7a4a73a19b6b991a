//! Events from the job events queue: their first attempts, and parking them for receivers that do not answer.

use std::{collections::HashMap, time::Duration};

use common::{
    error::Error,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, DeliveryId, Destination, DueAttempt, DueEvent, SHARDS, Status},
        endpoints::Receiver,
        event::{Audience, JobEvent},
        log::Log,
    },
};
use tokio::time::Instant;

use crate::{
    batch::{Batch, all},
    breaker::put_off,
    ledger::{Finished, Ledger, Parking},
    observe,
    record::{Record, Undone},
    sender::{Outgoing, Sender},
    slots::NoSlot,
    stores::Stores,
};

/// How long the first attempt of an event waits if the lane of its receiver is full.
const PATIENCE: Duration = Duration::from_millis(500);
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
    let Stores { endpoints, log, .. } = &ledger.stores;
    let receivers = batch.receivers(&event, endpoints).await?;
    let interested = receivers.iter().filter(|receiver| receiver.wants(event.name));
    let mut firsts = firsts(record, &event, interested);
    if record.is_repeated || Timestamp::now().since(event.at) > LATE {
        match Box::pin(leave_out_known(&event.tenant, &mut firsts, ledger)).await {
            // Most late events are new: without the log, they go out all the same.
            Err(error) if !record.is_repeated => observe::unasked(&event.tenant, &error),
            asked => asked?,
        }
    }
    let (now, patience) = (Timestamp::now(), Instant::now() + PATIENCE);
    let is_silent = |first: &Outgoing<'_>| sender.silence(first, now).is_some();
    let (silent, others): (Vec<_>, Vec<_>) = firsts.into_iter().partition(is_silent);
    let park = |firsts: &[Outgoing<'_>]| {
        park(&event, firsts, None, log, sender).into_iter().for_each(|parking| batch.finish(parking));
    };
    park(&silent);
    let attempts = others.into_iter().map(async |first| {
        match sender.slots.take(sender.lane(&first), patience, batch.last_start).await {
            Ok(slot) => batch.finish(sender.attempt(first, slot, batch).await),
            Err(NoSlot::Full) => park(&[first]),
            Err(NoSlot::Late) => batch.finish(first.ended(AttemptResult::Postponed(Timestamp::now()))),
        }
    });
    all(attempts).await;
    Ok(())
}

/// The deliveries of an event to these endpoints of its tenant, or to its callback.
pub(crate) fn firsts<'a>(
    record: &Record,
    event: &JobEvent,
    receivers: impl Iterator<Item = &'a Receiver>,
) -> Vec<Outgoing<'a>> {
    match &event.audience {
        Audience::Nobody => Vec::new(),
        Audience::Callback { url, secret } => {
            let callback = Destination::Callback { url: url.clone(), secret: secret.clone() };
            vec![Outgoing::first(record, event, callback, None)]
        }
        Audience::Endpoints => {
            let first = |receiver: &'a Receiver| {
                Outgoing::first(record, event, Destination::Endpoint(receiver.id), Some(receiver))
            };
            receivers.map(first).collect()
        }
    }
}

/// Parks an event for receivers that do not answer. It comes back through the deliveries queue: at once the first time,
/// since they may answer again. If it is `already` parked for the same receivers, a message is enough.
pub(crate) fn park(
    event: &JobEvent,
    firsts: &[Outgoing<'_>],
    already: Option<&DueEvent>,
    log: &Log,
    sender: &Sender,
) -> Option<Finished> {
    let index = firsts.first()?.index;
    let now = Timestamp::now();
    let silent_since = firsts.iter().filter_map(|first| Some(sender.silence(first, now)?.since)).max();
    let until = put_off(already.and(silent_since), now);
    let endpoints: Vec<_> = firsts.iter().filter_map(|first| first.delivery.webhook_endpoint_id).collect();
    let (message, row) = log.park(event, &endpoints, now);
    let row = (already != Some(&message)).then_some(row);
    Some(Finished::Parked(Parking { index, row, message, until }))
}

/// Leaves out the deliveries that the log already knows, of an event that may have come before. Pending deliveries get a
/// message: the one before may not have been sent.
pub(crate) async fn leave_out_known(
    tenant: &TenantId,
    firsts: &mut Vec<Outgoing<'_>>,
    ledger: &Ledger,
) -> Result<(), Error> {
    let Stores { log, queue, .. } = &ledger.stores;
    // The log may have been spread over more shards since. How many shards a deleted endpoint had is not known.
    let ids = firsts.iter().flat_map(|first| {
        let id = first.delivery.id;
        let (shard, is_spread) = (id.webhook_id.shard(SHARDS), first.receiver.is_none_or(|it| it.log_shards > 1));
        [Some(DeliveryId { shard: 0, ..id }), (is_spread && shard != 0).then_some(DeliveryId { shard, ..id })]
    });
    let known = log.known(tenant, &ids.flatten().collect::<Vec<_>>()).await?;
    let now = Timestamp::now();
    let waiting = known.values().filter(|delivery| delivery.status == Status::Pending);
    let waiting: Vec<_> = waiting.filter_map(|delivery| DueAttempt::soon(tenant, delivery, now)).collect();
    queue.send(&waiting, now).await.into_iter().collect::<Result<(), _>>()?;
    let known: HashMap<_, _> = known.values().map(|delivery| (delivery.webhook_id, delivery)).collect();
    for first in firsts.iter() {
        // The process that made this first attempt may have died before it noted the consequence for the endpoint.
        match known.get(&first.delivery.webhook_id) {
            Some(delivery) if delivery.failed_with(1) => {
                ledger.note_failed(tenant, delivery, first.health(), now).await?;
            }
            _ => {}
        }
    }
    firsts.retain(|first| !known.contains_key(&first.delivery.webhook_id));
    Ok(())
}
