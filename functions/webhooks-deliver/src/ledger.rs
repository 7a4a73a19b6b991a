//! Stores the results of attempts, in an order that loses nothing.
//!
//! Attempts that end or are parked at about the same time are stored together. [`Plan`] decides the writes for each:
//!
//! 1. In batched writes: the row of each delivery that succeeded at once. For the other deliveries: the due row, the
//!    payload of a new one, and attempts that no longer fit into the state. The payload of an event to several endpoints
//!    is written once for all of them.
//! 2. The states of those other deliveries, each on condition that no concurrent attempt was stored first. These are
//!    also batched, except for deliveries that have changed since they were read.
//! 3. The gates and the health of the receivers.
//! 4. A message for each attempt that is due within SQS's longest delay. For parked attempts, their rows, and then a
//!    message for each drain that has none.
//! 5. The rows of parked attempts that have been made are deleted.
//!
//! Only then is the record acknowledged. If a process dies before step 2, it leaves rows without a state, and the
//! attempt is repeated: the only duplicate that a crash can cause. If it dies before step 4, it leaves a pending state.
//! The redelivered record then sends the message, even if the endpoint has changed; a due row, if there is one, also
//! wakes the delivery. If an immediate success's row cannot be written, the loss is counted and the event is not sent
//! again.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::ControlFlow::{Break, Continue},
    time::Duration,
};

use common::{
    audit::Recorder,
    aws::{clients::Aws, retry_conflicts},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    random, streams,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Delivery, DueAttempt, Parked, SHARDS, Status, retry_schedule},
        drains::Drains,
        endpoints::{Endpoints, Health, HoldFor, disable_after},
        erasure::Erasure,
        log::{DeliveryLog, Row, Shared},
        queue::Queues,
        recoveries::Recoveries,
    },
};
use futures::{StreamExt, future::join_all, stream};
use tokio::sync::{Semaphore, mpsc::UnboundedReceiver};

use crate::{
    due_deliveries::{DueDelivery, EndedAttempt},
    plan::Plan,
    reads::Reads,
    receiver_health,
    record::RecordError,
    telemetry,
    turns::{drain_of, due_at},
};

/// The number of attempts that are stored together: the limit of a batched write.
const CHUNK_SIZE: usize = 25;
/// The maximum number of chunks that are stored concurrently.
const MAX_CHUNKS: usize = 16;
/// The maximum number of chunks of parked attempts that a process stores concurrently, and of chunks with large bodies
/// for an organization. More of them would delay the attempts that are made at once if a table is busy.
const MAX_DEFERRED_CHUNKS: usize = 2;
/// The maximum time that an ended attempt waits for others to be stored with it. At the end of a batch, none of them
/// waits.
const CHUNK_WAIT: Duration = Duration::from_millis(50);

/// The tables and queues that deliveries read and write.
pub(crate) struct Ledger {
    pub(crate) endpoints: Endpoints,
    pub(crate) reads: Reads,
    pub(crate) log: DeliveryLog,
    pub(crate) queues: Queues,
    pub(crate) drains: Drains,
    pub(crate) recoveries: Recoveries,
    recorder: Recorder,
    /// Events for an inactive endpoint are held for this long.
    pub(crate) hold_for: HoldFor,
    /// The delays between attempts.
    schedule: Vec<Duration>,
    /// A failing endpoint is disabled after this long; zero means never.
    disable_after: Duration,
    parking: Semaphore,
}

/// The results that a batch's attempts have passed on.
pub(crate) struct EndedAttempts {
    pub(crate) ended: UnboundedReceiver<EndedAttempt>,
    /// Attempts that were parked. They never delay the results of others.
    pub(crate) parked: UnboundedReceiver<EndedAttempt>,
    /// Results whose bodies are large and must be stored. They delay neither the others nor other organizations.
    pub(crate) heavy: UnboundedReceiver<EndedAttempt>,
}

/// The total size of the different bodies in a chunk.
fn bytes(chunk: &[EndedAttempt]) -> usize {
    let bodies: HashMap<_, _> =
        chunk.iter().map(|ended| &ended.due.payload.body).map(|body| (body.as_ptr(), body.len())).collect();
    bodies.into_values().sum()
}

