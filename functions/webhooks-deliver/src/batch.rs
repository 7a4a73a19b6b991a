//! The state shared by a batch's records.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use aws_lambda_events::sqs::SqsMessage;
use common::{
    id::TenantId,
    lock::lock,
    webhooks::{
        delivery::Queue,
        event::JobEvent,
        job_failures::FailedJob,
        queue::{Queues, tenant_of},
    },
};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::mpsc::UnboundedSender, task::unconstrained, time::Instant};

use crate::{
    observe::Tally,
    outgoing::{Due, Ended},
    record::{self, Record},
};

/// An organization with at least this many of a batch's up to ten records is a crowd.
const CROWD: usize = 5;

pub(crate) struct Batch {
    /// The queue that the batch came from; `None` for job events.
    pub(crate) queue: Option<Queue>,
    /// The crowd of a batch of due attempts, or of a late batch of events.
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
            crowd: (queue.is_some() || is_late).then(|| crowd(records)).flatten(),
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

/// The organization with the most records in a batch, if it is a crowd.
fn crowd(records: &[SqsMessage]) -> Option<TenantId> {
    let tenants = records.iter().filter_map(|record| tenant_of(record.body.as_deref()?));
    let mut counts = BTreeMap::<_, usize>::new();
    tenants.for_each(|tenant| *counts.entry(tenant).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count >= CROWD).map(|(tenant, _)| tenant)
}

/// Runs all futures to completion and returns their outputs in any order. A future is polled only when woken.
///
/// Tokio's cooperative budget is disabled, so every future starts before any continues. With the budget, a batch of a
/// hundred posts would handle its first responses before it has sent the last third of the requests. Each future reads
/// a bounded amount of data and does a bounded amount of work.
pub(crate) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    unconstrained(futures.collect::<FuturesUnordered<_>>().collect()).await
}

#[cfg(test)]
mod tests {
    use common::{timestamp::Timestamp, webhooks::delivery::Delivery};

    use super::*;

    fn record(tenant: &str) -> SqsMessage {
        let endpoint = "01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id");
        let id = Delivery::test(endpoint, Timestamp::now()).id;
        let mut record = SqsMessage::default();
        record.body = Some(format!(r#"{{"tenant_id": "{tenant}", "delivery_id": "{id}", "attempt": 1}}"#));
        record
    }

    #[test]
    fn a_crowd_has_at_least_half_of_a_batch() {
        let batch = |of_a: usize, of_b: usize| {
            let records: Vec<_> =
                (0..of_a).map(|_| record("a")).chain((0..of_b).map(|_| record("b"))).chain([record("c")]).collect();
            crowd(&records).map(|tenant| tenant.as_str().to_owned())
        };
        assert_eq!(batch(4, 4), None);
        assert_eq!(batch(5, 4).as_deref(), Some("a"));
        assert_eq!(batch(0, 9).as_deref(), Some("b"));
    }

    #[test]
    fn job_events_have_a_crowd_and_malformed_ones_do_not_count() {
        let of = |body: &str| {
            let mut record = SqsMessage::default();
            record.body = Some(body.to_owned());
            record
        };
        let event = r#"{"event": "job.completed", "tenant_id": "a", "job_id": "j", "data": {"tenant_id": "b"}}"#;
        let mut records = vec![of(event); CROWD];
        assert_eq!(crowd(&records).expect("a crowd").as_str(), "a");
        records[0] = of("[");
        assert_eq!(crowd(&records), None);
        assert_eq!(crowd(&vec![of(r#"{"tenant_id": 1}"#); CROWD]), None);
    }
}
