//! Admission of attempts: how many run at once, and how late one may start.

use std::time::Duration;

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout_at},
};

/// How long an attempt waits when no file descriptor was left for it: other attempts have to end first.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Admits the attempts of one invocation. An attempt that starts too late would be cut off by the function's timeout.
pub(crate) struct Admission<'a> {
    /// Shared by all invocations of the process.
    slots: &'a Semaphore,
    /// No attempt starts later.
    last_start: Instant,
}

impl<'a> Admission<'a> {
    /// Admits an attempt per slot, until `last_start`.
    pub(crate) fn new(slots: &'a Semaphore, last_start: Instant) -> Self {
        Self { slots, last_start }
    }

    /// Waits for a slot. `None` if there was none in time.
    pub(crate) async fn slot(&self) -> Option<SemaphorePermit<'a>> {
        let slot = timeout_at(self.last_start, self.slots.acquire()).await.ok()?.ok()?;
        // A free slot is granted even after the time is up.
        (Instant::now() < self.last_start).then_some(slot)
    }

    /// Waits for [`PAUSE`], unless that would be too late for an attempt. Returns whether there is time for one.
    pub(crate) async fn pause(&self) -> bool {
        let in_time = Instant::now() + PAUSE < self.last_start;
        if in_time {
            sleep(PAUSE).await;
        }
        in_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_is_for_one_attempt_at_a_time() {
        let slots = Semaphore::new(1);
        let soon = Admission::new(&slots, Instant::now() + Duration::from_millis(20));
        let later = Admission::new(&slots, Instant::now() + Duration::from_secs(60));
        let slot = later.slot().await;
        assert!(slot.is_some());
        assert!(soon.slot().await.is_none());
        drop(slot);
        assert!(later.slot().await.is_some());
    }

    #[tokio::test]
    async fn nothing_starts_after_the_last_start_even_if_a_slot_is_free() {
        let slots = Semaphore::new(1);
        let over = Admission::new(&slots, Instant::now());
        assert!(over.slot().await.is_none());
        assert!(!over.pause().await);
    }
}
