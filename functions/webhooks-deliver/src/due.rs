//! Attempts that are due, and events that were parked.

use std::time::Duration;

use common::{
    error::Error,
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Delivery, Destination, DueAttempt, DueEvent, ParkedId, Trigger},
        endpoints::Endpoint,
        event::JobEvent,
        log::{Log, parked::Parked},
    },
};

use crate::{
    batch::{Batch, all},
    events::{firsts, ids_of, leave_out_known},
    finished::{Finished, Parking},
    ledger::Ledger,
    observe,
    record::{Record, Undone},
    sender::{Outgoing, Sender, Sent},
    slots::NoSlot,
    standing::put_off,
    stores::{Gate, Stores},
};

/// SQS may hand over a message slightly early. Up to this much, the message is not sent again.
const EARLY: Duration = Duration::from_secs(1);
/// How long an event stays parked as a whole. After that, each of its deliveries waits by itself, and can be seen in the
/// log.
const PARKED_AT_MOST: Duration = Duration::from_secs(15 * 60);

/// What to do about the message of an attempt.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing: the delivery has got past the attempt, by another message for it, or has ended.
    Drop,
    /// To note what follows for the endpoint: this record made the last attempt, and may have come back before that was noted.
    NoteFailed,
    /// To send the message of the next attempt: this record made the attempt, and came back before that was sent. Or to send it
    /// again: it is early, since the attempt was put off.
    SendOn,
    /// To make the attempt.
    Attempt,
}

/// Decides about a message for `due`, of a delivery that is as the log has it now. `is_repeated` says whether the record has been
/// received before.
fn step(delivery: &Delivery, due: &DueAttempt, is_repeated: bool, now: Timestamp) -> Step {
    if is_repeated && delivery.failed_with(due.attempt) {
        return Step::NoteFailed;
    }
    let Some(wakes_at) = delivery.wakes_at() else { return Step::Drop };
    let is_next = DueAttempt::next(&due.tenant, delivery) == *due;
    let is_last = is_repeated && due.attempt == delivery.attempts;
    match (is_next, is_last) {
        (true, _) if wakes_at.since(now) <= EARLY => Step::Attempt,
        (true, _) | (false, true) => Step::SendOn,
        (false, false) => Step::Drop,
    }
}

/// Makes an attempt that is due.
pub(crate) async fn attempt(
    record: &Record,
    gate: Gate<'_>,
    due: DueAttempt,
    sender: &Sender,
    ledger: &Ledger,
    batch: &Batch,
) -> Result<(), Undone> {
    let Stores { endpoints, log, queues, .. } = &ledger.stores;
    let now = Timestamp::now();
    let Some((delivery, payload)) = log.find(&due.tenant, &due.id).await? else {
        // It has expired.
        return Ok(());
    };
    match step(&delivery, &due, record.is_repeated, now) {
        Step::Drop => return Ok(()),
        Step::NoteFailed => {
            let endpoint = match delivery.webhook_endpoint_id {
                Some(id) => endpoints.find(&due.tenant, id).await?,
                None => None,
            };
            let health = endpoint.filter(Endpoint::is_active).map(|endpoint| endpoint.health);
            return Ok(ledger.note_failed(&due.tenant, &delivery, health, now).await?);
        }
        Step::SendOn => {
            if delivery.pull.is_some() {
                // If it is leased, nobody has written a row for the lease's end.
                let row = log.due_row(&due.tenant, &delivery, record.has_time, now);
                if !log.put(vec![((), row)]).await.is_empty() {
                    return Err(Error::Busy.into());
                }
            }
            // A longer wait than a message can have is woken from the log.
            let message = DueAttempt::soon(&due.tenant, &delivery, now);
            let queue = queues.of(record.has_time);
            return Ok(queue.send(message.as_slice(), now).await.into_iter().collect::<Result<(), _>>()?);
        }
        Step::Attempt => {}
    }
    let payload = payload.ok_or_else(|| Error::Internal(format!("the payload of {} is missing", due.id)))?;
    let passed = gate.pass().await;
    let endpoint = match payload.destination {
        Destination::Endpoint(id) => endpoints.find(&due.tenant, id).await?,
        Destination::Callback { .. } => None,
    };
    drop(passed);
    let outgoing = Outgoing {
        index: record.index,
        tenant: due.tenant.clone(),
        delivery,
        payload,
        endpoint: endpoint.as_ref(),
        is_stored: true,
        is_payload_stored: true,
        slot: None,
        is_cut: false,
        mark: record.mark.clone(),
    };
    let sent = match record.has_time {
        true => in_turn(outgoing, false, sender, batch).await,
        false => sender.send(outgoing, batch).await,
    };
    batch.finish(match sent {
        Sent::Ended(ended) => Finished::from(ended),
        Sent::Parked(_) => Parking { index: record.index, row: None, message: due.into(), until: now }.into(),
    });
    Ok(())
}

