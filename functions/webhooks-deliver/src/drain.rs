//! Drains: invocations that make an organization's parked attempts.
//!
//! A round serves the receivers of its drain side by side. Each has its own width, the number of attempts in progress:
//! every success widens it by one, and every failure halves it, down to the first width. The round begins attempts for a
//! few seconds, or as long as others are in progress, and each of them runs to its end. Then the drain is continued by a
//! message at the tail of its queue, until nothing is parked. A silent receiver gets one attempt in a round, and the next
//! one after a tenth of its silence; the rest of its deliveries cost nothing while they wait.
//!
//! Only one round of a drain runs at a time, and a receiver that becomes silent is not served again before all earlier
//! attempts at it have ended. So nothing else makes a parked attempt.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Delivery, Drain, DueAttempt, Outcome, Parked, Payload, Receiver, Trigger},
        endpoints::{Endpoint, Evidence, Gate},
        log::{Room, Rooms},
        queue::{DrainMessage, EARLY_DELIVERY_TOLERANCE},
    },
};
use futures::{
    StreamExt,
    future::join_all,
    stream::{FuturesOrdered, FuturesUnordered},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{
    attempt::{AttemptReport, Sender},
    batch::Batch,
    due_deliveries::DueDelivery,
    ledger::Ledger,
    permits::Permit,
    record::{Record, RecordError},
    turns::{drain_of, due_at},
};

/// A round begins attempts for this long, even if none is in progress. Drains of other organizations may be waiting for
/// the invocation. A drain that could not read or write begins its next round after as long.
const ROUND_TIME: Duration = Duration::from_secs(5);
/// The time until a round looks again for receivers. Ten receivers add as much, because a look reads each of them.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum number of attempts in progress at a receiver.
const MAX_WIDTH: usize = 100;
/// The number of attempts in progress at a receiver that answers, at first and at least.
const FIRST_WIDTH: usize = 10;
/// The number of a receiver's deliveries that are read ahead, with their payloads.
const READ_AHEAD: usize = 4;
/// The number of parked attempts in a read, and of receivers in a round.
const PAGE_SIZE: usize = 100;

/// A receiver that parked attempts wait for.
struct DrainedReceiver {
    receiver: Receiver,
    gate: Gate,
    endpoint: Option<Arc<Endpoint>>,
}

/// A round of a drain.
struct Round<'a> {
    tenant: &'a TenantId,
    record: &'a Record,
    sender: &'a Sender,
    ledger: &'a Ledger,
    batch: &'a Batch,
    /// Attempts begin until this time, and later only while others are in progress.
    until: Instant,
    in_progress: AtomicUsize,
    /// The room for the organization's bodies.
    rooms: Rooms,
}

/// Makes parked attempts for some seconds, and schedules the next round.
pub(crate) async fn round(
    record: &Record,
    message: DrainMessage,
    sender: &Sender,
    ledger: &Ledger,
    batch: &Batch,
) -> Result<(), RecordError> {
    let DrainMessage { tenant, drain, after, .. } = &message;
    let drains = &ledger.drains;
    let Some(lock) = drains.endpoints.begin_drain(tenant, *drain, Timestamp::now()).await? else {
        if record.is_repeated {
            // An earlier process may have ended the drain, or scheduled its next round, and died before the next step.
            ensure(tenant, work(tenant, *drain, ledger, batch).await?.0, true, ledger).await?;
        }
        return Ok(drains.send_on(&message).await?);
    };
    let until = batch.last_start.min(Instant::now() + ROUND_TIME);
    let round = Round {
        tenant,
        record,
        sender,
        ledger,
        batch,
        until,
        in_progress: AtomicUsize::new(0),
        rooms: Rooms::of_one(),
    };
    let (last, served) = round.serve(*drain, *after).await;
    // This read finds everything that was parked before it.
    let found = match served {
        Ok(()) => work(tenant, *drain, ledger, batch).await,
        Err(error) => Err(error),
    };
    match found.inspect_err(|error| common::log!("drain.failed", %tenant, ?error)) {
        Err(_) => drains.continue_drain(&message, last, &lock, Timestamp::now().after(ROUND_TIME)).await?,
        Ok((mut others, unread)) => {
            let own = others.remove(drain);
            let own = last.map_or(own, |_| Some(Timestamp::now()));
            if let Some(at) = own {
                drains.continue_drain(&message, last.or(unread), &lock, at).await?;
            } else if drains.endpoints.end_drain(tenant, *drain, &lock).await? {
                // An attempt that was parked since the read above has found the drain running.
                others.extend(work(tenant, *drain, ledger, batch).await?.0);
            }
            ensure(tenant, others, false, ledger).await?;
        }
    }
    Ok(())
}

