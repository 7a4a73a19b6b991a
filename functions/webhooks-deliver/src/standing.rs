//! A receiver's [standing](Standing) decides the queue and the slots for attempts.
//!
//! Only `SUCCESSES` quick successes in a row over `PROBATION` make a slow receiver good again, so one that alternates
//! between answering and hanging stays slow. An endpoint's standing is written to its item when it changes; the
//! standing of callback origins is known only within a process. This module does no I/O.

use std::time::Duration;

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Failure, Outcome, Queue},
        endpoints::Health,
    },
};

use crate::{pace::Pace, trials::TRIAL};

/// The response time at or above which a receiver counts as slow. The shared queues cut an attempt off at this time,
/// because each invocation waits for its slowest attempt.
pub(crate) const SOON: Duration = Duration::from_millis(500);
/// The response time at or above which a receiver counts as hanging. The queue for slow receivers cuts an attempt off
/// at this time, which is therefore the longest time that others wait for its invocation.
pub(crate) const ANSWERS: Duration = Duration::from_millis(1500);
/// The number of quick successes in a row that make a slow receiver good again, and the time that they must span.
const SUCCESSES: u32 = 5;
const PROBATION: Duration = Duration::from_secs(60);
/// A receiver that answered quickly is considered good for this long.
const MEMORY_OF_GOOD: Duration = Duration::from_secs(10 * 60);
/// This process trusts its own view of a slow or silent endpoint for this long. After that, only the endpoint's item
/// counts, which other processes may have updated.
const MEMORY: Duration = Duration::from_secs(10);
/// The same time for callbacks, which are not stored in an item.
const MEMORY_OF_CALLBACKS: Duration = Duration::from_secs(10 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It answers within [`SOON`], even with errors.
    Good,
    /// This process has seen no response for [`MEMORY_OF_GOOD`]. It gets one attempt, and more once it has responded.
    Unknown,
    /// It answers later, or refuses connections.
    Slow,
    /// An attempt has just been cut off, and a [trial](crate::trials) may show that it is merely slow.
    Suspect,
    /// An attempt was cut off, timed out or took longer than [`ANSWERS`]. It hangs until it answers sooner.
    Hanging,
}

impl Standing {
    /// The queue for attempts at such a receiver.
    pub(crate) fn queue(self) -> Queue {
        match self {
            Self::Good | Self::Unknown => Queue::Shared,
            Self::Slow => Queue::Slow,
            Self::Suspect | Self::Hanging => Queue::Hanging,
        }
    }
}

/// The behavior that a receiver showed during an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It accepted the delivery.
    Success,
    /// It is good again: it has answered several attempts in a row quickly.
    Good {
        /// The time of the first of these responses.
        since: Timestamp,
    },
    /// It timed out, could not be reached or failed late, and no other attempt has succeeded since this one began.
    NoAnswer {
        /// Whether the failure took long.
        hangs: bool,
    },
    /// It answered with an error, or failed in some other way within seconds.
    Error,
    /// Nothing: it failed late, but another attempt has succeeded since this one began.
    Nothing,
}

/// This process's observations about one receiver. The fields are about the receiver.
#[derive(Default)]
pub(crate) struct Seen {
    /// The time of the last quick response, unless a slow one followed.
    soon_at: Option<Timestamp>,
    /// When this process last found the receiver slow, and when it last found it good again.
    slow_at: Option<Timestamp>,
    good_at: Option<Timestamp>,
    /// The times of the last attempt that was cut off, unanswered or answered late, and of the last timely response.
    late_at: Option<Timestamp>,
    replied_at: Option<Timestamp>,
    /// The start of the latest trial that this process knows of.
    suspected_at: Option<Timestamp>,
    /// The current series of quick successes: the time of the first, and their number.
    streak: Option<(Timestamp, u32)>,
    /// The time of the last success, and of the last attempt without a response since that success.
    answered_at: Option<Timestamp>,
    unanswered_at: Option<Timestamp>,
    /// The end of the first attempt without a response since the last success.
    silent_since: Option<Timestamp>,
    /// Until this time, this process may probe the receiver although it does not answer.
    pub(crate) probing_until: Option<Timestamp>,
    /// The response times of an endpoint.
    pub(crate) pace: Pace,
}

