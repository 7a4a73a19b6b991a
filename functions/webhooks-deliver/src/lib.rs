//! Delivers job events to webhook endpoints.
//!
//! A `JobEvent` comes from the job events queue and goes to its `Audience`, as a `Delivery` for each destination. The
//! `Client` makes an attempt once `Admission` lets it start. `next_step` decides what follows, and the `Queues` keep
//! the deliveries that wait or have been given up. The first attempts of a batch are made at once and in the same
//! invocation, so an event costs one message if all goes well, and only a failure costs another.
//!
//! A record is acknowledged only once its follow-up is stored: a crash at any point repeats work, but loses none.

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
    id::TenantId,
    random,
    timestamp::Timestamp,
    webhooks::{
        client::{Client, NoDescriptor, Target},
        delivery::{Death, Delivery, Destination},
        destination::DestinationPolicy,
        dialer::system_lookup,
        endpoints::{Endpoints, Receiver},
        event::{Audience, JobEvent},
        outcome::{Failure, Outcome, Step, next_step},
        queue::Queues,
    },
};
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use lambda_runtime::LambdaEvent;
use rustls::crypto::ring;
use tokio::{
    sync::{OnceCell, Semaphore},
    time::Instant,
};

use crate::{
    admission::{Admission, PAUSE},
    observe::Tally,
    undone::Undone,
};

mod admission;
mod observe;
mod undone;

/// The time kept free at the end of an invocation to store what follows from the last attempts.
const RESERVE: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(1));
/// SQS may hand over a message slightly before its delay is over. Up to this many milliseconds are not worth sending it
/// again.
const EARLY: i64 = 1000;

/// The function, ready to be called. Cloning is cheap.
#[derive(Clone)]
pub struct Deliver {
    app: Arc<App>,
}

struct App {
    endpoints: Endpoints,
    queues: Queues,
    client: Client,
    schedule: Vec<Duration>,
    /// One permit for each concurrent attempt.
    slots: Semaphore,
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
        queues: Queues::from_env(env, &aws)?,
        client,
        schedule: env.numbers("RETRY_SCHEDULE", &(0..=86_400), 20)?.into_iter().map(Duration::from_secs).collect(),
        slots: Semaphore::new(attempts),
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
        let admission = Admission::new(&app.slots, Instant::now() + spare);
        let batch = Batch { admission, receivers: Mutex::default(), tally: Tally::default() };
        let records = event.payload.records.iter().map(|record| app.record(record, &batch));
        let undone = all(records).await;
        batch.tally.emit();
        let mut response = SqsBatchResponse::default();
        response.batch_item_failures = undone
            .into_iter()
            .flatten()
            .map(|item_identifier| {
                let mut failure = BatchItemFailure::default();
                failure.item_identifier = item_identifier;
                failure
            })
            .collect();
        Ok(response)
    }
}

/// What the records of a batch share.
struct Batch<'a> {
    admission: Admission<'a>,
    /// The active endpoints of the tenants in it, read once for all of a tenant's events. `None` is a failed read: if
    /// each record tried again, the invocation would run out of time.
    receivers: Mutex<HashMap<TenantId, ReadOnce>>,
    tally: Tally,
}

type ReadOnce = Arc<OnceCell<Option<Arc<[Receiver]>>>>;