/// When the drains of an organization have work.
type Work = BTreeMap<Drain, Timestamp>;

/// The time until a round that has found this many receivers looks again.
fn pause(receivers: usize) -> Duration {
    LOOK_INTERVAL * u32::try_from(1 + receivers / 10).unwrap_or(u32::MAX)
}

/// Finds the work of an organization's drains, as far as the round that follows needs to know. If there is no time to
/// read all receivers, `drain` has work after the last one that was read.
async fn work(tenant: &TenantId, drain: Drain, ledger: &Ledger, batch: &Batch) -> Result<(Work, Option<Receiver>)> {
    let (mut work, mut last, now) = (Work::new(), None, Timestamp::now());
    loop {
        let drained_receivers = drained_receivers(tenant, last, ledger).await?;
        for drained in &drained_receivers {
            let at = drained.due_at(now);
            work.entry(drained.drain()).and_modify(|first| *first = at.min(*first)).or_insert(at);
        }
        let is_known = work.len() == Drain::ALL.len() && work.get(&drain).is_some_and(|at| *at <= now);
        if drained_receivers.len() < PAGE_SIZE || is_known {
            return Ok((work, None));
        }
        last = drained_receivers.last().map(|drained| drained.receiver);
        if Instant::now() >= batch.last_start {
            work.insert(drain, now);
            return Ok((work, last));
        }
    }
}

/// Makes sure that the drains with work begin a round.
async fn ensure(tenant: &TenantId, work: Work, is_repeated: bool, ledger: &Ledger) -> Result<()> {
    for (drain, at) in work {
        ledger.drains.ensure(tenant, drain, at, is_repeated).await?;
    }
    Ok(())
}

/// The receivers that an organization's parked attempts wait for, after `last`.
async fn drained_receivers(tenant: &TenantId, last: Option<Receiver>, ledger: &Ledger) -> Result<Vec<DrainedReceiver>> {
    let receivers = ledger.log.parked_receivers(tenant, last, PAGE_SIZE).await?;
    if receivers.is_empty() {
        return Ok(Vec::new());
    }
    let endpoints = ledger.reads.all(tenant).await?;
    let endpoints: HashMap<_, _> = endpoints.iter().map(|endpoint| (endpoint.id, endpoint)).collect();
    let drained_receivers = receivers.into_iter().map(async |receiver| {
        let (gate, endpoint) = match receiver {
            Receiver::Endpoint(id) => {
                let endpoint = endpoints.get(&id).map(|endpoint| Arc::clone(endpoint));
                (endpoint.as_ref().map(|endpoint| endpoint.health.gate).unwrap_or_default(), endpoint)
            }
            Receiver::Asked(destination) => {
                let endpoint = destination.endpoint().and_then(|id| endpoints.get(&id));
                (Gate::New, endpoint.map(|endpoint| Arc::clone(endpoint)))
            }
            Receiver::Origin(origin) => (ledger.reads.gate(tenant, origin).await?, None),
        };
        Ok(DrainedReceiver { receiver, gate, endpoint })
    });
    join_all(drained_receivers).await.into_iter().collect()
}

impl DrainedReceiver {
    fn drain(&self) -> Drain {
        drain_of(self.receiver, self.gate)
    }

    fn due_at(&self, now: Timestamp) -> Timestamp {
        due_at(self.receiver, self.gate, now)
    }

    /// The number of attempts in progress at first.
    fn first_width(&self) -> usize {
        match self.gate {
            Gate::Quick { .. } | Gate::Late { .. } => FIRST_WIDTH,
            Gate::New | Gate::Silent { .. } => 1,
        }
    }
}

/// The number of attempts in progress at a receiver after one more has ended.
fn next_width(width: usize, made: &AttemptReport) -> usize {
    match (made.outcome, made.evidence) {
        (Outcome::Delivered(_), _) => (width + 1).min(MAX_WIDTH),
        (Outcome::Failed(_), Evidence::Nothing) => (width / 2).max(1),
        (Outcome::Failed(_), _) => (width / 2).max(FIRST_WIDTH),
    }
}

/// A parked attempt that was read.
enum Looked {
    Due(Box<DueDelivery>, Room),
    /// Its delivery ends without an attempt.
    Ended(oneshot::Receiver<bool>),
    /// Its row was left over.
    Gone,
}

