//! Stores what follows from attempts, in an order that loses nothing.
//!
//! Attempts that end at about the same time are stored together:
//!
//! 1. In batched writes: the row of a delivery that succeeded at once; for any other, its due row, and its payload or,
//!    later, attempts for which the state has no more room.
//! 2. The states of those others, each on condition that no other attempt came first. A delivery that is held at once, since
//!    its endpoint is inactive, has no more than this: its state, with its payload.
//! 3. A message for each attempt that is due within SQS's longest delay.
//!
//! Only then is the record acknowledged. A process that dies before 2 leaves rows to which no state refers, and the attempt
//! is repeated: the one duplicate that a crash can cost. A process that dies before 3 leaves a pending state: its record
//! comes back and sends the message, or else the due row wakes the delivery. If the row of a success at once cannot be
//! written, that is counted, and is no reason to send it again.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use common::{
    error::Error,
    id::TenantId,
    random,
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Delivery, DeliveryId, DueAttempt, SHARDS, Status, report_failed},
        endpoints::Health,
        log::{First, Row, Unwritten},
    },
};
use futures::{StreamExt, future::join_all, stream};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

use crate::{
    finished::{Ended, Finished, Parking},
    news, observe,
    record::Undone,
    stores::{Gate, Stores},
};

/// How many attempts are stored together: as many as a batched write takes.
const CHUNK: usize = 25;
/// How many chunks are stored at the same time: payloads take memory.
const CHUNKS: usize = 16;
/// How long an ended attempt waits to be stored together with others. Once all have ended, none waits.
const LINGER: Duration = Duration::from_millis(50);
/// How often the state is written again while other writes keep changing it.
const ROUNDS: usize = 5;

pub(crate) struct Ledger {
    pub(crate) stores: Stores,
    /// The delays between attempts.
    pub(crate) schedule: Vec<Duration>,
    /// How long an endpoint may be failing; zero is forever.
    pub(crate) disable_after: Duration,
}

/// An attempt that is being stored.
struct Booking {
    ended: Ended,
    /// The delivery after the attempt.
    after: Delivery,
    fate: Fate,
}

/// How far the storing of an attempt has come.
enum Fate {
    /// Nothing has gone wrong so far.
    Open,
    /// An earlier booking is of the same delivery, and answers for this one.
    Copy,
    /// Its rows could not be written.
    Unwritten,
    /// The delivery is new, and its first state was written; `false` if the log has a state already.
    Begun(Result<bool, Error>),
}

impl Ledger {
    /// Stores what the batch finishes, until its end. Returns the records that stay in their queue, by their numbers.
    pub(crate) async fn book_all(&self, inbox: UnboundedReceiver<Finished>, gate: Gate<'_>) -> Vec<(usize, Undone)> {
        let chunks = stream::unfold(inbox, async |mut inbox| {
            let mut chunk = Vec::new();
            let fill = async {
                let mut room = CHUNK;
                while room > 0 && inbox.recv_many(&mut chunk, room).await > 0 {
                    room = CHUNK.saturating_sub(chunk.len());
                }
            };
            let is_closed = timeout(LINGER, fill).await.is_ok() && chunk.is_empty();
            (!is_closed).then_some((chunk, inbox))
        });
        let booked = chunks.map(async |chunk| {
            let (mut attempts, mut parked) = (Vec::with_capacity(chunk.len()), Vec::new());
            for finished in chunk {
                match finished {
                    Finished::Attempt(ended) => attempts.push(ended),
                    Finished::Parked(work) => parked.push(work),
                }
            }
            let _passed = gate.pass().await;
            let (mut undone, lost) = tokio::join!(self.book(attempts), self.park_all(parked));
            undone.extend(lost);
            undone
        });
        booked.buffer_unordered(CHUNKS).collect::<Vec<_>>().await.into_iter().flatten().collect()
    }

