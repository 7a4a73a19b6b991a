//! Permits: the bound on a process's attempts in progress.
//!
//! An organization never has more than `MAX_CONCURRENT_ATTEMPTS` in progress in a process, an endpoint no more than its
//! ceiling, and all organizations together at most 800: Lambda allows 1,024 file descriptors, and calls to AWS need some.
//! Drains have as many permits of their own; only `cargo local`, which handles several batches at once, uses both.
//! An attempt without a permit waits for half a second, because its invocation waits with it, and is then parked.

use std::{
    collections::HashMap,
    hash::Hash,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{
    id::{EndpointId, TenantId},
    lock::lock,
    own_time,
    webhooks::endpoints::Endpoint,
};
use futures::future::OptionFuture;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// The maximum time that an attempt waits for a permit.
const PERMIT_WAIT: Duration = Duration::from_millis(500);
/// The number of permits for all organizations, if one of them does not have more.
const MAX_PERMITS: usize = 800;
/// A process that knows more organizations and endpoints than this forgets those without an attempt.
const MAX_KNOWN: usize = 1000;

pub(crate) struct Permits {
    all: Arc<Semaphore>,
    each: usize,
    tenants: Semaphores<TenantId>,
    endpoints: Arc<Semaphores<(EndpointId, usize)>>,
}

/// The permits of those that have attempts in progress, or recently had some, and their number.
type Semaphores<T> = Mutex<HashMap<T, (usize, Arc<Semaphore>)>>;

/// A permit, held until dropped.
pub(crate) struct Permit {
    _of_endpoint: Option<OwnedSemaphorePermit>,
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Permits {
    pub(crate) fn new(each: usize) -> Self {
        let all = Arc::new(Semaphore::new(MAX_PERMITS.max(each)));
        Self { all, each, tenants: Mutex::default(), endpoints: Arc::default() }
    }

    /// Returns as many permits of their own, except that the bounds of endpoints count both.
    pub(crate) fn sibling(&self) -> Self {
        Self { endpoints: Arc::clone(&self.endpoints), ..Self::new(self.each) }
    }

    /// Waits briefly for a permit, and never beyond `last_start`.
    pub(crate) async fn take(&self, tenant: &TenantId, to: Option<&Endpoint>, last_start: Instant) -> Option<Permit> {
        if Instant::now() >= last_start {
            return None;
        }
        let bound = |it: &Endpoint, most| of(&self.endpoints, (it.id, most), most);
        let ceiling = to.and_then(|it| Some(bound(it, it.ceiling()?)));
        let (own, all) = (of(&self.tenants, tenant.clone(), self.each), Arc::clone(&self.all));
        let both = pin!(async {
            // The semaphores are never closed.
            let of_endpoint = OptionFuture::from(ceiling.map(Semaphore::acquire_owned)).await.transpose().ok()?;
            let of_tenant = own.acquire_owned().await.ok()?;
            Some(Permit { _of_endpoint: of_endpoint, _of_tenant: of_tenant, _of_all: all.acquire_owned().await.ok()? })
        });
        // A process that is short of CPU waits for longer, because its attempts end late.
        timeout_at(last_start, own_time::within(PERMIT_WAIT, both)).await.ok().flatten().flatten()
    }
}

fn of<T: Eq + Hash>(known: &Semaphores<T>, holder: T, permits: usize) -> Arc<Semaphore> {
    let mut known = lock(known);
    if known.len() >= MAX_KNOWN && !known.contains_key(&holder) {
        known.retain(|_, (most, free)| free.available_permits() < *most);
    }
    Arc::clone(&known.entry(holder).or_insert_with(|| (permits, Arc::new(Semaphore::new(permits)))).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_organization_leaves_places_to_others() {
        let permits = Permits::new(2);
        let [bad, good]: [TenantId; 2] = ["bad", "good"].map(|id| id.parse().expect("a tenant"));
        let end = Instant::now() + Duration::from_mins(1);
        let mut held = vec![permits.take(&bad, None, end).await, permits.take(&bad, None, end).await];
        assert!(held.iter().all(Option::is_some));
        let began = Instant::now();
        assert!(permits.take(&bad, None, end).await.is_none());
        assert_eq!(began.elapsed(), PERMIT_WAIT);
        assert!(permits.take(&good, None, end).await.is_some());
        held.pop();
        assert!(permits.take(&bad, None, end).await.is_some(), "a permit has become free");
        assert!(permits.take(&good, None, Instant::now()).await.is_none(), "it is too late to begin");
    }
}
