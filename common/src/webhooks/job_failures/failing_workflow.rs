//! A failing workflow, and when its organization is notified.

use std::{collections::HashSet, time::Duration};

use super::failure::{FailureId, JobFailure};
use crate::{
    timestamp::Timestamp,
    webhooks::endpoints::notice::{self, after_tries},
};

pub use notice::NoticeStep;

/// The maximum number of failures between two emails that are stored with their ids. Further failures are only counted.
pub const FULL: usize = 100;
/// The number of failures that an email shows.
const EMAILED_FAILURES: usize = 3;
/// The minimum time between two emails about a workflow.
const APART: Duration = Duration::from_hours(1);
/// The time after which the service stops trying to send a notice. A notice may have to wait for the next day's quota.
const GIVE_UP_AFTER: Duration = Duration::from_hours(2 * 24);

/// A workflow with failures that may have to be reported to its organization.
pub struct Failing {
    /// The workflow's name, as sent by the producer.
    pub workflow: Option<String>,
    /// The newest failures. Some may be duplicates or may already have been reported.
    pub(super) newest: Vec<JobFailure>,
    /// The failures since the last email.
    pub(super) failed: Vec<FailureId>,
    /// The number of further failures, whose ids are not stored.
    pub(super) more: u64,
    /// The latest failures that have been reported.
    pub(super) reported: Vec<FailureId>,
    /// The list of reported ids is incomplete up to this time, because there were too many failures.
    pub(super) reported_until: Option<Timestamp>,
    /// When the notice became pending.
    pub(super) at: Timestamp,
    /// The number of tries to send the notice.
    pub(super) tries: u32,
    /// The time of the last email.
    pub(super) mailed_at: Option<Timestamp>,
    /// The number of writes to the item. If it has changed, failures were recorded in the meantime.
    pub(super) writes: i64,
}

/// A number of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCount {
    /// The number, which is approximate unless `is_exact` is set.
    pub number: u64,
    pub is_exact: bool,
}

impl Failing {
    /// The next step for the notice.
    pub fn step(&self, now: Timestamp) -> NoticeStep {
        match self.count().number {
            0 => NoticeStep::Drop,
            _ if now.since(self.at) >= GIVE_UP_AFTER => NoticeStep::GiveUp,
            _ if now < self.due() => NoticeStep::Wait,
            _ => NoticeStep::Send,
        }
    }

    /// When the notice is due: the next sweep after this time sends it.
    pub fn due(&self) -> Timestamp {
        let hour = self.mailed_at.map(|at| at.after(APART));
        // During a storm, processes rely on this notice not being sent before this time.
        let minute = self.is_full().then(|| next_minute(self.at));
        let due = self.at.after(after_tries(self.tries));
        [hour, minute].into_iter().flatten().fold(due, Ord::max)
    }

    /// Whether further failures are only counted.
    pub fn is_full(&self) -> bool {
        self.failed.len() >= FULL
    }

    /// The number of unreported failures.
    pub fn count(&self) -> FailureCount {
        let mut jobs = HashSet::new();
        let known = self.failed.iter().filter(|id| !self.is_reported(id) && jobs.insert(id.job)).count();
        let number = u64::try_from(known).unwrap_or(u64::MAX).saturating_add(self.more);
        FailureCount { number, is_exact: self.more == 0 && !self.is_full() }
    }

    /// The newest unreported failures, at most three, newest first.
    pub fn newest(&self) -> Vec<&JobFailure> {
        let mut jobs = HashSet::new();
        let unreported =
            self.newest.iter().filter(|failure| !self.is_reported(&failure.id) && jobs.insert(failure.id.job));
        let mut unreported: Vec<_> = unreported.collect();
        unreported.sort_by_key(|failure| failure.id.order());
        unreported.truncate(EMAILED_FAILURES);
        unreported
    }

    fn is_reported(&self, id: &FailureId) -> bool {
        let was_one_of_many = id.is_repeated && self.reported_until.is_some_and(|until| id.at() <= until);
        was_one_of_many || self.reported.iter().any(|reported| reported.job == id.job)
    }

