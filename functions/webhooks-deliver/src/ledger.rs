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
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
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
        endpoints::Health,
        event::EventName,
        log::{Attempt, Entry, Row, Status, Unwritten},
        outcome::{Outcome, next_step},
        queue::{DueAttempt, DueEvent, MAX_DELAY},
    },
};
use futures::{StreamExt, future::join_all, stream};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

use crate::{App, observe, slots::Shown, under_way::Mark, undone::Undone};

/// How many attempts are stored together: as many as a batched write takes.
const CHUNK: usize = 25;
/// How many such chunks are stored at the same time: payloads take memory.
const CHUNKS: usize = 16;
/// How long an attempt that has ended waits for others to be stored with. Once none is left, nothing waits.
const LINGER: Duration = Duration::from_millis(50);
/// How much later than the log says an attempt may be. Well before ten minutes have passed, after which the sweep takes
/// the message for lost.
const UNNOTED: Duration = Duration::from_secs(5 * 60);
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
    /// What was known of the receiver of an endpoint.
    pub(crate) health: Option<Health>,
    /// What it has shown of the receiver, if it was made.
    pub(crate) shown: Option<Shown>,
    /// What a message asked for stays under way until its result is stored.
    pub(crate) mark: Option<Arc<Mark>>,
}

/// An event that is parked.
pub(crate) struct Parking {
    /// The place of its record in the batch.
    pub(crate) place: usize,
    /// The event, unless it is stored already.
    pub(crate) row: Option<Row>,
    /// What brings it back.
    pub(crate) message: DueEvent,
    /// When it comes back.
    pub(crate) until: Timestamp,
}

/// What has to be stored.
#[expect(clippy::large_enum_variant, reason = "nearly all are attempts")]
pub(crate) enum Finished {
    /// An attempt has ended.
    Attempt(Ended),
    /// An event is parked.
    Parked(Parking),
}

impl From<Ended> for Finished {
    fn from(ended: Ended) -> Self {
        Self::Attempt(ended)
    }
}

/// How an attempt ended.
pub(crate) enum Result {
    /// It was made.
    Made(Attempt, Outcome),
    /// It could not be made, and is due again at this time.
    Postponed(Timestamp),
    /// The endpoint has been deleted or made inactive.
    Gone,
    /// It could not be made for so long that the delivery is given up.
    Expired,
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

    /// Whether the attempt is put off for so short a time that the log need not know: a message is enough.
    fn is_message_enough(&self) -> bool {
        let was_due = self.delivery.entry.next_attempt_at;
        match self.result {
            Result::Postponed(until) => self.is_stored && was_due.is_some_and(|due| until.since(due) < UNNOTED),
            Result::Made(..) | Result::Gone | Result::Expired => false,
        }
    }
}

