//! Makes attempts once they get a slot.
//!
//! An attempt waits up to two seconds for a slot, and at most 20 of a tenant's attempts wait in a process. An attempt
//! without a slot is postponed. The delay is one to two times the longer of its wait so far and its receiver's silence
//! (the time since the receiver last answered), up to two hours and never beyond the delivery's deadline. Long waits
//! therefore cost few tries and end at different times. While records queue, a crowd's attempts at good receivers
//! instead wait three to six seconds.
//!
//! A hanging receiver that is silent gets **probes**: up to four attempts, from one process at a time, and then a
//! pause. The pause is the maximum duration of an attempt or a tenth of the silence, whichever is longer, up to five
//! minutes. After a success, the rate grows again.

use std::{sync::atomic::Ordering, time::Duration};

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Destination, Queue, Trigger},
        endpoints::{Endpoint, Endpoints},
        post::{Client, NoDescriptor, Post, Posted},
    },
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    batch::Batch,
    observe,
    outgoing::{Due, Ended},
    receivers::{Receiver, Receivers},
    record::BACKLOG,
    slots::{At, Lane, NoSlot, Slot, Slots},
    standing::{Shown, Standing},
    turn::{LATER, SHORTLY, Turn, longest, postponed, rest, without_turn},
};

/// An attempt waits this long for a file descriptor to become free.
const PAUSE: Duration = Duration::from_secs(1);
/// An attempt keeps its slot for this long. By then, nearly every attempt has finished its CPU work.
const BRIEFLY: Duration = Duration::from_millis(20);
/// The maximum time that an attempt outside the shared queues waits for a slot. Its invocation waits with it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes a process's attempts.
pub(crate) struct Sender {
    pub(crate) client: Client,
    pub(crate) slots: Slots,
    pub(crate) receivers: Receivers,
    /// The table that decides which process may probe a hanging endpoint.
    pub(crate) endpoints: Endpoints,
}