/// The needs of a delivery's next attempt.
enum NextStep {
    /// A message, to arrive at this time.
    Message(DueAttempt, Timestamp),
    /// A row, and a drain of its receiver.
    Drain(Parked),
    Nothing,
}

/// A drain that parked attempts need.
#[derive(Default)]
struct Needed {
    /// The numbers of their entries.
    by: Vec<usize>,
    /// When the first of them can be made.
    at: Option<Timestamp>,
    /// Whether the record of one has been received before.
    is_repeated: bool,
}

impl Needed {
    fn add(&mut self, entry: usize, at: Timestamp, is_repeated: bool) {
        self.by.push(entry);
        self.at = Some(self.at.map_or(at, |first| first.min(at)));
        self.is_repeated |= is_repeated;
    }
}

/// An ended attempt that is being stored.
struct LedgerEntry {
    ended: EndedAttempt,
    /// The delivery after the attempt.
    after: Delivery,
    plan: Plan,
    /// The result of this entry's writes so far. [`Error::Busy`] means that the partition of its row was throttled.
    written: Result<()>,
    /// Whether a batched write has stored the delivery's next state.
    is_advanced: bool,
}

impl LedgerEntry {
    /// The payload that this delivery will share, if it does.
    fn shared(&self) -> Option<&Shared> {
        let is_apart = matches!(self.plan, Plan::Begin { payload_in_state: false, .. });
        self.ended.due.shared.as_deref().filter(|_| is_apart)
    }

    /// Tells the attempt whether its result was stored. Returns the number of its record if that stays in its queue.
    fn into_undone(self) -> Option<(usize, RecordError)> {
        let EndedAttempt { due, result, stored, .. } = self.ended;
        // The attempt may have stopped waiting.
        stored.map(|stored| stored.send(self.written.is_ok()).ok());
        match self.written {
            // The result of the attempt decides about its record.
            Err(error) if !matches!(result, AttemptResult::InProgress) => Some((due.index, error.into())),
            _ => None,
        }
    }
}

