//! A receiver's pace: whether it answers in time, but rarely quickly.

use std::time::Duration;

use common::timestamp::Timestamp;

/// A receiver lingers if none of its latest responses took less than `QUICK`, or many took longer than `LONG`. While
/// events queue for invocations, attempts at such a receiver are moved to the queue for slow receivers.
const QUICK: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_millis(300);
/// The share of long responses that makes a receiver linger.
const LINGERING: f64 = 0.4;
/// A process whose timers are later than this is busy.
const BUSY: Duration = Duration::from_millis(20);
/// A response counts as recent for this long, and for less and less in the share. This is much longer than `LONG`,
/// because the quick responses to many concurrent attempts all arrive before the long ones.
const LATELY: Duration = Duration::from_secs(10);

/// The recent response times of a receiver.
#[derive(Default)]
pub(crate) struct Pace {
    answered_at: Option<Timestamp>,
    quick_at: Option<Timestamp>,
    /// The number of responses, and of long ones. A response that is `LATELY` old counts as 1/e.
    all: f64,
    long: f64,
}

impl Pace {
    /// Records a response that arrived after `took`, of which this process may have caused `lag`. A busy process cannot
    /// tell a quick response from a slower one, so only long ones count.
    pub(crate) fn answered(&mut self, took: Duration, lag: Duration, now: Timestamp) {
        let took = took.saturating_sub(lag);
        if lag > BUSY && took < LONG {
            return;
        }
        if took < QUICK {
            self.quick_at = Some(now);
        }
        let kept = self.answered_at.replace(now).map_or(0.0, |at| (-now.since(at).div_duration_f64(LATELY)).exp());
        self.all = self.all * kept + 1.0;
        self.long = self.long * kept + if took < LONG { 0.0 } else { 1.0 };
    }

    /// Whether many of the latest responses took long, or none was quick.
    pub(crate) fn lingers(&self, now: Timestamp) -> bool {
        let is_recent = |at: Option<Timestamp>| at.is_some_and(|at| now.since(at) < LATELY);
        is_recent(self.answered_at) && (self.long >= LINGERING * self.all || !is_recent(self.quick_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::SOON;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn answer(pace: &mut Pace, took: Duration, second: i64) {
        pace.answered(took, Duration::ZERO, at(second));
    }

    #[test]
    fn a_receiver_lingers_while_many_latest_answers_were_late() {
        let mut pace = Pace::default();
        assert!(!pace.lingers(at(0)), "there are no observations");
        answer(&mut pace, QUICK, 0);
        assert!(pace.lingers(at(1)));
        assert!(!pace.lingers(at(0).after(LATELY)), "the response is no longer recent");
        for second in 20..25 {
            answer(&mut pace, Duration::ZERO, second);
        }
        answer(&mut pace, SOON, 25);
        assert!(!pace.lingers(at(26)), "one long response is not many");
        for second in 26..40 {
            answer(&mut pace, if second % 3 == 0 { Duration::ZERO } else { SOON }, second);
        }
        assert!(pace.lingers(at(40)), "two of three responses take long");
        for second in 40..60 {
            answer(&mut pace, Duration::ZERO, second);
        }
        assert!(!pace.lingers(at(60)), "the receiver has become quick");
    }

    #[test]
    fn quick_answers_that_arrive_first_do_not_hide_long_ones() {
        let mut pace = Pace::default();
        for second in 0..3 {
            (0..100).for_each(|_| answer(&mut pace, Duration::ZERO, second));
            (0..200).for_each(|_| answer(&mut pace, SOON, second));
        }
        (0..100).for_each(|_| answer(&mut pace, Duration::ZERO, 3));
        assert!(pace.lingers(at(3)));
    }

    #[test]
    fn a_busy_process_counts_only_long_answers() {
        let mut pace = Pace::default();
        answer(&mut pace, Duration::ZERO, 0);
        pace.answered(LONG, BUSY * 2, at(1));
        assert!(!pace.lingers(at(1)), "the process may have caused the delay");
        for second in 1..4 {
            pace.answered(LONG + BUSY * 2, BUSY * 2, at(second));
        }
        assert!(pace.lingers(at(4)));
    }
}
