//! Reads of endpoints, shared by concurrent callers: the records of a batch or, in the local runner, of many batches.

use std::{hash::Hash, sync::Arc};

use common::{
    aws::gathered::{Found, Gathered},
    error::{Error, Result},
    id::{EndpointId, TenantId},
    webhooks::endpoints::{Endpoint, Endpoints},
};
use futures::future::join_all;

/// This process's reads. A read begins after the call that it serves, so it sees all earlier writes.
#[derive(Default)]
pub(crate) struct Reads {
    all: Gathered<TenantId, Arc<[Endpoint]>>,
    one: Gathered<(TenantId, EndpointId), Arc<Endpoint>>,
}

impl Reads {
    /// Reads a tenant's endpoints, including inactive ones.
    pub(crate) async fn endpoints(&self, tenant: &TenantId, endpoints: &Endpoints) -> Result<Arc<[Endpoint]>> {
        let read = |tenants| {
            // Boxed, because the SDK's futures take thousands of bytes, which every record of a batch would reserve.
            each(tenants, |tenant: TenantId| async move {
                let all = Box::pin(endpoints.all(&tenant)).await;
                all.map(|all| Some(all.into())).inspect_err(|error| unread(&tenant, error))
            })
        };
        Ok(self.all.get(vec![tenant.clone()], read).await?.remove(tenant).unwrap_or_default())
    }

    /// Reads an endpoint. Returns `None` if it does not exist.
    pub(crate) async fn endpoint(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        endpoints: &Endpoints,
    ) -> Result<Option<Arc<Endpoint>>> {
        let read = |keys| {
            each(keys, |(tenant, id): (TenantId, EndpointId)| async move {
                let found = Box::pin(endpoints.find(&tenant, id)).await;
                found.map(|found| found.map(Arc::new)).inspect_err(|error| unread(&tenant, error))
            })
        };
        let key = (tenant.clone(), id);
        Ok(self.one.get(vec![key.clone()], read).await?.remove(&key))
    }
}

/// Reads the values of all keys concurrently.
async fn each<K, V, R>(keys: Vec<K>, read: impl Fn(K) -> R) -> Found<K, V>
where
    K: Clone + Eq + Hash,
    R: Future<Output = Result<Option<V>>>,
{
    let mut found = Found::default();
    let values = join_all(keys.iter().cloned().map(read)).await;
    for (key, value) in keys.into_iter().zip(values) {
        match value {
            Ok(value) => found.values.extend(value.map(|value| (key, value))),
            Err(_logged) => drop(found.unread.insert(key)),
        }
    }
    found
}

fn unread(tenant: &TenantId, error: &Error) {
    common::log!("endpoints.unread", %tenant, ?error);
}
