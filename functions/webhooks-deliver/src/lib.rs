//! Delivers job events to webhook endpoints.
//!
//! A `JobEvent` from the job events queue is sent to its `Audience`, as one `Delivery` for each destination. An
//! invocation waits for its slowest attempt, so an attempt is made in it only if its receiver is quick: if the
//! receiver's gate is open. All of a batch's first attempts at quick receivers are made at once, so a successful
//! delivery costs one row in the `DeliveryLog` and no further message. All other deliveries are parked, and a `drain` makes
//! their attempts. `next_step` decides what follows a failure. Due attempts arrive from the queue `deliveries`, and drains
//! from the two others. New recoveries arrive beside the late drains.
//!
//! An attempt that has begun is never cut off: it runs to its answer or its timeout. A record is acknowledged only after
//! the results of its attempts have been stored; `ledger` defines the order. A crash at any point repeats work, but
//! loses none. `job_failures` records failed jobs for the emails about them.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use common::{
    aws::clients::{Aws, CALL_TIMEOUT},
    config::{ConfigError, Env},
    timestamp::Timestamp,
    webhooks::{
        delivery::DueAttempt,
        destination::DestinationPolicy,
        event::JobEvent,
        job_failures::JobFailures,
        post::{Client, Network, system_tls},
        queue::{Message, Retries, parse_message},
    },
};
use futures::FutureExt;
use lambda_runtime::LambdaEvent;
use tokio::time::{Instant, timeout};

use crate::{
    attempt::Sender,
    batch::{Batch, all},
    due_deliveries::AttemptsInProgress,
    job_failures::Notes,
    ledger::Ledger,
    permits::Permits,
    record::{Record, RecordError},
};

mod attempt;
mod batch;
mod drain;
mod due_deliveries;
mod first_attempts;
mod job_failures;
mod ledger;
mod permits;
mod plan;
mod reads;
mod receiver_health;
mod record;
mod retry;
mod telemetry;
mod turns;

/// The time kept free at the end of an invocation to store the results of the last attempts.
const STORING_TIME: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(1));

/// The maximum time for a call that only hastens later work. The reserve includes it.
const HASTENING_TIMEOUT: Duration = Duration::from_millis(500);

/// The function, ready to handle batches. Clones share their state.
#[derive(Clone)]
pub struct Deliver(Arc<App>);

struct App {
    sender: Sender,
    ledger: Ledger,
    notes: Notes,
    retries: Retries,
    in_progress: AttemptsInProgress,
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
    let at_once = Permits::new(attempts);
    let sender = Sender { client, drained: at_once.sibling(), at_once };
    let notes = Notes::new(JobFailures::from_env(env, &aws)?);
    let retries = Retries::from_env(env, &aws)?;
    Ok(Deliver(Arc::new(App { sender, ledger, notes, retries, in_progress: AttemptsInProgress::default() })))
}

impl Deliver {
    /// Handles a batch of records. The response lists the records that stay in their queue.
    ///
    /// # Errors
    /// The function's timeout leaves no time for an attempt. The batch has then not been touched.
    pub async fn handle(&self, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, lambda_runtime::Error> {
        let Self(app) = self;
        let left = event.context.deadline().duration_since(Timestamp::now().into()).unwrap_or_default();
        let Some(spare) = left.checked_sub(app.sender.client.timeout() + STORING_TIME) else {
            return Err(format!("DELIVERY_TIMEOUT does not fit into the function's timeout: {left:?} left").into());
        };
        let records = &event.payload.records;
        let (batch, inbox) = Batch::new(records, &app.ledger.queues, Instant::now() + spare);
        let is_repeated = |index| records.get(index).is_some_and(|record| Record::of(index, record).is_repeated);
        let storing = app.ledger.store_all(inbox, is_repeated);
        let attempts = async {
            // Moved here so that `end` consumes it and closes the channels. The ledger stops when there are no more
            // attempts.
            let batch = batch;
            let handled = records
                .iter()
                .enumerate()
                .map(async |(index, record)| Some((index, caught(app.handle(index, record, &batch)).await.err()?)));
            let failed: Vec<_> = all(handled).await.into_iter().flatten().collect();
            let unnoted = app.notes.note(batch.end()).await;
            failed.into_iter().chain(unnoted).collect::<Vec<_>>()
        };
        let (mut failed, unstored) = tokio::join!(attempts, storing);
        failed.extend(unstored);
        let (mut response, mut received) = (SqsBatchResponse::default(), Vec::new());
        failed.sort_by_key(|(index, _)| *index);
        failed.dedup_by_key(|(index, _)| *index);
        for (index, error) in failed {
            let Some(record) = records.get(index) else { continue };
            let id = record.message_id.as_deref().unwrap_or_default();
            telemetry::failed_record(id, &error);
            response.add_failure(id);
            // A malformed message never succeeds, so it keeps the queue's visibility timeout.
            let is_malformed = matches!(error, RecordError::Malformed(_));
            if let (Some(handle), false) = (record.receipt_handle.as_deref(), is_malformed) {
                received.push((handle, Record::of(index, record).receives));
            }
        }
        if let Some(arn) = records.first().and_then(|record| record.event_source_arn.as_deref()) {
            // Bounded, because the response must not be lost: it acknowledges the other records.
            let soon = timeout(HASTENING_TIMEOUT, app.retries.shorten_wait(arn, &received)).await;
            soon.unwrap_or_else(|elapsed| common::log!("messages.delayed", error = ?elapsed));
        }
        Ok(response)
    }
}

impl App {
    /// Handles a record until its attempts have ended.
    async fn handle(&self, index: usize, record: &SqsMessage, batch: &Batch) -> Result<(), RecordError> {
        let Self { sender, ledger, in_progress, .. } = self;
        let body = record.body.as_deref().unwrap_or_default();
        let record = Record::of(index, record);
        if batch.has_events {
            let event = JobEvent::parse(body, record.sent_at).map_err(RecordError::Malformed)?;
            batch.keep_failed(&record, &event);
            return first_attempts::event(&record, event, sender, ledger, batch).await;
        }
        // Boxed, like other rare paths: the future of every record is as large as its largest path.
        match parse_message(body).map_err(RecordError::Malformed)? {
            Message::Attempts(tenant, attempts) => {
                let due = attempts.into_iter().map(|(id, attempt)| DueAttempt { tenant: tenant.clone(), id, attempt });
                let made = due.map(|due| Box::pin(retry::attempt(&record, due, in_progress, sender, ledger, batch)));
                all(made.map(caught)).await.into_iter().collect()
            }
            Message::Drain(message) => Box::pin(drain::round(&record, message, sender, ledger, batch)).await,
            Message::Recovery(tenant, id) => Ok(Box::pin(ledger.recoveries.run(&tenant, id, batch.last_start)).await?),
        }
    }
}

/// Handles a record or one of its attempts. A panic does not affect the others.
async fn caught(handling: impl Future<Output = Result<(), RecordError>>) -> Result<(), RecordError> {
    AssertUnwindSafe(handling).catch_unwind().await.unwrap_or_else(|panic| Err(RecordError::Panicked(panic)))
}
