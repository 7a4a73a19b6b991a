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

use crate::recent::Recent;

/// Deliveries wait this long for the result of a trial. Its attempt takes at most `ANSWERS`.
pub(crate) const TRIAL: Duration = Duration::from_secs(2);
/// The maximum number of a tenant's deliveries waiting for a trial: two batches.
const WAITING: u32 = 20;

/// The trials that this process knows of, by tenant.
#[derive(Default)]
pub(crate) struct Trials(Recent<Trial>);

#[derive(Default)]
struct Trial {
    until: Option<Timestamp>,
    waiting: u32,
}

impl Trials {
    /// Begins a trial. Returns `false` if the tenant already has one.
    pub(crate) fn begin(&mut self, tenant: u64, now: Timestamp) -> bool {
        let trial = self.0.of(tenant);
        let is_new = trial.until <= Some(now);
        if is_new {
            *trial = Trial { until: Some(now.after(TRIAL)), waiting: 0 };
        }
        is_new
    }

    /// Whether another of the tenant's deliveries may wait until `until` for a trial, perhaps begun by another process.
    pub(crate) fn wait(&mut self, tenant: u64, until: Timestamp, now: Timestamp) -> bool {
        self.begin(tenant, now);
        let trial = self.0.of(tenant);
        let may_wait = trial.waiting < WAITING;
        if may_wait {
            trial.until = trial.until.max(Some(until));
            trial.waiting += 1;
        }
        may_wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_one_trial_for_which_few_deliveries_wait() {
        let (mut trials, now) = (Trials::default(), Timestamp::now());
        let end = now.after(TRIAL);
        assert_eq!([1, 1, 2].map(|tenant| trials.begin(tenant, now)), [true, false, true]);
        let waiting = |trials: &mut Trials, tenant, now| (0..100).filter(|_| trials.wait(tenant, end, now)).count();
        assert_eq!([1, 1, 3].map(|tenant| waiting(&mut trials, tenant, now)), [20, 0, 20]);
        assert!(!trials.begin(3, now), "another process has begun one");
        assert!(trials.begin(1, end));
        assert_eq!(waiting(&mut trials, 1, end), 20);
    }
}
