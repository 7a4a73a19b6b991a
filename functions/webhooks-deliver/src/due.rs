//! Messages of the deliveries queue: attempts that are due, and parked events.

use std::{sync::Arc, time::Duration};

use common::{
    error::Error,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Destination},
        event::Audience,
        log::{Entry, Status, Trigger, parked::Parked},
        queue::{DueAttempt, DueEvent, Message},
    },
};

use crate::{
    App, Batch, all,
    attempts::Outgoing,
    events::firsts,
    ledger::{self, Result as AttemptResult},
    observe,
    slots::{NoSlot, put_off},
    under_way::Mark,
    undone::Undone,
};

/// SQS may hand over a message slightly before its delay is over. Up to this much is not worth sending it again.
const EARLY: Duration = Duration::from_secs(1);
/// How long an event stays parked as a whole. After that, each of its deliveries waits by itself, and can be seen in the
/// log.
const PARKED: Duration = Duration::from_secs(15 * 60);

impl App {
    /// Handles a message of the deliveries queue.
    pub(crate) async fn due(&self, place: usize, body: &str, is_repeated: bool, batch: &Batch) -> Result<(), Undone> {
        let message = Message::parse(body)?;
        let Some(mark) = self.under_way.begin(message.clone()) else { return Ok(()) };
        match message {
            Message::Attempt(due) => self.due_attempt(place, due, is_repeated, mark, batch).await,
            Message::Event(due) => self.due_event(place, due, mark, batch).await,
        }
    }

    /// Makes an attempt that is due.
    async fn due_attempt(
        &self,
        place: usize,
        due: DueAttempt,
        is_repeated: bool,
        mark: Mark,
        batch: &Batch,
    ) -> Result<(), Undone> {
        let now = Timestamp::now();
        let Some((entry, payload)) = self.log.find(&due.tenant, &due.id).await? else {
            // It has expired.
            return Ok(());
        };
        if is_repeated && is_given_up_by(&entry, due.attempt) {
            // This record made the last attempt, and may have come back before what follows for the endpoint was noted.
            let receiver = match entry.webhook_endpoint_id {
                Some(id) => self.endpoints.find_active(&due.tenant, id).await?,
                None => None,
            };
            let health = receiver.map(|receiver| receiver.health);
            return Ok(self.decline(&due.tenant, &entry, health, now).await?);
        }
        if entry.status != Status::Pending {
            return Ok(());
        }
        let is_stale = DueAttempt::next(&due.tenant, &entry) != due;
        if is_stale && !(is_repeated && due.attempt == entry.attempts) {
            // The delivery has got past this attempt: another message was for the same one.
            return Ok(());
        }
        if is_stale || entry.next_attempt_at.is_some_and(|at| at.since(now) > EARLY) {
            // Either this record made the attempt and came back before the next message was sent, or it is early, since
            // the attempt was put off. What waits for longer than a message can is woken from the log.
            let message = ledger::message(&due.tenant, &entry, now);
            return Ok(self.queue.send(message.as_slice(), now).await.into_iter().collect::<Result<(), _>>()?);
        }
        let payload = payload.ok_or_else(|| Error::Internal(format!("the payload of {} is missing", due.id)))?;
        let delivery = Delivery { tenant: due.tenant, entry, payload };
        let receiver = match delivery.payload.destination {
            Destination::Endpoint(id) if delivery.entry.trigger == Trigger::Test => {
                self.endpoints.find(&delivery.tenant, id).await?
            }
            Destination::Endpoint(id) => self.endpoints.find_active(&delivery.tenant, id).await?,
            Destination::Callback { .. } => None,
        };
        let mark = Some(Arc::new(mark));
        self.in_turn(
            Outgoing { place, delivery, receiver: receiver.as_ref(), is_stored: true, slot: None, mark },
            batch,
        )
        .await;
        Ok(())
    }

    /// Makes the first attempts of a parked event.
    async fn due_event(&self, place: usize, due: DueEvent, mark: Mark, batch: &Batch) -> Result<(), Undone> {
        let Some(Parked { event, at, endpoints }) = self.log.parked(&due).await? else {
            observe::parked_too_long(&due);
            return Ok(());
        };
        let receivers = match event.audience {
            Audience::Endpoints => batch.receivers(&event.tenant, &self.endpoints).await?,
            Audience::Nobody | Audience::Callback { .. } => Arc::default(),
        };
        let parked_for = receivers.iter().filter(|receiver| endpoints.contains(&receiver.id));
        let mut firsts = firsts(place, &event, at, parked_for);
        let gone = endpoints.iter().filter(|id| receivers.iter().all(|receiver| receiver.id != **id));
        firsts.extend(gone.map(|id| Outgoing::first(place, &event, at, Destination::Endpoint(*id), None)));
        let now = Timestamp::now();
        let is_young = now.since(at) < PARKED;
        let looked_at = firsts.into_iter().map(async |mut first| {
            if is_young && self.silence(&first, now).is_some_and(|silence| silence.hangs) {
                first.slot = self.probe(&first, batch).await.ok();
                return (first.slot.is_none(), first);
            }
            (false, first)
        });
        let (stuck, others): (Vec<_>, Vec<_>) = all(looked_at).await.into_iter().partition(|(is_stuck, _)| *is_stuck);
        let stuck: Vec<_> = stuck.into_iter().map(|(_, first)| first).collect();
        self.park(&event, at, &stuck, Some(&due), batch);
        let mut firsts = others.into_iter().map(|(_, first)| first).collect();
        self.leave_out_known(&event.tenant, &mut firsts).await?;
        let mark = Arc::new(mark);
        let attempts = firsts.into_iter().map(|first| Outgoing { mark: Some(Arc::clone(&mark)), ..first });
        all(attempts.map(|first| self.in_turn(first, batch))).await;
        Ok(())
    }

    /// Makes an attempt that came from the deliveries queue, once there is a slot for it.
    async fn in_turn(&self, mut outgoing: Outgoing<'_>, batch: &Batch) {
        if outgoing.is_gone() {
            return batch.finish(outgoing.ended(AttemptResult::Gone));
        }
        let now = Timestamp::now();
        let entry = &outgoing.delivery.entry;
        // Somebody waits for the result of a test.
        let is_test = entry.trigger == Trigger::Test;
        let is_last = now.as_millisecond() >= entry.give_up_at.get();
        let silence = self.silence(&outgoing, now).filter(|silence| silence.hangs && !is_test);
        let slot = match outgoing.slot.take() {
            Some(slot) => Ok(slot),
            None if silence.is_some() => self.probe(&outgoing, batch).await,
            None => self.slots.take(self.lane(&outgoing), batch.last_start, batch.last_start).await,
        };
        let until = match slot {
            Ok(slot) => return self.attempt(outgoing, slot, batch).await,
            // It is too old to wait for longer.
            Err(NoSlot::Full) if is_last => return batch.finish(outgoing.ended(AttemptResult::Expired)),
            Err(NoSlot::Full) => put_off(silence.map(|silence| silence.since), now),
            Err(NoSlot::Late) => Timestamp::now(),
        };
        batch.finish(outgoing.ended(AttemptResult::Postponed(until)));
    }
}

/// Whether a delivery was given up with this attempt.
pub(crate) fn is_given_up_by(entry: &Entry, attempt: u32) -> bool {
    // What has expired was given up without the attempt.
    entry.status == Status::Failed && (entry.attempts..=entry.attempts.saturating_add(1)).contains(&attempt)
}