    /// Parks work in the queue for slow receivers: first the rows, then the messages. A crash in between costs nothing, since
    /// the records come back and are parked once more.
    async fn park_all(&self, mut parked: Vec<Parking>) -> Vec<(usize, Undone)> {
        if parked.is_empty() {
            return Vec::new();
        }
        let now = Timestamp::now();
        let rows = parked.iter_mut().enumerate().filter_map(|(number, work)| Some((number, work.row.take()?)));
        let Unwritten { throttled, failed } = self.stores.log.put(rows.collect()).await;
        let unwritten: HashSet<usize> = throttled.into_iter().chain(failed).collect();
        let (written, lost): (Vec<_>, Vec<_>) =
            parked.into_iter().enumerate().partition(|(number, _)| !unwritten.contains(number));
        let (indexes, messages): (Vec<_>, Vec<_>) =
            written.into_iter().map(|(_, work)| (work.index, (work.message, work.until))).unzip();
        let sent = indexes.into_iter().zip(self.stores.queues.slow.send(&messages, now).await);
        observe::parked(messages.len());
        let unsent = sent.filter_map(|(index, sent)| Some((index, sent.err()?.into())));
        lost.into_iter().map(|(_, work)| (work.index, Error::Busy.into())).chain(unsent).collect()
    }

    /// Stores ended attempts, in the order that the module describes.
    async fn book(&self, ended: Vec<Ended>) -> Vec<(usize, Undone)> {
        let now = Timestamp::now();
        let mut bookings = self.open(ended, now);
        self.write_rows(&mut bookings, now).await;
        self.begin(&mut bookings, now).await;
        let stored = join_all(bookings.iter().map(|booking| self.store(booking, now))).await;
        news::note(&self.stores.endpoints, bookings.iter().map(|booking| &booking.ended), now).await;
        let (mut undone, mut soon, mut slow) = (Vec::new(), Vec::new(), Vec::new());
        for (Booking { ended: Ended { index, is_slow, mark, .. }, .. }, stored) in bookings.into_iter().zip(stored) {
            // Before the next message is sent: an attempt that was put off has the same message again, and this process
            // would take it for a copy.
            drop(mark);
            match stored {
                Ok(Some(message)) if is_slow => slow.push((index, message)),
                Ok(Some(message)) => soon.push((index, message)),
                Ok(None) => {}
                Err(error) => undone.push((index, error.into())),
            }
        }
        let (soon, slow) = tokio::join!(self.send(false, soon, now), self.send(true, slow, now));
        undone.extend(soon);
        undone.extend(slow);
        undone
    }

    /// Sends messages to the queue for slow receivers, or to the other one. Returns the records whose message could not be
    /// sent.
    async fn send(
        &self,
        is_slow: bool,
        messages: Vec<(usize, (DueAttempt, Timestamp))>,
        now: Timestamp,
    ) -> Vec<(usize, Undone)> {
        let (indexes, messages): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        let sent = indexes.into_iter().zip(self.stores.queues.of(is_slow).send(&messages, now).await);
        sent.filter_map(|(index, sent)| Some((index, sent.err()?.into()))).collect()
    }

    /// Decides what follows each attempt. SQS and producers may send an event twice: the record of the first copy answers
    /// for the others, and if it fails, it comes back.
    fn open(&self, ended: Vec<Ended>, now: Timestamp) -> Vec<Booking> {
        let mut known = HashSet::new();
        let open = ended.into_iter().map(|ended| {
            let after = self.after(&ended.delivery, &ended.result, now);
            let is_new = !ended.is_stored && !ended.is_done_at_once();
            let is_copy = is_new && !known.insert((ended.tenant.clone(), ended.delivery.id));
            Booking { ended, after, fate: if is_copy { Fate::Copy } else { Fate::Open } }
        });
        open.collect()
    }

    fn after(&self, before: &Delivery, result: &AttemptResult, now: Timestamp) -> Delivery {
        before.after(result, &self.schedule, random::fraction, now)
    }

    /// Writes the rows that come before states.
    async fn write_rows(&self, bookings: &mut [Booking], now: Timestamp) {
        let open = bookings.iter().enumerate().filter(|(_, booking)| matches!(booking.fate, Fate::Open));
        let rows = open.flat_map(|(number, booking)| self.rows(booking, now).map(move |row| (number, row)));
        let Unwritten { throttled, failed: mut unwritten } = self.stores.log.put(rows.collect()).await;
        if !throttled.is_empty() {
            unwritten.extend(self.spread(bookings, throttled, now).await);
        }
        for number in unwritten {
            if let Some(booking) = bookings.get_mut(number) {
                booking.fate = Fate::Unwritten;
            }
        }
    }

