//! Delivers job events to webhook endpoints.
//!
//! A `JobEvent` comes from the job events queue and goes to its `Audience`, as a `Delivery` for each destination. The
//! `Client` makes an attempt once there is a slot for it, and `next_step` decides what follows. The first attempts of a
//! batch are made at once and in the same invocation, so an event costs one message and one row of the `Log` if all goes
//! well, and only a failure costs more. Attempts that are due come from the deliveries queue, by their key.
//!
//! The queue of events is everybody's, so nothing in it waits for a receiver that does not answer: for such receivers, the
//! event is parked, and their first attempts come from the deliveries queue too.
//!
//! Nothing is acknowledged before what follows is stored; `ledger` has the order. A crash at any point repeats work, but
//! loses none.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use common::{
    aws::clients::{Aws, CALL_TIMEOUT},
    config::{ConfigError, Env},
    error::Error,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        client::{Answer, Client, NoDescriptor, Target},
        delivery::{Delivery, Destination},
        delivery_id::{DeliveryId, SHARDS},
        destination::DestinationPolicy,
        dialer::system_lookup,
        endpoints::{Endpoints, Health, Receiver, disable_after},
        event::{Audience, JobEvent},
        legacy,
        log::{Attempt, Entry, Log, Status, Trigger, parked::Parked},
        queue::{DueAttempt, DueEvent, Message, Queue},
    },
};
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use lambda_runtime::LambdaEvent;
use rustls::crypto::ring;
use tokio::{
    sync::{
        OnceCell,
        mpsc::{self, UnboundedSender},
    },
    time::{Instant, sleep},
};

use crate::{
    ledger::{Ended, Finished, Parking, Result as AttemptResult},
    observe::Tally,
    slots::{Lane, NoSlot, Silence, Slot, Slots, put_off},
    under_way::{Mark, UnderWay},
    undone::Undone,
};

mod ledger;
mod observe;
mod slots;
mod under_way;
mod undone;

/// The time kept free at the end of an invocation to store what follows from the last attempts.
const RESERVE: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(1));
/// SQS may hand over a message slightly before its delay is over. Up to this much is not worth sending it again.
const EARLY: Duration = Duration::from_secs(1);
/// How long the first attempt of an event waits if its receiver has as many under way as it may have.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long an event stays parked as a whole. After that, each of its deliveries waits by itself, and can be seen in the
/// log.
const PARKED: Duration = Duration::from_secs(15 * 60);
/// How long an attempt waits when no file descriptor was left for it: other attempts have to end first.
const PAUSE: Duration = Duration::from_secs(1);

/// The function, ready to be called. Cloning is cheap.
#[derive(Clone)]
pub struct Deliver {
    app: Arc<App>,
}

struct App {
    endpoints: Endpoints,
    log: Log,
    queue: Queue,
    client: Client,
    schedule: Vec<Duration>,
    /// How long an endpoint may be failing; zero is forever.
    disable_after: Duration,
    slots: Slots,
    under_way: UnderWay,
}

/// The function, with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse, or the machine trusts no certificate authority.
pub fn function(env: &Env) -> Result<Deliver, ConfigError> {
    let aws = Aws::new(env)?;
    let timeout = Duration::from_secs(env.number("DELIVERY_TIMEOUT", 1..=23)?);
    let attempts = env.number("MAX_CONCURRENT_ATTEMPTS", 1..=1000)?;
    let client = Client::new(DestinationPolicy::from_env(env)?, timeout, attempts, tls()?, system_lookup());
    let app = App {
        endpoints: Endpoints::from_env(env, &aws)?,
        log: Log::from_env(env, &aws)?,
        queue: Queue::from_env(env, &aws)?,
        client,
        schedule: env.numbers("RETRY_SCHEDULE", &(0..=86_400), 20)?.into_iter().map(Duration::from_secs).collect(),
        disable_after: disable_after(env)?,
        slots: Slots::new(attempts),
        under_way: UnderWay::default(),
    };
    Ok(Deliver { app: Arc::new(app) })
}

