//! Trials: second attempts at receivers that have just become too slow for the shared queues.
//!
//! An attempt that was cut off after half a second does not show whether its receiver is slow or hangs. The receiver is
//! then suspect for two seconds (`TRIAL`). The attempt is repeated immediately through `slow-deliveries`. Up to
//! `WAITING` of the tenant's other deliveries wait for the result instead of joining the queue for hanging receivers. If
//! the receiver answers within that time, it is slow; otherwise it hangs.
//!
//! For an endpoint, the write that records the cut-off decides which process makes the trial. A process makes only
//! `AT_ONCE` trials per tenant at a time, because trials take capacity from slow receivers. A tenant whose new callback
//! origins have turned out to be slow gets no more trials at new ones (see `receivers`).

use std::time::Duration;

use common::timestamp::Timestamp;

/// Deliveries wait this long for the result of a trial. Its attempt takes at most `ANSWERS`.
pub(crate) const TRIAL: Duration = Duration::from_secs(2);
/// The maximum number of a tenant's concurrent trials. An event may have several new endpoints that are slow.
pub(crate) const AT_ONCE: usize = 4;
/// The maximum number of a tenant's deliveries waiting for trials: two batches.
const WAITING: u32 = 20;

/// A tenant's latest trials that this process knows of.
#[derive(Default)]
pub(crate) struct Trials {
    /// The end of the last one.
    until: Option<Timestamp>,
    begun: usize,
    waiting: u32,
}

impl Trials {
    /// Begins a trial. Returns `false` if the tenant already has the maximum number.
    pub(crate) fn begin(&mut self, now: Timestamp) -> bool {
        self.end(now);
        let may_begin = self.begun < AT_ONCE;
        if may_begin {
            self.until = Some(now.after(TRIAL));
            self.begun += 1;
        }
        may_begin
    }

    /// Whether another of the tenant's deliveries may wait until `until` for a trial, even if another process began it.
    pub(crate) fn wait(&mut self, until: Timestamp, now: Timestamp) -> bool {
        self.end(now);
        let may_wait = self.waiting < WAITING;
        if may_wait {
            self.until = self.until.max(Some(until));
            self.waiting += 1;
        }
        may_wait
    }

    /// Forgets the trials that have ended.
    fn end(&mut self, now: Timestamp) {
        if self.until <= Some(now) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_four_trials_for_which_few_deliveries_wait() {
        let (mut here, mut elsewhere, now) = (Trials::default(), Trials::default(), Timestamp::now());
        let end = now.after(TRIAL);
        let begun = |trials: &mut Trials, now| (0..10).filter(|_| trials.begin(now)).count();
        assert_eq!([(); 2].map(|()| begun(&mut here, now)), [4, 0]);
        let waiting = |trials: &mut Trials, now| (0..100).filter(|_| trials.wait(end, now)).count();
        assert_eq!([(); 2].map(|()| waiting(&mut here, now)), [20, 0]);
        assert_eq!(waiting(&mut elsewhere, now), 20, "another process has begun the trial");
        assert_eq!(begun(&mut here, end), 4);
        assert_eq!(waiting(&mut here, end), 20);
    }
}
