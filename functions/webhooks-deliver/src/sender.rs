//! Makes attempts once they get a slot.
//!
//! An attempt waits up to two seconds for a slot, and at most 20 attempts of a tenant wait in a process. An attempt
//! without a slot is postponed. The delay is one to two times the longer of its wait so far and its receiver's silence
//! (the time since the receiver last answered), up to two hours and never beyond the delivery's deadline. Long waits
//! therefore cost few tries and end at different times.
//!
//! A hanging receiver that is silent gets **probes**: up to four attempts, from one process at a time, and then a
//! pause. The pause is the maximum duration of an attempt or a tenth of the silence, whichever is longer, up to five
//! minutes. After a success, the rate grows again.

use std::{sync::atomic::Ordering, time::Duration};

use common::{
    id::{EndpointId, TenantId},
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
    outgoing::Outgoing,
    plan::{Due, Ended},
    receivers::{Key, Receivers},
    slots::{Lane, NoSlot, Slot, Slots},
    standing::{Shown, Standing},
    turn::{LATER, SHORTLY, Turn, longest, postponed, rest},
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
    fn key(&self, outgoing: &Outgoing<'_>) -> Key {
        match &outgoing.due.payload.destination {
            Destination::Endpoint(id) => self.receivers.key(&outgoing.due.tenant, id),
            Destination::Callback { url, .. } => self.receivers.key(&outgoing.due.tenant, url.origin()),
        }
    }

    fn standing(&self, outgoing: &Outgoing<'_>, now: Timestamp) -> Standing {
        self.receivers.standing(self.key(outgoing), outgoing.health(), now)
    }

    /// Returns an attempt's lane. All of a tenant's new callback origins share one lane, and all its trials another.
    fn lane(&self, outgoing: &Outgoing<'_>, queue: Queue, standing: Standing, now: Timestamp) -> Lane {
        let key = self.key(outgoing);
        let is_new = outgoing.endpoint.is_none() && !self.receivers.has_answered(key, now);
        let key = match (queue, standing) {
            (Queue::Slow, Standing::Suspect) => key.trial(),
            _ if is_new => key.crowd(),
            _ => key,
        };
        Lane { key, queue }
    }

    /// Makes an attempt if it gets a slot. Otherwise, postpones it and chooses its next queue.
    pub(crate) async fn send(&self, outgoing: Outgoing<'_>, batch: &Batch) -> Ended {
        let from = batch.queue();
        if let Some(missed) = outgoing.missed() {
            return outgoing.ended(missed, Queue::Shared);
        }
        let now = Timestamp::now();
        let standing = match (from, self.standing(&outgoing, now)) {
            // A tenant may have many new callback origins, so the ones that have already been postponed are probed
            // together.
            (Queue::Hanging, Standing::Unknown) if outgoing.endpoint.is_none() => Standing::Hanging,
            (_, standing) => standing,
        };
        let lingers = batch.is_late && self.receivers.lingers(self.key(&outgoing), outgoing.health(), now);
        let turn = Turn::of(from, standing, lingers, outgoing.is_test());
        let slot = match turn {
            Turn::Elsewhere(queue) => {
                let is_urgent = queue == Queue::Slow || from == Queue::Slow || outgoing.is_test();
                let until = if is_urgent { now } else { postponed(now, LATER, now) };
                return outgoing.ended(AttemptResult::Postponed(until), queue);
            }
            Turn::Waits(_) | Turn::Probes if self.steps_back(&outgoing, batch, now) => Err(NoSlot::Full),
            Turn::AfterTrial => return self.after_trial(outgoing, now),
            Turn::Soon => {
                let lane = self.lane(&outgoing, Queue::Shared, standing, now);
                self.slots.take_soon(lane, standing, &batch.in_progress, batch.last_start).await
            }
            Turn::Waits(queue) => {
                let lane = self.lane(&outgoing, queue, standing, now);
                let patience = Instant::now() + PATIENCE;
                match self.slots.take(lane, standing, patience.min(batch.last_start)).await {
                    Err(NoSlot::Late) if Instant::now() < batch.last_start => Err(NoSlot::Full),
                    taken => taken,
                }
            }
            Turn::Probes => self.probe(&outgoing, now, batch).await,
        };
        match slot {
            Ok(slot) if turn == Turn::Soon => {
                batch.in_progress.fetch_add(1, Ordering::Relaxed);
                // Boxed, because the future takes thousands of bytes, which waiting attempts would reserve.
                let ended = Box::pin(self.attempt(outgoing, slot, batch)).await;
                batch.in_progress.fetch_sub(1, Ordering::Relaxed);
                ended
            }
            Ok(slot) => Box::pin(self.attempt(outgoing, slot, batch)).await,
            Err(no_slot) => self.postponed(outgoing, from, no_slot),
        }
    }

    /// Whether a crowd's attempt yields its invocation to other organizations.
    fn steps_back(&self, outgoing: &Outgoing<'_>, batch: &Batch, now: Timestamp) -> bool {
        let Due { tenant, delivery, .. } = &outgoing.due;
        let due = delivery.next_attempt_at.unwrap_or(now);
        batch.crowd.as_ref() == Some(tenant) && self.receivers.rests(self.key(outgoing), due, now)
    }

    /// Postpones a delivery until its receiver's trial ends. If too many are already waiting for the trial, or there is
    /// none, moves the delivery to the queue for hanging receivers.
    fn after_trial(&self, outgoing: Outgoing<'_>, now: Timestamp) -> Ended {
        match self.receivers.wait_for_trial(self.key(&outgoing), outgoing.health(), now) {
            Some(until) => outgoing.ended(AttemptResult::Postponed(until), Queue::Slow),
            None => outgoing.ended(AttemptResult::Postponed(now), Queue::Hanging),
        }
    }

    /// Postpones or expires a delivery that got no slot.
    fn postponed(&self, outgoing: Outgoing<'_>, from: Queue, no_slot: NoSlot) -> Ended {
        let now = Timestamp::now();
        let queue = match self.standing(&outgoing, now) {
            Standing::Good | Standing::Slow => Queue::Slow,
            // The receiver's first attempt is in progress, and will show whether it answers.
            Standing::Unknown if outgoing.endpoint.is_some() => Queue::Slow,
            Standing::Unknown | Standing::Hanging => Queue::Hanging,
            Standing::Suspect => return self.after_trial(outgoing, now),
        };
        let delivery = &outgoing.due.delivery;
        match no_slot {
            // The delivery is too old to wait any longer.
            NoSlot::Full if from != Queue::Shared && now >= delivery.fails_at => {
                outgoing.ended(AttemptResult::Expired, queue)
            }
            NoSlot::Full if from != Queue::Shared => {
                // A person is waiting for the test's result, or may have fixed the receiver before requesting a resend.
                let is_asked_for = matches!(delivery.trigger, Trigger::Test | Trigger::Resend);
                let silent_since = self.silent_since(&outgoing, now).filter(|_| !is_asked_for);
                let waits_since = delivery.next_attempt_at.unwrap_or(delivery.created_at);
                let waits_since = if is_asked_for { now } else { waits_since };
                let least = if queue == Queue::Hanging { LATER } else { SHORTLY };
                let until = postponed(silent_since.map_or(waits_since, |since| since.min(waits_since)), least, now);
                // The delivery expires at this time.
                let until = until.min(delivery.fails_at);
                outgoing.ended(AttemptResult::Postponed(until), queue)
            }
            NoSlot::Full | NoSlot::Late => outgoing.ended(AttemptResult::Postponed(now), queue),
        }
    }

    fn silent_since(&self, outgoing: &Outgoing<'_>, now: Timestamp) -> Option<Timestamp> {
        self.receivers.silent_since(self.key(outgoing), outgoing.health(), now)
    }

    /// Takes a slot for a hanging receiver. Only one process at a time probes a silent endpoint, for at most an
    /// attempt's duration, so the receiver does not occupy all processes.
    async fn probe(&self, outgoing: &Outgoing<'_>, now: Timestamp, batch: &Batch) -> Result<Slot, NoSlot> {
        let key = self.key(outgoing);
        if let (Some(since), Some(Endpoint { id, health, .. })) =
            (self.silent_since(outgoing, now), outgoing.recipient())
            && health.hangs
            && health.unanswered_since.is_some()
            && !self.receivers.is_probing(key, now)
        {
            let turn = rest(since, self.client.timeout(), now);
            if health.probed_at.is_some_and(|at| now.since(at) < turn) {
                return Err(NoSlot::Full);
            }
            // Set before the write, because other attempts of this process may join the probe.
            self.receivers.let_probe(key, now.after(self.client.timeout()));
            if !self.begin_probe(&outgoing.due.tenant, *id, now.before(turn), now).await {
                self.receivers.let_probe(key, now);
                return Err(NoSlot::Full);
            }
        }
        let patience = Instant::now() + PATIENCE;
        let lane = self.lane(outgoing, Queue::Hanging, Standing::Hanging, now);
        self.slots.probe(lane, batch.number, patience.min(batch.last_start)).await
    }

    async fn begin_probe(&self, tenant: &TenantId, id: EndpointId, since: Timestamp, now: Timestamp) -> bool {
        let begun = Box::pin(self.endpoints.begin_probe(tenant, id, since, now)).await;
        begun.inspect_err(|error| observe::not_noted(tenant, id, error)).unwrap_or(false)
    }

    /// Makes an attempt, and cuts it off if it takes longer than its queue allows.
    async fn attempt(&self, outgoing: Outgoing<'_>, slot: Slot, batch: &Batch) -> Ended {
        let Some(target) = outgoing.target() else {
            let missed = outgoing.missed().unwrap_or(AttemptResult::NoEndpoint);
            return outgoing.ended(missed, Queue::Shared);
        };
        let (at, due, health) = (Timestamp::now(), &outgoing.due, outgoing.health());
        let post = Post {
            tenant: &due.tenant,
            target,
            id: due.delivery.webhook_id,
            event: due.delivery.event_in(&due.payload.body),
            event_at: due.delivery.created_at,
            trace: due.payload.trace.as_ref(),
            body: &due.payload.body,
        };
        let (key, mut slot) = (self.key(&outgoing), slot);
        let queue = slot.queue();
        let posted = loop {
            match self.post(post, &mut slot).await {
                Err(NoDescriptor) if Instant::now() + PAUSE < batch.last_start => {
                    common::log!("descriptors.exhausted", tenant = %due.tenant, delivery_id = %due.delivery.id);
                    sleep(PAUSE).await;
                }
                posted => break posted,
            }
        };
        if batch.crowd.as_ref() == Some(&due.tenant) {
            self.receivers.begin_rest(key, at, Timestamp::now());
        }
        let Timed { posted: Posted { outcome, response, detail }, took, lagged } = match posted {
            Ok(Some(timed)) => timed,
            Ok(None) => {
                batch.tally.cut(&due.tenant, &due.delivery);
                return self.cut(outgoing, slot, at).await;
            }
            Err(NoDescriptor) => {
                return outgoing.ended(AttemptResult::Postponed(Timestamp::now().after(PAUSE)), queue);
            }
        };
        let now = Timestamp::now();
        if !lagged {
            self.receivers.answered(key, health, took, now);
        }
        let shown = self.receivers.ended(key, outcome, health, (at, now));
        match shown {
            Shown::Success | Shown::Good { .. } => slot.widen(),
            Shown::Error => slot.halve(),
            Shown::NoAnswer { hangs: true } => slot.narrow(),
            Shown::NoAnswer { hangs: false } | Shown::Nothing => {}
        }
        let standing = self.standing(&outgoing, now);
        drop(slot);
        batch.tally.attempt(
            &due.tenant,
            (&due.delivery, due.payload.trace.as_ref()),
            (outcome, detail.as_ref()),
            (took, queue),
            now,
        );
        let duration_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        let made = Attempt { detail, ..Attempt::new(at, duration_ms, outcome, response, due.delivery.trigger) };
        let ended = outgoing.ended(AttemptResult::Made(made, outcome), standing.queue());
        Ended { shown: Some(shown), ..ended }
    }

    /// Postpones a delivery whose attempt was cut off. Unless the receiver gets a trial, it counts as hanging until it
    /// answers, and no other attempt waits for it.
    async fn cut(&self, outgoing: Outgoing<'_>, slot: Slot, began: Timestamp) -> Ended {
        let (now, health, queue) = (Timestamp::now(), outgoing.health(), slot.queue());
        // An attempt in the shared queues has little time, so a response to a concurrent attempt shows that the
        // receiver is merely slow.
        let since = if queue == Queue::Shared { began } else { now };
        let is_news = !matches!(self.standing(&outgoing, now), Standing::Suspect | Standing::Hanging);
        let mut is_trial = self.receivers.cut(self.key(&outgoing), health, queue, (since, now));
        slot.narrow();
        if slot.is_trial() {
            return outgoing.ended(AttemptResult::Postponed(now), Queue::Hanging);
        }
        if let (Some(Endpoint { id, .. }), true) = (outgoing.recipient(), is_news) {
            let (tenant, suspected_at) = (&outgoing.due.tenant, is_trial.then_some(now));
            let noted = Box::pin(self.endpoints.note_hangs(tenant, *id, since, suspected_at)).await;
            // If another process was faster, that one makes the trial.
            is_trial &= noted.inspect_err(|error| observe::not_noted(tenant, *id, error)).unwrap_or(false);
        }
        if is_trial || self.standing(&outgoing, now) == Standing::Slow {
            return outgoing.ended(AttemptResult::Postponed(now), Queue::Slow);
        }
        self.after_trial(outgoing, now)
    }

    /// Posts, and measures the duration. Returns `None` if the attempt was cut off.
    async fn post(&self, post: Post<'_>, slot: &mut Slot) -> Result<Option<Timed>, NoDescriptor> {
        let started = Instant::now();
        let mut posting = std::pin::pin!(self.client.post(post, Timestamp::now()));
        if let Ok(posted) = timeout(BRIEFLY, &mut posting).await {
            return Ok(Some(Timed { posted: posted?, took: started.elapsed(), lagged: false }));
        }
        // If even the timer is late, the process lacks CPU time, and the receiver did not cause the delay.
        let lagged = started.elapsed() > BRIEFLY * 2;
        slot.step_aside();
        let posted = match longest(slot.queue()) {
            None => posting.await?,
            Some(longest) => match timeout(longest.saturating_sub(BRIEFLY), posting).await {
                Ok(posted) => posted?,
                Err(_elapsed) => return Ok(None),
            },
        };
        Ok(Some(Timed { posted, took: started.elapsed(), lagged }))
    }
}

/// An attempt with an outcome.
struct Timed {
    posted: Posted,
    took: Duration,
    /// Whether this process was too busy for `took` to describe the receiver.
    lagged: bool,
}
