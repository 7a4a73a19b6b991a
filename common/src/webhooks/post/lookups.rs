//! Name lookups, bounded so that dead name servers do not take capacity from other names.
//!
//! Each lookup occupies a thread, and the operating system may wait many seconds for name servers that do not respond,
//! even after the attempt has ended. Concurrent lookups of the same name are therefore combined, and each
//! organization gets only a few at a time. The limit is even lower for names that were not found recently, which
//! together never use more than half of the threads. If there is no capacity, a lookup waits until its attempt ends.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::{Notify, watch};

use crate::{id::TenantId, lock::lock};

/// Looks up the addresses of a host name.
pub type Resolve = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The number of concurrent lookups. Tokio has 512 threads for them and for calls to AWS.
const MAX_LOOKUPS: LookupCount = LookupCount { all: 384, new: 192 };
/// The number of concurrent lookups for an organization.
const MAX_TENANT_LOOKUPS: LookupCount = LookupCount { all: 16, new: 4 };
/// The number of names that are remembered as found.
const MAX_NAMES: usize = 10_000;

/// The result of a lookup, which concurrent callers share.
type LookupResult = Result<Vec<IpAddr>, Arc<io::Error>>;

/// Looks up names. Cloning is cheap, and shares the bounds.
#[derive(Clone)]
pub(super) struct Lookups {
    lookup: Resolve,
    state: Arc<Mutex<State>>,
    ended: Arc<Notify>,
}

#[derive(Default)]
struct State {
    in_progress: HashMap<String, watch::Receiver<Option<LookupResult>>>,
    count: LookupCount,
    tenants: HashMap<TenantId, LookupCount>,
    /// Names whose latest lookup found an address.
    found: HashSet<String>,
}

/// Numbers of lookups in progress: of all names, and of names that were not found recently.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct LookupCount {
    all: usize,
    new: usize,
}

impl LookupCount {
    fn has_room(self, most: Self, is_new: bool) -> bool {
        self.all < most.all && (!is_new || self.new < most.new)
    }

    fn add(&mut self, is_new: bool) {
        self.all += 1;
        self.new += usize::from(is_new);
    }

    fn remove(&mut self, is_new: bool) {
        self.all -= 1;
        self.new -= usize::from(is_new);
    }
}

/// A lookup that is in progress until this is dropped.
struct LookupInProgress {
    lookups: Lookups,
    tenant: TenantId,
    name: String,
    is_new: bool,
    result: watch::Sender<Option<LookupResult>>,
}

impl Lookups {
    pub(super) fn new(lookup: Resolve) -> Self {
        Self { lookup, state: Arc::default(), ended: Arc::default() }
    }

    /// Looks up the addresses of a name for a delivery of `tenant`.
    pub(super) async fn addresses(&self, tenant: &TenantId, name: &str) -> LookupResult {
        let mut result = loop {
            // Registered before the check, so that the end of a lookup cannot be missed.
            let ended = self.ended.notified();
            if let Some(result) = self.begin(tenant, name) {
                break result;
            }
            ended.await;
        };
        let found = result.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err(Arc::new(io::Error::other("the lookup panicked"))))
    }

    /// Begins a lookup, or joins another attempt's lookup. `None` if there is no capacity.
    fn begin(&self, tenant: &TenantId, name: &str) -> Option<watch::Receiver<Option<LookupResult>>> {
        let mut state = lock(&self.state);
        if let Some(result) = state.in_progress.get(name) {
            return Some(result.clone());
        }
        let is_new = !state.found.contains(name);
        let of_tenant = state.tenants.get(tenant).copied().unwrap_or_default();
        if !state.count.has_room(MAX_LOOKUPS, is_new) || !of_tenant.has_room(MAX_TENANT_LOOKUPS, is_new) {
            return None;
        }
        state.count.add(is_new);
        state.tenants.entry(tenant.clone()).or_default().add(is_new);
        let (result, receiver) = watch::channel(None);
        state.in_progress.insert(name.to_owned(), receiver.clone());
        drop(state);
        LookupInProgress { lookups: self.clone(), tenant: tenant.clone(), name: name.to_owned(), is_new, result }.run();
        Some(receiver)
    }
}