impl Sender {
    fn receiver(&self, due: &Due) -> Receiver<'_> {
        match &due.payload.destination {
            Destination::Endpoint(id) => self.receivers.of(&due.tenant, id, due.health()),
            Destination::Callback { url, .. } => self.receivers.of(&due.tenant, url.origin(), None),
        }
    }

    /// Makes an attempt if a slot is free. Otherwise, postpones it and chooses its next queue.
    pub(crate) async fn send(&self, due: Due, batch: &Batch) -> Ended {
        let from = batch.queue();
        if let Some(missed) = due.missed() {
            return due.ended(missed, Queue::Shared);
        }
        let (receiver, now) = (self.receiver(&due), Timestamp::now());
        let standing = match (from, receiver.standing(now)) {
            // A tenant may have many new callback origins, so the ones that have already been postponed are probed
            // together.
            (Queue::Hanging, Standing::Unknown) if due.endpoint.is_none() => Standing::Hanging,
            // Another process cut the attempt off, and only an endpoint's item shows that.
            (Queue::Slow, Standing::Unknown) if due.endpoint.is_none() => Standing::Suspect,
            (_, standing) => standing,
        };
        let (is_crowd, is_test) = (batch.is_crowd(&due), due.is_test());
        let due_at = due.delivery.next_attempt_at.unwrap_or(now);
        let lane = |queue| lane(&receiver, queue, standing, now);
        let until = || batch.last_start.min(Instant::now() + PATIENCE);
        let turn = Turn::of(from, standing, batch.is_late && receiver.lingers(now), is_crowd, is_test);
        let is_late = batch.is_late || now.since(due_at) > BACKLOG;
        // The queue for slow receivers would not have slots for most of a crowd's attempts, either.
        let makes_way = turn == Turn::Soon && is_late && is_crowd && !is_test;
        let slot = match turn {
            Turn::Yields => return yields(due),
            Turn::Elsewhere(queue) => {
                let is_urgent = queue == Queue::Slow || from == Queue::Slow || is_test;
                let until = if is_urgent { now } else { postponed(now, LATER, now) };
                return due.ended(AttemptResult::Postponed(until), queue);
            }
            // A crowd's attempt yields its invocation to other organizations.
            Turn::Waits(_) | Turn::Probes if is_crowd && receiver.rests(due_at, now) => Err(NoSlot::Full),
            Turn::AfterTrial => return after_trial(due, &receiver, now),
            Turn::Soon => {
                self.slots.take_soon(lane(Queue::Shared), standing, &batch.in_progress, batch.last_start).await
            }
            Turn::Waits(queue) => match self.slots.take(lane(queue), standing, until()).await {
                Err(NoSlot::Late) if Instant::now() < batch.last_start => Err(NoSlot::Full),
                taken => taken,
            },
            Turn::Probes if !self.may_probe(&due, &receiver, now).await => Err(NoSlot::Full),
            Turn::Probes => self.slots.probe(lane(Queue::Hanging), batch.number, until()).await,
        };
        match slot {
            Ok(slot) => {
                let short = usize::from(turn == Turn::Soon);
                batch.in_progress.fetch_add(short, Ordering::Relaxed);
                // Boxed, because the future takes thousands of bytes, which waiting attempts would reserve.
                let ended = Box::pin(self.attempt(due, &receiver, slot, batch)).await;
                batch.in_progress.fetch_sub(short, Ordering::Relaxed);
                ended
            }
            Err(NoSlot::Full) if makes_way && receiver.standing(Timestamp::now()) == Standing::Good => yields(due),
            Err(no_slot) => without_slot(due, &receiver, from, no_slot),
        }
    }

    /// Whether a hanging receiver may be probed now. Only one process at a time probes a silent endpoint, for at most
    /// an attempt's duration, so the receiver does not occupy all processes.
    async fn may_probe(&self, due: &Due, receiver: &Receiver<'_>, now: Timestamp) -> bool {
        let (Some(since), Some(Endpoint { id, health, .. })) = (receiver.silent_since(now), due.recipient()) else {
            return true;
        };
        if !health.hangs || health.unanswered_since.is_none() || receiver.is_probing(now) {
            return true;
        }
        let pause = rest(since, self.client.timeout(), now);
        if health.probed_at.is_some_and(|at| now.since(at) < pause) {
            return false;
        }
        // Set before the write, because other attempts by this process may join the probe.
        receiver.let_probe(now.after(self.client.timeout()));
        let begun = Box::pin(self.endpoints.begin_probe(&due.tenant, *id, now.before(pause), now)).await;
        let is_begun = observe::noted(&due.tenant, *id, begun).unwrap_or(false);
        if !is_begun {
            receiver.let_probe(now);
        }
        is_begun
    }

    /// Makes an attempt, and cuts it off if it takes longer than its queue allows.
    async fn attempt(&self, due: Due, receiver: &Receiver<'_>, mut slot: Slot, batch: &Batch) -> Ended {
        let Some(target) = due.target() else {
            let missed = due.missed().unwrap_or(AttemptResult::NoEndpoint);
            return due.ended(missed, Queue::Shared);
        };
        let at = Timestamp::now();
        let post = Post {
            tenant: &due.tenant,
            target,
            id: due.delivery.webhook_id,
            event: due.delivery.event_in(&due.payload.body),
            event_at: due.delivery.created_at,
            trace: due.payload.trace.as_ref(),
            body: &due.payload.body,
        };
        let queue = slot.lane.queue;
        let posted = loop {
            match self.post(post, &mut slot).await {
                Err(NoDescriptor) if Instant::now() + PAUSE < batch.last_start => {
                    common::log!("descriptors.exhausted", tenant = %due.tenant, delivery_id = %due.delivery.id);
                    sleep(PAUSE).await;
                }
                posted => break posted,
            }
        };
        // Only due attempts cause a rest; events have invocations of their own.
        if batch.queue.is_some() && batch.is_crowd(&due) {
            receiver.begin_rest(at, Timestamp::now());
        }
        let Timed { posted: Posted { outcome, response, detail }, took, lag } = match posted {
            Ok(Some(timed)) => timed,
            Ok(None) => {
                batch.tally.cut(&due);
                return self.cut(due, receiver, slot, at).await;
            }
            Err(NoDescriptor) => return due.ended(AttemptResult::Postponed(Timestamp::now().after(PAUSE)), queue),
        };
        let now = Timestamp::now();
        receiver.answered(took, lag, now);
        let shown = receiver.ended(outcome, at, now);
        slot.learn(shown);
        let standing = receiver.standing(now);
        drop(slot);
        let duration_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        let made = Attempt { detail, ..Attempt::new(at, duration_ms, outcome, response, due.delivery.trigger) };
        batch.tally.attempt(&due, &made, outcome, took, queue);
        let ended = due.ended(AttemptResult::Made(made, outcome), standing.queue());
        Ended { shown: Some(shown), ..ended }
    }

    /// Postpones a delivery whose attempt was cut off. Unless the receiver gets a trial, it counts as hanging until it
    /// answers, and no other attempt waits for it.
    async fn cut(&self, due: Due, receiver: &Receiver<'_>, slot: Slot, began: Timestamp) -> Ended {
        let (now, queue) = (Timestamp::now(), slot.lane.queue);
        // An attempt in the shared queues has little time, so a response to a concurrent attempt shows that the
        // receiver is merely slow.
        let since = if queue == Queue::Shared { began } else { now };
        let is_news = !matches!(receiver.standing(now), Standing::Suspect | Standing::Hanging);
        let mut is_trial = receiver.cut(queue, since, now);
        slot.learn(Shown::NoAnswer { hangs: true });
        if matches!(slot.lane.at, At::Trial(_)) {
            return due.ended(AttemptResult::Postponed(now), Queue::Hanging);
        }
        if let (Some(Endpoint { id, .. }), true) = (due.recipient(), is_news) {
            let suspected_at = is_trial.then_some(now);
            let noted = Box::pin(self.endpoints.note_hangs(&due.tenant, *id, since, suspected_at)).await;
            // If another process was faster, that one makes the trial.
            is_trial &= observe::noted(&due.tenant, *id, noted).unwrap_or(false);
        }
        if is_trial || receiver.standing(now) == Standing::Slow {
            return due.ended(AttemptResult::Postponed(now), Queue::Slow);
        }
        after_trial(due, receiver, now)
    }

    /// Posts, and measures the duration. Returns `None` if the attempt was cut off.
    async fn post(&self, post: Post<'_>, slot: &mut Slot) -> Result<Option<Timed>, NoDescriptor> {
        let started = Instant::now();
        let mut posting = std::pin::pin!(self.client.post(post, Timestamp::now()));
        if let Ok(posted) = timeout(BRIEFLY, &mut posting).await {
            return Ok(Some(Timed { posted: posted?, took: started.elapsed(), lag: Duration::ZERO }));
        }
        let lag = started.elapsed().saturating_sub(BRIEFLY);
        slot.step_aside();
        let posted = match longest(slot.lane.queue) {
            None => posting.await?,
            Some(longest) => match timeout(longest.saturating_sub(BRIEFLY), posting).await {
                Ok(posted) => posted?,
                Err(_elapsed) => return Ok(None),
            },
        };
        Ok(Some(Timed { posted, took: started.elapsed(), lag }))
    }
}

