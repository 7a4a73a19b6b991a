//! Stores what follows from attempts, in an order that loses nothing.
//!
//! Attempts that end at about the same time are stored together:
//!
//! 1. In batched writes: the row of a delivery that succeeded at once; for one that did not, its due row, and its payload
//!    or, later, the attempt before.
//! 2. The states of those that did not, each on condition that nobody was faster.
//! 3. A message for each attempt that is due within SQS's longest delay.
//!
//! Only then is the record acknowledged. A process that dies before 2 leaves rows that nobody refers to, and the attempt
//! is repeated: the one duplicate that a crash can cost. One that dies before 3 leaves a pending state, and the record
//! comes back and sends the message; if it does not, the due row wakes the delivery. For a success at once, the log is
//! written, or that it could not be is counted, but it is never a reason to send it again.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use common::{
    error::Error,
    id::TenantId,
    random,
    timestamp::Timestamp,
    webhooks::{
        delivery::Delivery,
        delivery_id::{DeliveryId, SHARDS},
        log::{Attempt, Entry, Row, Status, Unwritten},
        outcome::{Outcome, next_step},
        queue::{DueAttempt, MAX_DELAY},
    },
};
use futures::{StreamExt, future::join_all, stream};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

use crate::{App, observe, under_way::Mark, undone::Undone};

/// How many attempts are stored together: as many as a batched write takes.
const CHUNK: usize = 25;
/// How long an attempt that has ended waits for others to be stored with. Once none is left, nothing waits.
const LINGER: Duration = Duration::from_millis(50);
/// How often the state is written again when something else keeps changing it.
const ROUNDS: usize = 5;

/// An attempt that has ended.
pub(crate) struct Ended {
    /// The place of its record in the batch.
    pub(crate) place: usize,
    /// The delivery, as it was before.
    pub(crate) delivery: Delivery,
    /// Whether the log has the delivery already.
    pub(crate) is_stored: bool,
    /// How the attempt ended.
    pub(crate) result: Result,
    /// An attempt that a message asked for stays under way until its result is stored.
    pub(crate) _mark: Option<Mark>,
}

/// How an attempt ended.
pub(crate) enum Result {
    /// It was made.
    Made(Attempt, Outcome),
    /// It could not be made, and is due again at this time.
    Postponed(Timestamp),
    /// The endpoint has been deleted or made inactive.
    Gone,
}

/// The message for the next attempt at a pending delivery, and its time; `None` if that is too far away for a message.
pub(crate) fn message(tenant: &TenantId, entry: &Entry, now: Timestamp) -> Option<(DueAttempt, Timestamp)> {
    let at = entry.next_attempt_at.filter(|at| at.since(now) <= MAX_DELAY)?;
    Some((DueAttempt::next(tenant, entry), at))
}

impl Ended {
    /// Whether the delivery is done with the row that the log gets first.
    fn is_done_at_once(&self) -> bool {
        !self.is_stored && matches!(self.result, Result::Made(_, Outcome::Delivered(_)))
    }
}

impl App {
    /// Stores attempts as they end, until there are no more. Returns the places of the records that have to come back.
    pub(crate) async fn book_all(&self, inbox: UnboundedReceiver<Ended>) -> Vec<(usize, Undone)> {
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
        let booked = chunks.map(|chunk| self.book(chunk)).buffer_unordered(usize::MAX);
        booked.collect::<Vec<_>>().await.into_iter().flatten().collect()
    }