/// Makes the first attempts of a parked event.
pub(crate) async fn event(
    record: &Record,
    gate: Gate<'_>,
    due: DueEvent,
    sender: &Sender,
    ledger: &Ledger,
    batch: &Batch,
) -> Result<(), Undone> {
    let Stores { log, .. } = &ledger.stores;
    let Some(Parked { event, endpoints: ids }) = log.parked(&due).await? else {
        // If the row is the payload of a delivery, it is deleted once that has succeeded, if it is too large to be kept. Then
        // this record has come back.
        let has_ended = match due.parked {
            ParkedId::Delivery(id) => !log.known(&due.tenant, &[id]).await?.is_empty(),
            ParkedId::Event(_) => false,
        };
        if !has_ended {
            observe::parked_too_long(&due);
        }
        return Ok(());
    };
    let passed = gate.pass().await;
    let endpoints = batch.endpoints(&event, &ledger.stores).await?;
    drop(passed);
    let parked_for = endpoints.iter().filter(|endpoint| ids.contains(&endpoint.id));
    let mut firsts = firsts(record, &event, parked_for);
    let gone = ids.iter().filter(|id| endpoints.iter().all(|endpoint| endpoint.id != **id));
    firsts.extend(gone.map(|id| Outgoing::first(record, &event, Destination::Endpoint(*id), None)));
    for first in &mut firsts {
        // If the log has been spread over more shards since, the delivery has another id, and so has its payload.
        first.is_payload_stored = due.parked == ParkedId::Delivery(first.delivery.id);
    }
    let now = Timestamp::now();
    let is_young = now.since(event.at) < PARKED_AT_MOST;
    let looked_at = firsts.into_iter().map(async |mut first| {
        let may_wait = is_young && first.missed().is_none();
        match sender.silence(&first, now).filter(|silence| silence.hangs && may_wait) {
            None => (false, first),
            Some(silence) => {
                first.slot = sender.probe(&first, silence, batch.last_start).await.ok();
                (first.slot.is_none(), first)
            }
        }
    });
    let (stuck, others): (Vec<_>, Vec<_>) = all(looked_at).await.into_iter().partition(|(is_stuck, _)| *is_stuck);
    let stuck: Vec<_> = stuck.into_iter().map(|(_, first)| first).collect();
    park(&event, &stuck, &due, log, sender).into_iter().for_each(|parked| batch.finish(parked));
    let mut firsts = others.into_iter().map(|(_, first)| first).collect();
    leave_out_known(&event.tenant, &mut firsts, record.has_time, ledger).await?;
    let sent = firsts.into_iter().map(async |first| match in_turn(first, is_young, sender, batch).await {
        Sent::Ended(ended) => {
            batch.finish(ended);
            None
        }
        Sent::Parked(first) => Some(first),
    });
    let parked: Vec<_> = all(sent).await.into_iter().flatten().collect();
    park(&event, &parked, &due, log, sender).into_iter().for_each(|parked| batch.finish(parked));
    Ok(())
}