    /// The rows to write before the state changes.
    fn rows(&self, booking: &Booking, now: Timestamp) -> impl Iterator<Item = Row> + use<> {
        let (Booking { ended, after, .. }, log) = (booking, &self.stores.log);
        let Ended { tenant, delivery: before, payload, .. } = ended;
        let is_due = after.wakes_at().is_some() && !ended.is_message_enough();
        let due = is_due.then(|| log.due_row(tenant, after, ended.is_slow, now));
        let other = match (&ended.result, ended.is_stored) {
            _ if ended.is_done_at_once() => Some(log.delivered_row(tenant, after, payload, now)),
            _ if ended.is_held_in_one_row() => None,
            (_, false) if ended.is_payload_stored => None,
            (_, false) => Some(log.payload_row(tenant, &after.id, payload, now)),
            (AttemptResult::Made(..), true) => log.attempts_row(tenant, before, after, now),
            (_, true) => None,
        };
        other.into_iter().chain(due)
    }

    /// Makes room for the rows of endpoints whose partition of the log is throttled. Returns the bookings whose rows still
    /// could not be written.
    async fn spread(&self, bookings: &[Booking], throttled: Vec<usize>, now: Timestamp) -> Vec<usize> {
        let (mut moved, mut stuck, mut spread) = (Vec::new(), Vec::new(), HashMap::new());
        for number in throttled {
            let Some(Booking { ended, after, .. }) = bookings.get(number) else { continue };
            let Some(endpoint) = after.webhook_endpoint_id.filter(|_| ended.is_done_at_once()) else {
                stuck.push(number);
                continue;
            };
            let is_spread = match spread.get(&endpoint) {
                Some(is_spread) => *is_spread,
                None => {
                    let done = self.stores.endpoints.spread_log(&ended.tenant, endpoint).await;
                    let done = done.inspect_err(|error| observe::not_spread(&ended.tenant, endpoint, error));
                    spread.insert(endpoint, done.is_ok());
                    done.is_ok()
                }
            };
            if is_spread {
                let id = DeliveryId { shard: after.webhook_id.shard(SHARDS), ..after.id };
                let after = Delivery { id, ..after.clone() };
                moved.push((number, self.stores.log.delivered_row(&ended.tenant, &after, &ended.payload, now)));
            } else {
                // Nobody would look for it in another shard.
                stuck.push(number);
            }
        }
        let Unwritten { throttled, failed } = self.stores.log.put(moved).await;
        stuck.into_iter().chain(throttled).chain(failed).collect()
    }

    /// Writes the first states of deliveries that are new and did not succeed at once.
    async fn begin(&self, bookings: &mut [Booking], now: Timestamp) {
        let is_new = |booking: &Booking| {
            matches!(booking.fate, Fate::Open) && !booking.ended.is_stored && !booking.ended.is_done_at_once()
        };
        let new = bookings.iter().filter(|booking| is_new(booking));
        let firsts = new.map(|Booking { ended, after, .. }| {
            let payload = ended.is_held_in_one_row().then_some(&ended.payload);
            First { tenant: &ended.tenant, delivery: after, payload }
        });
        let states: Vec<_> = firsts.collect();
        let begun = self.stores.log.begin(&states, now).await;
        for (booking, begun) in bookings.iter_mut().filter(|booking| is_new(booking)).zip(begun) {
            booking.fate = Fate::Begun(begun);
        }
        self.make_room(bookings).await;
    }

