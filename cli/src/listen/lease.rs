//! The lease of received events.

use std::time::{Duration, Instant, SystemTime};

/// The duration of a lease.
const LEASE_DURATION: Duration = Duration::from_mins(1);
/// The maximum age of a lease at which a post may begin. A post takes up to 15 seconds, and settling it takes a little
/// longer.
const MAX_LEASE_AGE: Duration = Duration::from_secs(40);

/// The lease of the events from one call. Its time starts before the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    began: Instant,
    /// Needed in addition to the `Instant`, whose clock may stop while the machine sleeps.
    began_at: SystemTime,
}

impl Lease {
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), began_at: SystemTime::now() }
    }

    fn age(&self) -> Duration {
        let slept = self.began_at.elapsed().unwrap_or_default();
        self.began.elapsed().max(slept)
    }

    /// Whether a post may still begin.
    pub(super) fn has_time(&self) -> bool {
        self.age() < MAX_LEASE_AGE
    }

    /// Whether the lease has expired.
    pub(super) fn is_over(&self) -> bool {
        self.age() >= LEASE_DURATION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_expires_while_the_machine_sleeps() {
        let now = Lease::begin();
        let slept = |seconds| Lease { began_at: now.began_at - Duration::from_secs(seconds), ..now };
        assert!(now.has_time() && !now.is_over());
        assert!(!slept(50).has_time() && !slept(50).is_over());
        assert!(slept(600).is_over());
        let turned_back = Lease { began_at: now.began_at + Duration::from_mins(10), ..now };
        assert!(turned_back.has_time());
    }
}
