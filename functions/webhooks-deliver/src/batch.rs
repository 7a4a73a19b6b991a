//! State that the records of a batch share.

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
    /// The batch's number among the batches of the process.
    pub(crate) number: u64,
    /// No attempt starts after this time, since the function's timeout would cut it off.
    pub(crate) last_start: Instant,
    pub(crate) tally: Tally,
    /// Whether events wait for an invocation: a record of the batch has waited too long.
    pub(crate) is_late: bool,
    /// The number of short attempts in progress that the batch waits for.
    pub(crate) under_way: AtomicUsize,
    /// The endpoints of each tenant, read once for all of its events. `None` means that the read failed: if each record
    /// tried again, the invocation would run out of time.
    endpoints: Mutex<HashMap<TenantId, ReadOnce>>,
    reads: Arc<Reads>,
    /// The failed jobs, each with the number of its record.
    failed: Mutex<Vec<(usize, FailedJob)>>,
    /// Sends ended attempts to the ledger.
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

    /// The tenant's endpoints, active or not, if the event goes to endpoints.
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
/// Tokio's budget for tasks is disabled, so that all futures begin before any continues: with it, the first answers
/// would be read, logged and stored while a third of a hundred posts have yet to be sent. Each future is bounded in the
/// data that it reads and the work that it does.
pub(crate) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    unconstrained(futures.collect::<FuturesUnordered<_>>().collect()).await
}
