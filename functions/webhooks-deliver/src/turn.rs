//! An attempt's turn: the queue and lane that give it a slot, its maximum duration, and the time of the next try if the
//! attempt does not get a slot. Does no I/O.

use std::time::Duration;

use common::{random, timestamp::Timestamp, webhooks::delivery::Queue};

use crate::standing::{ANSWERS, SOON, Standing};

/// The minimum postponement of an attempt that did not get a slot. `LATER` applies if the receiver hangs, since it may
/// hold its slots for a long time, or if its organization crowds a queue that others wait in.
pub(crate) const SHORTLY: Duration = Duration::from_secs(1);
pub(crate) const LATER: Duration = Duration::from_secs(3);
/// The maximum postponement, before the random part is added.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// The maximum time between probes of a hanging receiver.
const LONGEST_REST: Duration = Duration::from_secs(5 * 60);

/// How an attempt gets a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Without a long wait, because the attempt is short.
    Soon,
    /// After waiting in a lane of this queue.
    Waits(Queue),
    /// As a probe, if the hanging receiver may get one.
    Probes,
    /// In another queue's invocation.
    Elsewhere(Queue),
    /// In an invocation for slow receivers, after the events that queue now.
    Yields,
    /// After the receiver's trial.
    AfterTrial,
}

impl Turn {
    /// Returns the turn of an attempt from the queue `from`. Only invocations of their own queue make attempts at
    /// receivers known to hang. `lingers` means that events queue for invocations, and the receiver often takes
    /// almost as long as an attempt may; `is_crowd` means that its organization crowds the batch.
    pub(crate) fn of(from: Queue, standing: Standing, lingers: bool, is_crowd: bool, is_test: bool) -> Self {
        match (from, standing) {
            (Queue::Shared, Standing::Good) if lingers && is_crowd => Self::Yields,
            (Queue::Shared, Standing::Good | Standing::Unknown) if lingers => Self::Elsewhere(Queue::Slow),
            (Queue::Shared, Standing::Good | Standing::Unknown) => Self::Soon,
            (Queue::Shared, Standing::Slow) => Self::Elsewhere(Queue::Slow),
            (Queue::Shared, Standing::Suspect) => Self::AfterTrial,
            (Queue::Shared | Queue::Slow, Standing::Hanging) => Self::Elsewhere(Queue::Hanging),
            // One attempt is made here, even if the others were moved to another queue.
            (Queue::Slow | Queue::Hanging, Standing::Unknown) => Self::Waits(Queue::Shared),
            (Queue::Slow | Queue::Hanging, Standing::Good | Standing::Slow) => Self::Waits(Queue::Slow),
            // This attempt is the trial.
            (Queue::Slow, Standing::Suspect) => Self::Waits(Queue::Slow),
            // A person is waiting for the test's result.
            (Queue::Hanging, Standing::Suspect | Standing::Hanging) if is_test => Self::Waits(Queue::Hanging),
            (Queue::Hanging, Standing::Suspect | Standing::Hanging) => Self::Probes,
        }
    }
}

/// Returns the queue of an attempt that did not get a slot, and how long it waits there at least. Its receiver is an
/// endpoint or a callback origin, and its delivery is new or already in the log.
pub(crate) fn without_turn(standing: Standing, is_endpoint: bool, is_stored: bool) -> (Queue, Duration) {
    match standing {
        Standing::Good | Standing::Slow => (Queue::Slow, Duration::ZERO),
        // The endpoint's first attempt is in progress. Once it has ended, the shared queue makes this attempt or moves
        // it on within milliseconds. In the queue for slow receivers, thousands of these deliveries would be ahead of
        // others.
        Standing::Unknown if is_endpoint && !is_stored => (Queue::Shared, SOON),
        Standing::Unknown if is_endpoint => (Queue::Slow, Duration::ZERO),
        Standing::Unknown | Standing::Suspect | Standing::Hanging => (Queue::Hanging, Duration::ZERO),
    }
}

