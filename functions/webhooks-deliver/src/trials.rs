//! Trials: second attempts at receivers that have just become too slow for the shared queues.
//!
//! An attempt that was cut off after half a second does not show whether its receiver is slow or hangs. An endpoint, or
//! a callback origin that has answered before, is then suspect for two seconds (`TRIAL`). The attempt is repeated
//! immediately through `slow-deliveries`. Up to `WAITING` of the tenant's other deliveries wait for the result instead
//! of joining the queue for hanging receivers. If the receiver answers within that time, it is slow; otherwise it
//! hangs.
//!
//! The write that records the cut-off decides which process makes the trial. A process makes only one trial per tenant
//! at a time, because trials take capacity from slow receivers.

use std::time::Duration;

use common::timestamp::Timestamp;

/// Deliveries wait this long for the result of a trial. Its attempt takes at most `ANSWERS`.
pub(crate) const TRIAL: Duration = Duration::from_secs(2);
/// The maximum number of a tenant's deliveries waiting for a trial: two batches.
const WAITING: u32 = 20;

/// A tenant's latest trial that this process knows of.
#[derive(Default)]
pub(crate) struct Trial {
    until: Option<Timestamp>,
    waiting: u32,
}

impl Trial {
    /// Begins a trial. Returns `false` if the tenant already has one.
    pub(crate) fn begin(&mut self, now: Timestamp) -> bool {
        let is_new = self.until <= Some(now);
        if is_new {
            *self = Self { until: Some(now.after(TRIAL)), waiting: 0 };
        }
        is_new
    }

    /// Whether another of the tenant's deliveries may wait until `until` for a trial, even if another process began it.
    pub(crate) fn wait(&mut self, until: Timestamp, now: Timestamp) -> bool {
        self.begin(now);
        let may_wait = self.waiting < WAITING;
        if may_wait {
            self.until = self.until.max(Some(until));
            self.waiting += 1;
        }
        may_wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_one_trial_for_which_few_deliveries_wait() {
        let (mut here, mut elsewhere, now) = (Trial::default(), Trial::default(), Timestamp::now());
        let end = now.after(TRIAL);
        assert_eq!([(); 2].map(|()| here.begin(now)), [true, false]);
        let waiting = |trial: &mut Trial, now| (0..100).filter(|_| trial.wait(end, now)).count();
        assert_eq!([(); 2].map(|()| waiting(&mut here, now)), [20, 0]);
        assert_eq!(waiting(&mut elsewhere, now), 20);
        assert!(!elsewhere.begin(now), "another process has begun one");
        assert!(here.begin(end));
        assert_eq!(waiting(&mut here, end), 20);
    }
}
