//! Makes attempts, once there is a slot for them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use common::{
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Delivery, Destination, Payload, SHARDS, Trigger},
        endpoints::{Endpoint, Endpoints, Health},
        event::JobEvent,
        post::{Client, NoDescriptor, Post, Posted},
        target::Target,
    },
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    batch::Batch,
    finished::Ended,
    observe,
    receivers::{Key, Receivers},
    record::Record,
    slots::{Lane, NoSlot, Slot, Slots},
    standing::{SOON, Shown, Silence, Standing, rest},
    under_way::Mark,
};

/// How long an attempt waits when no file descriptor was left for it: other attempts have to end first.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an attempt keeps its slot. What takes CPU is done by then, in nearly every attempt.
const BRIEFLY: Duration = Duration::from_millis(20);

/// Makes the attempts of a process.
pub(crate) struct Sender {
    pub(crate) client: Client,
    pub(crate) slots: Slots,
    pub(crate) receivers: Receivers,
    /// Says which process may try an endpoint that hangs.
    pub(crate) endpoints: Endpoints,
}

/// A delivery whose attempt is due.
pub(crate) struct Outgoing<'a> {
    /// The number of its record in the batch.
    pub(crate) index: usize,
    pub(crate) tenant: TenantId,
    pub(crate) delivery: Delivery,
    pub(crate) payload: Payload,
    /// Its endpoint, if that exists.
    pub(crate) endpoint: Option<&'a Endpoint>,
    /// Whether the log has the delivery already.
    pub(crate) is_stored: bool,
    /// Whether the log has the payload already.
    pub(crate) is_payload_stored: bool,
    /// Its slot, if it has one already.
    pub(crate) slot: Option<Slot>,
    /// Whether its attempt was cut off.
    pub(crate) is_cut: bool,
    pub(crate) mark: Option<Arc<Mark>>,
}

impl<'a> Outgoing<'a> {
    /// The first attempt of a delivery.
    pub(crate) fn first(
        record: &Record,
        event: &JobEvent,
        destination: Destination,
        endpoint: Option<&'a Endpoint>,
    ) -> Self {
        // For an endpoint that is gone, the first shard is always read.
        let shards = match &destination {
            Destination::Endpoint(_) => endpoint.map_or(1, |endpoint| endpoint.log_shards),
            Destination::Callback { .. } => SHARDS,
        };
        Self {
            index: record.index,
            tenant: event.tenant.clone(),
            delivery: Delivery::first(event, &destination, shards),
            payload: Payload { destination, body: event.body.clone() },
            endpoint,
            is_stored: false,
            is_payload_stored: false,
            slot: None,
            is_cut: false,
            mark: record.mark.clone(),
        }
    }

    /// Its endpoint, if that may get it: tests go to inactive endpoints, too.
    fn recipient(&self) -> Option<&'a Endpoint> {
        self.endpoint.filter(|endpoint| endpoint.is_active() || self.delivery.trigger == Trigger::Test)
    }

    /// The URL, secrets and headers for the attempt. `None` if the endpoint has been deleted or made inactive.
    pub(crate) fn target(&self) -> Option<Target<'_>> {
        match &self.payload.destination {
            Destination::Endpoint(_) => self.recipient().and_then(Endpoint::target),
            Destination::Callback { url, secret } => Some(Target { url, keys: secret.into(), headers: None }),
        }
    }

    /// What becomes of the delivery if it cannot be posted: its endpoint has been deleted or made inactive, or its tenant has
    /// to take it, and has not done so in time.
    pub(crate) fn missed(&self) -> Option<AttemptResult> {
        match (self.target(), self.endpoint) {
            (Some(_), _) => None,
            (None, Some(_)) if self.delivery.pull.is_some() => Some(AttemptResult::Expired),
            (None, Some(endpoint)) if endpoint.address.url().is_none() => Some(AttemptResult::ToBeTaken),
            (None, Some(_)) => Some(AttemptResult::Inactive),
            (None, None) => Some(AttemptResult::NoEndpoint),
        }
    }

    /// What is known of its receiver.
    pub(crate) fn health(&self) -> Option<&'a Health> {
        self.recipient().map(|endpoint| &endpoint.health)
    }

    /// The attempt with its result. `is_slow` says whether the receiver is slow.
    pub(crate) fn ended(self, result: AttemptResult, is_slow: bool) -> Ended {
        let health = self.health().copied();
        let Self { index, tenant, delivery, payload, is_stored, is_payload_stored, mark, .. } = self;
        Ended {
            index,
            tenant,
            delivery,
            payload,
            is_stored,
            is_payload_stored,
            result,
            health,
            shown: None,
            is_slow,
            mark,
        }
    }
}

