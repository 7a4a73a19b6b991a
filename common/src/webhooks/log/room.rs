//! The memory for bodies: a process reads and writes only as many large ones at a time as it has room for.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The kilobytes of bodies that a process has room for. The template gives the delivery function 512 MB.
const TOTAL_KILOBYTES: u32 = 128 * 1024;
/// More bytes than any body has.
pub(super) const BODY_BYTES_BOUND: usize = 1100 * 1024;

/// Room for bodies, until it is dropped.
#[must_use]
pub struct Room(Vec<OwnedSemaphorePermit>);

/// The room that is left. Clones share it.
#[derive(Clone)]
pub struct Rooms(Arc<Semaphore>);

impl Default for Rooms {
    /// All the room of a process.
    fn default() -> Self {
        Self::of(TOTAL_KILOBYTES)
    }
}

impl Rooms {
    /// The part of it that one organization can take, so that its large bodies leave room for others.
    pub fn of_one() -> Self {
        Self::of(TOTAL_KILOBYTES / 4)
    }

    fn of(kilobytes: u32) -> Self {
        Self(Arc::new(Semaphore::new(usize::try_from(kilobytes).unwrap_or(usize::MAX))))
    }

    /// Waits until there is room for this many bytes. If they are more than all the room, waits for all of it.
    pub(super) async fn take(&self, bytes: usize) -> Room {
        // The semaphore is never closed.
        Room(Arc::clone(&self.0).acquire_many_owned(kilobytes(bytes)).await.into_iter().collect())
    }
}

impl Room {
    /// Room in both.
    pub(super) fn and(self, Self(other): Self) -> Self {
        Self(self.0.into_iter().chain(other).collect())
    }

    /// Gives up the room for more than this many bytes.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let needed = usize::try_from(kilobytes(bytes)).unwrap_or(usize::MAX);
        for permit in &mut self.0 {
            drop(permit.split(permit.num_permits().saturating_sub(needed)));
        }
    }
}

fn kilobytes(bytes: usize) -> u32 {
    u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(TOTAL_KILOBYTES)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn bodies_wait_for_room_and_one_that_is_too_large_is_alone() {
        const HALF_BYTES: usize = TOTAL_KILOBYTES as usize * 1024 / 2;
        let rooms = Rooms::default();
        let fits = |bytes| rooms.take(bytes).now_or_never();
        let (first, mut second) = (fits(HALF_BYTES), fits(HALF_BYTES).expect("there is room"));
        assert!(first.is_some() && fits(1024).is_none());
        second.shrink(HALF_BYTES - 1024);
        assert!(fits(1024).is_some() && fits(2048).is_none());
        drop(first);
        assert!(fits(HALF_BYTES * 5).is_none(), "it would not be alone");
        drop(second);
        let large = fits(HALF_BYTES * 5);
        assert!(large.is_some() && fits(1024).is_none());
        drop(large);
        assert!(fits(HALF_BYTES).is_some());
    }

    #[test]
    fn an_organization_leaves_room_for_others() {
        let (all, own) = (Rooms::default(), Rooms::of_one());
        let take = |own: &Rooms| {
            Some(own.take(BODY_BYTES_BOUND).now_or_never()?.and(all.take(BODY_BYTES_BOUND).now_or_never()?))
        };
        let mut held: Vec<_> = std::iter::from_fn(|| take(&own)).collect();
        assert_eq!(held.len(), 29);
        assert!(take(&Rooms::of_one()).is_some(), "another one has room");
        held[0].shrink(1024);
        assert!(take(&own).is_some(), "small bodies leave the room that was taken to read them");
    }
}