impl Seen {
    /// Returns the receiver's standing, according to the newer of two sources: this process's view and the endpoint's
    /// item. Callbacks have no `health`.
    pub(crate) fn standing(&self, health: Option<&Health>, now: Timestamp) -> Standing {
        let remembered = self.slow_at.filter(|at| now.since(*at) < memory(health));
        let slow_at = remembered.max(health.and_then(|health| health.slow_at));
        let good_at = self.good_at.max(health.and_then(|health| health.good_at));
        let is_slow = slow_at > good_at || self.silent_since(health, now).is_some();
        match self.soon_at {
            _ if is_slow && self.hangs(health, now) => match self.suspected_at(health) {
                Some(at) if now < at.after(TRIAL) => Standing::Suspect,
                _ => Standing::Hanging,
            },
            _ if is_slow => Standing::Slow,
            Some(at) if now.since(at) < MEMORY_OF_GOOD => Standing::Good,
            _ => Standing::Unknown,
        }
    }

    /// Whether the receiver hangs: its last late response is newer than its last response in time, according to both
    /// sources.
    fn hangs(&self, health: Option<&Health>, now: Timestamp) -> bool {
        let remembered = self.late_at.filter(|at| now.since(*at) < memory(health));
        let recorded =
            health.filter(|health| health.hangs).and_then(|health| health.slow_at.or(health.unanswered_since));
        // Another process may have received a response since this process cut its attempt off.
        remembered.max(recorded) > self.replied_at.max(health.and_then(|health| health.replied_at))
    }

    /// Returns the start of the last trial, according to the newer of the two sources.
    pub(crate) fn suspected_at(&self, health: Option<&Health>) -> Option<Timestamp> {
        self.suspected_at.max(health.filter(|health| health.hangs).and_then(|health| health.suspected_at))
    }

    /// Whether a callback origin has answered in time, without a late response since.
    pub(crate) fn has_answered(&self, now: Timestamp) -> bool {
        let replied_at = self.replied_at.filter(|at| now.since(*at) < MEMORY_OF_CALLBACKS);
        replied_at.is_some() && replied_at >= self.late_at
    }

    /// Returns the start of the receiver's silence, according to the newer of the two sources, or `None` if it answers.
    pub(crate) fn silent_since(&self, health: Option<&Health>, now: Timestamp) -> Option<Timestamp> {
        let remembered = self.unanswered_at.filter(|at| now.since(*at) < memory(health));
        let recorded = health.and_then(|health| health.unanswered_since);
        // Once an attempt by this process has gone unanswered, its earlier successes no longer outweigh the item.
        let answered = self.answered_at.filter(|_| self.unanswered_at.is_none());
        let answered = answered.max(health.and_then(|health| health.healthy_at));
        (remembered.max(recorded) > answered).then(|| recorded.or(self.silent_since).unwrap_or(now))
    }

    /// Whether this process has found the receiver slow, and has not found it good since.
    pub(crate) fn has_been_slow(&self) -> bool {
        self.slow_at > self.good_at
    }

    /// Records a trial that began at `at`, in this process or another.
    pub(crate) fn suspect(&mut self, at: Timestamp) {
        self.suspected_at = self.suspected_at.max(Some(at));
    }

    /// Records that an attempt was cut off because it took too long for its queue. A response after `since` shows that
    /// the receiver does not hang.
    pub(crate) fn cut(&mut self, since: Timestamp, now: Timestamp) {
        self.slow(now);
        self.late_at = self.late_at.max(Some(since));
    }

    fn slow(&mut self, now: Timestamp) {
        (self.slow_at, self.soon_at, self.streak) = (Some(now), None, None);
    }

