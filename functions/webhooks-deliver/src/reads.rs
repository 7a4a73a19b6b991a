//! Reads of tenants' endpoints, shared by the batches that this process handles at the same time. On Lambda that is one batch;
//! the local runner handles many.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use common::{id::TenantId, webhooks::endpoints::Endpoint};
use tokio::{sync, time::Instant};

use crate::{observe, stores::Stores};

/// The reads of this process.
#[derive(Default)]
pub(crate) struct Reads(Mutex<HashMap<TenantId, Arc<sync::Mutex<Read>>>>);

/// The last read of a tenant's endpoints, and when it began. `None` is a failed read.
#[derive(Default)]
struct Read {
    began: Option<Instant>,
    endpoints: Option<Arc<[Endpoint]>>,
}

impl Reads {
    /// The endpoints of a tenant, active or not, by a read that begins after this call: what was written before is seen.
    /// `None` if the read fails.
    pub(crate) async fn endpoints(&self, tenant: &TenantId, stores: &Stores) -> Option<Arc<[Endpoint]>> {
        let asked = Instant::now();
        let read = Arc::clone(self.lock().entry(tenant.clone()).or_default());
        let mut last = read.lock().await;
        if last.began.is_none_or(|began| began < asked) {
            *last = Read { began: Some(Instant::now()), endpoints: None };
            // Boxed: the SDK's futures take thousands of bytes, and every record of a batch would reserve them.
            let endpoints = Box::pin(stores.endpoints.all(tenant)).await;
            last.endpoints = endpoints.inspect_err(|error| observe::unread(tenant, error)).ok().map(Arc::from);
        }
        let endpoints = last.endpoints.clone();
        drop(last);
        // Nobody else waits for it: only the map and this call have it.
        let mut reads = self.lock();
        if Arc::strong_count(&read) == 2 {
            reads.remove(tenant);
        }
        endpoints
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, Arc<sync::Mutex<Read>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