    /// Makes room for what is held for endpoints whose partition of the log is throttled: nothing else slows such events down.
    /// Their records come back.
    async fn make_room(&self, bookings: &[Booking]) {
        let is_stuck = |booking: &&Booking| {
            booking.after.status == Status::Held && matches!(booking.fate, Fate::Begun(Err(Error::Busy)))
        };
        let stuck = bookings.iter().filter(is_stuck);
        let endpoints: BTreeMap<_, _> =
            stuck.filter_map(|it| Some((it.after.webhook_endpoint_id?, &it.ended.tenant))).collect();
        for (endpoint, tenant) in endpoints {
            let spread = self.stores.endpoints.spread_log(tenant, endpoint).await;
            spread.unwrap_or_else(|error| observe::not_spread(tenant, endpoint, &error));
        }
    }

    /// Stores the state of a delivery that did not succeed at once, unless that is done. Returns the message to send.
    async fn store(&self, booking: &Booking, now: Timestamp) -> Result<Option<(DueAttempt, Timestamp)>, Error> {
        let Booking { ended, after, fate } = booking;
        let Ended { tenant, payload, .. } = ended;
        let after = match fate {
            Fate::Copy => return Ok(None),
            Fate::Open if ended.is_done_at_once() && !ended.is_payload_stored => return Ok(None),
            Fate::Unwritten if ended.is_done_at_once() => {
                observe::unlogged(tenant, &ended.delivery);
                return Ok(None);
            }
            Fate::Unwritten | Fate::Begun(Err(_)) => return Err(Error::Busy),
            Fate::Begun(Ok(true)) => after.clone(),
            // Another process has the same event, or the answer to this very write was lost.
            Fate::Begun(Ok(false)) => match self.current(tenant, after).await? {
                Some(current) if current.last_attempt == after.last_attempt => current,
                current => return Ok(current.and_then(|delivery| DueAttempt::soon(tenant, &delivery, now))),
            },
            Fate::Open if ended.is_done_at_once() || ended.is_message_enough() => after.clone(),
            Fate::Open => match self.advance(ended, after.clone(), now).await? {
                Some(after) => after,
                None => return Ok(None),
            },
        };
        match after.status {
            Status::Pending => return Ok(DueAttempt::soon(tenant, &after, now)),
            Status::Delivered => self.stores.log.forget_large(tenant, &after.id, &payload.body).await?,
            Status::Failed => {
                report_failed(tenant, &after);
                self.note_failed(tenant, &after, ended.health, now).await?;
            }
            Status::Held => observe::held(tenant, &after),
            Status::Ended => observe::ended(tenant, &after),
        }
        Ok(None)
    }

    /// Changes the state to `after`, and returns what it is now; `None` if the attempt does not count, because another
    /// process made it, too.
    async fn advance(&self, ended: &Ended, mut after: Delivery, now: Timestamp) -> Result<Option<Delivery>, Error> {
        let (Ended { tenant, delivery, .. }, log) = (ended, &self.stores.log);
        let mut before = delivery.clone();
        for _ in 0..ROUNDS {
            if log.advance(tenant, &before, &after).await? {
                return Ok(Some(after));
            }
            let Some(current) = self.current(tenant, &after).await? else { return Ok(None) };
            if current.attempts == after.attempts && current.last_attempt == after.last_attempt {
                // The answer to this very write was lost.
                return Ok(Some(current));
            }
            if current.status != Status::Pending || current.attempts != before.attempts {
                return Ok(None);
            }
            // The delivery has been resent meanwhile: the attempt counts as the first of the new schedule.
            before = current;
            after = self.after(&before, &ended.result, now);
            if after.status == Status::Pending {
                let due = log.due_row(tenant, &after, ended.is_slow, now);
                if !log.put(vec![((), due)]).await.is_empty() {
                    return Err(Error::Busy);
                }
            }
        }
        Err(Error::Busy)
    }

    async fn current(&self, tenant: &TenantId, delivery: &Delivery) -> Result<Option<Delivery>, Error> {
        Ok(self.stores.log.known(tenant, &[delivery.id]).await?.remove(&delivery.id))
    }

    /// Notes the consequence for the endpoint of a delivery that has failed. This can be repeated.
    pub(crate) async fn note_failed(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        health: Option<Health>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let Some(health) = health else { return Ok(()) };
        self.stores.endpoints.delivery_failed(tenant, delivery, health, self.disable_after, now).await.map(drop)
    }
}
