//! Events from the job events queue: their first attempts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use common::{
    error::Error,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::Destination,
        delivery_id::{DeliveryId, SHARDS},
        endpoints::Receiver,
        event::{Audience, JobEvent},
        log::Status,
        queue::DueEvent,
    },
};
use tokio::time::Instant;

use crate::{
    App, Batch, all,
    attempts::Outgoing,
    due::is_given_up_by,
    ledger::{self, Finished, Parking, Result as AttemptResult},
    observe,
    slots::{NoSlot, put_off},
    undone::Undone,
};

/// How long the first attempt of an event waits if its receiver has as many under way as it may have.
const PATIENCE: Duration = Duration::from_millis(500);
/// For older events, the log is asked first: SQS may hand over a copy late, and count it as received for the first time.
const LATE: Duration = Duration::from_secs(60);

impl App {
    /// Handles an event, up to the end of its first attempts.
    pub(crate) async fn event(
        &self,
        place: usize,
        body: &str,
        sent_at: Timestamp,
        is_repeated: bool,
        batch: &Batch,
    ) -> Result<(), Undone> {
        let event = JobEvent::parse(body)?;
        let receivers = match event.audience {
            Audience::Endpoints => batch.receivers(&event.tenant, &self.endpoints).await?,
            Audience::Nobody | Audience::Callback { .. } => Arc::default(),
        };
        let interested = receivers.iter().filter(|receiver| receiver.wants(event.name));
        let mut firsts = firsts(place, &event, sent_at, interested);
        if is_repeated || Timestamp::now().since(sent_at) > LATE {
            match Box::pin(self.leave_out_known(&event.tenant, &mut firsts)).await {
                // Most that are late are new. Without the log, they go out all the same.
                Err(error) if !is_repeated => observe::unasked(&event.tenant, &error),
                asked => asked?,
            }
        }
        let (now, patience) = (Timestamp::now(), Instant::now() + PATIENCE);
        let is_silent = |first: &Outgoing<'_>| self.silence(first, now).is_some();
        let (silent, others): (Vec<_>, Vec<_>) = firsts.into_iter().partition(is_silent);
        self.park(&event, sent_at, &silent, None, batch);
        let attempts = others.into_iter().map(async |first| {
            match self.slots.take(self.lane(&first), patience, batch.last_start).await {
                Ok(slot) => self.attempt(first, slot, batch).await,
                Err(NoSlot::Full) => self.park(&event, sent_at, &[first], None, batch),
                Err(NoSlot::Late) => batch.finish(first.ended(AttemptResult::Postponed(Timestamp::now()))),
            }
        });
        all(attempts).await;
        Ok(())
    }

    /// Parks an event for receivers that do not answer. It comes back through the deliveries queue, at once the first time:
    /// they may be back. Where it is `already` parked for the same ones, a message is enough.
    pub(crate) fn park(
        &self,
        event: &JobEvent,
        at: Timestamp,
        firsts: &[Outgoing<'_>],
        already: Option<&DueEvent>,
        batch: &Batch,
    ) {
        let Some(Outgoing { place, .. }) = firsts.first() else { return };
        let now = Timestamp::now();
        let silent_since = firsts.iter().filter_map(|first| Some(self.silence(first, now)?.since)).max();
        let until = put_off(already.and(silent_since), now);
        let endpoints: Vec<_> = firsts.iter().filter_map(|first| first.delivery.entry.webhook_endpoint_id).collect();
        let (message, row) = self.log.park(event, at, &endpoints, now);
        let row = (already != Some(&message)).then_some(row);
        batch.finish(Finished::Parked(Parking { place: *place, row, message, until }));
    }

    /// Leaves out what the log already knows of an event that may have come before. Those that wait get a message: it is not
    /// known whether the one before was sent.
    pub(crate) async fn leave_out_known(&self, tenant: &TenantId, firsts: &mut Vec<Outgoing<'_>>) -> Result<(), Error> {
        // The log may have been spread over more shards since. Nobody knows how many one had whose endpoint is gone.
        let ids = firsts.iter().flat_map(|first| {
            let id = first.delivery.entry.id;
            let (shard, is_spread) = (id.webhook_id.shard(SHARDS), first.receiver.is_none_or(|it| it.log_shards > 1));
            [Some(DeliveryId { shard: 0, ..id }), (is_spread && shard != 0).then_some(DeliveryId { shard, ..id })]
        });
        let known = self.log.known(tenant, &ids.flatten().collect::<Vec<_>>()).await?;
        let now = Timestamp::now();
        let waiting = known.values().filter(|entry| entry.status == Status::Pending);
        let waiting: Vec<_> = waiting.filter_map(|entry| ledger::message(tenant, entry, now)).collect();
        self.queue.send(&waiting, now).await.into_iter().collect::<Result<(), _>>()?;
        let known: HashMap<_, _> = known.values().map(|entry| (entry.webhook_id, entry)).collect();
        for first in firsts.iter() {
            // The process that made this first attempt may have died before it noted what follows for the endpoint.
            match known.get(&first.delivery.entry.webhook_id) {
                Some(entry) if is_given_up_by(entry, 1) => self.decline(tenant, entry, first.health(), now).await?,
                _ => {}
            }
        }
        firsts.retain(|first| !known.contains_key(&first.delivery.entry.webhook_id));
        Ok(())
    }
}

/// The deliveries of an event to these endpoints of its tenant, or to its callback.
pub(crate) fn firsts<'a>(
    place: usize,
    event: &JobEvent,
    at: Timestamp,
    receivers: impl Iterator<Item = &'a Receiver>,
) -> Vec<Outgoing<'a>> {
    let first = |to, receiver| Outgoing::first(place, event, at, to, receiver);
    match &event.audience {
        Audience::Nobody => Vec::new(),
        Audience::Callback { url, secret } => {
            vec![first(Destination::Callback { url: url.clone(), secret: secret.clone() }, None)]
        }
        Audience::Endpoints => {
            receivers.map(|receiver| first(Destination::Endpoint(receiver.id), Some(receiver))).collect()
        }
    }
}
