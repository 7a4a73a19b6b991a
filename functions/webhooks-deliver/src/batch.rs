//! What the records of a batch share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use common::{
    error::Error,
    id::{EndpointId, TenantId},
    webhooks::{
        delivery::Queue,
        endpoints::Endpoint,
        event::{Audience, JobEvent},
        failures::FailedJob,
    },
};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{OnceCell, mpsc::UnboundedSender},
    task::unconstrained,
    time::Instant,
};

use crate::{observe::Tally, plan::Ended, reads::Reads, record::Record, stores::Stores};

pub(crate) struct Batch {
    /// Its number among the batches of the process.
    pub(crate) number: u64,
    /// No attempt starts later: it would be cut off by the function's timeout.
    pub(crate) last_start: Instant,
    pub(crate) tally: Tally,
    /// Whether others wait for an invocation: its first record has waited for long.
    pub(crate) is_late: bool,
    /// How many short attempts it has under way, for which it waits.
    pub(crate) under_way: AtomicUsize,
    /// The endpoints of each tenant, read once for all of its events. `None` is a failed read: if each record tried
    /// again, the invocation would run out of time.
    endpoints: Mutex<HashMap<TenantId, ReadOnce>>,
    reads: Arc<Reads>,
    /// The jobs that failed, each with the number of its record.
    failed: Mutex<Vec<(usize, FailedJob)>>,
    /// Takes what has ended to the ledger.
    finished: UnboundedSender<Ended>,
}

type ReadOnce = Arc<OnceCell<Option<Arc<[Endpoint]>>>>;

impl Batch {
    pub(crate) fn new(last_start: Instant, is_late: bool, reads: Arc<Reads>, finished: UnboundedSender<Ended>) -> Self {
        static BATCHES: AtomicU64 = AtomicU64::new(0);
        Self {
            number: BATCHES.fetch_add(1, Ordering::Relaxed),
            last_start,
            tally: Tally::default(),
            is_late,
            under_way: AtomicUsize::new(0),
            endpoints: Mutex::default(),
            reads,
            failed: Mutex::default(),
            finished,
        }
    }

    /// Keeps an event for what follows the attempts, if it is of a job that failed.
    pub(crate) fn keep_failed(&self, record: &Record, event: &JobEvent) {
        let failed = FailedJob::of(event, record.is_repeated).map(|failed| (record.index, failed));
        if failed.is_some() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).extend(failed);
        }
    }

    /// Ends it: nothing more goes to the ledger. Returns the jobs that failed.
    pub(crate) fn end(self) -> Vec<(usize, FailedJob)> {
        self.tally.emit();
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a delivery on to the ledger.
    pub(crate) fn finish(&self, ended: Ended) {
        // The ledger listens until all attempts have ended.
        self.finished.send(ended).ok();
    }

    /// The endpoints among which those are that an event goes to, active or not.
    pub(crate) async fn endpoints(&self, event: &JobEvent, stores: &Stores) -> Result<Arc<[Endpoint]>, Error> {
        match event.audience {
            Audience::Endpoints => self.endpoints_of(&event.tenant, stores).await,
            Audience::Nobody | Audience::Callback { .. } => Ok(Arc::default()),
        }
    }

    /// An endpoint, for a record of `queue`; `None` if it does not exist.
    pub(crate) async fn endpoint(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        queue: Queue,
        stores: &Stores,
    ) -> Result<Option<Arc<Endpoint>>, Error> {
        self.reads.endpoint(tenant, id, stores.gate(queue), stores).await
    }

    async fn endpoints_of(&self, tenant: &TenantId, stores: &Stores) -> Result<Arc<[Endpoint]>, Error> {
        let cell = Arc::clone(
            self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).entry(tenant.clone()).or_default(),
        );
        cell.get_or_init(async || self.reads.endpoints(tenant, stores).await).await.clone().ok_or(Error::Busy)
    }
}

/// Runs all futures to completion and returns their outputs, in any order. Each is polled only when it is woken.
///
/// Without tokio's budget for a task, all of them begin before any goes on: with it, the first answers would be read, logged
/// and stored while a third of a hundred posts have yet to be sent. Each is bounded in what it reads and does.
pub(crate) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    unconstrained(futures.collect::<FuturesUnordered<_>>().collect()).await
}
