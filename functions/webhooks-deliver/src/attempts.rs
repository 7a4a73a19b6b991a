//! Attempts: who may make one now, and making it.

use std::{sync::Arc, time::Duration};

use common::{
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        client::{Answer, NoDescriptor, Target},
        delivery::{Delivery, Destination},
        delivery_id::SHARDS,
        endpoints::{Health, Receiver},
        event::JobEvent,
        log::Attempt,
    },
};
use tokio::time::{Instant, sleep};

use crate::{
    App, Batch,
    ledger::{Ended, Result as AttemptResult},
    observe,
    slots::{Lane, NoSlot, Silence, Slot},
    under_way::Mark,
};

/// How long an attempt waits when no file descriptor was left for it: other attempts have to end first.
const PAUSE: Duration = Duration::from_secs(1);

/// A delivery whose attempt is due.
pub(crate) struct Outgoing<'a> {
    /// The place of its record in the batch.
    pub(crate) place: usize,
    pub(crate) delivery: Delivery,
    /// The endpoint that it goes to, as long as that is there and active.
    pub(crate) receiver: Option<&'a Receiver>,
    /// Whether the log has the delivery already.
    pub(crate) is_stored: bool,
    /// Its slot, if it has one already.
    pub(crate) slot: Option<Slot>,
    pub(crate) mark: Option<Arc<Mark>>,
}

impl<'a> Outgoing<'a> {
    /// The first attempt of a delivery.
    pub(crate) fn first(
        place: usize,
        event: &JobEvent,
        at: Timestamp,
        to: Destination,
        receiver: Option<&'a Receiver>,
    ) -> Self {
        // Of an endpoint that is gone, the first shard is always read.
        let shards = match &to {
            Destination::Endpoint(_) => receiver.map_or(1, |receiver| receiver.log_shards),
            Destination::Callback { .. } => SHARDS,
        };
        let delivery = Delivery::first(event, at, to, shards);
        Self { place, delivery, receiver, is_stored: false, slot: None, mark: None }
    }

    /// Whether its endpoint has been deleted or made inactive.
    pub(crate) fn is_gone(&self) -> bool {
        self.delivery.target(self.receiver).is_none()
    }

    /// What is known of its receiver.
    pub(crate) fn health(&self) -> Option<Health> {
        self.receiver.map(|receiver| receiver.health)
    }

    /// What became of it.
    pub(crate) fn ended(self, result: AttemptResult) -> Ended {
        let health = self.health();
        let Self { place, delivery, is_stored, mark, .. } = self;
        Ended { place, delivery, is_stored, result, health, shown: None, mark }
    }
}

impl App {
    /// The lane of a delivery.
    pub(crate) fn lane(&self, outgoing: &Outgoing<'_>) -> Lane {
        let Delivery { tenant, payload, .. } = &outgoing.delivery;
        match &payload.destination {
            Destination::Endpoint(id) => self.slots.lane(tenant, id),
            Destination::Callback { url, .. } => self.slots.lane(tenant, url.origin()),
        }
    }

    /// Whether the receiver of a delivery does not answer.
    pub(crate) fn silence(&self, outgoing: &Outgoing<'_>, now: Timestamp) -> Option<Silence> {
        self.slots.silence(self.lane(outgoing), outgoing.health().as_ref(), now)
    }

    /// Takes a slot for a receiver that hangs. One process at a time tries such an endpoint, for as long as an attempt
    /// takes: each would wait for it with all that it could do for others.
    pub(crate) async fn probe(&self, outgoing: &Outgoing<'_>, batch: &Batch) -> Result<Slot, NoSlot> {
        let (lane, now, turn) = (self.lane(outgoing), Timestamp::now(), self.client.timeout());
        if let Some(Receiver { id, health, .. }) = outgoing.receiver
            && health.hangs
            && !self.slots.is_probing(lane, now)
        {
            if health.probed_at.is_some_and(|at| now.since(at) < turn) {
                return Err(NoSlot::Full);
            }
            // Others of this process need not ask, too.
            self.slots.let_probe(lane, now.after(turn));
            if !self.begin_probe(&outgoing.delivery.tenant, *id, now.before(turn), now).await {
                self.slots.let_probe(lane, now);
                return Err(NoSlot::Full);
            }
        }
        self.slots.probe(lane, batch.last_start).await
    }

    async fn begin_probe(&self, tenant: &TenantId, id: EndpointId, since: Timestamp, now: Timestamp) -> bool {
        let begun = Box::pin(self.endpoints.begin_probe(tenant, id, since, now)).await;
        begun.inspect_err(|error| observe::not_noted(tenant, id, error)).unwrap_or(false)
    }

    /// Makes an attempt.
    pub(crate) async fn attempt(&self, outgoing: Outgoing<'_>, slot: Slot, batch: &Batch) {
        let delivery = &outgoing.delivery;
        let Some(target) = delivery.target(outgoing.receiver) else {
            return batch.finish(outgoing.ended(AttemptResult::Gone));
        };
        let at = Timestamp::now();
        let Ok((answer, duration)) = self.post(delivery, target, batch.last_start).await else {
            return batch.finish(outgoing.ended(AttemptResult::Postponed(Timestamp::now().after(PAUSE))));
        };
        let now = Timestamp::now();
        let shown = Some(slot.end(answer.outcome, at, now));
        batch.tally.attempt(delivery, answer.outcome, duration, now);
        let duration_ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        let made = Attempt::new(at, duration_ms, answer.outcome, answer.response, delivery.entry.trigger);
        let ended = outgoing.ended(AttemptResult::Made(made, answer.outcome));
        batch.finish(Ended { shown, ..ended });
    }

    /// Posts a delivery, and measures how long that takes. If there is no file descriptor, it tries again while there
    /// is time.
    async fn post(
        &self,
        delivery: &Delivery,
        target: Target<'_>,
        last_start: Instant,
    ) -> Result<(Answer, Duration), NoDescriptor> {
        loop {
            let started = Instant::now();
            match self.client.post(delivery, target, Timestamp::now()).await {
                Ok(answer) => return Ok((answer, started.elapsed())),
                Err(NoDescriptor) => observe::no_descriptor(delivery),
            }
            if Instant::now() + PAUSE >= last_start {
                return Err(NoDescriptor);
            }
            sleep(PAUSE).await;
        }
    }
}
