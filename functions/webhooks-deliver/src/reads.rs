//! Reads of endpoints, shared by concurrent callers: the records of a batch, and in the local runner those of many
//! batches.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use common::{
    error::{Error, Result},
    id::{EndpointId, TenantId},
    webhooks::endpoints::Endpoint,
};
use tokio::{sync, time::Instant};

use crate::stores::{Gate, Stores};

/// The reads of this process.
#[derive(Default)]
pub(crate) struct Reads {
    all: Shared<TenantId, Arc<[Endpoint]>>,
    one: Shared<(TenantId, EndpointId), Option<Arc<Endpoint>>>,
}

impl Reads {
    /// The endpoints of a tenant, active or not, by a read that begins after this call, to see earlier writes; `None`
    /// if it fails.
    pub(crate) async fn endpoints(&self, tenant: &TenantId, stores: &Stores) -> Option<Arc<[Endpoint]>> {
        // Boxed, since the SDK's futures take thousands of bytes, and every record of a batch would reserve them.
        let read = async || Box::pin(stores.endpoints.all(tenant)).await.map(Arc::from);
        self.all.get(tenant.clone(), tenant, read).await
    }

    /// An endpoint, by a read that begins after this call; `None` if it does not exist.
    ///
    /// # Errors
    /// The read fails.
    pub(crate) async fn endpoint(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        gate: Gate<'_>,
        stores: &Stores,
    ) -> Result<Option<Arc<Endpoint>>> {
        let read = async || {
            let _passed = gate.pass().await;
            Ok(Box::pin(stores.endpoints.find(tenant, id)).await?.map(Arc::new))
        };
        self.one.get((tenant.clone(), id), tenant, read).await.ok_or(Error::Busy)
    }
}

/// The shared reads, by key.
struct Shared<K, V>(Mutex<HashMap<K, Arc<sync::Mutex<Last<V>>>>>);

/// The last read of a key, and the time at which it began. A `value` of `None` is a failed read.
struct Last<V> {
    began: Option<Instant>,
    value: Option<V>,
}

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Shared<K, V> {
    async fn get(&self, key: K, tenant: &TenantId, read: impl AsyncFnOnce() -> Result<V>) -> Option<V> {
        let asked = Instant::now();
        let none = || Arc::new(sync::Mutex::new(Last { began: None, value: None }));
        let shared = Arc::clone(self.lock().entry(key.clone()).or_insert_with(none));
        let mut last = shared.lock().await;
        if last.began.is_none_or(|began| began < asked) {
            *last = Last { began: Some(Instant::now()), value: None };
            let read = read().await;
            last.value = read.inspect_err(|error| common::log!("endpoints.unread", %tenant, ?error)).ok();
        }
        let value = last.value.clone();
        drop(last);
        // Only the map and this call hold it, so no other call waits.
        let mut reads = self.lock();
        if Arc::strong_count(&shared) == 2 {
            reads.remove(&key);
        }
        value
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<sync::Mutex<Last<V>>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