/// What became of a delivery that was to be attempted.
pub(crate) enum Sent<'a> {
    /// The attempt has ended.
    Ended(Ended),
    /// It is to be parked in the queue for slow receivers, since it was cut off, or since it would have had to wait for too long.
    Parked(Outgoing<'a>),
}

impl Sender {
    fn key(&self, outgoing: &Outgoing<'_>) -> Key {
        match &outgoing.payload.destination {
            Destination::Endpoint(id) => self.receivers.key(&outgoing.tenant, id),
            Destination::Callback { url, .. } => self.receivers.key(&outgoing.tenant, url.origin()),
        }
    }

    /// Whether an endpoint of a tenant is slow.
    pub(crate) fn is_slow_endpoint(&self, tenant: &TenantId, endpoint: &Endpoint, now: Timestamp) -> bool {
        let key = self.receivers.key(tenant, endpoint.id);
        self.receivers.standing(key, Some(&endpoint.health), now) == Standing::Slow
    }

    /// Whether the receiver of a delivery is slow: then its work belongs into the queue for slow receivers.
    pub(crate) fn is_slow(&self, outgoing: &Outgoing<'_>, now: Timestamp) -> bool {
        self.standing(outgoing, now) == Standing::Slow
    }

    fn standing(&self, outgoing: &Outgoing<'_>, now: Timestamp) -> Standing {
        self.receivers.standing(self.key(outgoing), outgoing.health(), now)
    }

    /// Whether the receiver of a delivery does not answer.
    pub(crate) fn silence(&self, outgoing: &Outgoing<'_>, now: Timestamp) -> Option<Silence> {
        self.receivers.silence(self.key(outgoing), outgoing.health(), now)
    }

    /// Takes a slot for a receiver that hangs. One process at a time probes such an endpoint, for as long as an attempt may
    /// take, so that the receiver does not hold up all processes.
    pub(crate) async fn probe(
        &self,
        outgoing: &Outgoing<'_>,
        silence: Silence,
        last_start: Instant,
    ) -> Result<Slot, NoSlot> {
        let (key, now) = (self.key(outgoing), Timestamp::now());
        if let Some(Endpoint { id, health, .. }) = outgoing.recipient()
            && health.hangs
            && !self.receivers.is_probing(key, now)
        {
            let turn = rest(silence.since, self.client.timeout(), now);
            if health.probed_at.is_some_and(|at| now.since(at) < turn) {
                return Err(NoSlot::Full);
            }
            // Set before the write: the other attempts of this process share the probe.
            self.receivers.let_probe(key, now.after(self.client.timeout()));
            if !self.begin_probe(&outgoing.tenant, *id, now.before(turn), now).await {
                self.receivers.let_probe(key, now);
                return Err(NoSlot::Full);
            }
        }
        self.slots.probe(Lane { key, has_time: true }, last_start).await
    }

    async fn begin_probe(&self, tenant: &TenantId, id: EndpointId, since: Timestamp, now: Timestamp) -> bool {
        let begun = Box::pin(self.endpoints.begin_probe(tenant, id, since, now)).await;
        begun.inspect_err(|error| observe::not_noted(tenant, id, error)).unwrap_or(false)
    }

    /// Waits for the slot of an attempt that has time.
    pub(crate) async fn turn(&self, outgoing: &Outgoing<'_>, last_start: Instant) -> Result<Slot, NoSlot> {
        let lane = Lane { key: self.key(outgoing), has_time: true };
        let standing = self.standing(outgoing, Timestamp::now());
        self.slots.take(lane, standing, last_start).await
    }

