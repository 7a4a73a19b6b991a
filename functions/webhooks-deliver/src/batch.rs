//! State that the records of a batch share.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use common::webhooks::{delivery::Queue, event::JobEvent, job_failures::FailedJob};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::mpsc::UnboundedSender, task::unconstrained, time::Instant};

use crate::{observe::Tally, plan::Ended, record::Record};

pub(crate) struct Batch {
    /// The queue of its due attempts; `None` for job events.
    pub(crate) queue: Option<Queue>,
    /// The batch's number among the batches of the process.
    pub(crate) number: u64,
    /// No attempt starts after this time, since the function's timeout would cut it off.
    pub(crate) last_start: Instant,
    pub(crate) tally: Tally,
    /// Whether events wait for an invocation: a record of the batch has waited too long.
    pub(crate) is_late: bool,
    /// The number of short attempts in progress that the batch waits for.
    pub(crate) in_progress: AtomicUsize,
    /// The failed jobs, each with the number of its record.
    failed: Mutex<Vec<(usize, FailedJob)>>,
    /// Sends ended attempts to the ledger.
    finished: UnboundedSender<Ended>,
}

impl Batch {
    pub(crate) fn new(
        queue: Option<Queue>,
        last_start: Instant,
        is_late: bool,
        finished: UnboundedSender<Ended>,
    ) -> Self {
        static BATCHES: AtomicU64 = AtomicU64::new(0);
        Self {
            queue,
            number: BATCHES.fetch_add(1, Ordering::Relaxed),
            last_start,
            tally: Tally::default(),
            is_late,
            in_progress: AtomicUsize::new(0),
            failed: Mutex::default(),
            finished,
        }
    }

    /// The queue whose invocations it occupies. Events count as shared.
    pub(crate) fn queue(&self) -> Queue {
        self.queue.unwrap_or(Queue::Shared)
    }

    /// Keeps the event of a failed job, to be noted after the attempts.
    pub(crate) fn keep_failed(&self, record: &Record, event: &JobEvent) {
        let failed = FailedJob::of(event, record.is_repeated).map(|failed| (record.index, failed));
        if failed.is_some() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).extend(failed);
        }
    }

    /// Ends the batch, which closes the channel to the ledger. Returns the failed jobs.
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

/// Runs all futures to completion and returns their outputs, in any order. Each is polled only when it is woken.
///
/// Tokio's budget for tasks is disabled, so that all futures begin before any continues: with it, the first responses
/// would be read, logged and stored while a third of a hundred posts have yet to be sent. Each future is bounded in the
/// data that it reads and the work that it does.
pub(crate) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    unconstrained(futures.collect::<FuturesUnordered<_>>().collect()).await
}