/// TLS 1.2 and 1.3, trusting the certificate authorities of the machine.
fn tls() -> Result<rustls::ClientConfig, ConfigError> {
    let broken = |error: &dyn std::fmt::Display| ConfigError::new("SSL_CERT_FILE", format!("gives no TLS: {error}"));
    let mut roots = rustls::RootCertStore::empty();
    let (trusted, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if trusted == 0 {
        return Err(broken(&"the machine trusts no certificate authority"));
    }
    let config = rustls::ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| broken(&error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

impl Deliver {
    /// Handles a batch. The response names the records that stay in their queue.
    ///
    /// # Errors
    /// The function's timeout leaves no time for an attempt. Then nothing of the batch has been done.
    pub async fn handle(&self, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, lambda_runtime::Error> {
        let app = &self.app;
        let left = event.context.deadline().duration_since(std::time::SystemTime::now()).unwrap_or_default();
        let Some(spare) = left.checked_sub(app.client.timeout() + RESERVE) else {
            return Err(format!("DELIVERY_TIMEOUT does not fit into the function's timeout: {left:?} left").into());
        };
        let (finished, inbox) = mpsc::unbounded_channel();
        let last_start = Instant::now() + spare;
        let batch = Batch { last_start, receivers: Mutex::default(), tally: Tally::default(), finished };
        let records = &event.payload.records;
        let attempts = async {
            let batch = batch;
            let handled = records.iter().enumerate().map(|(place, record)| app.record(place, record, &batch));
            let undone: Vec<_> = all(handled).await.into_iter().flatten().collect();
            batch.tally.emit();
            undone
        };
        let (mut undone, unbooked) = tokio::join!(attempts, app.book_all(inbox));
        undone.extend(unbooked);
        let mut response = SqsBatchResponse::default();
        undone.sort_by_key(|(place, _)| *place);
        undone.dedup_by_key(|(place, _)| *place);
        for (place, undone) in undone {
            let mut failure = BatchItemFailure::default();
            let record = records.get(place).and_then(|record| record.message_id.clone());
            failure.item_identifier = record.unwrap_or_default();
            observe::undone(&failure.item_identifier, &undone);
            response.batch_item_failures.push(failure);
        }
        Ok(response)
    }
}

/// What the records of a batch share.
struct Batch {
    /// No attempt starts later: it would be cut off by the function's timeout.
    last_start: Instant,
    /// The active endpoints of the tenants in it, read once for all of a tenant's events. `None` is a failed read: if
    /// each record tried again, the invocation would run out of time.
    receivers: Mutex<HashMap<TenantId, ReadOnce>>,
    tally: Tally,
    /// Where attempts go when they have ended, and events when they are parked.
    finished: UnboundedSender<Finished>,
}

type ReadOnce = Arc<OnceCell<Option<Arc<[Receiver]>>>>;

/// A delivery whose attempt is due.
struct Outgoing<'a> {
    /// The place of its record in the batch.
    place: usize,
    delivery: Delivery,
    /// The endpoint that it goes to, as long as that is there and active.
    receiver: Option<&'a Receiver>,
    /// Whether the log has the delivery already.
    is_stored: bool,
    /// Its slot, if it has one already.
    slot: Option<Slot>,
    mark: Option<Arc<Mark>>,
}

impl Batch {
    /// Passes on what has to be stored.
    fn finish(&self, finished: impl Into<Finished>) {
        // Whoever stores it is there until all attempts have ended.
        self.finished.send(finished.into()).ok();
    }

    async fn receivers(&self, tenant: &TenantId, store: &Endpoints) -> Result<Arc<[Receiver]>, Error> {
        let cell = Arc::clone(
            self.receivers.lock().unwrap_or_else(PoisonError::into_inner).entry(tenant.clone()).or_default(),
        );
        let read = async || {
            // Boxed: the SDK's futures take thousands of bytes, and every record of a batch would reserve them.
            let read = Box::pin(store.active(tenant)).await.inspect_err(|error| observe::unread(tenant, error));
            read.ok().map(Arc::from)
        };
        cell.get_or_init(read).await.clone().ok_or(Error::Busy)
    }
}

/// Runs all futures to completion and returns their outputs, in any order. Each is polled only when it is woken.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    futures.collect::<FuturesUnordered<_>>().collect().await
}

impl App {
    /// Handles a record, up to the end of its attempts. Returns its place and why, if it stays in its queue.
    async fn record(&self, place: usize, record: &SqsMessage, batch: &Batch) -> Option<(usize, Undone)> {
        let handled = AssertUnwindSafe(self.handle(place, record, batch)).catch_unwind().await;
        let undone = handled.unwrap_or_else(|panic| Err(Undone::Panicked(panic))).err()?;
        Some((place, undone))
    }

    async fn handle(&self, place: usize, record: &SqsMessage, batch: &Batch) -> Result<(), Undone> {
        let body = record.body.as_deref().unwrap_or_default();
        let attribute = |name| record.attributes.get(name).and_then(|value| value.parse().ok());
        let sent_at = attribute("SentTimestamp").map_or_else(Timestamp::now, Timestamp::from_millisecond);
        let is_repeated = attribute("ApproximateReceiveCount").is_some_and(|receives| receives > 1);
        if self.queue.has_arn(record.event_source_arn.as_deref().unwrap_or_default()) {
            // Boxed, like the other rarer paths: the future of every record has the size of the largest path.
            return Box::pin(self.due(place, body, sent_at, is_repeated, batch)).await;
        }
        let event = JobEvent::parse(body)?;
        let receivers = match event.audience {
            Audience::Endpoints => batch.receivers(&event.tenant, &self.endpoints).await?,
            Audience::Nobody | Audience::Callback { .. } => Arc::default(),
        };
        let interested = receivers.iter().filter(|receiver| receiver.wants(event.name));
        let mut firsts = firsts(place, &event, sent_at, interested);
        if is_repeated {
            Box::pin(self.leave_out_known(&event.tenant, &mut firsts)).await?;
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

    /// The lane of a delivery.
    fn lane(&self, outgoing: &Outgoing<'_>) -> Lane {
        let Delivery { tenant, payload, .. } = &outgoing.delivery;
        match &payload.destination {
            Destination::Endpoint(id) => self.slots.lane(tenant, id),
            Destination::Callback { url, .. } => self.slots.lane(tenant, url.origin()),
        }
    }

    /// Parks an event for receivers that do not answer. It comes back through the deliveries queue, at once the first time:
    /// they may be back. Where it is `already` parked for the same ones, a message is enough.
    fn park(
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

    /// Leaves out what the log already knows of an event that came before. Those that wait get a message: it is not
    /// known whether the one before was sent.
    async fn leave_out_known(&self, tenant: &TenantId, firsts: &mut Vec<Outgoing<'_>>) -> Result<(), Undone> {
        // The log may have been spread over more shards since, or the endpoint may be gone.
        let ids = firsts.iter().flat_map(|first| {
            let id = first.delivery.entry.id;
            let shard = id.webhook_id.shard(SHARDS);
            [Some(DeliveryId { shard: 0, ..id }), (shard != 0).then_some(DeliveryId { shard, ..id })]
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

    /// Handles a message of the deliveries queue.
    async fn due(
        &self,
        place: usize,
        body: &str,
        sent_at: Timestamp,
        is_repeated: bool,
        batch: &Batch,
    ) -> Result<(), Undone> {
        let message = match Message::parse(body) {
            Ok(message) => message,
            Err(malformed) => {
                // Perhaps a version before the delivery log has sent it.
                let delivery = legacy::parse(body, sent_at).map_err(|_not_that_either| malformed)?;
                let until = delivery.entry.next_attempt_at.unwrap_or_else(Timestamp::now);
                let outgoing = Outgoing { place, delivery, receiver: None, is_stored: false, slot: None, mark: None };
                batch.finish(outgoing.ended(AttemptResult::Postponed(until)));
                return Ok(());
            }
        };
        let Some(mark) = self.under_way.begin(message.clone()) else { return Ok(()) };
        match message {
            Message::Attempt(due) => self.due_attempt(place, due, is_repeated, mark, batch).await,
            Message::Event(due) => self.due_event(place, due, mark, batch).await,
        }
    }

    /// Makes an attempt that is due.
    async fn due_attempt(
        &self,
        place: usize,
        due: DueAttempt,
        is_repeated: bool,
        mark: Mark,
        batch: &Batch,
    ) -> Result<(), Undone> {
        let now = Timestamp::now();
        let Some((entry, payload)) = self.log.find(&due.tenant, &due.id).await? else {
            // It has expired.
            return Ok(());
        };
        if is_repeated && is_given_up_by(&entry, due.attempt) {
            // This record made the last attempt, and may have come back before what follows for the endpoint was noted.
            let receiver = match entry.webhook_endpoint_id {
                Some(id) => self.endpoints.find_active(&due.tenant, id).await?,
                None => None,
            };
            let health = receiver.map(|receiver| receiver.health);
            return Ok(self.decline(&due.tenant, &entry, health, now).await?);
        }
        if entry.status != Status::Pending {
            return Ok(());
        }
        let is_stale = DueAttempt::next(&due.tenant, &entry) != due;
        if is_stale && !(is_repeated && due.attempt == entry.attempts) {
            // The delivery has got past this attempt: another message was for the same one.
            return Ok(());
        }
        if is_stale || entry.next_attempt_at.is_some_and(|at| at.since(now) > EARLY) {
            // Either this record made the attempt and came back before the next message was sent, or it is early, since
            // the attempt was put off. What waits for longer than a message can is woken from the log.
            let message = ledger::message(&due.tenant, &entry, now);
            return Ok(self.queue.send(message.as_slice(), now).await.into_iter().collect::<Result<(), _>>()?);
        }
        let payload = payload.ok_or_else(|| Error::Internal(format!("the payload of {} is missing", due.id)))?;
        let delivery = Delivery { tenant: due.tenant, entry, payload };
        let receiver = match delivery.payload.destination {
            Destination::Endpoint(id) if delivery.entry.trigger == Trigger::Test => {
                self.endpoints.find(&delivery.tenant, id).await?
            }
            Destination::Endpoint(id) => self.endpoints.find_active(&delivery.tenant, id).await?,
            Destination::Callback { .. } => None,
        };
        let mark = Some(Arc::new(mark));
        self.in_turn(
            Outgoing { place, delivery, receiver: receiver.as_ref(), is_stored: true, slot: None, mark },
            batch,
        )
        .await;
        Ok(())
    }

    /// Makes the first attempts of a parked event.
    async fn due_event(&self, place: usize, due: DueEvent, mark: Mark, batch: &Batch) -> Result<(), Undone> {
        let Some(Parked { event, at, endpoints }) = self.log.parked(&due).await? else {
            observe::parked_too_long(&due);
            return Ok(());
        };
        let receivers = match event.audience {
            Audience::Endpoints => batch.receivers(&event.tenant, &self.endpoints).await?,
            Audience::Nobody | Audience::Callback { .. } => Arc::default(),
        };
        let parked_for = receivers.iter().filter(|receiver| endpoints.contains(&receiver.id));
        let mut firsts = firsts(place, &event, at, parked_for);
        let gone = endpoints.iter().filter(|id| receivers.iter().all(|receiver| receiver.id != **id));
        firsts.extend(gone.map(|id| Outgoing::first(place, &event, at, Destination::Endpoint(*id), None)));
        let now = Timestamp::now();
        let is_young = now.since(at) < PARKED;
        let looked_at = firsts.into_iter().map(async |mut first| {
            if is_young && self.silence(&first, now).is_some_and(|silence| silence.hangs) {
                first.slot = self.probe(&first, batch).await.ok();
                return (first.slot.is_none(), first);
            }
            (false, first)
        });
        let (stuck, others): (Vec<_>, Vec<_>) = all(looked_at).await.into_iter().partition(|(is_stuck, _)| *is_stuck);
        let stuck: Vec<_> = stuck.into_iter().map(|(_, first)| first).collect();
        self.park(&event, at, &stuck, Some(&due), batch);
        let mut firsts = others.into_iter().map(|(_, first)| first).collect();
        self.leave_out_known(&event.tenant, &mut firsts).await?;
        let mark = Arc::new(mark);
        let attempts = firsts.into_iter().map(|first| Outgoing { mark: Some(Arc::clone(&mark)), ..first });
        all(attempts.map(|first| self.in_turn(first, batch))).await;
        Ok(())
    }

    /// Makes an attempt that came from the deliveries queue, once there is a slot for it.
    async fn in_turn(&self, mut outgoing: Outgoing<'_>, batch: &Batch) {
        if outgoing.is_gone() {
            return batch.finish(outgoing.ended(AttemptResult::Gone));
        }
        let now = Timestamp::now();
        let entry = &outgoing.delivery.entry;
        // Somebody waits for the result of a test.
        let is_test = entry.trigger == Trigger::Test;
        let is_last = now.as_millisecond() >= entry.give_up_at.get();
        let silence = self.silence(&outgoing, now).filter(|silence| silence.hangs && !is_test);
        let slot = match outgoing.slot.take() {
            Some(slot) => Ok(slot),
            None if silence.is_some() => self.probe(&outgoing, batch).await,
            None => self.slots.take(self.lane(&outgoing), batch.last_start, batch.last_start).await,
        };
        let until = match slot {
            Ok(slot) => return self.attempt(outgoing, slot, batch).await,
            // It is too old to wait for longer.
            Err(NoSlot::Full) if is_last => return batch.finish(outgoing.ended(AttemptResult::Expired)),
            Err(NoSlot::Full) => put_off(silence.map(|silence| silence.since), now),
            Err(NoSlot::Late) => Timestamp::now(),
        };
        batch.finish(outgoing.ended(AttemptResult::Postponed(until)));
    }

    /// Whether the receiver of a delivery does not answer.
    fn silence(&self, outgoing: &Outgoing<'_>, now: Timestamp) -> Option<Silence> {
        self.slots.silence(self.lane(outgoing), outgoing.health().as_ref(), now)
    }

    /// Takes a slot for a receiver that hangs. One process at a time tries such an endpoint, for as long as an attempt
    /// takes: each would wait for it with all that it could do for others.
    async fn probe(&self, outgoing: &Outgoing<'_>, batch: &Batch) -> Result<Slot, NoSlot> {
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
    async fn attempt(&self, outgoing: Outgoing<'_>, slot: Slot, batch: &Batch) {
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

/// Whether a delivery was given up with this attempt.
fn is_given_up_by(entry: &Entry, attempt: u32) -> bool {
    // What has expired was given up without the attempt.
    entry.status == Status::Failed && (entry.attempts..=entry.attempts.saturating_add(1)).contains(&attempt)
}

impl<'a> Outgoing<'a> {
    /// The first attempt of a delivery.
    fn first(place: usize, event: &JobEvent, at: Timestamp, to: Destination, receiver: Option<&'a Receiver>) -> Self {
        // Of an endpoint that is gone, the first shard is always read.
        let shards = match &to {
            Destination::Endpoint(_) => receiver.map_or(1, |receiver| receiver.log_shards),
            Destination::Callback { .. } => SHARDS,
        };
        let delivery = Delivery::first(event, at, to, shards);
        Self { place, delivery, receiver, is_stored: false, slot: None, mark: None }
    }

    /// Whether its endpoint has been deleted or made inactive.
    fn is_gone(&self) -> bool {
        self.delivery.target(self.receiver).is_none()
    }

    /// What is known of its receiver.
    fn health(&self) -> Option<Health> {
        self.receiver.map(|receiver| receiver.health)
    }

    /// What became of it.
    fn ended(self, result: AttemptResult) -> Ended {
        let health = self.health();
        let Self { place, delivery, is_stored, mark, .. } = self;
        Ended { place, delivery, is_stored, result, health, shown: None, mark }
    }
}

/// The deliveries of an event to these endpoints of its tenant, or to its callback.
fn firsts<'a>(
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

#[cfg(test)]
mod tests {
    use std::{io, time::SystemTime};

    use aws_lambda_events::sqs::SqsMessage;
    use futures::future::BoxFuture;
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// A function with a single slot, which panics when it looks up a name. Its queues and tables do not exist.
    fn panicking() -> Deliver {
        let env = Env::new(|name| {
            let is_number = matches!(name, "DELIVERY_RETENTION" | "KEPT_PAYLOAD_BYTES");
            Some(if is_number { "1" } else { "http://127.0.0.1:9/nowhere" }.to_owned())
        });
        let aws = Aws::new(&env).expect("settings");
        let lookup = |name| -> BoxFuture<'static, _> { Box::pin(async move { panic!("no resolver for {name}") }) };
        let policy = DestinationPolicy::new(true, vec!["127.0.0.0/8".parse().expect("a range")]);
        let tls = tls().expect("the machine trusts a certificate authority");
        let app = App {
            endpoints: Endpoints::from_env(&env, &aws).expect("settings"),
            log: Log::from_env(&env, &aws).expect("settings"),
            queue: Queue::from_env(&env, &aws).expect("settings"),
            client: Client::new(policy, Duration::from_secs(2), 1, tls, Arc::new(lookup)),
            schedule: Vec::new(),
            disable_after: Duration::ZERO,
            slots: Slots::new(1),
            under_way: UnderWay::default(),
        };
        Deliver { app: Arc::new(app) }
    }

    /// A record with an event for the callback `url`.
    fn record(id: &str, url: &str) -> SqsMessage {
        let event = json!({
            "event": "job.completed", "tenant_id": "t", "job_id": "j", "callback_url": url, "callback_secret": "s",
        });
        let mut record = SqsMessage::default();
        record.message_id = Some(id.to_owned());
        record.body = Some(event.to_string());
        record
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_panic_costs_its_own_record_and_is_logged() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let good = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("it is taken");
            }
        });
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            common::telemetry::log::subscriber(tracing::level_filters::LevelFilter::INFO, move || writer.clone());
        let _guard = tracing::subscriber::set_default(subscriber);
        let mut event = LambdaEvent::new(SqsEvent::default(), lambda_runtime::Context::default());
        event.payload.records = vec![record("a", &good), record("b", "http://panics.example/"), record("c", &good)];
        let deadline = SystemTime::now() + Duration::from_secs(30);
        let deadline = deadline.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
        event.context.deadline = u64::try_from(deadline).expect("before the year 500,000,000");

        let undone = panicking().handle(event).await.expect("an answer").batch_item_failures;

        assert_eq!(undone.iter().map(|failure| failure.item_identifier.as_str()).collect::<Vec<_>>(), ["b"]);
        let log = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("UTF-8");
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let (panics, others): (Vec<_>, Vec<_>) = lines.partition(|line| line["panic"].is_string());
        assert_eq!(panics.len(), 1, "{log}");
        assert_eq!(panics[0]["panic"], "no resolver for panics.example");
        assert_eq!(panics[0]["message_id"], "b");
        assert_eq!(others.iter().filter(|line| line["outcome"] == "delivered").count(), 2, "{log}");
    }
}
