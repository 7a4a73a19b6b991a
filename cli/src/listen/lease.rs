//! How long what was taken is ours.

use std::time::{Duration, Instant, SystemTime};

/// How long a lease lasts.
const LASTS: Duration = Duration::from_secs(60);
/// When a post begins at the latest: it takes 15 seconds at most, and what came of it has to be told, too.
const LATEST: Duration = Duration::from_secs(40);

/// The lease of what one call took, counted from before the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    began: Instant,
    /// The other clock stands still while the machine sleeps.
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
        self.age() < LATEST
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.age() >= LASTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_slept_has_no_lease_any_more() {
        let now = Lease::begin();
        let slept = |seconds| Lease { began_at: now.began_at - Duration::from_secs(seconds), ..now };
        assert!(now.has_time() && !now.is_over());
        assert!(!slept(50).has_time() && !slept(50).is_over());
        assert!(slept(600).is_over());
        let turned_back = Lease { began_at: now.began_at + Duration::from_secs(600), ..now };
        assert!(turned_back.has_time());
    }
}
