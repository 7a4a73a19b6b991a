//! Rests: breaks for an organization whose due attempts fill a queue's batches.
//!
//! The invocations for slow receivers are shared, and a process on Lambda cannot see how many of them an organization
//! occupies. While due attempts wait for an invocation, a process that has made a crowd's attempts returns that
//! organization's next crowds to the queue, for a fraction of the time that those attempts took. Returning a batch takes
//! milliseconds, so records queued behind thousands from a crowd get their turn. The crowd loses little, because it has
//! the invocations to itself again afterward.

use std::time::Duration;

use common::timestamp::Timestamp;

use crate::record::BACKLOG;

/// Shorter attempts do not cause a rest, because they occupy an invocation only for a moment.
const SHORT: Duration = Duration::from_millis(100);
/// A rest takes an attempt's duration divided by this number.
const PART: u32 = 4;

/// The end of an organization's rest in this process.
#[derive(Default)]
pub(crate) struct Rest(Option<Timestamp>);

impl Rest {
    /// Lets a crowd rest after an attempt that took from `began` to `now`.
    pub(crate) fn begin(&mut self, began: Timestamp, now: Timestamp) {
        let took = now.since(began);
        if took >= SHORT {
            self.0 = self.0.max(Some(now.after(took / PART)));
        }
    }

    /// Whether a crowd's attempt, which has been due since `due`, has to yield.
    pub(crate) fn holds(&self, due: Timestamp, now: Timestamp) -> bool {
        now.since(due) > BACKLOG && self.0 > Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_rests_for_a_quarter_of_its_time_while_others_wait() {
        let (mut rest, began) = (Rest::default(), Timestamp::from_second(1000).expect("a time"));
        let now = began.after(Duration::from_secs(1));
        assert!(!rest.holds(began, now), "it has not been served");
        rest.begin(began, began.after(SHORT / 2));
        assert!(!rest.holds(began, began.after(SHORT / 2)), "a short attempt");
        rest.begin(began, now);
        let holds_after = |ms, waited| {
            let now = now.after(Duration::from_millis(ms));
            rest.holds(now.before(waited), now)
        };
        assert_eq!([0, 249, 250].map(|ms| holds_after(ms, BACKLOG * 2)), [true, true, false]);
        assert!(!holds_after(0, BACKLOG), "no attempt waits for an invocation");
    }
}
