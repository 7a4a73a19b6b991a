//! A receiver's pace: whether it answers in time, but rarely quickly.

use std::time::Duration;

use common::timestamp::Timestamp;

/// A receiver lingers if none of its latest responses took less than `QUICK`, or many took longer than `LONG`. While
/// events queue for invocations, attempts at such a receiver are moved to the queue for slow receivers.
const QUICK: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_millis(300);
/// The share of long responses that makes a receiver linger, and the weight of each new response in that share.
const LINGERING: f64 = 0.4;
const WEIGHT: f64 = 0.1;
/// A response counts as recent for this long.
const LATELY: Duration = Duration::from_secs(10);

/// The recent response times of a receiver.
#[derive(Default)]
pub(crate) struct Pace {
    answered_at: Option<Timestamp>,
    quick_at: Option<Timestamp>,
    /// The share of long responses, as a moving average.
    late: f64,
}

impl Pace {
    /// Records a response that arrived after `took`.
    pub(crate) fn answered(&mut self, took: Duration, now: Timestamp) {
        if took < QUICK {
            self.quick_at = Some(now);
        }
        let late = if took < LONG { 0.0 } else { 1.0 };
        let is_first = self.answered_at.replace(now).is_none_or(|at| now.since(at) >= LATELY);
        self.late = if is_first { late } else { self.late + WEIGHT * (late - self.late) };
    }

    /// Whether many of the latest responses took long, or none was quick.
    pub(crate) fn lingers(&self, now: Timestamp) -> bool {
        let is_recent = |at: Option<Timestamp>| at.is_some_and(|at| now.since(at) < LATELY);
        is_recent(self.answered_at) && (self.late >= LINGERING || !is_recent(self.quick_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::SOON;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_receiver_lingers_while_many_latest_answers_were_late() {
        let mut pace = Pace::default();
        assert!(!pace.lingers(at(0)), "there are no observations");
        pace.answered(QUICK, at(0));
        assert!(pace.lingers(at(1)));
        assert!(!pace.lingers(at(0).after(LATELY)), "the response is no longer recent");
        pace.answered(Duration::ZERO, at(20));
        pace.answered(SOON, at(21));
        assert!(!pace.lingers(at(22)), "one long response is not many");
        for second in 22..40 {
            pace.answered(if second % 3 == 0 { Duration::ZERO } else { SOON }, at(second));
        }
        assert!(pace.lingers(at(40)), "two of three responses take long");
    }
}
