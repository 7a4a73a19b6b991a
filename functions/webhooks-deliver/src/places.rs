//! Places: the bound on a process's attempts in progress.
//!
//! An organization never has more than `MAX_CONCURRENT_ATTEMPTS` in progress in a process, an endpoint no more than its
//! ceiling, and all organizations together at most 800: Lambda allows 1,024 file descriptors, and calls to AWS need some.
//! Drains have as many places of their own; only `cargo local`, which handles several batches at once, uses both.
//! An attempt without a place waits for half a second, because its invocation waits with it, and is then parked.

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

/// The maximum time that an attempt waits for a place.
const PLACE_WAIT: Duration = Duration::from_millis(500);
/// The number of places for all organizations, if one of them does not have more.
const MAX_PLACES: usize = 800;
/// A process that knows more organizations and endpoints than this forgets those without an attempt.
const MAX_KNOWN: usize = 1000;

pub(crate) struct Places {
    all: Arc<Semaphore>,
    each: usize,
    tenants: Known<TenantId>,
    endpoints: Arc<Known<(EndpointId, usize)>>,
}

/// The places of those that have attempts in progress, or recently had some, and their number.
type Known<T> = Mutex<HashMap<T, (usize, Arc<Semaphore>)>>;

/// A place, held until dropped.
pub(crate) struct Place {
    _of_endpoint: Option<OwnedSemaphorePermit>,
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new(each: usize) -> Self {
        let all = Arc::new(Semaphore::new(MAX_PLACES.max(each)));
        Self { all, each, tenants: Mutex::default(), endpoints: Arc::default() }
    }

    /// Returns as many places of their own, except that the bounds of endpoints count both.
    pub(crate) fn sibling(&self) -> Self {
        Self { endpoints: Arc::clone(&self.endpoints), ..Self::new(self.each) }
    }

    /// Waits briefly for a place, and never beyond `last_start`.
    pub(crate) async fn take(&self, tenant: &TenantId, to: Option<&Endpoint>, last_start: Instant) -> Option<Place> {
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
            Some(Place { _of_endpoint: of_endpoint, _of_tenant: of_tenant, _of_all: all.acquire_owned().await.ok()? })
        });
        // A process that is short of CPU waits for longer, because its attempts end late.
        timeout_at(last_start, own_time::within(PLACE_WAIT, both)).await.ok().flatten().flatten()
    }
}

fn of<T: Eq + Hash>(known: &Known<T>, holder: T, places: usize) -> Arc<Semaphore> {
    let mut known = lock(known);
    if known.len() >= MAX_KNOWN && !known.contains_key(&holder) {
        known.retain(|_, (most, free)| free.available_permits() < *most);
    }
    Arc::clone(&known.entry(holder).or_insert_with(|| (places, Arc::new(Semaphore::new(places)))).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_organization_leaves_places_to_others() {
        let places = Places::new(2);
        let [bad, good]: [TenantId; 2] = ["bad", "good"].map(|id| id.parse().expect("a tenant"));
        let end = Instant::now() + Duration::from_secs(60);
        let mut held = vec![places.take(&bad, None, end).await, places.take(&bad, None, end).await];
        assert!(held.iter().all(Option::is_some));
        let began = Instant::now();
        assert!(places.take(&bad, None, end).await.is_none());
        assert_eq!(began.elapsed(), PLACE_WAIT);
        assert!(places.take(&good, None, end).await.is_some());
        held.pop();
        assert!(places.take(&bad, None, end).await.is_some(), "a place has become free");
        assert!(places.take(&good, None, Instant::now()).await.is_none(), "it is too late to begin");
    }
}