    async fn book(&self, chunk: Vec<Ended>) -> Vec<(usize, Undone)> {
        let now = Timestamp::now();
        let afters: Vec<Entry> =
            chunk.iter().map(|ended| self.after(&ended.delivery.entry, &ended.result, now)).collect();
        let rows = chunk.iter().zip(&afters).enumerate();
        let rows = rows.flat_map(|(number, (ended, after))| self.rows(ended, after, now).map(move |row| (number, row)));
        let Unwritten { throttled, failed } = self.log.put(rows.collect()).await;
        let mut unwritten: HashSet<usize> = failed.into_iter().collect();
        if !throttled.is_empty() {
            unwritten.extend(self.spread(&chunk, &afters, throttled, now).await);
        }

        let is_new =
            |number: &usize, ended: &Ended| !ended.is_stored && !ended.is_done_at_once() && !unwritten.contains(number);
        let new = chunk.iter().zip(&afters).enumerate().filter(|(number, (ended, _))| is_new(number, ended));
        let (places, states): (Vec<usize>, Vec<_>) =
            new.map(|(number, (ended, after))| (number, (&ended.delivery.tenant, after))).unzip();
        let begun: HashMap<usize, _> = places.into_iter().zip(self.log.begin(&states, now).await).collect();

        let stored = chunk.iter().zip(&afters).enumerate().map(async |(number, (ended, after))| {
            match (unwritten.contains(&number), ended.is_done_at_once()) {
                (false, true) => Ok(None),
                (false, false) => self.store(ended, after, begun.get(&number), now).await,
                (true, true) => {
                    observe::unlogged(&ended.delivery);
                    Ok(None)
                }
                (true, false) => Err(Error::Busy),
            }
        });
        let (mut undone, mut waiting, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        for (Ended { place, .. }, stored) in chunk.iter().zip(join_all(stored).await) {
            match stored {
                Ok(Some(message)) => {
                    waiting.push(*place);
                    messages.push(message);
                }
                Ok(None) => {}
                Err(error) => undone.push((*place, error.into())),
            }
        }

        let sent = waiting.into_iter().zip(self.queue.send(&messages, now).await);
        undone.extend(sent.filter_map(|(place, sent)| Some((place, sent.err()?.into()))));
        undone
    }

    /// The state after an attempt.
    fn after(&self, before: &Entry, result: &Result, now: Timestamp) -> Entry {
        match result {
            Result::Made(attempt, outcome) => {
                let left = Timestamp::from_millisecond(before.give_up_at.get()).since(now);
                let step = next_step(*outcome, before.tries.saturating_add(1), &self.schedule, left, random::fraction);
                before.after(attempt.clone(), step, now)
            }
            Result::Postponed(due) => before.postponed(*due),
            Result::Gone => before.ended(),
        }
    }

    /// The rows to write before the state changes to `after`.
    fn rows(&self, ended: &Ended, after: &Entry, now: Timestamp) -> impl Iterator<Item = Row> + use<> {
        let Delivery { tenant, entry: before, payload } = &ended.delivery;
        let is_due =
            after.status == Status::Pending && !(ended.is_stored && matches!(ended.result, Result::Postponed(_)));
        let due = is_due.then(|| self.log.due(tenant, after, now));
        let other = match (&ended.result, ended.is_stored) {
            _ if ended.is_done_at_once() => Some(self.log.delivered(tenant, after, payload, now)),
            (_, false) => Some(self.log.payload(tenant, &after.id, payload, now)),
            (Result::Made(..), true) => self.log.attempt(tenant, before, now),
            (Result::Postponed(_) | Result::Gone, true) => None,
        };
        other.into_iter().chain(due)
    }

    /// Makes room for the rows of endpoints whose partition of the log is throttled. Returns those that still could not
    /// be written.
    async fn spread(&self, chunk: &[Ended], afters: &[Entry], throttled: Vec<usize>, now: Timestamp) -> Vec<usize> {
        let (mut moved, mut stuck, mut spread) = (Vec::new(), Vec::new(), HashMap::new());
        for number in throttled {
            let Some((ended, after)) = chunk.get(number).zip(afters.get(number)) else { continue };
            let shard = after.webhook_id.shard(SHARDS);
            match after.webhook_endpoint_id {
                Some(endpoint) if ended.is_done_at_once() => {
                    let Delivery { tenant, payload, .. } = &ended.delivery;
                    let is_spread = match spread.get(&endpoint) {
                        Some(is_spread) => *is_spread,
                        None => {
                            let done = self.endpoints.spread_log(tenant, endpoint).await;
                            let done = done.inspect_err(|error| observe::not_spread(tenant, endpoint, error));
                            spread.insert(endpoint, done.is_ok());
                            done.is_ok()
                        }
                    };
                    if !is_spread {
                        // Nobody would look for it in another shard.
                        stuck.push(number);
                        continue;
                    }
                    let after = Entry { id: DeliveryId { shard, ..after.id }, ..after.clone() };
                    moved.push((number, self.log.delivered(tenant, &after, payload, now)));
                }
                _ => stuck.push(number),
            }
        }
        let Unwritten { throttled, failed } = self.log.put(moved).await;
        stuck.into_iter().chain(throttled).chain(failed).collect()
    }

    /// Stores the state of a delivery that did not succeed at once, unless it is new and `begun` by now. Returns the
    /// message to send.
    async fn store(
        &self,
        ended: &Ended,
        after: &Entry,
        begun: Option<&std::result::Result<bool, Error>>,
        now: Timestamp,
    ) -> Stored {
        let Delivery { tenant, payload, .. } = &ended.delivery;
        let after = match (&ended.result, begun) {
            (_, Some(Ok(true))) | (Result::Postponed(_), None) => after.clone(),
            // Another process has the same event, or the answer to this very write was lost.
            (_, Some(Ok(false))) => {
                return Ok(self.current(tenant, after).await?.and_then(|entry| message(tenant, &entry, now)));
            }
            (_, Some(Err(_))) => return Err(Error::Busy),
            (Result::Made(..) | Result::Gone, None) => match self.advance(ended, after.clone(), now).await? {
                Some(after) => after,
                None => return Ok(None),
            },
        };
        match after.status {
            Status::Pending => return Ok(message(tenant, &after, now)),
            Status::Delivered => self.log.forget_large(tenant, &after.id, &payload.body).await?,
            Status::Failed => observe::given_up(tenant, &after),
            Status::Ended => observe::ended(tenant, &after),
        }
        Ok(None)
    }

    /// Changes the state to `after`, and returns what it is now; `None` if the attempt counts for nothing, because
    /// another process made the same one.
    async fn advance(
        &self,
        ended: &Ended,
        mut after: Entry,
        now: Timestamp,
    ) -> std::result::Result<Option<Entry>, Error> {
        let Delivery { tenant, entry, .. } = &ended.delivery;
        let mut before = entry.clone();
        for _ in 0..ROUNDS {
            if self.log.advance(tenant, &before, &after).await? {
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
            // It has been resent meanwhile: the attempt counts as the first of the new schedule.
            before = current;
            after = self.after(&before, &ended.result, now);
            if after.status == Status::Pending {
                let due = self.log.due(tenant, &after, now);
                if !self.log.put(vec![((), due)]).await.is_empty() {
                    return Err(Error::Busy);
                }
            }
        }
        Err(Error::Busy)
    }

    /// The state of a delivery now.
    async fn current(&self, tenant: &TenantId, entry: &Entry) -> std::result::Result<Option<Entry>, Error> {
        Ok(self.log.known(tenant, &[entry.id]).await?.remove(&entry.id))
    }
}

/// A message to send, if one is needed; or what went wrong.
type Stored = std::result::Result<Option<(DueAttempt, Timestamp)>, Error>;
