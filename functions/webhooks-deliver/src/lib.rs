//! Delivers job events to webhook endpoints.
//!
//! A `JobEvent` from the job events queue is sent to its `Audience`, as one `Delivery` for each destination. An
//! invocation waits for its slowest attempt, so an attempt is made in it only if its receiver is quick: if the
//! receiver's gate is open. All of a batch's first attempts at quick receivers are made at once, so a successful
//! delivery costs one row in the `Log` and no further message. All other deliveries are parked, and a `drain` makes
//! their attempts. `next_step` decides what follows a failure. Due attempts arrive from the queue `deliveries`, and drains
//! from the two others.
//!
//! An attempt that has begun is never cut off: it runs to its answer or its timeout.
//!
//! A record is acknowledged only after the results of its attempts have been stored; `ledger` defines the order. A
//! crash at any point repeats work, but loses none. `job_failures` records failed jobs for the emails about them.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use common::{
    aws::clients::{Aws, CALL_TIMEOUT},
    config::{ConfigError, Env},
    timestamp::Timestamp,
    webhooks::{
        destination::DestinationPolicy,
        event::JobEvent,
        job_failures::JobFailures,
        post::{Client, Network, system_tls},
        queue::{Message, parse_message},
    },
};
use futures::FutureExt;
use lambda_runtime::LambdaEvent;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    attempt::Sender,
    batch::{Batch, all},
    job_failures::Notes,
    ledger::Ledger,
    outgoing::InProgress,
    places::Places,
    record::{Record, Undone},
};

mod attempt;
mod batch;
mod drain;
mod fresh;
mod job_failures;
mod ledger;
mod news;
mod observe;
mod outgoing;
mod places;
mod plan;
mod reads;
mod recent;
mod record;
mod retry;
mod turns;

/// The time kept free at the end of an invocation to store the results of the last attempts.
const RESERVE: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(1));

/// The function, ready to handle batches. Clones share their state.
#[derive(Clone)]
pub struct Deliver(Arc<App>);

struct App {
    sender: Sender,
    ledger: Ledger,
    notes: Notes,
    in_progress: InProgress,
}

/// Builds the function with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse, or the machine has no trusted certificate authorities.
pub fn function(env: &Env) -> Result<Deliver, ConfigError> {
    function_over(env, Network::system(), system_tls()?)
}

/// Builds the function with the settings in `env`. It connects to receivers with `network` and `tls`.
pub fn function_over(env: &Env, network: Network, tls: rustls::ClientConfig) -> Result<Deliver, ConfigError> {
    let aws = Aws::new(env)?;
    let timeout = Duration::from_secs(env.number("DELIVERY_TIMEOUT", 1..=23)?);
    let attempts = env.number("MAX_CONCURRENT_ATTEMPTS", 1..=1000)?;
    let client = Client::new(DestinationPolicy::from_env(env)?, timeout, attempts, tls, network);
    let ledger = Ledger::from_env(env, &aws)?;
    let sender = Sender { client, at_once: Places::new(attempts), drained: Places::new(attempts) };
    let notes = Notes { table: JobFailures::from_env(env, &aws)?, storms: Mutex::default() };
    Ok(Deliver(Arc::new(App { sender, ledger, notes, in_progress: InProgress::default() })))
}