impl Batch<'_> {
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
    /// Handles a record. Returns its id if it stays in its queue.
    async fn record(&self, record: &SqsMessage, batch: &Batch<'_>) -> Option<String> {
        let handled = AssertUnwindSafe(self.handle(record, batch)).catch_unwind().await;
        let undone = handled.unwrap_or_else(|panic| Err(Undone::Panicked(panic))).err()?;
        let message_id = record.message_id.clone().unwrap_or_default();
        observe::undone(&message_id, &undone);
        Some(message_id)
    }

    async fn handle(&self, record: &SqsMessage, batch: &Batch<'_>) -> Result<(), Undone> {
        let body = record.body.as_deref().unwrap_or_default();
        if self.queues.is_deliveries(record.event_source_arn.as_deref().unwrap_or_default()) {
            // Boxed, like the other rarer paths: the future of every record has the size of the largest path.
            return Box::pin(self.retry(body, batch)).await;
        }
        let sent_at = record.attributes.get("SentTimestamp").and_then(|time| time.parse().ok());
        self.event(body, sent_at, batch).await
    }

    /// Makes the first attempts of a job event, all at once.
    async fn event(&self, body: &str, sent_at: Option<i64>, batch: &Batch<'_>) -> Result<(), Undone> {
        let event = JobEvent::parse(body)?;
        let first = |destination, target| {
            let delivery = Delivery::first(&event, destination, sent_at, Timestamp::now());
            self.attempt(delivery, target, batch)
        };
        match &event.audience {
            Audience::Nobody => {}
            Audience::Callback { url, secret } => {
                let destination = Destination::Callback { url: url.clone(), secret: secret.clone() };
                Box::pin(first(destination, Target { url, secret })).await?;
            }
            Audience::Endpoints => {
                let receivers = batch.receivers(&event.tenant, &self.endpoints).await?;
                let attempts =
                    receivers.iter().map(|receiver| first(Destination::Endpoint(receiver.id), Target::of(receiver)));
                // All attempts run to completion, even if the follow-up of one cannot be stored.
                all(attempts).await.into_iter().collect::<Result<(), _>>()?;
            }
        }
        Ok(())
    }

    /// Makes the next attempt of a delivery, or sends it again if it is not due.
    async fn retry(&self, body: &str, batch: &Batch<'_>) -> Result<(), Undone> {
        let now = Timestamp::now();
        let delivery = Delivery::parse(body, now)?;
        if delivery.not_before.is_some_and(|time| time > now.as_millisecond() + EARLY) {
            return Ok(self.queues.wait(&delivery, now).await?);
        }
        match delivery.destination.clone() {
            Destination::Callback { url, secret } => {
                self.attempt(delivery, Target { url: &url, secret: &secret }, batch).await?;
            }
            Destination::Endpoint(id) => match Box::pin(self.endpoints.find_active(&delivery.tenant, id)).await? {
                Some(receiver) => self.attempt(delivery, Target::of(&receiver), batch).await?,
                None => observe::ended(&delivery),
            },
        }
        Ok(())
    }

    /// Makes an attempt, and stores what follows from it. If the attempt cannot start in time, the delivery goes back
    /// to the queue unchanged: an attempt is never cut off.
    async fn attempt(&self, mut delivery: Delivery, target: Target<'_>, batch: &Batch<'_>) -> Result<(), Error> {
        let Some(slot) = batch.admission.slot().await else {
            return self.queues.wait(&delivery, Timestamp::now()).await;
        };
        let Ok((outcome, duration)) = self.post(&delivery, target, &batch.admission).await else {
            return self.wait(delivery, PAUSE, Timestamp::now()).await;
        };
        drop(slot);
        delivery.attempts = delivery.attempts.saturating_add(1);
        let now = Timestamp::now();
        batch.tally.attempt(&delivery, outcome, duration, now);
        match next_step(outcome, delivery.attempts, &self.schedule, delivery.time_left(now), random::fraction) {
            Step::Done => Ok(()),
            Step::RetryAfter(delay) => self.wait(delivery, delay, now).await,
            Step::Dead(failure) => self.bury(&delivery, failure).await,
        }
    }

    /// Posts a delivery, and measures how long that takes. If there is no file descriptor, it tries again while there
    /// is time.
    async fn post(
        &self,
        delivery: &Delivery,
        target: Target<'_>,
        admission: &Admission<'_>,
    ) -> Result<(Outcome, Duration), NoDescriptor> {
        loop {
            let started = Instant::now();
            match self.client.post(delivery, target, Timestamp::now()).await {
                Ok(outcome) => return Ok((outcome, started.elapsed())),
                Err(NoDescriptor) => observe::no_descriptor(delivery),
            }
            if !admission.pause().await {
                return Err(NoDescriptor);
            }
        }
    }

    /// Queues a delivery for its next attempt, after `delay`.
    async fn wait(&self, mut delivery: Delivery, delay: Duration, now: Timestamp) -> Result<(), Error> {
        let delay = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        delivery.not_before = Some(now.as_millisecond().saturating_add(delay));
        self.queues.wait(&delivery, now).await
    }

    /// Gives up a delivery.
    async fn bury(&self, delivery: &Delivery, failure: Failure) -> Result<(), Error> {
        let at = Timestamp::now().to_string();
        let death = Death { reason: failure.reason(), attempts: delivery.attempts, at };
        self.queues.bury(delivery, &death).await?;
        observe::dead(delivery, failure);
        Ok(())
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
        let env = Env::new(|_| Some("http://127.0.0.1:9/nowhere".to_owned()));
        let aws = Aws::new(&env).expect("settings");
        let lookup = |name| -> BoxFuture<'static, _> { Box::pin(async move { panic!("no resolver for {name}") }) };
        let policy = DestinationPolicy::new(true, vec!["127.0.0.0/8".parse().expect("a range")]);
        let tls = tls().expect("the machine trusts a certificate authority");
        let app = App {
            endpoints: Endpoints::from_env(&env, &aws).expect("settings"),
            queues: Queues::from_env(&env, &aws).expect("settings"),
            client: Client::new(policy, Duration::from_secs(2), 1, tls, Arc::new(lookup)),
            schedule: Vec::new(),
            slots: Semaphore::new(1),
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
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
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
        let log = Log::default();
        let writer = log.clone();
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
        let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("UTF-8");
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let (panics, others): (Vec<_>, Vec<_>) = lines.partition(|line| line["panic"].is_string());
        assert_eq!(panics.len(), 1, "{log}");
        assert_eq!(panics[0]["panic"], "no resolver for panics.example");
        assert_eq!(panics[0]["message_id"], "b");
        assert_eq!(others.iter().filter(|line| line["outcome"] == "delivered").count(), 2, "{log}");
    }
}
