//! Makes attempts, once there is a slot for them.

use std::{sync::Arc, time::Duration};

use common::{
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Delivery, Destination, Payload, SHARDS},
        endpoints::{Endpoints, Health, Receiver},
        event::JobEvent,
        post::{Client, NoDescriptor, Post, Posted},
        target::Target,
    },
};
use tokio::time::{Instant, sleep};

use crate::{
    batch::Batch,
    breaker::Silence,
    ledger::Ended,
    observe,
    record::Record,
    slots::{Lane, NoSlot, Slot, Slots},
    under_way::Mark,
};

/// How long an attempt waits when no file descriptor was left for it: other attempts have to end first.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Sender {
    pub(crate) client: Client,
    pub(crate) slots: Slots,
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
    /// Its endpoint, if that exists and is active.
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
        record: &Record,
        event: &JobEvent,
        destination: Destination,
        receiver: Option<&'a Receiver>,
    ) -> Self {
        // For an endpoint that is gone, the first shard is always read.
        let shards = match &destination {
            Destination::Endpoint(_) => receiver.map_or(1, |receiver| receiver.log_shards),
            Destination::Callback { .. } => SHARDS,
        };
        Self {
            index: record.index,
            tenant: event.tenant.clone(),
            delivery: Delivery::first(event, &destination, shards),
            payload: Payload { destination, body: event.body.clone() },
            receiver,
            is_stored: false,
            slot: None,
            mark: record.mark.clone(),
        }
    }

    /// The URL and secrets for the attempt. `None` if the endpoint has been deleted or made inactive.
    pub(crate) fn target(&self) -> Option<Target<'_>> {
        match &self.payload.destination {
            Destination::Endpoint(_) => self.receiver.map(Receiver::target),
            Destination::Callback { url, secret } => Some(Target { url, keys: secret.into() }),
        }
    }

    /// What is known of its receiver.
    pub(crate) fn health(&self) -> Option<Health> {
        self.receiver.map(|receiver| receiver.health)
    }

    /// The attempt with its result.
    pub(crate) fn ended(self, result: AttemptResult) -> Ended {
        let health = self.health();
        let Self { index, tenant, delivery, payload, is_stored, mark, .. } = self;
        Ended { index, tenant, delivery, payload, is_stored, result, health, shown: None, mark }
    }
}

impl Sender {
    /// The lane of a delivery among the slots.
    pub(crate) fn lane(&self, outgoing: &Outgoing<'_>) -> Lane {
        match &outgoing.payload.destination {
            Destination::Endpoint(id) => self.slots.lane(&outgoing.tenant, id),
            Destination::Callback { url, .. } => self.slots.lane(&outgoing.tenant, url.origin()),
        }
    }

    /// Whether the receiver of a delivery does not answer.
    pub(crate) fn silence(&self, outgoing: &Outgoing<'_>, now: Timestamp) -> Option<Silence> {
        self.slots.silence(self.lane(outgoing), outgoing.health().as_ref(), now)
    }

    /// Takes a slot for a receiver that hangs. One process at a time probes such an endpoint, for as long as an attempt may
    /// take, so that the receiver does not hold up all processes.
    pub(crate) async fn probe(&self, outgoing: &Outgoing<'_>, last_start: Instant) -> Result<Slot, NoSlot> {
        let (lane, now, turn) = (self.lane(outgoing), Timestamp::now(), self.client.timeout());
        if let Some(Receiver { id, health, .. }) = outgoing.receiver
            && health.hangs
            && !self.slots.is_probing(lane, now)
        {
            if health.probed_at.is_some_and(|at| now.since(at) < turn) {
                return Err(NoSlot::Full);
            }
            // Other attempts of this process need not ask.
            self.slots.let_probe(lane, now.after(turn));
            if !self.begin_probe(&outgoing.tenant, *id, now.before(turn), now).await {
                self.slots.let_probe(lane, now);
                return Err(NoSlot::Full);
            }
        }
        self.slots.probe(lane, last_start).await
    }

    async fn begin_probe(&self, tenant: &TenantId, id: EndpointId, since: Timestamp, now: Timestamp) -> bool {
        let begun = Box::pin(self.endpoints.begin_probe(tenant, id, since, now)).await;
        begun.inspect_err(|error| observe::not_noted(tenant, id, error)).unwrap_or(false)
    }

    pub(crate) async fn attempt(&self, outgoing: Outgoing<'_>, slot: Slot, batch: &Batch) -> Ended {
        let Some(target) = outgoing.target() else { return outgoing.ended(AttemptResult::NoEndpoint) };
        let (at, delivery) = (Timestamp::now(), &outgoing.delivery);
        let post = Post {
            target,
            id: delivery.webhook_id,
            event: delivery.event,
            event_at: delivery.created_at,
            body: &outgoing.payload.body,
        };
        let Ok((posted, took)) = self.post(post, &outgoing, batch.last_start).await else {
            return outgoing.ended(AttemptResult::Postponed(Timestamp::now().after(PAUSE)));
        };
        let now = Timestamp::now();
        let shown = Some(slot.end(posted.outcome, at, now));
        batch.tally.attempt(&outgoing.tenant, delivery, posted.outcome, took, now);
        let duration_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        let made = Attempt::new(at, duration_ms, posted.outcome, posted.response, delivery.trigger);
        let ended = outgoing.ended(AttemptResult::Made(made, posted.outcome));
        Ended { shown, ..ended }
    }

    /// Posts, and measures how long that takes. If there is no file descriptor, it tries again while there is time.
    async fn post(
        &self,
        post: Post<'_>,
        outgoing: &Outgoing<'_>,
        last_start: Instant,
    ) -> Result<(Posted, Duration), NoDescriptor> {
        loop {
            let started = Instant::now();
            match self.client.post(post, Timestamp::now()).await {
                Ok(posted) => return Ok((posted, started.elapsed())),
                Err(NoDescriptor) => observe::no_descriptor(&outgoing.tenant, &outgoing.delivery),
            }
            if Instant::now() + PAUSE >= last_start {
                return Err(NoDescriptor);
            }
            sleep(PAUSE).await;
        }
    }
}
