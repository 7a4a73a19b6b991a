//! Attempts that are due, and events that were parked.

use std::time::Duration;

use common::{
    error::Error,
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Destination, DueAttempt, DueEvent, Status, Trigger},
        log::parked::Parked,
    },
};

use crate::{
    batch::{Batch, all},
    breaker::put_off,
    events::{firsts, leave_out_known, park},
    ledger::{Ended, Ledger},
    observe,
    record::{Record, Undone},
    sender::{Outgoing, Sender},
    slots::NoSlot,
    stores::Stores,
};

/// SQS may hand over a message slightly early. Up to this much, the message is not sent again.
const EARLY: Duration = Duration::from_secs(1);
/// How long an event stays parked as a whole. After that, each of its deliveries waits by itself, and can be seen in the
/// log.
const PARKED: Duration = Duration::from_secs(15 * 60);

/// Makes an attempt that is due.
pub(crate) async fn attempt(
    record: &Record,
    due: DueAttempt,
    sender: &Sender,
    ledger: &Ledger,
    batch: &Batch,
) -> Result<(), Undone> {
    let Stores { endpoints, log, queue } = &ledger.stores;
    let now = Timestamp::now();
    let Some((delivery, payload)) = log.find(&due.tenant, &due.id).await? else {
        // It has expired.
        return Ok(());
    };
    if record.is_repeated && delivery.failed_with(due.attempt) {
        // This record made the last attempt, and may have come back before the consequence for the endpoint was noted.
        let receiver = match delivery.webhook_endpoint_id {
            Some(id) => endpoints.find_active(&due.tenant, id).await?,
            None => None,
        };
        let health = receiver.map(|receiver| receiver.health);
        return Ok(ledger.note_failed(&due.tenant, &delivery, health, now).await?);
    }
    if delivery.status != Status::Pending {
        return Ok(());
    }
    let is_stale = DueAttempt::next(&due.tenant, &delivery) != due;
    if is_stale && !(record.is_repeated && due.attempt == delivery.attempts) {
        // The delivery has got past this attempt: there was another message for it.
        return Ok(());
    }
    if is_stale || delivery.next_attempt_at.is_some_and(|at| at.since(now) > EARLY) {
        // Either this record made the attempt and came back before the next message was sent, or it is early, since
        // the attempt was put off. A longer wait than a message can have is woken from the log.
        let message = DueAttempt::soon(&due.tenant, &delivery, now);
        return Ok(queue.send(message.as_slice(), now).await.into_iter().collect::<Result<(), _>>()?);
    }
    let payload = payload.ok_or_else(|| Error::Internal(format!("the payload of {} is missing", due.id)))?;
    let receiver = match payload.destination {
        Destination::Endpoint(id) if delivery.trigger == Trigger::Test => endpoints.find(&due.tenant, id).await?,
        Destination::Endpoint(id) => endpoints.find_active(&due.tenant, id).await?,
        Destination::Callback { .. } => None,
    };
    let outgoing = Outgoing {
        index: record.index,
        tenant: due.tenant,
        delivery,
        payload,
        receiver: receiver.as_ref(),
        is_stored: true,
        slot: None,
        mark: record.mark.clone(),
    };
    batch.finish(in_turn(outgoing, sender, batch).await);
    Ok(())
}

/// Makes the first attempts of a parked event.
pub(crate) async fn event(
    record: &Record,
    due: DueEvent,
    sender: &Sender,
    ledger: &Ledger,
    batch: &Batch,
) -> Result<(), Undone> {
    let Stores { endpoints: table, log, .. } = &ledger.stores;
    let Some(Parked { event, endpoints }) = log.parked(&due).await? else {
        observe::parked_too_long(&due);
        return Ok(());
    };
    let receivers = batch.receivers(&event, table).await?;
    let parked_for = receivers.iter().filter(|receiver| endpoints.contains(&receiver.id));
    let mut firsts = firsts(record, &event, parked_for);
    let gone = endpoints.iter().filter(|id| receivers.iter().all(|receiver| receiver.id != **id));
    firsts.extend(gone.map(|id| Outgoing::first(record, &event, Destination::Endpoint(*id), None)));
    let now = Timestamp::now();
    let is_young = now.since(event.at) < PARKED;
    let looked_at = firsts.into_iter().map(async |mut first| {
        if is_young && sender.silence(&first, now).is_some_and(|silence| silence.hangs) {
            first.slot = sender.probe(&first, batch.last_start).await.ok();
            return (first.slot.is_none(), first);
        }
        (false, first)
    });
    let (stuck, others): (Vec<_>, Vec<_>) = all(looked_at).await.into_iter().partition(|(is_stuck, _)| *is_stuck);
    let stuck: Vec<_> = stuck.into_iter().map(|(_, first)| first).collect();
    park(&event, &stuck, Some(&due), log, sender).into_iter().for_each(|parking| batch.finish(parking));
    let mut firsts = others.into_iter().map(|(_, first)| first).collect();
    leave_out_known(&event.tenant, &mut firsts, ledger).await?;
    all(firsts.into_iter().map(async |first| batch.finish(in_turn(first, sender, batch).await))).await;
    Ok(())
}

/// Makes an attempt that came from the deliveries queue, once there is a slot for it.
async fn in_turn(mut outgoing: Outgoing<'_>, sender: &Sender, batch: &Batch) -> Ended {
    if outgoing.target().is_none() {
        return outgoing.ended(AttemptResult::NoEndpoint);
    }
    let now = Timestamp::now();
    let delivery = &outgoing.delivery;
    // Somebody waits for the result of a test.
    let is_test = delivery.trigger == Trigger::Test;
    let is_last = now.as_millisecond() >= delivery.fails_at.get();
    let silence = sender.silence(&outgoing, now).filter(|silence| silence.hangs && !is_test);
    let slot = match outgoing.slot.take() {
        Some(slot) => Ok(slot),
        None if silence.is_some() => sender.probe(&outgoing, batch.last_start).await,
        None => sender.slots.take(sender.lane(&outgoing), batch.last_start, batch.last_start).await,
    };
    match slot {
        Ok(slot) => sender.attempt(outgoing, slot, batch).await,
        // The delivery is too old to wait any longer.
        Err(NoSlot::Full) if is_last => outgoing.ended(AttemptResult::Expired),
        Err(NoSlot::Full) => {
            let until = put_off(silence.map(|silence| silence.since), now);
            outgoing.ended(AttemptResult::Postponed(until))
        }
        Err(NoSlot::Late) => outgoing.ended(AttemptResult::Postponed(Timestamp::now())),
    }
}