    /// The ids to store as reported after an email: the latest of the previously reported and the unreported failures.
    pub(super) fn reported_with_these(&self) -> Vec<FailureId> {
        let mut reported: Vec<_> = self.reported.iter().chain(&self.failed).copied().collect();
        reported.sort_by_key(FailureId::order);
        let mut jobs = HashSet::new();
        reported.retain(|id| jobs.insert(id.job));
        reported.truncate(FULL);
        reported
    }
}

fn next_minute(time: Timestamp) -> Timestamp {
    const MINUTE: i64 = 60_000;
    Timestamp::from_millisecond(time.as_millisecond().div_euclid(MINUTE).saturating_add(1).saturating_mul(MINUTE))
}

#[cfg(test)]
mod tests {
    use super::{super::failure::tests::failure, *};

    const MINUTE: Duration = Duration::from_mins(1);

    fn failing(failed: i64) -> Failing {
        Failing {
            workflow: None,
            newest: Vec::new(),
            failed: (0..failed).map(|number| failure(number).id).collect(),
            more: 0,
            reported: Vec::new(),
            reported_until: None,
            at: Timestamp::from_millisecond(1_769_860_830_000),
            tries: 0,
            mailed_at: None,
            writes: 1,
        }
    }

    #[test]
    fn the_first_failure_is_reported_at_once_and_others_hourly() {
        let first = failing(1);
        assert_eq!(first.step(first.at), NoticeStep::Send);
        let mailed_at = Some(first.at.before(MINUTE));
        let again = Failing { mailed_at, ..first };
        assert_eq!(again.step(again.at.after(MINUTE * 58)), NoticeStep::Wait);
        assert_eq!(again.step(again.at.after(MINUTE * 59)), NoticeStep::Send);
        let long_ago = Some(again.at.before(APART));
        assert_eq!(Failing { mailed_at: long_ago, ..failing(1) }.step(again.at), NoticeStep::Send);
    }

    #[test]
    fn reported_failures_are_not_reported_again() {
        let reported = |reported: i64| Failing {
            reported: (0..reported).map(|number| failure(number).id).collect(),
            ..failing(3)
        };
        assert_eq!(reported(2).count(), FailureCount { number: 1, is_exact: true });
        assert_eq!(reported(3).step(reported(3).at), NoticeStep::Drop);
    }

    #[test]
    fn a_copy_counts_once_whenever_it_was_sent() {
        let copy = FailureId { at: 7, is_repeated: true, ..failure(0).id };
        let twice = Failing { failed: vec![failure(0).id, copy], ..failing(0) };
        assert_eq!(twice.count(), FailureCount { number: 1, is_exact: true });
    }

    #[test]
    fn repeats_beyond_the_limit_count_as_reported() {
        let repeated = |number| FailureId { is_repeated: true, ..failure(number).id };
        let many = Failing { reported_until: Some(failure(5).id.at()), ..failing(0) };
        let again = Failing { failed: vec![repeated(5)], ..many };
        assert_eq!(again.step(again.at), NoticeStep::Drop);
        let newer = Failing { failed: vec![failure(5).id, repeated(6)], ..again };
        assert_eq!(newer.count().number, 2);
    }

    #[test]
    fn a_full_notice_waits_for_the_minute_to_end() {
        let full = failing(i64::try_from(FULL).expect("a number"));
        assert_eq!(full.step(full.at.after(Duration::from_secs(29))), NoticeStep::Wait);
        assert_eq!(full.step(full.at.after(Duration::from_secs(30))), NoticeStep::Send);
        assert!(!full.count().is_exact);
        assert_eq!(full.reported_with_these().len(), FULL);
    }

    #[test]
    fn an_unsendable_notice_is_abandoned() {
        let failing = Failing { tries: 1, ..failing(1) };
        assert_eq!(failing.step(failing.at.after(MINUTE / 2)), NoticeStep::Wait);
        assert_eq!(failing.step(failing.at.after(GIVE_UP_AFTER)), NoticeStep::GiveUp);
    }
}
