//! Places: the bound on a process's attempts in progress.
//!
//! An organization never has more than `MAX_CONCURRENT_ATTEMPTS` in progress in a process, and all organizations
//! together have at most 800: Lambda allows 1,024 file descriptors, and calls to AWS need some of them. An attempt
//! without a place waits for half a second, because its invocation waits with it, and is then parked. An endpoint may
//! have a lower bound of its own.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{
    id::{EndpointId, TenantId},
    lock::lock,
    webhooks::endpoints::Endpoint,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::own_time;

/// The maximum time that an attempt waits for a place.
const WAIT: Duration = Duration::from_millis(500);
/// The number of places for all organizations, if one of them does not have more.
const MOST: usize = 800;
/// A process that knows more organizations and endpoints than this forgets those without an attempt.
const KNOWN: usize = 1000;

pub(crate) struct Places {
    all: Arc<Semaphore>,
    each: usize,
    known: Mutex<HashMap<Holder, (usize, Arc<Semaphore>)>>,
}

/// An organization, or an endpoint with a ceiling.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Holder {
    Tenant(TenantId),
    Endpoint(EndpointId),
}

/// A place, held until dropped.
pub(crate) struct Place {
    _of_endpoint: Option<OwnedSemaphorePermit>,
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new(each: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(MOST.max(each))), each, known: Mutex::default() }
    }

    /// Waits briefly for a place, and never beyond `last_start`.
    pub(crate) async fn take(
        &self,
        tenant: &TenantId,
        endpoint: Option<&Endpoint>,
        last_start: Instant,
    ) -> Option<Place> {
        if Instant::now() >= last_start {
            return None;
        }
        let ceiling = endpoint.and_then(|it| Some(self.of(Holder::Endpoint(it.id), it.ceiling()?)));
        let (own, all) = (self.of(Holder::Tenant(tenant.clone()), self.each), Arc::clone(&self.all));
        let both = pin!(async {
            // The semaphores are never closed.
            let of_endpoint = match ceiling {
                Some(ceiling) => Some(ceiling.acquire_owned().await.ok()?),
                None => None,
            };
            let of_tenant = own.acquire_owned().await.ok()?;
            Some(Place { _of_endpoint: of_endpoint, _of_tenant: of_tenant, _of_all: all.acquire_owned().await.ok()? })
        });
        // A process that is short of CPU waits for longer, because its attempts end late.
        timeout_at(last_start, own_time::within(WAIT, both)).await.ok().flatten().flatten()
    }

    fn of(&self, holder: Holder, places: usize) -> Arc<Semaphore> {
        let mut known = lock(&self.known);
        if known.len() >= KNOWN && !known.contains_key(&holder) {
            known.retain(|_, (most, free)| free.available_permits() < *most);
        }
        let new = || (places, Arc::new(Semaphore::new(places)));
        let entry = known.entry(holder).or_insert_with(new);
        if entry.0 != places {
            // The ceiling has changed. Attempts in progress keep their places of the old one.
            *entry = new();
        }
        Arc::clone(&entry.1)
    }
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
        assert_eq!(began.elapsed(), WAIT);
        assert!(places.take(&good, None, end).await.is_some());
        held.pop();
        assert!(places.take(&bad, None, end).await.is_some(), "a place has become free");
        assert!(places.take(&good, None, Instant::now()).await.is_none(), "it is too late to begin");
    }
}