/// An attempt with an outcome.
struct Timed {
    posted: Posted,
    took: Duration,
    /// The delay of a timer during the attempt: this process was busy, so the receiver did not cause all of `took`.
    lag: Duration,
}

/// Returns an attempt's lane. All of a tenant's new callback origins share one lane.
fn lane(receiver: &Receiver<'_>, queue: Queue, standing: Standing, now: Timestamp) -> Lane {
    let at = match (queue, standing) {
        (Queue::Slow, Standing::Suspect) => At::Trial(receiver.hash),
        _ if receiver.is_new_origin(now) => At::NewOrigins,
        _ => At::Receiver(receiver.hash),
    };
    Lane { tenant: receiver.tenant, at, queue }
}

/// Postpones a delivery until its receiver's trial ends. If too many are already waiting for the trial, or there is
/// none, moves the delivery to the queue for hanging receivers.
fn after_trial(due: Due, receiver: &Receiver<'_>, now: Timestamp) -> Ended {
    match receiver.wait_for_trial(now) {
        Some(until) => due.ended(AttemptResult::Postponed(until), Queue::Slow),
        None => due.ended(AttemptResult::Postponed(now), Queue::Hanging),
    }
}

/// Postpones a crowd's delivery until after the events that queue now.
fn yields(due: Due) -> Ended {
    let now = Timestamp::now();
    due.ended(AttemptResult::Postponed(postponed(now, LATER, now)), Queue::Slow)
}

/// Postpones or expires a delivery that did not get a slot.
fn without_slot(due: Due, receiver: &Receiver<'_>, from: Queue, no_slot: NoSlot) -> Ended {
    let now = Timestamp::now();
    let standing = receiver.standing(now);
    if standing == Standing::Suspect {
        return after_trial(due, receiver, now);
    }
    let (queue, wait) = without_turn(standing, due.endpoint.is_some(), due.is_stored);
    let delivery = &due.delivery;
    if from == Queue::Shared || no_slot == NoSlot::Late {
        return due.ended(AttemptResult::Postponed(now.after(wait)), queue);
    }
    // The delivery is too old to wait any longer.
    if now >= delivery.fails_at {
        return due.ended(AttemptResult::Expired, queue);
    }
    let waits_since = match delivery.trigger {
        // A person is waiting for the test's result, or may have fixed the receiver before requesting a resend.
        Trigger::Test | Trigger::Resend => now,
        _ => {
            let waits_since = delivery.next_attempt_at.unwrap_or(delivery.created_at);
            receiver.silent_since(now).map_or(waits_since, |since| since.min(waits_since))
        }
    };
    let least = if queue == Queue::Hanging { LATER } else { SHORTLY };
    // The delivery expires at `fails_at`.
    let until = postponed(waits_since, least, now).min(delivery.fails_at);
    due.ended(AttemptResult::Postponed(until), queue)
}