/// Returns how soon an attempt in this queue is cut off, or `None` if only the delivery timeout applies.
pub(crate) fn longest(queue: Queue) -> Option<Duration> {
    match queue {
        Queue::Shared => Some(SOON),
        Queue::Slow => Some(ANSWERS),
        Queue::Hanging => None,
    }
}

/// Returns when an attempt tries again to get a slot. The attempt has waited, or its receiver has been silent, since
/// `since`, and the next try follows after one to two times that duration. So a long wait takes few tries, and a
/// recovering receiver does not get all deliveries at once.
pub(crate) fn postponed(since: Timestamp, least: Duration, now: Timestamp) -> Timestamp {
    let wait = now.since(since).clamp(least, LONGEST_WAIT);
    now.after(wait.mul_f64(1.0 + random::fraction()))
}

/// Returns the time between probes of a receiver that has been silent since `since`: a tenth of the silence, but at
/// least an attempt's duration. A receiver that stays silent thus occupies few invocations.
pub(crate) fn rest(since: Timestamp, attempt: Duration, now: Timestamp) -> Duration {
    (now.since(since) / 10).clamp(attempt, LONGEST_REST.max(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_postponement_is_once_to_twice_the_time_waited_so_far() {
        let now = at(100_000);
        for (since, least, most) in [(0, 1, 2), (100, 100, 200), (50_000, 3600, 7200)] {
            let until = postponed(now.before(Duration::from_secs(since)), SHORTLY, now);
            let wait = until.since(now).as_secs_f64();
            assert!((f64::from(least)..=f64::from(most)).contains(&wait), "{since}: {wait}");
        }
    }

    #[test]
    fn a_long_silence_is_probed_less_often() {
        let (attempt, now) = (Duration::from_secs(15), at(100_000));
        for (ago, expected) in [(10, 15), (600, 60), (86_400, 300)] {
            assert_eq!(rest(now.before(Duration::from_secs(ago)), attempt, now).as_secs(), expected);
        }
    }

    #[test]
    fn a_new_delivery_waits_for_the_first_attempt_at_its_endpoint() {
        let without =
            |standing| [(true, false), (true, true), (false, false)].map(|(is, was)| without_turn(standing, is, was));
        let at_once = |queue| (queue, Duration::ZERO);
        let unknown = [(Queue::Shared, SOON), at_once(Queue::Slow), at_once(Queue::Hanging)];
        for (standing, expected) in [
            (Standing::Unknown, unknown),
            (Standing::Good, [at_once(Queue::Slow); 3]),
            (Standing::Slow, [at_once(Queue::Slow); 3]),
            (Standing::Hanging, [at_once(Queue::Hanging); 3]),
        ] {
            assert_eq!(without(standing), expected, "{standing:?}");
        }
    }

    #[test]
    fn each_standing_has_its_turn_in_each_queue() {
        use Queue::{Hanging, Shared, Slow};
        use Turn::{AfterTrial, Elsewhere, Probes, Soon, Waits, Yields};
        for (standing, expected) in [
            (Standing::Good, [Soon, Waits(Slow), Waits(Slow)]),
            (Standing::Unknown, [Soon, Waits(Shared), Waits(Shared)]),
            (Standing::Slow, [Elsewhere(Slow), Waits(Slow), Waits(Slow)]),
            (Standing::Suspect, [AfterTrial, Waits(Slow), Probes]),
            (Standing::Hanging, [Elsewhere(Hanging), Elsewhere(Hanging), Probes]),
        ] {
            assert_eq!([Shared, Slow, Hanging].map(|from| Turn::of(from, standing, false, true, false)), expected);
        }
        assert_eq!(Turn::of(Shared, Standing::Good, true, false, false), Elsewhere(Slow), "it lingers");
        assert_eq!(Turn::of(Shared, Standing::Good, true, true, false), Yields, "most events are of its organization");
        assert_eq!(Turn::of(Shared, Standing::Slow, true, true, false), Elsewhere(Slow), "it has its own invocations");
        assert_eq!(Turn::of(Hanging, Standing::Hanging, false, false, true), Waits(Hanging), "a test");
    }
}