impl Ledger {
    pub(crate) fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        let (endpoints, log) = (Endpoints::from_env(env, aws)?, DeliveryLog::from_env(env, aws)?.gathering());
        let queues = Queues::from_env(env, aws)?;
        Ok(Self {
            reads: Reads::new(endpoints.clone()),
            drains: Drains { endpoints: endpoints.clone(), log: log.clone(), queues: queues.clone() },
            recoveries: Recoveries { endpoints: endpoints.clone(), log: log.clone(), queues: queues.clone() },
            endpoints,
            log,
            queues,
            recorder: Recorder::system(env)?,
            hold_for: HoldFor::from_env(env)?,
            schedule: retry_schedule(env)?,
            disable_after: disable_after(env)?,
            parking: Semaphore::new(MAX_DEFERRED_CHUNKS),
        })
    }

    /// Stores ended and parked attempts until their batch ends. Returns the numbers of the records that stay in their
    /// queue. `is_repeated` tells whether a record has been received before.
    pub(crate) async fn store_all(
        &self,
        EndedAttempts { ended, parked, heavy }: EndedAttempts,
        is_repeated: impl Fn(usize) -> bool,
    ) -> Vec<(usize, RecordError)> {
        let store = |chunk: Vec<EndedAttempt>| self.store(chunk, &is_repeated);
        let chunks = |inbox| streams::chunks(inbox, CHUNK_SIZE, CHUNK_WAIT);
        let ended = chunks(ended).map(store).buffer_unordered(MAX_CHUNKS);
        let parked = chunks(parked).map(async |chunk| {
            // The semaphore is never closed.
            let _parking = self.parking.acquire().await;
            store(chunk).await
        });
        let store_heavy = async |chunk: Vec<EndedAttempt>| {
            // A write needs several times the memory of its body.
            let _room = self.log.room(4 * bytes(&chunk)).await;
            store(chunk).await
        };
        let heavy = streams::divided(heavy, |ended: &EndedAttempt| ended.due.tenant.clone())
            .flat_map_unordered(None, |inbox| {
                Box::pin(chunks(inbox).map(&store_heavy).buffer_unordered(MAX_DEFERRED_CHUNKS))
            });
        let stored = stream::select(stream::select(ended, parked.buffer_unordered(MAX_DEFERRED_CHUNKS)), heavy);
        stored.collect::<Vec<_>>().await.into_iter().flatten().collect()
    }

    /// Stores ended attempts, in the order described above.
    async fn store(&self, ended: Vec<EndedAttempt>, is_repeated: impl Fn(usize) -> bool) -> Vec<(usize, RecordError)> {
        let now = Timestamp::now();
        let mut entries = self.open(ended, now);
        self.put_late_rows(&mut entries, now).await;
        let rows = entries.iter().enumerate();
        let rows = rows.flat_map(|(number, entry)| self.rows(entry, now).map(move |row| (number, row))).collect();
        let requests = new(&entries).filter_map(|(number, entry)| {
            Some((number, self.log.index_request(&entry.ended.due.tenant, &entry.after, now)?))
        });
        // Without a request, later deliveries request the index.
        let (unwritten, unshared, _) =
            tokio::join!(self.log.put(rows), self.put_shared(&entries, now), self.log.put(requests.collect()));
        fail(&mut entries, unwritten.into_iter().chain(unshared));
        self.begin(&mut entries, now).await;
        self.spread(&mut entries, now).await;
        self.advance_all(&mut entries).await;
        let next = join_all(entries.iter().map(|entry| self.finish(entry, now))).await;
        receiver_health::note(&self.endpoints, entries.iter().map(|entry| &entry.ended), now).await;
        self.prepare(&mut entries, next, is_repeated, now).await;
        let is_made = |entry: &&LedgerEntry| entry.written.is_ok();
        let made = entries.iter().filter(is_made).filter_map(|entry| entry.ended.due.parked.as_ref());
        if let Err(error) = self.log.unpark(made, now).await {
            // The next round of the drain deletes them.
            common::log!("log.parked_left", ?error);
        }
        entries.into_iter().filter_map(LedgerEntry::into_undone).collect()
    }

    /// Sends the messages of the next attempts, and parks those that wait for their receivers.
    async fn prepare(
        &self,
        entries: &mut [LedgerEntry],
        next: Vec<Result<NextStep>>,
        is_repeated: impl Fn(usize) -> bool,
        now: Timestamp,
    ) {
        let (mut messages, mut rows, mut drains) = (Vec::new(), Vec::new(), BTreeMap::<_, Needed>::new());
        for (number, (entry, next)) in entries.iter_mut().zip(next).enumerate() {
            // The mark is dropped before a message for the same attempt is sent, so it does not look like a copy.
            drop(entry.ended.due.mark.take());
            let due = &entry.ended.due;
            match next {
                Ok(NextStep::Nothing) => entry.written = Ok(()),
                Ok(NextStep::Message(attempt, at)) => messages.push((number, (attempt, at))),
                Ok(NextStep::Drain(parked)) => {
                    rows.push((number, self.log.parked_row(&parked, now)));
                    let at = due_at(parked.receiver, due.gate, now);
                    let drain = (parked.tenant, drain_of(parked.receiver, due.gate));
                    drains.entry(drain).or_default().add(number, at, is_repeated(due.index));
                }
                Err(error) => entry.written = Err(error),
            }
        }
        // A drain deletes a row without its state, so the row is written after the state.
        fail(entries, self.log.put(rows).await);
        let (numbers, messages): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        let sent = self.queues.send(&messages, now).await;
        let unsent = numbers.into_iter().zip(sent).filter_map(|(number, sent)| sent.err().map(|_| number));
        let undrained = drains.into_iter().map(async |((tenant, drain), Needed { by, at, is_repeated })| {
            let ensured = self.drains.ensure(&tenant, drain, at.unwrap_or(now), is_repeated).await;
            if ensured.is_ok() { Vec::new() } else { by }
        });
        let undrained = join_all(undrained).await.into_iter().flatten();
        for number in unsent.chain(undrained) {
            if let Some(entry) = entries.get_mut(number) {
                entry.written = Err(Error::Busy);
            }
        }
    }

    /// Decides the plan of each attempt. SQS and producers may send an event twice; all but the first copy are skipped
    /// here. The record of the first copy represents the others, and is redelivered if a write fails.
    fn open(&self, ended: Vec<EndedAttempt>, now: Timestamp) -> Vec<LedgerEntry> {
        let mut begun = HashSet::new();
        let entries = ended.into_iter().filter_map(|ended| {
            let after = self.after(&ended.due.delivery, &ended, now);
            let plan = Plan::of(&ended, &after, self.log.kept_payload_bytes());
            let is_copy = matches!(plan, Plan::Begin { .. }) && !begun.insert((ended.due.tenant.clone(), after.id));
            (!is_copy).then_some(LedgerEntry { ended, after, plan, written: Ok(()), is_advanced: false })
        });
        let entries: Vec<_> = entries.collect();
        telemetry::parked(entries.iter().map(|entry| &entry.ended));
        entries
    }

    fn erasure<'a>(&'a self, tenant: &'a TenantId, now: Timestamp) -> Erasure<'a> {
        Erasure { endpoints: &self.endpoints, log: &self.log, tenant, now }
    }

    fn after(&self, before: &Delivery, ended: &EndedAttempt, now: Timestamp) -> Delivery {
        let after = before.after(&ended.result, &self.schedule, random::fraction, now);
        let after = ended.due.endpoint.iter().fold(after, |after, endpoint| endpoint.kept(after, now));
        self.log.sized(after, &ended.due.payload.body)
    }

    /// Writes the rows of late deliveries, before their states. A success is logged even without them.
    async fn put_late_rows(&self, entries: &mut [LedgerEntry], now: Timestamp) {
        let rows = new(entries).flat_map(|(number, entry)| {
            self.log
                .backdated_rows(&entry.ended.due.tenant, &entry.after, now)
                .into_iter()
                .map(move |row| (number, row))
        });
        let mut unwritten = self.log.put(rows.collect()).await;
        unwritten.retain(|(number, _)| entries.get(*number).is_some_and(|entry| entry.plan != Plan::LogSuccess));
        fail(entries, unwritten);
    }

    /// Stores the payloads that deliveries of the same event share, each once in a process. Returns the failed entries.
    async fn put_shared(&self, entries: &[LedgerEntry], now: Timestamp) -> Vec<(usize, Error)> {
        let puts = entries.iter().enumerate().map(async |(number, entry)| {
            let DueDelivery { tenant, payload, .. } = &entry.ended.due;
            let is_stored = match entry.shared() {
                Some(shared) => self.log.share(shared, tenant, &entry.after, payload, now).await,
                None => true,
            };
            // Not `Busy`, which means that the partition of the delivery's own row was throttled.
            (!is_stored).then(|| (number, Error::Internal("the shared payload was not stored".to_owned())))
        });
        join_all(puts).await.into_iter().flatten().collect()
    }

    /// Returns the rows to write before an entry's state.
    fn rows(&self, entry: &LedgerEntry, now: Timestamp) -> impl Iterator<Item = Row> + use<> {
        let (LedgerEntry { ended, after, plan, .. }, log) = (entry, &self.log);
        let EndedAttempt { due: DueDelivery { tenant, delivery: before, payload, .. }, result, .. } = ended;
        let due_row = matches!(plan, Plan::Begin { due_row: true, .. } | Plan::Advance { due_row: true });
        let rows = match plan {
            Plan::LogSuccess => log.delivered_rows(tenant, after, payload, now),
            Plan::Begin { payload_in_state: false, .. } if !after.is_shared => {
                log.payload_rows(tenant, &after.id, payload, now)
            }
            Plan::Advance { .. } if matches!(result, AttemptResult::Made(..)) => {
                log.attempts_row(tenant, before, after, now).into_iter().collect()
            }
            Plan::Begin { .. } | Plan::Advance { .. } | Plan::Nothing => Vec::new(),
        };
        rows.into_iter().chain(due_row.then(|| log.due_row(tenant, after, now)))
    }

    /// Writes the first states of new deliveries that did not succeed immediately.
    async fn begin(&self, entries: &mut [LedgerEntry], now: Timestamp) {
        let new = entries.iter_mut().filter(|entry| matches!(entry.plan, Plan::Begin { .. }) && entry.written.is_ok());
        let mut new: Vec<_> = new.collect();
        let states = new.iter().map(|LedgerEntry { ended: EndedAttempt { due, .. }, after, plan, .. }| {
            let is_in_state = matches!(plan, Plan::Begin { payload_in_state: true, .. });
            self.log.first_row(&due.tenant, after, is_in_state.then_some(&due.payload), now)
        });
        let begun = self.log.begin(states.collect()).await;
        new.iter_mut().zip(begun).for_each(|(entry, begun)| entry.written = begun);
    }

    /// Spreads the log of each endpoint with a throttled partition over more partitions, and writes its immediate
    /// successes there. The records of its other throttled deliveries are redelivered.
    async fn spread(&self, entries: &mut [LedgerEntry], now: Timestamp) {
        let throttled = entries.iter().filter(|entry| matches!(entry.written, Err(Error::Busy)));
        let endpoints: BTreeMap<_, _> =
            throttled.filter_map(|it| Some((it.after.webhook_endpoint_id?, it.ended.due.tenant.clone()))).collect();
        for (endpoint, tenant) in endpoints {
            if let Err(error) = self.endpoints.spread_log(&tenant, endpoint).await {
                // The successes are not moved: reads visit only the shards that the endpoint's item names.
                common::log!("log.spread_failed", %tenant, %endpoint, ?error);
                continue;
            }
            let mut moved = Vec::new();
            for (number, entry) in entries.iter_mut().enumerate() {
                let is_here = entry.plan == Plan::LogSuccess && entry.after.webhook_endpoint_id == Some(endpoint);
                if is_here && matches!(entry.written, Err(Error::Busy)) {
                    entry.after.id.shard = entry.after.webhook_id.shard(SHARDS);
                    let state = self.log.delivered_row(&tenant, &entry.after, &entry.ended.due.payload, now);
                    let rows = self.log.backdated_rows(&tenant, &entry.after, now).into_iter().chain([state]);
                    moved.extend(rows.map(|row| (number, row)));
                    entry.written = Ok(());
                }
            }
            fail(entries, self.log.put(moved).await);
        }
    }

    /// Stores the next states of logged deliveries together. [`Self::finish`] stores each one that has changed since it
    /// was read, or that the batch could not store.
    async fn advance_all(&self, entries: &mut [LedgerEntry]) {
        let logged = entries.iter_mut().filter(|it| matches!(it.plan, Plan::Advance { .. }) && it.written.is_ok());
        let mut logged: Vec<_> = logged.collect();
        if logged.len() < 2 {
            return;
        }
        let changes = logged.iter().map(|entry| (&entry.ended.due.tenant, &entry.ended.due.delivery, &entry.after));
        let advanced = self.log.advance_all(changes.collect()).await;
        logged.iter_mut().zip(advanced).for_each(|(entry, advanced)| entry.is_advanced = advanced);
    }

    /// Stores a logged delivery's next state, and its consequences. Returns what the next attempt needs.
    async fn finish(&self, entry: &LedgerEntry, now: Timestamp) -> Result<NextStep> {
        let LedgerEntry { ended, after, plan, written, is_advanced } = entry;
        let DueDelivery { tenant, delivery, payload, .. } = &ended.due;
        let after = match plan {
            Plan::LogSuccess => {
                if written.is_err() {
                    common::log!("delivery.unlogged", %tenant, delivery_id = %delivery.id);
                    metrics::count("LogWriteFailed");
                    return Ok(NextStep::Nothing);
                }
                // An earlier process, or this one after a second, may have written the payload.
                return self.erasure(tenant, now).erase_unkept(after).await.map(|()| NextStep::Nothing);
            }
            _ if written.is_err() => return Err(Error::Busy),
            Plan::Nothing => return Ok(NextStep::Nothing),
            Plan::Begin { .. } => after.clone(),
            Plan::Advance { .. } if *is_advanced => after.clone(),
            Plan::Advance { .. } => match self.advance(ended, after.clone(), now).await? {
                Some(after) => after,
                None => return Ok(NextStep::Nothing),
            },
        };
        self.erasure(tenant, now).erase_unkept(&after).await?;
        let attempts = after.attempts;
        match after.status {
            Status::Pending if after.is_parked => {
                return Ok(Parked::of(tenant, &after, &payload.destination).map_or(NextStep::Nothing, NextStep::Drain));
            }
            Status::Pending if matches!(ended.result, AttemptResult::InProgress) => {}
            Status::Pending => {
                let soon = DueAttempt::delayable(tenant, &after, now);
                return Ok(soon.map_or(NextStep::Nothing, |(attempt, at)| NextStep::Message(attempt, at)));
            }
            Status::Delivered => self.log.forget_large(tenant, &after, &payload.body).await?,
            Status::Failed => self.apply_outcome(tenant, &after, ended.due.health(), true, now).await?,
            Status::Held => common::log!("delivery.held", %tenant, delivery_id = %after.id, attempts),
            Status::Ended => common::log!("delivery.ended", %tenant, delivery_id = %after.id, attempts),
        }
        Ok(NextStep::Nothing)
    }

    /// Records the consequences of an ended delivery for its endpoint, as [`Endpoints::apply_outcome`] does, and erases
    /// what an earlier process may have left of it.
    pub(crate) async fn apply_outcome(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        health: Option<Health>,
        is_new: bool,
        now: Timestamp,
    ) -> Result<()> {
        self.erasure(tenant, now).erase_unkept(delivery).await?;
        if !matches!(delivery.status, Status::Failed | Status::Pending) {
            return Ok(());
        }
        self.endpoints.apply_outcome(&self.recorder, tenant, delivery, health, self.disable_after, is_new, now).await
    }

    /// Changes the state to `after` and returns the new state, or `None` if a concurrent attempt was stored first, so
    /// this one does not count.
    async fn advance(&self, ended: &EndedAttempt, after: Delivery, now: Timestamp) -> Result<Option<Delivery>> {
        let (DueDelivery { tenant, delivery, .. }, log) = (&ended.due, &self.log);
        retry_conflicts((delivery.clone(), after), |(before, after)| async move {
            if log.advance(tenant, &before, &after).await? {
                return Ok(Break(Some(after)));
            }
            let Some(current) = log.known(tenant, &[after.id]).await?.remove(&after.id) else { return Ok(Break(None)) };
            if current.attempts == after.attempts && current.last_attempt == after.last_attempt {
                // An earlier round of this loop wrote the state, but its response was lost.
                return Ok(Break(Some(current)));
            }
            if current.status != Status::Pending || current.attempts != before.attempts {
                return Ok(Break(None));
            }
            // A person has resent the delivery since: the attempt counts as the first of the new schedule.
            let after = self.after(&current, ended, now);
            let is_timed = after.status == Status::Pending && !after.is_parked;
            log.put_all(is_timed.then(|| log.due_row(tenant, &after, now))).await?;
            Ok(Continue((current, after)))
        })
        .await
    }
}

/// The entries whose deliveries enter the log, with their numbers.
fn new(entries: &[LedgerEntry]) -> impl Iterator<Item = (usize, &LedgerEntry)> {
    entries.iter().enumerate().filter(|(_, entry)| matches!(entry.plan, Plan::LogSuccess | Plan::Begin { .. }))
}

/// Marks entries that were not stored.
fn fail(entries: &mut [LedgerEntry], failed: impl IntoIterator<Item = (usize, Error)>) {
    for (number, error) in failed {
        if let Some(entry) = entries.get_mut(number) {
            entry.written = Err(error);
        }
    }
}
