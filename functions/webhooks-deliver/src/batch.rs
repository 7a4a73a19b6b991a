//! The state shared by a batch's records.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use aws_lambda_events::sqs::SqsMessage;
use common::{
    id::TenantId,
    lock::lock,
    webhooks::{delivery::Queue, event::JobEvent, job_failures::FailedJob, queue::Queues},
};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::mpsc::UnboundedSender, task::unconstrained, time::Instant};

use crate::{
    observe::Tally,
    outgoing::{Due, Ended},
    record::{self, Record},
    rests,
};

pub(crate) struct Batch {
    /// The queue that the batch came from; `None` for job events.
    pub(crate) queue: Option<Queue>,
    /// The organization of at least half of the batch's records: due attempts, or events of a late batch.
    crowd: Option<TenantId>,
    /// The batch's number among the process's batches.
    pub(crate) number: u64,
    /// The latest time at which an attempt can start and still end before the function's timeout.
    pub(crate) last_start: Instant,
    pub(crate) tally: Tally,
    /// Whether a record of the batch waited so long that events must be queuing for invocations.
    pub(crate) is_late: bool,
    /// The number of short attempts in progress in this batch.
    pub(crate) in_progress: AtomicUsize,
    /// The failed jobs, each with the number of its record.
    failed: Mutex<Vec<(usize, FailedJob)>>,
    /// Sends ended attempts to the ledger.
    finished: UnboundedSender<Ended>,
}

impl Batch {
    /// Builds the batch of `records`, whose attempts start until `last_start` and then go to `finished`.
    pub(crate) fn new(
        records: &[SqsMessage],
        queues: &Queues,
        last_start: Instant,
        finished: UnboundedSender<Ended>,
    ) -> Self {
        static BATCHES: AtomicU64 = AtomicU64::new(0);
        // All records in a batch are from the same queue.
        let queue = records.first().and_then(|record| queues.with_arn(record.event_source_arn.as_deref()?));
        let is_late = queue.is_none() && records.iter().any(record::has_waited);
        Self {
            queue,
            crowd: (queue.is_some() || is_late).then(|| rests::crowd(records)).flatten(),
            number: BATCHES.fetch_add(1, Ordering::Relaxed),
            last_start,
            tally: Tally::default(),
            is_late,
            in_progress: AtomicUsize::new(0),
            failed: Mutex::default(),
            finished,
        }
    }

    /// The queue whose invocations this batch occupies: the shared one for job events.
    pub(crate) fn queue(&self) -> Queue {
        self.queue.unwrap_or(Queue::Shared)
    }

    /// Whether the delivery is from the organization that crowds the batch.
    pub(crate) fn is_crowd(&self, due: &Due) -> bool {
        self.crowd.as_ref() == Some(&due.tenant)
    }

    /// Keeps the event of a failed job, to be recorded after the attempts.
    pub(crate) fn keep_failed(&self, record: &Record, event: &JobEvent) {
        if let Some(failed) = FailedJob::of(event, record.is_repeated) {
            lock(&self.failed).push((record.index, failed));
        }
    }

    /// Ends the batch, closing the channel to the ledger. Returns the failed jobs.
    pub(crate) fn end(self) -> Vec<(usize, FailedJob)> {
        self.tally.emit();
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an ended attempt on to the ledger.
    pub(crate) fn finish(&self, ended: Ended) {
        // The ledger listens until all attempts have ended.
        self.finished.send(ended).ok();
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