impl LookupInProgress {
    /// Runs the lookup to its end, even if no attempt is waiting for it anymore, because its thread is occupied until
    /// then.
    fn run(self) {
        let mut lookup = (self.lookups.lookup)(self.name.clone());
        let end = |this: Self, found: io::Result<_>| {
            lock(&this.lookups.state).remember(&this.name, found.is_ok());
            this.result.send_replace(Some(found.map_err(Arc::new)));
        };
        match (&mut lookup).now_or_never() {
            Some(found) => end(self, found),
            None => drop(tokio::spawn(async move { end(self, lookup.await) })),
        }
    }
}

impl Drop for LookupInProgress {
    fn drop(&mut self) {
        let mut state = lock(&self.lookups.state);
        state.in_progress.remove(&self.name);
        state.count.remove(self.is_new);
        if let Some(count) = state.tenants.get_mut(&self.tenant) {
            count.remove(self.is_new);
            if *count == LookupCount::default() {
                state.tenants.remove(&self.tenant);
            }
        }
        drop(state);
        self.lookups.ended.notify_waiters();
    }
}

impl State {
    fn remember(&mut self, name: &str, is_found: bool) {
        if !is_found {
            self.found.remove(name);
        } else if !self.found.contains(name) {
            if self.found.len() >= MAX_NAMES {
                self.found.clear();
            }
            self.found.insert(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use futures::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    const DEAD_NAME_TIME: Duration = Duration::from_secs(10);

    /// Name lookups that fail after [`DEAD_NAME_TIME`] if the name contains "dead", and the number in progress.
    fn lookups() -> (Lookups, Arc<AtomicUsize>) {
        let threads = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&threads);
        let lookup = move |name: String| -> BoxFuture<'static, _> {
            let count = Arc::clone(&count);
            Box::pin(async move {
                count.fetch_add(1, Ordering::Relaxed);
                let is_dead = name.contains("dead");
                sleep(if is_dead { DEAD_NAME_TIME } else { Duration::from_millis(5) }).await;
                count.fetch_sub(1, Ordering::Relaxed);
                if is_dead { Err(io::ErrorKind::TimedOut.into()) } else { Ok(vec![IpAddr::from([192, 0, 2, 1])]) }
            })
        };
        (Lookups::new(Arc::new(lookup)), threads)
    }

    fn tenant(number: usize) -> TenantId {
        format!("tenant-{number}").parse().expect("a tenant")
    }

    /// Looks up this many dead names for each tenant, waiting half a second for each name.
    async fn look_up_dead(lookups: &Lookups, tenants: usize, names: usize) {
        let all = (0..tenants).flat_map(|number| (0..names).map(move |name| (number, name)));
        let all = all.map(async |(number, name)| {
            let name = format!("{name}.dead-{number}.example");
            let cut = timeout(Duration::from_millis(500), lookups.addresses(&tenant(number), &name)).await;
            assert!(cut.is_err(), "its name servers do not respond");
        });
        join_all(all).await;
    }

    async fn is_found(lookups: &Lookups, of: usize, name: &str) -> bool {
        timeout(Duration::from_millis(500), lookups.addresses(&tenant(of), name)).await.is_ok_and(|found| found.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn dead_name_servers_of_others_leave_room_for_lookups() {
        let (lookups, threads) = lookups();
        assert!(is_found(&lookups, 1000, "known.example").await);
        look_up_dead(&lookups, 40, 50).await;
        assert_eq!(threads.load(Ordering::Relaxed), 40 * MAX_TENANT_LOOKUPS.new, "their threads are still occupied");
        assert!(is_found(&lookups, 1000, "new.example").await);
        look_up_dead(&lookups, 100, 10).await;
        assert_eq!(threads.load(Ordering::Relaxed), MAX_LOOKUPS.new);
        assert!(is_found(&lookups, 1000, "known.example").await);
        assert!(is_found(&lookups, 0, "known.example").await, "although its tenant also has dead names");
        sleep(DEAD_NAME_TIME).await;
        assert_eq!(threads.load(Ordering::Relaxed), 0);
        assert!(is_found(&lookups, 0, "other.example").await);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_of_a_name_are_one() {
        let (lookups, threads) = lookups();
        let many = (0..100).map(|number| {
            let lookups = lookups.clone();
            async move { lookups.addresses(&tenant(number), "dead.example").await }
        });
        let (found, ()) = tokio::join!(join_all(many), async {
            sleep(Duration::from_secs(1)).await;
            assert_eq!(threads.load(Ordering::Relaxed), 1);
        });
        assert!(found.iter().all(Result::is_err));
        assert!(lock(&lookups.state).in_progress.is_empty() && lock(&lookups.state).tenants.is_empty());
    }
}