    /// Makes an attempt that has to be short, once there is a slot for it.
    pub(crate) async fn send<'a>(&self, outgoing: Outgoing<'a>, batch: &Batch) -> Sent<'a> {
        if let Some(missed) = outgoing.missed() {
            return Sent::Ended(outgoing.ended(missed, false));
        }
        let now = Timestamp::now();
        let lane = Lane { key: self.key(&outgoing), has_time: false };
        let standing = self.standing(&outgoing, now);
        let lingers = || self.receivers.lingers(self.key(&outgoing), outgoing.health(), now);
        if standing == Standing::Slow || (batch.is_late && lingers()) {
            return Sent::Parked(outgoing);
        }
        match self.slots.take_soon(lane, standing, &batch.under_way, batch.last_start).await {
            Ok(slot) => {
                batch.under_way.fetch_add(1, Ordering::Relaxed);
                // Boxed: the future takes thousands of bytes, and an attempt that waits for its slot would reserve them.
                let sent = Box::pin(self.attempt(outgoing, slot, batch)).await;
                batch.under_way.fetch_sub(1, Ordering::Relaxed);
                sent
            }
            Err(NoSlot::Full | NoSlot::Late) => Sent::Parked(outgoing),
        }
    }

    /// Makes an attempt, and cuts it off if its slot is for a short one.
    pub(crate) async fn attempt<'a>(&self, outgoing: Outgoing<'a>, slot: Slot, batch: &Batch) -> Sent<'a> {
        let Some(target) = outgoing.target() else {
            let missed = outgoing.missed().unwrap_or(AttemptResult::NoEndpoint);
            return Sent::Ended(outgoing.ended(missed, false));
        };
        let (at, delivery, health) = (Timestamp::now(), &outgoing.delivery, outgoing.health());
        let post = Post {
            target,
            id: delivery.webhook_id,
            event: delivery.event,
            event_at: delivery.created_at,
            body: &outgoing.payload.body,
        };
        let (key, mut slot) = (self.key(&outgoing), slot);
        let (posted, took) = match self.post(post, &outgoing, &mut slot, batch.last_start).await {
            Ok(posted) => posted,
            Err(NotPosted::NoDescriptor) => {
                let later = AttemptResult::Postponed(Timestamp::now().after(PAUSE));
                return Sent::Ended(outgoing.ended(later, slot.has_time()));
            }
            Err(NotPosted::Cut) => {
                batch.tally.cut(&outgoing.tenant, delivery);
                self.cut(&outgoing, &slot).await;
                return Sent::Parked(Outgoing { is_cut: true, ..outgoing });
            }
        };
        let now = Timestamp::now();
        let shown = self.receivers.ended(key, posted.outcome, health, (at, now));
        match shown {
            Shown::Success | Shown::Good { .. } => slot.widen(),
            Shown::NoAnswer { hangs: true } => slot.narrow(),
            Shown::NoAnswer { hangs: false } | Shown::Error | Shown::Nothing => {}
        }
        let (has_time, is_slow) = (slot.has_time(), self.is_slow(&outgoing, now));
        drop(slot);
        batch.tally.attempt(&outgoing.tenant, delivery, posted.outcome, (took, has_time), now);
        let duration_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        let made = Attempt::new(at, duration_ms, posted.outcome, posted.response, delivery.trigger);
        let ended = outgoing.ended(AttemptResult::Made(made, posted.outcome), is_slow);
        Sent::Ended(Ended { shown: Some(shown), ..ended })
    }

    /// Notes that an attempt was cut off: the receiver is slow from now on, and nobody waits for it any more.
    async fn cut(&self, outgoing: &Outgoing<'_>, slot: &Slot) {
        let (now, health) = (Timestamp::now(), outgoing.health());
        let was_slow = self.is_slow(outgoing, now);
        self.receivers.cut(self.key(outgoing), health, now);
        slot.narrow();
        if let Some(Endpoint { id, .. }) = outgoing.recipient()
            && !was_slow
        {
            let noted = Box::pin(self.endpoints.note_slow(&outgoing.tenant, *id, now)).await;
            noted.unwrap_or_else(|error| observe::not_noted(&outgoing.tenant, *id, &error));
        }
    }

    /// Posts, and measures how long that takes. If there is no file descriptor, it tries again while there is time.
    async fn post(
        &self,
        post: Post<'_>,
        outgoing: &Outgoing<'_>,
        slot: &mut Slot,
        last_start: Instant,
    ) -> Result<(Posted, Duration), NotPosted> {
        loop {
            let started = Instant::now();
            match self.post_once(post, slot).await {
                Err(NotPosted::NoDescriptor) => observe::no_descriptor(&outgoing.tenant, &outgoing.delivery),
                posted => return Ok((posted?, started.elapsed())),
            }
            if Instant::now() + PAUSE >= last_start {
                return Err(NotPosted::NoDescriptor);
            }
            sleep(PAUSE).await;
        }
    }

    async fn post_once(&self, post: Post<'_>, slot: &mut Slot) -> Result<Posted, NotPosted> {
        let mut posting = std::pin::pin!(self.client.post(post, Timestamp::now()));
        if let Ok(posted) = timeout(BRIEFLY, &mut posting).await {
            return Ok(posted?);
        }
        slot.step_aside();
        if slot.has_time() {
            return Ok(posting.await?);
        }
        Ok(timeout(SOON.saturating_sub(BRIEFLY), posting).await.map_err(|_elapsed| NotPosted::Cut)??)
    }
}

/// Why an attempt has no outcome.
enum NotPosted {
    /// It was cut off.
    Cut,
    /// This process had no file descriptor left for it.
    NoDescriptor,
}

impl From<NoDescriptor> for NotPosted {
    fn from(NoDescriptor: NoDescriptor) -> Self {
        Self::NoDescriptor
    }
}
