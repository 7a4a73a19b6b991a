//! Due attempts: retries, resends and tests.

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Delivery, Destination, DueAttempt, Origin},
        endpoints::Endpoint,
        queue::EARLY_DELIVERY_TOLERANCE,
    },
};

use crate::{
    attempt::Sender,
    batch::Batch,
    due_deliveries::{AttemptsInProgress, DueDelivery},
    ledger::Ledger,
    record::{Record, RecordError},
};

/// The action for a message about a due attempt.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Drop the message: the delivery has ended, or another message has already made the attempt.
    Drop,
    /// Repeat what follows: this record made the last attempt, but the process may have died before it had updated the
    /// endpoint, or erased the payload.
    NoteEnded,
    /// Send a message. If this record has already made its attempt, and the process may have died before updating the
    /// endpoint or sending the next attempt's message, do both. If this record is early, send the same message again.
    SendOn,
    /// Make the attempt.
    Attempt,
}

/// Decides the step for a message about `due`, given the current state of its delivery. `is_repeated` means that the
/// record has been received before.
fn step(delivery: &Delivery, due: &DueAttempt, is_repeated: bool, now: Timestamp) -> Step {
    if is_repeated && (delivery.failed_with(due.attempt) || delivery.erased_at.is_some()) {
        return Step::NoteEnded;
    }
    let Some(wakes_at) = delivery.wakes_at() else { return Step::Drop };
    let is_next = DueAttempt::next(&due.tenant, delivery) == *due;
    let is_last = is_repeated && due.attempt == delivery.attempts;
    match (is_next, is_last) {
        (true, _) if wakes_at.since(now) <= EARLY_DELIVERY_TOLERANCE => Step::Attempt,
        (true, _) | (false, true) => Step::SendOn,
        (false, false) => Step::Drop,
    }
}

/// Makes a due attempt, unless this process is already making it for another record.
pub(crate) async fn attempt(
    record: &Record,
    due: DueAttempt,
    in_progress: &AttemptsInProgress,
    sender: &Sender,
    ledger: &Ledger,
    batch: &Batch,
) -> Result<(), RecordError> {
    let Some(mark) = in_progress.begin(due.clone()) else { return Ok(()) };
    let Ledger { endpoints, reads, log, queues, .. } = ledger;
    let now = Timestamp::now();
    // The log's retention may have deleted the delivery.
    let Some((delivery, payload)) = log.find(&due.tenant, &due.id).await? else { return Ok(()) };
    let step = step(&delivery, &due, record.is_repeated, now);
    if record.is_repeated && matches!(step, Step::NoteEnded | Step::SendOn) {
        let endpoint = match delivery.webhook_endpoint_id {
            Some(id) => endpoints.find(&due.tenant, id).await?,
            None => None,
        };
        let health = endpoint.filter(Endpoint::is_active).map(|endpoint| endpoint.health);
        ledger.apply_outcome(&due.tenant, &delivery, health, false, now).await?;
    }
    match step {
        Step::Drop | Step::NoteEnded => return Ok(()),
        Step::SendOn => {
            if delivery.pull.is_some() {
                // Receiving a delivery moves its due time without writing a due row for the end of the lease.
                log.put_all([log.due_row(&due.tenant, &delivery, now)]).await?;
            }
            // `None` if the wait exceeds SQS's longest delay: the due row then wakes the delivery.
            let sent = queues.send(DueAttempt::delayable(&due.tenant, &delivery, now).as_slice(), now).await;
            return Ok(sent.into_iter().collect::<Result<(), _>>()?);
        }
        Step::Attempt => {}
    }
    let Some(payload) = payload else { return Ok(log.give_up(&due.tenant, &delivery, now).await?) };
    let (gate, endpoint) = match &payload.destination {
        Destination::Endpoint(id) => {
            let endpoint = reads.one(&due.tenant, *id).await?;
            (endpoint.as_ref().map(|endpoint| endpoint.health.gate).unwrap_or_default(), endpoint)
        }
        Destination::Callback { url, .. } => (reads.gate(&due.tenant, Origin::of(url)).await?, None),
    };
    let due = DueDelivery {
        index: record.index,
        tenant: due.tenant,
        delivery,
        payload,
        endpoint,
        gate,
        is_stored: true,
        shared: None,
        parked: None,
        mark: Some(mark),
    };
    if due.delivery.is_parked {
        // Its drain makes the attempt, and may be making it now. An earlier process may have died before it had written
        // the row or scheduled the drain.
        batch.finish(due.ended(AttemptResult::Parked));
    } else {
        sender.send(due, batch).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use common::{
        id::TenantId,
        webhooks::delivery::{Attempt, Failure, Outcome, Status, Trigger},
    };

    use super::*;

    #[test]
    fn a_message_for_no_known_attempt_is_dropped() {
        let (tenant, now): (TenantId, _) = ("t".parse().expect("a tenant"), Timestamp::now());
        let endpoint = "01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id");
        let last = Attempt::new(now, 1, Outcome::Failed(Failure::Timeout), None, Trigger::Schedule);
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
            assert_eq!(after(&pending(2, 0), 1, is_repeated), Step::Drop, "the message is about an earlier attempt");
            assert_eq!(after(&ended(Status::Delivered), 2, is_repeated), Step::Drop);
        }
        assert_eq!(after(&pending(2, 60), 2, false), Step::Drop, "another message made the attempt");
        assert_eq!(after(&pending(2, 60), 2, true), Step::SendOn, "this record made the attempt");
        assert_eq!(after(&ended(Status::Failed), 2, false), Step::Drop);
        assert_eq!(after(&ended(Status::Failed), 2, true), Step::NoteEnded, "this record made the last attempt");
        assert_eq!(after(&ended(Status::Failed), 3, true), Step::NoteEnded, "it expired");
    }
}