    /// Records the outcome of an attempt that began at `began`. Returns the behavior that the receiver showed.
    pub(crate) fn ended(
        &mut self,
        outcome: Outcome,
        health: Option<&Health>,
        began: Timestamp,
        now: Timestamp,
    ) -> Shown {
        let took = now.since(began);
        if took <= ANSWERS && outcome != Outcome::Failed(Failure::Timeout) {
            self.replied_at = Some(now);
        }
        match outcome {
            Outcome::Delivered(_) => {
                self.answered_at = Some(now);
                (self.unanswered_at, self.silent_since) = (None, None);
                match took {
                    _ if took <= SOON => return self.answered_soon(health, now),
                    _ if took <= ANSWERS => self.slow(now),
                    _ => self.cut(now, now),
                }
                Shown::Success
            }
            Outcome::Failed(Failure::Timeout | Failure::Connect | Failure::Dns) => self.unanswered(outcome, began, now),
            Outcome::Failed(_) if took > ANSWERS => self.unanswered(outcome, began, now),
            Outcome::Failed(_) => {
                self.streak = None;
                if took > SOON {
                    self.slow(now);
                } else if self.standing(health, now) != Standing::Slow {
                    self.soon_at = Some(now);
                }
                Shown::Error
            }
        }
    }

    fn answered_soon(&mut self, health: Option<&Health>, now: Timestamp) -> Shown {
        let is_slow = self.standing(health, now) == Standing::Slow;
        let (since, successes) = self.streak.map_or((now, 1), |(since, before)| (since, before.saturating_add(1)));
        self.streak = Some((since, successes));
        let recorded = health.and_then(|health| health.slow_at);
        if !is_slow {
            self.soon_at = Some(now);
            // The endpoint's item may still mark the receiver as slow.
            return if recorded.is_some() { Shown::Good { since } } else { Shown::Success };
        }
        if successes < SUCCESSES || now.since(since) < PROBATION || recorded >= Some(since) {
            return Shown::Success;
        }
        (self.soon_at, self.good_at) = (Some(now), Some(now));
        Shown::Good { since }
    }

    fn unanswered(&mut self, outcome: Outcome, began: Timestamp, now: Timestamp) -> Shown {
        let hangs = now.since(began) > ANSWERS || outcome == Outcome::Failed(Failure::Timeout);
        if hangs {
            self.cut(now, now);
        } else {
            self.slow(now);
        }
        if self.answered_at >= Some(began) {
            return if hangs { Shown::Nothing } else { Shown::Error };
        }
        self.unanswered_at = Some(now);
        self.silent_since.get_or_insert(now);
        Shown::NoAnswer { hangs }
    }
}

