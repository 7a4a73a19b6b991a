//! The state shared by a batch's records.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use common::{
    id::TenantId,
    webhooks::{delivery::Queue, event::JobEvent, job_failures::FailedJob},
};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::mpsc::UnboundedSender, task::unconstrained, time::Instant};

use crate::{observe::Tally, plan::Ended, record::Record};

pub(crate) struct Batch {
    /// The queue that the batch came from; `None` for job events.
    pub(crate) queue: Option<Queue>,
    /// The organization that has at least half of the batch's due attempts.
    pub(crate) crowd: Option<TenantId>,
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
    pub(crate) fn new(
        queue: Option<Queue>,
        crowd: Option<TenantId>,
        last_start: Instant,
        is_late: bool,
        finished: UnboundedSender<Ended>,
    ) -> Self {
        static BATCHES: AtomicU64 = AtomicU64::new(0);
        Self {
            queue,
            crowd,
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

    /// Keeps the event of a failed job, to be recorded after the attempts.
    pub(crate) fn keep_failed(&self, record: &Record, event: &JobEvent) {
        let failed = FailedJob::of(event, record.is_repeated).map(|failed| (record.index, failed));
        if failed.is_some() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).extend(failed);
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
