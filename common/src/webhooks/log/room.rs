//! The memory for bodies: a process reads and writes only as many large ones at a time as it has room for.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The kilobytes of bodies that a process has room for. The template gives the delivery function 512 MB.
const ALL: u32 = 128 * 1024;
/// More bytes than any body has.
pub(super) const LARGEST: usize = 1100 * 1024;

/// Room for bodies, until it is dropped.
#[must_use]
pub struct Room(Option<OwnedSemaphorePermit>);

/// The room that is left. Clones share it.
#[derive(Clone)]
pub(super) struct Rooms(Arc<Semaphore>);

impl Default for Rooms {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(usize::try_from(ALL).unwrap_or(usize::MAX))))
    }
}

impl Rooms {
    /// Waits until there is room for this many bytes. If they are more than all the room, waits for all of it.
    pub(super) async fn take(&self, bytes: usize) -> Room {
        // The semaphore is never closed.
        Room(Arc::clone(&self.0).acquire_many_owned(kilobytes(bytes)).await.ok())
    }
}

impl Room {
    /// Gives up the room for more than this many bytes.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let Some(all) = &mut self.0 else { return };
        let unused = all.num_permits().saturating_sub(usize::try_from(kilobytes(bytes)).unwrap_or(usize::MAX));
        drop(all.split(unused));
    }
}

fn kilobytes(bytes: usize) -> u32 {
    u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(ALL)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn bodies_wait_for_room_and_one_that_is_too_large_is_alone() {
        const HALF: usize = ALL as usize * 1024 / 2;
        let rooms = Rooms::default();
        let fits = |bytes| rooms.take(bytes).now_or_never();
        let (first, mut second) = (fits(HALF), fits(HALF).expect("there is room"));
        assert!(first.is_some() && fits(1024).is_none());
        second.shrink(HALF - 1024);
        assert!(fits(1024).is_some() && fits(2048).is_none());
        drop(first);
        assert!(fits(HALF * 5).is_none(), "it would not be alone");
        drop(second);
        let large = fits(HALF * 5);
        assert!(large.is_some() && fits(1024).is_none());
        drop(large);
        assert!(fits(HALF).is_some());
    }
}
