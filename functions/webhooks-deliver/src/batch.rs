//! The state shared by a batch's records.

use std::sync::{Mutex, PoisonError};

use aws_lambda_events::sqs::SqsMessage;
use common::{
    lock::lock,
    webhooks::{delivery::AttemptResult, event::JobEvent, job_failures::FailedJob, queue::Queues},
};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::unconstrained,
    time::Instant,
};

use crate::{due_deliveries::EndedAttempt, ledger::EndedAttempts, record::Record, telemetry::Tally};

pub(crate) struct Batch {
    /// Whether the batch is from the queue of job events. All records in a batch are from the same queue.
    pub(crate) has_events: bool,
    /// The latest time at which an attempt can start and still end before the function's timeout.
    pub(crate) last_start: Instant,
    pub(crate) tally: Tally,
    /// The failed jobs, each with the number of its record.
    failed: Mutex<Vec<(usize, FailedJob)>>,
    /// Send results to the ledger, as [`EndedAttempts`] divides them.
    ended: UnboundedSender<EndedAttempt>,
    parked: UnboundedSender<EndedAttempt>,
    heavy: UnboundedSender<EndedAttempt>,
}

impl Batch {
    /// Builds the batch of `records`, whose attempts start until `last_start`. Also returns their results.
    pub(crate) fn new(records: &[SqsMessage], queues: &Queues, last_start: Instant) -> (Self, EndedAttempts) {
        let (ended, ended_inbox) = unbounded_channel();
        let (parked, parked_inbox) = unbounded_channel();
        let (heavy, heavy_inbox) = unbounded_channel();
        let arn = records.first().and_then(|record| record.event_source_arn.as_deref());
        let batch = Self {
            has_events: !arn.is_some_and(|arn| queues.has_arn(arn)),
            last_start,
            tally: Tally::default(),
            failed: Mutex::default(),
            ended,
            parked,
            heavy,
        };
        (batch, EndedAttempts { ended: ended_inbox, parked: parked_inbox, heavy: heavy_inbox })
    }

    /// Keeps the event of a failed job, to be recorded after the attempts.
    pub(crate) fn keep_failed(&self, record: &Record, event: &JobEvent) {
        if let Some(failed) = FailedJob::of(event, record.is_repeated) {
            lock(&self.failed).push((record.index, failed));
        }
    }

    /// Ends the batch, closing the channels to the ledger. Returns the failed jobs.
    pub(crate) fn end(self) -> Vec<(usize, FailedJob)> {
        self.tally.emit();
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an ended or parked attempt on to the ledger.
    pub(crate) fn finish(&self, ended: EndedAttempt) {
        let inbox = match &ended.result {
            _ if ended.is_heavy() => &self.heavy,
            AttemptResult::Parked => &self.parked,
            _ => &self.ended,
        };
        // The ledger listens until all attempts have ended.
        inbox.send(ended).ok();
    }
}

/// Runs all futures to completion and returns their outputs in any order. A future is polled only when woken.
///
/// Tokio's cooperative budget is disabled, so every future starts before any continues. With the budget, a batch of a
/// hundred posts would handle its first responses before it has sent the last third of the requests. Each future reads
/// a bounded amount of data and does a bounded amount of work.
pub(crate) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    unconstrained(futures.collect::<FuturesUnordered<_>>().collect()).await
}
