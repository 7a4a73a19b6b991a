//! Idle connections, kept for reuse.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{connection::Connection, dialer::MAX_PARALLEL};
use crate::lock::lock;

/// The maximum idle time of a reused connection. It is short, because some gateways silently drop idle connections.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// Limits the total number of open connections, in use and idle, to the number that concurrent attempts need,
/// regardless of the number of hosts. At the limit, a new connection replaces the one that has been idle longest.
///
/// Lambda allows a process 1,024 file descriptors. A dial uses at most two: for two addresses at the same time, or for
/// the sockets and files of a lookup. With `MAX_CONCURRENT_ATTEMPTS` at its maximum, a process therefore uses at most:
///
/// ```text
///  800  connections and dials of 400 attempts, and idle connections
///   64  the SQS client: 32 concurrent sends (`queue.rs`), and as many connections that are being replaced
///   20  the DynamoDB client: a read for each record of a batch, and as many again
///   20  the runtime: its API, timers, signals, the standard streams
///  ---
///  904
/// ```
///
/// Attempts beyond that, up to twice as many, proceed without a permit, and leave no capacity for idle connections.
/// There is no limit per host, because a host never has more idle connections than it had concurrent attempts.
pub(super) struct Pool {
    /// The idle connections, longest idle first.
    idle: Mutex<VecDeque<Idle>>,
    /// One permit for each socket.
    sockets: Arc<Semaphore>,
}

struct Idle {
    origin: Box<str>,
    since: Instant,
    connection: Connection,
}

impl Pool {
    /// Builds a pool for `attempts` concurrent attempts.
    pub(super) fn new(attempts: usize) -> Self {
        let sockets = attempts.saturating_mul(MAX_PARALLEL).min(Semaphore::MAX_PERMITS);
        Self { idle: Mutex::default(), sockets: Arc::new(Semaphore::new(sockets)) }
    }

    /// Takes the most recently used idle connection to `origin`, which is the least likely to have been closed.
    pub(super) fn take(&self, origin: &str) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        while idle.front().is_some_and(|longest| longest.since.elapsed() > MAX_IDLE) {
            idle.pop_front();
        }
        while let Some(index) = idle.iter().rposition(|idle| *idle.origin == *origin) {
            let Idle { mut connection, .. } = idle.remove(index)?;
            if connection.is_idle() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection to `origin` if it can be reused.
    pub(super) fn put(&self, origin: &str, mut connection: Connection) {
        if connection.is_idle() {
            lock(&self.idle).push_back(Idle { origin: origin.into(), since: Instant::now(), connection });
        }
    }

    /// Reserves the sockets for a dial. If necessary, closes idle connections, the longest idle first. Returns `None`
    /// if there are none left to close; the dial may then exceed the limit.
    pub(super) fn reserve(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = Arc::clone(&self.sockets).try_acquire_many_owned(MAX_PARALLEL as u32) {
                return Some(permit);
            }
            lock(&self.idle).pop_front()?;
        }
    }

    /// Closes all idle connections.
    pub(super) fn clear(&self) {
        lock(&self.idle).clear();
    }
}