/// Parks an event again. If it is parked for the same receivers already, a message is enough.
fn park(event: &JobEvent, firsts: &[Outgoing<'_>], already: &DueEvent, log: &Log, sender: &Sender) -> Option<Parking> {
    let index = firsts.first()?.index;
    let now = Timestamp::now();
    let since = firsts.iter().filter_map(|first| Some(sender.silence(first, now)?.since)).max();
    let (message, row) = log.parked_row(event, &ids_of(firsts).collect::<Vec<_>>(), now);
    let row = (already != &message).then_some(row);
    Some(Parking { index, row, message: message.into(), until: put_off(since, now) })
}

/// Makes an attempt that has time, once there is a slot for it. If it would be too late then, a delivery that may stay
/// parked is left.
async fn in_turn<'a>(mut outgoing: Outgoing<'a>, may_be_parked: bool, sender: &Sender, batch: &Batch) -> Sent<'a> {
    if let Some(missed) = outgoing.missed() {
        return Sent::Ended(outgoing.ended(missed, false));
    }
    let now = Timestamp::now();
    let delivery = &outgoing.delivery;
    // Somebody waits for the result of a test.
    let is_test = delivery.trigger == Trigger::Test;
    let is_last = now >= delivery.fails_at;
    let silence = sender.silence(&outgoing, now).filter(|silence| silence.hangs && !is_test);
    let slot = match (outgoing.slot.take(), silence) {
        (Some(slot), _) => Ok(slot),
        (None, Some(silence)) => sender.probe(&outgoing, silence, batch.last_start).await,
        (None, None) => sender.turn(&outgoing, batch.last_start).await,
    };
    let is_slow = sender.is_slow(&outgoing, now);
    match slot {
        Ok(slot) => Box::pin(sender.attempt(outgoing, slot, batch)).await,
        // The delivery is too old to wait any longer.
        Err(NoSlot::Full) if is_last => Sent::Ended(outgoing.ended(AttemptResult::Expired, is_slow)),
        Err(_) if may_be_parked => Sent::Parked(outgoing),
        Err(NoSlot::Full) => {
            // At its end, it is given up.
            let until = put_off(silence.map(|silence| silence.since), now).min(delivery.fails_at);
            Sent::Ended(outgoing.ended(AttemptResult::Postponed(until), is_slow))
        }
        Err(NoSlot::Late) => Sent::Ended(outgoing.ended(AttemptResult::Postponed(Timestamp::now()), is_slow)),
    }
}

#[cfg(test)]
mod tests {
    use common::{
        id::TenantId,
        webhooks::delivery::{Attempt, Failure, Outcome, Status},
    };

    use super::*;

    #[test]
    fn a_message_is_for_the_next_attempt_or_was_for_the_last_one_or_is_dropped() {
        let (tenant, now): (TenantId, _) = ("t".parse().expect("a tenant"), Timestamp::now());
        let endpoint = "01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id");
        let failed = Outcome::Failed(Failure::Status(500, None));
        let last = Attempt::new(now, 1, failed, None, Trigger::Schedule);
        let pending = |attempts, wait: u64| Delivery {
            attempts,
            last_attempt: Some(last.clone()),
            next_attempt_at: Some(now.after(Duration::from_secs(wait))),
            ..Delivery::test(endpoint, now)
        };
        let ended = |status| Delivery { status, next_attempt_at: None, ..pending(2, 0) };
        let after = |delivery: &Delivery, attempt, is_repeated| {
            let due = DueAttempt { tenant: tenant.clone(), id: delivery.id, attempt };
            step(delivery, &due, is_repeated, now)
        };
        for is_repeated in [false, true] {
            assert_eq!(after(&pending(2, 0), 3, is_repeated), Step::Attempt);
            assert_eq!(after(&pending(2, 60), 3, is_repeated), Step::SendOn, "it is early");
            assert_eq!(after(&pending(2, 0), 1, is_repeated), Step::Drop, "it is two attempts late");
            assert_eq!(after(&ended(Status::Delivered), 2, is_repeated), Step::Drop);
        }
        assert_eq!(after(&pending(2, 60), 2, false), Step::Drop, "another message made it");
        assert_eq!(after(&pending(2, 60), 2, true), Step::SendOn, "this record made it");
        assert_eq!(after(&ended(Status::Failed), 2, false), Step::Drop);
        assert_eq!(after(&ended(Status::Failed), 2, true), Step::NoteFailed, "this record made the last one");
        assert_eq!(after(&ended(Status::Failed), 3, true), Step::NoteFailed, "it expired");
    }
}
