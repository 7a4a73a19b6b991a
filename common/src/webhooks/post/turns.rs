//! Turns to connect: the connections for a burst of deliveries are opened a few at a time.
//!
//! A receiver's operating system queues connections that the receiver has not accepted yet. The queue is often short:
//! Python's `socketserver` asks for 5, Java's `ServerSocket` for 50, Rust's standard library and mio 1.2 (under Tokio)
//! for 128. If it is full, Linux drops the packet that opens a connection, and the client sends it again after a
//! second, so a receiver that is quick looks late.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{id::TenantId, lock::lock};

/// The number of connections to an origin that are opened at a time for an organization: half of the queue of a receiver that uses Tokio.
const MAX_OPENING: usize = 64;
/// The time for which a new connection counts as not accepted, if nothing has arrived on it.
const UNACCEPTED_TIME: Duration = Duration::from_millis(100);

/// The turns of each organization and origin with connections that are being opened.
#[derive(Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<OriginKey, Arc<Semaphore>>>>);

type OriginKey = (TenantId, Box<str>);

/// A turn to connect, held until dropped.
pub(super) struct Turn {
    turns: Arc<Mutex<HashMap<OriginKey, Arc<Semaphore>>>>,
    key: OriginKey,
    permit: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Waits for a turn to connect to `origin` for a delivery of `tenant`.
    pub(super) async fn take(&self, tenant: &TenantId, origin: &str) -> Turn {
        let key = (tenant.clone(), origin.into());
        let open =
            Arc::clone(lock(&self.0).entry(key.clone()).or_insert_with(|| Arc::new(Semaphore::new(MAX_OPENING))));
        let mut turn = Turn { turns: Arc::clone(&self.0), key, permit: None };
        // The semaphore is never closed.
        turn.permit = open.acquire_owned().await.ok();
        turn
    }
}

impl Turn {
    /// Performs the first exchange on the new connection. The turn ends with the exchange, or after a moment.
    pub(super) async fn exchange<T>(self, mut exchange: impl Future<Output = T> + Unpin) -> T {
        let first = timeout(UNACCEPTED_TIME, &mut exchange).await;
        drop(self);
        match first {
            Ok(exchanged) => exchanged,
            Err(_elapsed) => exchange.await,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = lock(&self.turns);
        self.permit = None;
        // Those who wait have a reference, too.
        if turns.get(&self.key).is_some_and(|open| Arc::strong_count(open) == 1) {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::{FutureExt, future::join_all};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_organization_connects_to_an_origin_in_turns() {
        let turns = Turns::default();
        let [one, other] = ["one", "other"].map(|id| id.parse::<TenantId>().expect("a tenant"));
        let mut held = join_all((0..MAX_OPENING).map(|_| turns.take(&one, "a"))).await;
        let mut waiting = Box::pin(turns.take(&one, "a"));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(turns.take(&one, "b").now_or_never().is_some() && turns.take(&other, "a").now_or_never().is_some());
        assert_eq!(lock(&turns.0).len(), 1, "turns that have ended are forgotten");
        held.pop();
        drop(waiting.await);
        // A receiver that does not answer keeps a turn for a moment only.
        let silent = held.pop().expect("a turn").exchange(pending::<()>());
        assert!(timeout(UNACCEPTED_TIME * 2, silent).await.is_err());
        let taken = join_all((0..2).map(|_| turns.take(&one, "a"))).now_or_never();
        drop((held, taken.expect("two turns have ended")));
        assert!(lock(&turns.0).is_empty());
    }
}
