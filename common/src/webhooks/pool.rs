//! Connections that wait to be used again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{connection::Connection, dialer::MAX_PARALLEL};

/// A connection that waited longer is not used again: gateways forget idle connections without a word.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// The connections that are open, in use and idle ones together: as many as the attempts need that are made at once,
/// however many hosts there are. A new one takes the place of the one that has been idle longest.
///
/// Lambda gives a process 1,024 file descriptors. A dial takes two at the most: for two addresses side by side, or
/// for the sockets and files of a look-up. So with `MAX_CONCURRENT_ATTEMPTS` at its highest:
///
/// ```text
///  800  connections and dials of 400 attempts, and what is idle
///   64  the queues' clients: 32 sends at once (`queue.rs`), and as many connections that are being replaced
///   20  the table's client: a read for each record of a batch, and the same again
///   20  the runtime: its API, timers, signals, the standard streams
///  ---
///  904
/// ```
///
/// There is no bound for each host: a host has no more idle connections than there were attempts at it at once.
pub(super) struct Pool {
    /// The longest idle first.
    idle: Mutex<VecDeque<Idle>>,
    room: Arc<Semaphore>,
}

struct Idle {
    origin: Box<str>,
    since: Instant,
    connection: Connection,
}

impl Pool {
    /// A pool for this many attempts at once.
    pub(super) fn new(at_once: usize) -> Self {
        let room = at_once.saturating_mul(MAX_PARALLEL).min(Semaphore::MAX_PERMITS);
        Self { idle: Mutex::default(), room: Arc::new(Semaphore::new(room)) }
    }

    /// An idle connection to `origin`, the last one that was used: it is the least likely to have been closed.
    pub(super) fn take(&self, origin: &str) -> Option<Connection> {
        let mut idle = self.idle();
        while idle.front().is_some_and(|longest| longest.since.elapsed() > MAX_IDLE) {
            idle.pop_front();
        }
        while let Some(place) = idle.iter().rposition(|idle| *idle.origin == *origin) {
            let Idle { mut connection, .. } = idle.remove(place)?;
            if connection.is_idle() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection to `origin`, if it can be used again.
    pub(super) fn put(&self, origin: &str, mut connection: Connection) {
        if connection.is_idle() {
            self.idle().push_back(Idle { origin: origin.into(), since: Instant::now(), connection });
        }
    }

    /// Room for a dial: idle connections make way, the longest idle first. `None` is a dial too many. It is made all
    /// the same: there is nothing that could make way for it.
    pub(super) fn reserve(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(MAX_PARALLEL as u32) {
                return Some(room);
            }
            self.idle().pop_front()?;
        }
    }

    /// Closes all that is idle.
    pub(super) fn clear(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