impl Deliver {
    /// Handles a batch of records. The response lists the records that stay in their queue.
    ///
    /// # Errors
    /// The function's timeout leaves no time for an attempt. The batch has then not been touched.
    pub async fn handle(&self, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, lambda_runtime::Error> {
        let Self(app) = self;
        let left = event.context.deadline().duration_since(Timestamp::now().into()).unwrap_or_default();
        let Some(spare) = left.checked_sub(app.sender.client.timeout() + RESERVE) else {
            return Err(format!("DELIVERY_TIMEOUT does not fit into the function's timeout: {left:?} left").into());
        };
        let (finished, inbox) = mpsc::unbounded_channel();
        let records = &event.payload.records;
        let batch = Batch::new(records, &app.ledger.queues, Instant::now() + spare, finished);
        let is_repeated = |index| records.get(index).is_some_and(|record| Record::of(index, record).is_repeated);
        let storing = app.ledger.store_all(inbox, is_repeated);
        let attempts = async {
            // Moved here so that `end` consumes it and closes the channel. The ledger stops when there are no more
            // attempts.
            let batch = batch;
            let handled = records.iter().enumerate().map(async |(index, record)| {
                let handled = AssertUnwindSafe(app.handle(index, record, &batch)).catch_unwind().await;
                Some((index, handled.unwrap_or_else(|panic| Err(Undone::Panicked(panic))).err()?))
            });
            let undone: Vec<_> = all(handled).await.into_iter().flatten().collect();
            let unnoted = app.notes.note(batch.end()).await;
            undone.into_iter().chain(unnoted).collect::<Vec<_>>()
        };
        let (mut undone, unstored) = tokio::join!(attempts, storing);
        undone.extend(unstored);
        let mut response = SqsBatchResponse::default();
        undone.sort_by_key(|(index, _)| *index);
        undone.dedup_by_key(|(index, _)| *index);
        for (index, undone) in undone {
            let id = records.get(index).and_then(|record| record.message_id.as_deref()).unwrap_or_default();
            observe::undone(id, &undone);
            response.add_failure(id);
        }
        Ok(response)
    }
}

impl App {
    /// Handles a record until its attempts have ended.
    async fn handle(&self, index: usize, record: &SqsMessage, batch: &Batch) -> Result<(), Undone> {
        let Self { sender, ledger, in_progress, .. } = self;
        let body = record.body.as_deref().unwrap_or_default();
        let record = Record::of(index, record);
        if batch.has_events {
            let event = JobEvent::parse(body, record.sent_at).map_err(Undone::Malformed)?;
            batch.keep_failed(&record, &event);
            return fresh::event(&record, event, sender, ledger, batch).await;
        }
        // Boxed, like other rare paths: the future of every record is as large as its largest path.
        match parse_message(body).map_err(Undone::Malformed)? {
            Message::Attempt(due) => match in_progress.begin(due.clone()) {
                Some(mark) => Box::pin(retry::attempt(&record, due, mark, sender, ledger, batch)).await,
                // This process is already handling the same attempt for another record.
                None => Ok(()),
            },
            Message::Drain(message) => Box::pin(drain::round(&record, message, sender, ledger, batch)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Mutex, time::SystemTime};

    use aws_lambda_events::sqs::SqsMessage;
    use futures::future::BoxFuture;
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// A function with a resolver that panics. Its AWS is the server at `aws`.
    fn panicking(aws: &str) -> Deliver {
        let aws = aws.to_owned();
        let env = Env::new(move |name| {
            let value = match name {
                "ALLOW_HTTP_DESTINATIONS" => "true",
                "ALLOWED_DESTINATIONS" => "127.0.0.0/8",
                "MAX_CONCURRENT_ATTEMPTS" | "DELIVERY_TIMEOUT" | "RETRY_SCHEDULE" => "1",
                "AWS_ENDPOINT_URL_DYNAMODB" => &aws,
                "AWS_REGION" => "eu-central-1",
                "DELIVERY_RETENTION" | "HOLD_FOR" | "KEPT_PAYLOAD_BYTES" | "DISABLE_AFTER" => "1",
                _ => "http://127.0.0.1:9/nowhere",
            };
            Some(value.to_owned())
        });
        let lookup = |name| -> BoxFuture<'static, _> { Box::pin(async move { panic!("no resolver for {name}") }) };
        let network = Network { lookup: Arc::new(lookup), ..Network::system() };
        function_over(&env, network, system_tls().expect("trusted authorities")).expect("settings")
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
    async fn a_panic_fails_only_its_record_and_is_logged() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let good = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.expect("a request");
                let request = String::from_utf8_lossy(&request[..read]).to_lowercase();
                // Each read finds an open gate, and each write succeeds.
                let item = r#"{"Item": {"gate": {"S": "open.0"}}}"#;
                let answer = if request.contains("x-amz-target: dynamodb") {
                    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{item}", item.len())
                } else {
                    "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned()
                };
                stream.write_all(answer.as_bytes()).await.expect("it is taken");
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

        let undone = panicking(good.trim_end_matches('/')).handle(event).await.expect("an answer").batch_item_failures;

        let log = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("UTF-8");
        let undone: Vec<_> = undone.iter().map(|failure| failure.item_identifier.as_str()).collect();
        assert_eq!(undone, ["b"], "{log}");
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let (panics, others): (Vec<_>, Vec<_>) = lines.partition(|line| line["panic"].is_string());
        assert_eq!(panics.len(), 1, "{log}");
        assert_eq!(panics[0]["panic"], "no resolver for panics.example");
        assert_eq!(panics[0]["message_id"], "b");
        assert_eq!(others.iter().filter(|line| line["outcome"] == "delivered").count(), 2, "{log}");
    }
}