fn memory(health: Option<&Health>) -> Duration {
    if health.is_some() { MEMORY } else { MEMORY_OF_CALLBACKS }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIVERED: Outcome = Outcome::Delivered(200);
    const HANGS: Outcome = Outcome::Failed(Failure::Timeout);
    const ERROR: Outcome = Outcome::Failed(Failure::Status(500, None));

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    impl Seen {
        /// Returns the standing of a callback origin after an attempt that ends immediately, at `second`.
        fn soon(&mut self, outcome: Outcome, second: i64) -> Standing {
            self.ended(outcome, None, at(second), at(second));
            self.standing(None, at(second))
        }
    }

    #[test]
    fn a_receiver_that_answers_soon_is_good_for_a_while() {
        let mut seen = Seen::default();
        assert_eq!(seen.standing(None, at(0)), Standing::Unknown);
        assert_eq!(seen.soon(DELIVERED, 0), Standing::Good);
        assert_eq!(seen.soon(ERROR, 1), Standing::Good);
        assert_eq!(seen.standing(None, at(1).after(MEMORY_OF_GOOD)), Standing::Unknown);
    }

    #[test]
    fn late_missing_or_failed_answers_make_a_receiver_slow() {
        let late = at(0).after(SOON * 2);
        for outcome in [DELIVERED, HANGS, ERROR] {
            let mut seen = Seen::default();
            seen.ended(outcome, None, at(0), late);
            let expected = if outcome == HANGS { Standing::Hanging } else { Standing::Slow };
            assert_eq!(seen.standing(None, late), expected, "{outcome:?}");
        }
        for failure in [Failure::Connect, Failure::Dns] {
            assert_eq!(Seen::default().soon(Outcome::Failed(failure), 0), Standing::Slow);
        }
        let mut seen = Seen::default();
        seen.cut(at(0), at(0));
        assert_eq!(seen.standing(None, at(0)), Standing::Hanging, "until it answers");
        let mut seen = Seen::default();
        assert_eq!([ERROR; 10].map(|outcome| seen.soon(outcome, 0)), [Standing::Good; 10], "quick errors are good");
        seen.ended(ERROR, None, at(0), late);
        assert_eq!(
            [ERROR; 10].map(|outcome| seen.soon(outcome, 1)),
            [Standing::Slow; 10],
            "only successes end slowness"
        );
    }

    #[test]
    fn a_minute_of_successes_makes_a_slow_receiver_good() {
        let mut seen = Seen::default();
        seen.cut(at(0), at(0));
        for second in 1..=60 {
            assert_eq!(seen.soon(DELIVERED, second), Standing::Slow);
        }
        let shown = seen.ended(DELIVERED, None, at(61), at(61));
        assert_eq!((shown, seen.standing(None, at(61))), (Shown::Good { since: at(1) }, Standing::Good));
        // Nine of ten attempts succeed: the receiver stays slow.
        seen.cut(at(100), at(100));
        for second in 101..400 {
            let hangs = second % 10 == 0;
            let expected = if hangs { Standing::Hanging } else { Standing::Slow };
            assert_eq!(seen.soon(if hangs { HANGS } else { DELIVERED }, second), expected);
        }
    }

    #[test]
    fn few_successes_over_a_long_time_do_not_make_a_receiver_good() {
        let mut seen = Seen::default();
        seen.cut(at(0), at(0));
        for second in [100, 200, 300, 400] {
            assert_eq!(seen.soon(DELIVERED, second), Standing::Slow);
        }
        assert_eq!(seen.soon(DELIVERED, 500), Standing::Good);
    }

    #[test]
    fn the_newer_of_seen_and_recorded_standing_counts() {
        let health = |slow: Option<i64>, good: Option<i64>| Health {
            slow_at: slow.map(at),
            good_at: good.map(at),
            ..Health::default()
        };
        let mut seen = Seen::default();
        assert_eq!(seen.standing(Some(&health(Some(5), None)), at(10)), Standing::Slow);
        assert_eq!(seen.standing(Some(&health(None, Some(5))), at(10)), Standing::Unknown);
        seen.cut(at(10), at(10));
        assert_eq!(seen.standing(Some(&health(None, Some(5))), at(11)), Standing::Hanging, "the item is out of date");
        assert_eq!(seen.standing(Some(&health(None, Some(11))), at(11)), Standing::Unknown, "or newer");
        let later = at(10).after(MEMORY);
        assert_eq!(
            seen.standing(Some(&health(None, Some(5))), later),
            Standing::Unknown,
            "another process has newer observations"
        );
        assert_eq!(seen.standing(None, later), Standing::Hanging, "a callback has no item");
        assert_eq!(seen.standing(None, at(10).after(MEMORY_OF_CALLBACKS)), Standing::Unknown);
    }

    #[test]
    fn successes_before_the_last_recorded_slow_answer_do_not_count() {
        let (mut seen, health) = (Seen::default(), Health { slow_at: Some(at(30)), ..Health::default() });
        for second in 1..=100 {
            seen.ended(DELIVERED, Some(&health), at(second), at(second));
        }
        assert_eq!(seen.standing(Some(&health), at(100)), Standing::Slow, "another process found the receiver slow");
    }

    #[test]
    fn the_newer_of_seen_and_recorded_silence_counts() {
        let mut seen = Seen::default();
        let silent_since = |seen: &Seen, health: Option<(Option<i64>, Option<i64>)>, now| {
            let health = health.map(|(unanswered, healthy)| Health {
                unanswered_since: unanswered.map(at),
                healthy_at: healthy.map(at),
                ..Health::default()
            });
            seen.silent_since(health.as_ref(), now).map(Timestamp::as_second)
        };
        assert_eq!(silent_since(&seen, None, at(100)), None);
        assert_eq!(silent_since(&seen, Some((Some(50), Some(40))), at(100)), Some(50));
        // The receiver has answered this process since its item was read.
        seen.ended(DELIVERED, None, at(99), at(100));
        assert_eq!(silent_since(&seen, Some((Some(50), None)), at(100)), None);
        // The receiver no longer answers. An endpoint's item may be newer than this process's observations.
        seen.ended(HANGS, None, at(101), at(103));
        assert_eq!(silent_since(&seen, Some((None, Some(102))), at(104)), Some(103));
        assert_eq!(silent_since(&seen, Some((None, Some(104))), at(104)), None);
        let later = at(103).after(MEMORY);
        assert_eq!(silent_since(&seen, Some((None, None)), later), None, "another process received a response");
        assert_eq!(
            silent_since(&seen, Some((Some(50), None)), later),
            Some(50),
            "the earlier response no longer counts"
        );
        // A callback has no item.
        assert_eq!(silent_since(&seen, None, later), Some(103));
        assert_eq!(silent_since(&seen, None, at(103).after(MEMORY_OF_CALLBACKS)), None);
    }

    #[test]
    fn a_slow_failure_is_not_an_answer() {
        let failed = |failure, end| Seen::default().ended(Outcome::Failed(failure), None, at(0), at(end));
        for failure in [Failure::Connect, Failure::Dns] {
            assert_eq!(failed(failure, 0), Shown::NoAnswer { hangs: false });
            assert_eq!(failed(failure, 4), Shown::NoAnswer { hangs: true });
        }
        assert_eq!(failed(Failure::Timeout, 0), Shown::NoAnswer { hangs: true });
        assert_eq!(failed(Failure::Status(500, None), 0), Shown::Error);
        assert_eq!(failed(Failure::Status(504, None), 1), Shown::Error);
        assert_eq!(failed(Failure::Status(504, None), 4), Shown::NoAnswer { hangs: true });
    }

    #[test]
    fn a_receiver_that_hangs_is_slow_once_it_answers_within_seconds() {
        let mut seen = Seen::default();
        seen.cut(at(0), at(0));
        seen.ended(DELIVERED, None, at(1), at(2));
        assert_eq!(seen.standing(None, at(2)), Standing::Slow);
        seen.ended(DELIVERED, None, at(3), at(8));
        assert_eq!(seen.standing(None, at(8)), Standing::Hanging, "five seconds are too long");
        let health = Health { slow_at: Some(at(9)), hangs: true, ..Health::default() };
        seen.ended(ERROR, Some(&health), at(10), at(11));
        assert_eq!(seen.standing(Some(&health), at(11)), Standing::Slow, "the item is out of date");
        assert_eq!(Seen::default().standing(Some(&health), at(11)), Standing::Hanging);
    }

    #[test]
    fn an_answer_to_another_process_ends_hanging() {
        let mut seen = Seen::default();
        seen.cut(at(10), at(11));
        let health =
            |replied: i64| Health { slow_at: Some(at(10)), replied_at: Some(at(replied)), ..Health::default() };
        assert_eq!(seen.standing(Some(&health(9)), at(12)), Standing::Hanging);
        assert_eq!(seen.standing(Some(&health(11)), at(12)), Standing::Slow);
    }

    #[test]
    fn a_receiver_is_suspect_until_its_trial_ends() {
        let mut seen = Seen::default();
        seen.cut(at(9), at(10));
        seen.suspect(at(10));
        let standings = |seen: &Seen, health: Option<&Health>| [11, 12].map(|second| seen.standing(health, at(second)));
        assert_eq!(standings(&seen, None), [Standing::Suspect, Standing::Hanging]);
        let health = Health { slow_at: Some(at(10)), suspected_at: Some(at(10)), hangs: true, ..Health::default() };
        assert_eq!(standings(&Seen::default(), Some(&health)), [Standing::Suspect, Standing::Hanging]);
        seen.ended(DELIVERED, None, at(10), at(11));
        assert_eq!(standings(&seen, None), [Standing::Slow; 2]);
    }
}