impl App {
    /// Stores what has finished, until there is no more. Returns the places of the records that have to come back.
    pub(crate) async fn book_all(&self, inbox: UnboundedReceiver<Finished>) -> Vec<(usize, Undone)> {
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
                    Finished::Parked(parking) => parked.push(parking),
                }
            }
            let (mut undone, unparked) = tokio::join!(self.book(attempts), self.park_all(parked));
            undone.extend(unparked);
            undone
        });
        booked.buffer_unordered(CHUNKS).collect::<Vec<_>>().await.into_iter().flatten().collect()
    }

    /// Parks events: first their rows, then their messages. A crash in between costs nothing, since the events come back
    /// and are parked once more.
    async fn park_all(&self, parked: Vec<Parking>) -> Vec<(usize, Undone)> {
        if parked.is_empty() {
            return Vec::new();
        }
        let now = Timestamp::now();
        let (rows, messages): (Vec<Option<_>>, Vec<_>) = parked
            .into_iter()
            .enumerate()
            .map(|(number, Parking { place, row, message, until })| {
                (row.map(|row| (number, row)), (place, (message, until)))
            })
            .unzip();
        let Unwritten { throttled, failed } = self.log.put(rows.into_iter().flatten().collect()).await;
        let unwritten: HashSet<usize> = throttled.into_iter().chain(failed).collect();
        let (written, lost): (Vec<_>, Vec<_>) =
            messages.into_iter().enumerate().partition(|(number, _)| !unwritten.contains(number));
        let (places, messages): (Vec<_>, Vec<_>) = written.into_iter().map(|(_, message)| message).unzip();
        let sent = places.into_iter().zip(self.queue.send(&messages, now).await);
        observe::parked(messages.len());
        let unsent = sent.filter_map(|(place, sent)| Some((place, sent.err()?.into())));
        lost.into_iter().map(|(_, (place, _))| (place, Error::Busy.into())).chain(unsent).collect()
    }

    async fn book(&self, mut chunk: Vec<Ended>) -> Vec<(usize, Undone)> {
        let now = Timestamp::now();
        let afters: Vec<Entry> =
            chunk.iter().map(|ended| self.after(&ended.delivery.entry, &ended.result, now)).collect();
        // SQS and producers may send an event twice. The record of the first copy answers for the others: if it fails, it
        // comes back.
        let mut known = HashSet::new();
        let mut is_copy = |ended: &Ended| {
            let Delivery { tenant, entry, .. } = &ended.delivery;
            !ended.is_stored && !ended.is_done_at_once() && !known.insert((tenant.clone(), entry.id))
        };
        let copies: HashSet<usize> =
            chunk.iter().enumerate().filter(|(_, ended)| is_copy(ended)).map(|(number, _)| number).collect();
        let rows = chunk.iter().zip(&afters).enumerate().filter(|(number, _)| !copies.contains(number));
        let rows = rows.flat_map(|(number, (ended, after))| self.rows(ended, after, now).map(move |row| (number, row)));
        let Unwritten { throttled, failed } = self.log.put(rows.collect()).await;
        let mut unwritten: HashSet<usize> = failed.into_iter().collect();
        if !throttled.is_empty() {
            unwritten.extend(self.spread(&chunk, &afters, throttled, now).await);
        }

        let is_new = |number: &usize, ended: &Ended| {
            let is_first = !ended.is_stored && !ended.is_done_at_once() && !copies.contains(number);
            is_first && !unwritten.contains(number)
        };
        let new = chunk.iter().zip(&afters).enumerate().filter(|(number, (ended, _))| is_new(number, ended));
        let (places, states): (Vec<usize>, Vec<_>) =
            new.map(|(number, (ended, after))| (number, (&ended.delivery.tenant, after))).unzip();
        let begun: HashMap<usize, _> = places.into_iter().zip(self.log.begin(&states, now).await).collect();

        let stored = chunk.iter().zip(&afters).enumerate().map(async |(number, (ended, after))| {
            match (unwritten.contains(&number), ended.is_done_at_once()) {
                _ if copies.contains(&number) => Ok(None),
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

        self.note(&chunk, now).await;
        // A message may be received before its sending has been answered.
        chunk.iter_mut().for_each(|ended| ended.mark = None);
        let sent = waiting.into_iter().zip(self.queue.send(&messages, now).await);
        undone.extend(sent.filter_map(|(place, sent)| Some((place, sent.err()?.into()))));
        undone
    }

    /// Notes what attempts have shown in the records of endpoints: who takes deliveries again, and who does not answer any
    /// more. It is noted again if that fails, by the next attempt.
    async fn note(&self, chunk: &[Ended], now: Timestamp) {
        let mut news = BTreeMap::new();
        for Ended { delivery, health, shown, .. } in chunk {
            let Some((id, health)) = delivery.entry.webhook_endpoint_id.zip(*health) else { continue };
            let is_new = match shown {
                Some(Shown::Success) => health.is_impaired(),
                Some(Shown::NoAnswer { hangs }) => health.unanswered_since.is_none() || health.hangs != *hangs,
                Some(Shown::Error) => health.hangs,
                Some(Shown::Nothing) | None => false,
            };
            // Of several, a success is what counts.
            if is_new && news.get(&id) != Some(&(&delivery.tenant, Shown::Success)) {
                news.extend(shown.map(|shown| (id, (&delivery.tenant, shown))));
            }
        }
        let noted = news.into_iter().map(async |(id, (tenant, shown))| {
            let noted = match shown {
                Shown::Success => self.endpoints.answered(tenant, id, now).await,
                Shown::NoAnswer { hangs } => self.endpoints.unanswered(tenant, id, now, hangs).await,
                Shown::Error => self.endpoints.hangs_no_more(tenant, id).await,
                Shown::Nothing => Ok(()),
            };
            if let Err(error) = noted {
                observe::not_noted(tenant, id, &error);
            }
        });
        join_all(noted).await;
    }

    /// The state after an attempt.
    fn after(&self, before: &Entry, result: &Result, now: Timestamp) -> Entry {
        match result {
            Result::Made(attempt, outcome) => {
                let left = Timestamp::from_millisecond(before.give_up_at.get()).since(now);
                let schedule = if before.event == EventName::Test { &[] } else { self.schedule.as_slice() };
                let step = next_step(*outcome, before.tries.saturating_add(1), schedule, left, random::fraction);
                before.after(attempt.clone(), step, now)
            }
            Result::Postponed(due) => before.postponed(*due),
            Result::Gone => before.ended(),
            Result::Expired => before.expired(now),
        }
    }

    /// The rows to write before the state changes to `after`.
    fn rows(&self, ended: &Ended, after: &Entry, now: Timestamp) -> impl Iterator<Item = Row> + use<> {
        let Delivery { tenant, entry: before, payload } = &ended.delivery;
        let is_due = after.status == Status::Pending && !ended.is_message_enough();
        let due = is_due.then(|| self.log.due(tenant, after, now));
        let other = match (&ended.result, ended.is_stored) {
            _ if ended.is_done_at_once() => Some(self.log.delivered(tenant, after, payload, now)),
            (_, false) => Some(self.log.payload(tenant, &after.id, payload, now)),
            (Result::Made(..), true) => self.log.attempt(tenant, before, now),
            (Result::Postponed(_) | Result::Gone | Result::Expired, true) => None,
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
            (_, Some(Ok(true))) => after.clone(),
            (_, None) if ended.is_message_enough() => after.clone(),
            // Another process has the same event, or the answer to this very write was lost.
            (_, Some(Ok(false))) => match self.current(tenant, after).await? {
                Some(current) if current.last_attempt == after.last_attempt => current,
                current => return Ok(current.and_then(|entry| message(tenant, &entry, now))),
            },
            (_, Some(Err(_))) => return Err(Error::Busy),
            (_, None) => match self.advance(ended, after.clone(), now).await? {
                Some(after) => after,
                None => return Ok(None),
            },
        };
        match after.status {
            Status::Pending => return Ok(message(tenant, &after, now)),
            Status::Delivered => self.log.forget_large(tenant, &after.id, &payload.body).await?,
            Status::Failed => {
                observe::given_up(tenant, &after);
                self.decline(tenant, &after, ended.health, now).await?;
            }
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

    /// Notes what follows for the endpoint of a delivery that was given up. It can be noted again.
    pub(crate) async fn decline(
        &self,
        tenant: &TenantId,
        entry: &Entry,
        health: Option<Health>,
        now: Timestamp,
    ) -> std::result::Result<(), Error> {
        let Some(((endpoint, attempt), health)) = entry
            .webhook_endpoint_id
            .zip(entry.last_attempt.as_ref())
            .zip(health)
            .filter(|_| entry.event.is_of_a_job())
        else {
            return Ok(());
        };
        let declined = self.endpoints.given_up(tenant, endpoint, (attempt, health), self.disable_after, now).await?;
        declined.into_iter().for_each(|step| observe::declined(tenant, endpoint, step));
        Ok(())
    }

    /// The state of a delivery now.
    async fn current(&self, tenant: &TenantId, entry: &Entry) -> std::result::Result<Option<Entry>, Error> {
        Ok(self.log.known(tenant, &[entry.id]).await?.remove(&entry.id))
    }
}

/// A message to send, if one is needed; or what went wrong.
type Stored = std::result::Result<Option<(DueAttempt, Timestamp)>, Error>;