impl Round<'_> {
    /// Serves the receivers of this drain, also those that attempts are parked for while others are in progress. Also
    /// returns the last one that was looked at, if there may be more.
    async fn serve(&self, drain: Drain, after: Option<Receiver>) -> (Option<Receiver>, Result<()>) {
        let (mut last, mut result, mut is_first) = (after, Ok(()), true);
        let (mut served, mut serving) = (HashSet::new(), FuturesUnordered::new());
        let mut looking = pin!(self.drained_receivers(after, Duration::ZERO));
        loop {
            let looks = is_first || (result.is_ok() && !serving.is_empty() && self.may_begin());
            tokio::select! {
                biased;
                Some((receiver, ended)) = serving.next() => {
                    served.remove(&receiver);
                    result = result.and(ended);
                }
                found = &mut looking, if looks => {
                    let receivers = found.unwrap_or_else(|error| {
                        result = Err(error);
                        Vec::new()
                    });
                    if is_first || !receivers.is_empty() {
                        last = receivers.last().filter(|_| receivers.len() >= PAGE_SIZE).map(|drained| drained.receiver);
                    }
                    looking.set(self.drained_receivers(after, pause(receivers.len())));
                    let now = Timestamp::now();
                    let soon = now.after(EARLY_DELIVERY_TOLERANCE);
                    let is_due = |drained: &DrainedReceiver| drained.drain() == drain && drained.due_at(now) <= soon;
                    for drained in receivers.into_iter().filter(is_due) {
                        if served.insert(drained.receiver) {
                            serving.push(async move { (drained.receiver, self.serve_one(&drained).await) });
                        }
                    }
                    is_first = false;
                }
                else => return (last, result),
            }
        }
    }

    /// The receivers after `after`, read after a pause.
    async fn drained_receivers(&self, after: Option<Receiver>, pause: Duration) -> Result<Vec<DrainedReceiver>> {
        sleep(pause).await;
        drained_receivers(self.tenant, after, self.ledger).await
    }

    fn may_begin(&self) -> bool {
        let now = Instant::now();
        now < self.until || (self.in_progress.load(Ordering::Relaxed) > 0 && now < self.batch.last_start)
    }

    /// Makes the attempts at a receiver, those of the oldest deliveries first.
    ///
    /// # Errors
    /// Something could not be read or stored, or there was no file descriptor. The attempts in progress have ended.
    async fn serve_one(&self, drained: &DrainedReceiver) -> Result<()> {
        let (mut width, mut last, mut answered_at) = (drained.first_width(), None::<Parked>, None::<Timestamp>);
        let (mut parked, mut ready, mut stored) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let (mut is_over, mut result) = (false, Ok(()));
        let (mut looks, mut attempts) = (FuturesOrdered::new(), FuturesUnordered::new());
        loop {
            while looks.len() + ready.len() < READ_AHEAD && !is_over && self.may_begin() {
                if parked.is_empty() {
                    match self.ledger.log.parked(self.tenant, drained.receiver, last.as_ref(), PAGE_SIZE).await {
                        Ok(page) => {
                            last = page.last().cloned().or(last);
                            parked = page.into();
                        }
                        Err(error) => (is_over, result) = (true, Err(error)),
                    }
                }
                let Some(next) = parked.pop_front() else { break };
                looks.push_back(self.look(next, drained));
            }
            let has_next = !ready.is_empty() && attempts.len() < width && !is_over && self.may_begin();
            tokio::select! {
                biased;
                Some(made) = attempts.next() => match made {
                    Some(made) => {
                        width = next_width(width, &made);
                        match made.evidence {
                            // Another attempt may have had an answer since this one began.
                            Evidence::Nothing => is_over |= answered_at <= Some(made.began),
                            _ => answered_at = Some(Timestamp::now()),
                        }
                        // The other drain serves a receiver that is no longer silent.
                        is_over |= drained.drain() == Drain::Silent;
                        // The endpoint is disabled, so its other deliveries are held.
                        is_over |= made.outcome.is_gone() && drained.endpoint.is_some();
                        stored.push(made.stored);
                    }
                    None => (is_over, result) = (true, Err(Error::Busy)),
                },
                Some(looked) = looks.next() => match looked {
                    Ok(Looked::Due(due, room)) => ready.push_back((due, room)),
                    Ok(Looked::Ended(ending)) => stored.push(ending),
                    Ok(Looked::Gone) => {}
                    Err(error) => result = Err(error),
                },
                // Other receivers of the organization may have all permits, and the endpoint may have a ceiling.
                permit = self.sender.drained.take(self.tenant, drained.endpoint.as_deref(), self.batch.last_start), if has_next => {
                    if let Some(permit) = permit && let Some((due, room)) = ready.pop_front() {
                        attempts.push(self.make(due, (permit, room)));
                    }
                }
                else => break,
            }
        }
        let stored = join_all(stored).await;
        if stored.into_iter().any(|stored| stored != Ok(true)) {
            // The same attempt would be made again at once.
            return result.and(Err(Error::Busy));
        }
        result
    }

    /// Reads a parked delivery, and ends it if it needs no attempt.
    async fn look(&self, parked: Parked, drained: &DrainedReceiver) -> Result<Looked> {
        let Self { tenant, ledger, batch, .. } = self;
        let (found, now) = (ledger.log.find_parked(&parked, &self.rooms).await?, Timestamp::now());
        let (delivery, payload, room) = match found {
            Some((delivery, Some(payload), room)) if parked.is_of(&delivery) => (delivery, payload, room),
            left_over => {
                if let Some((delivery, ..)) = left_over {
                    self.apply_outcome(&delivery, drained, now).await?;
                }
                ledger.log.unpark([&parked].into_iter(), now).await?;
                return Ok(Looked::Gone);
            }
        };
        let is_expired = now >= delivery.fails_at;
        let gate = self.gate(drained, &payload).await?;
        let due = DueDelivery {
            index: self.record.index,
            tenant: (*tenant).clone(),
            delivery,
            payload,
            endpoint: drained.endpoint.clone(),
            gate,
            is_stored: true,
            shared: None,
            parked: Some(parked),
            mark: None,
        };
        let Some(missed) = due.missed().or(is_expired.then_some(AttemptResult::Expired)) else {
            return Ok(Looked::Due(Box::new(due), room));
        };
        let (sender, stored) = oneshot::channel();
        batch.finish(due.ended(missed).stored_to(sender));
        Ok(Looked::Ended(stored))
    }

    /// Repeats the consequences of an attempt: the process that made it may have died before it updated the endpoint, or
    /// before it sent the message for the next attempt.
    async fn apply_outcome(&self, delivery: &Delivery, drained: &DrainedReceiver, now: Timestamp) -> Result<()> {
        let Self { tenant, ledger, .. } = self;
        let endpoint = drained.endpoint.as_ref().filter(|endpoint| endpoint.is_active());
        ledger.apply_outcome(tenant, delivery, endpoint.map(|endpoint| endpoint.health), false, now).await?;
        // Otherwise, the delivery may have been resent.
        let was_attempted = self.record.is_repeated || delivery.trigger == Trigger::Schedule;
        let next = DueAttempt::delayable(tenant, delivery, now).filter(|_| was_attempted);
        ledger.queues.send(next.as_slice(), now).await.into_iter().collect()
    }

    /// Makes an attempt. Returns `None` if the process has no file descriptor for it: it stays parked.
    async fn make(&self, due: Box<DueDelivery>, _held: (Permit, Room)) -> Option<AttemptReport> {
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        let made = Box::pin(self.sender.attempt(*due, self.batch)).await;
        self.in_progress.fetch_sub(1, Ordering::Relaxed);
        made.ok()
    }

    /// The gate of a parked attempt's receiver. Requested attempts have none.
    async fn gate(&self, drained: &DrainedReceiver, payload: &Payload) -> Result<Gate> {
        match (drained.receiver, payload.destination.origin()) {
            (Receiver::Asked(_), Some(origin)) => self.ledger.reads.gate(self.tenant, origin).await,
            _ => Ok(drained.endpoint.as_ref().map_or(drained.gate, |endpoint| endpoint.health.gate)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(outcome: Outcome, evidence: Evidence) -> AttemptReport {
        AttemptReport { evidence, outcome, began: Timestamp::now(), stored: oneshot::channel().1 }
    }

    #[test]
    fn a_success_widens_and_a_failure_halves() {
        let (ok, failed) = (Outcome::Delivered(200), Outcome::Failed(common::webhooks::delivery::Failure::Protocol));
        assert_eq!(next_width(10, &made(ok, Evidence::Late)), 11);
        assert_eq!(next_width(MAX_WIDTH, &made(ok, Evidence::Quick)), MAX_WIDTH);
        assert_eq!(next_width(40, &made(failed, Evidence::Quick)), 20);
        assert_eq!(next_width(12, &made(failed, Evidence::Late)), FIRST_WIDTH, "it answers");
        assert_eq!([40, 1].map(|width| next_width(width, &made(failed, Evidence::Nothing))), [20, 1]);
    }
}
