//! The standing of a receiver: good, unknown, slow or hanging. It decides the queue and the slots of attempts.
//!
//! A receiver that answers quickly is good. An unknown receiver gets one attempt, and more once that has succeeded. A
//! receiver that answers late, or fails several times in a row, is slow. A receiver that gives no answer within seconds
//! is hanging, until it answers. Only many successes in a row, over a minute, make either good again, so an alternating
//! receiver stays slow. This module only decides, from values, and has no side effects.

use std::time::Duration;

use common::{
    random,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Failure, Outcome, Queue},
        endpoints::Health,
    },
};

/// The response time from which a receiver is slow. In the queues that all tenants share, an attempt is cut off at this
/// time, since an invocation waits for its slowest attempt, and others wait for an invocation.
pub(crate) const SOON: Duration = Duration::from_millis(500);
/// The response time from which a receiver is hanging. Attempts in the queue for slow receivers are cut off at this
/// time, so that their invocations end within seconds.
const ANSWERS: Duration = Duration::from_secs(3);
/// A receiver lingers if none of its latest answers took less than `QUICK`, or many took longer than `LONG`. While
/// events wait for an invocation, its attempts are postponed.
const QUICK: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_millis(300);
/// The share of long answers from which on a receiver lingers, and the weight of each answer in that share.
const LINGERING: f64 = 0.4;
const WEIGHT: f64 = 0.1;
/// The time for which an answer counts in deciding whether a receiver lingers.
const LATELY: Duration = Duration::from_secs(10);
/// The number of failures in a row that make a receiver slow although it answers quickly.
const FAILURES: u32 = 3;
/// The number of quick successes in a row, and the time that they must span, to make a slow receiver good again.
const SUCCESSES: u32 = 5;
const PROBATION: Duration = Duration::from_secs(60);
/// The time for which a receiver that answered quickly is considered good.
const MEMORY_OF_GOOD: Duration = Duration::from_secs(10 * 60);
/// The time for which this process trusts its own view of a slow or silent endpoint. After that, only the endpoint's
/// item counts, which another process may have changed.
const MEMORY: Duration = Duration::from_secs(10);
/// The same time for callbacks, which have no item.
const MEMORY_OF_CALLBACKS: Duration = Duration::from_secs(10 * 60);
/// The minimum postponement of an attempt that got no slot; and of an attempt whose receiver hangs (which may hold its
/// slots for long), or lingers while others wait for invocations.
pub(crate) const SHORTLY: Duration = Duration::from_secs(1);
pub(crate) const LATER: Duration = Duration::from_secs(3);
/// The maximum postponement, before the random part is added.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// The maximum time between probes of a hanging receiver.
const LONGEST_REST: Duration = Duration::from_secs(5 * 60);

/// The time to ask for a slot again, for an attempt that has waited since `since`, or whose receiver has been silent
/// since then: after the same time again, up to twice that. So a long wait costs few tries, and the deliveries to a
/// receiver that recovers do not come all at once.
pub(crate) fn put_off(since: Timestamp, least: Duration, now: Timestamp) -> Timestamp {
    let wait = now.since(since).clamp(least, LONGEST_WAIT);
    now.after(wait.mul_f64(1.0 + random::fraction()))
}

/// The time after which an attempt of this queue is cut off; `None` if only the delivery timeout applies.
pub(crate) fn longest(queue: Queue) -> Option<Duration> {
    match queue {
        Queue::Shared => Some(SOON),
        Queue::Slow => Some(ANSWERS),
        Queue::Hanging => None,
    }
}

/// The time between probes of a receiver that has been silent since `since`: a tenth of its silence, so that a long
/// silence does not keep invocations waiting, but at least the duration of an attempt.
pub(crate) fn rest(since: Timestamp, attempt: Duration, now: Timestamp) -> Duration {
    (now.since(since) / 10).clamp(attempt, LONGEST_REST.max(attempt))
}

/// The standing of a receiver, which decides the capacity that its attempts share with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It answers quickly.
    Good,
    /// It has not been seen recently.
    Unknown,
    /// It answers, but late or with errors.
    Slow,
    /// It does not answer, or has not answered yet.
    Hanging,
}

impl Standing {
    /// The queue for its attempts.
    pub(crate) fn queue(self) -> Queue {
        match self {
            Self::Good | Self::Unknown => Queue::Shared,
            Self::Slow => Queue::Slow,
            Self::Hanging => Queue::Hanging,
        }
    }
}

/// The way in which an attempt gets its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Immediately, or as soon as its batch allows, since it is short.
    Soon,
    /// After waiting for its turn, in the lanes of this queue.
    Waits(Queue),
    /// As a probe, if its hanging receiver has one left.
    Probes,
    /// In an invocation of another queue.
    Elsewhere(Queue),
}

impl Turn {
    /// The turn of an attempt that comes from the queue `from`. A hanging receiver never takes an invocation of others.
    pub(crate) fn of(from: Queue, standing: Standing, lingers: bool, is_test: bool) -> Self {
        match (from, standing) {
            (Queue::Shared, Standing::Good | Standing::Unknown) if lingers => Self::Elsewhere(Queue::Slow),
            (Queue::Shared, Standing::Good | Standing::Unknown) => Self::Soon,
            (Queue::Shared, Standing::Slow) => Self::Elsewhere(Queue::Slow),
            (Queue::Shared | Queue::Slow, Standing::Hanging) => Self::Elsewhere(Queue::Hanging),
            // One attempt goes ahead, even if the others have been sent on.
            (Queue::Slow | Queue::Hanging, Standing::Unknown) => Self::Waits(Queue::Shared),
            (Queue::Slow | Queue::Hanging, Standing::Good | Standing::Slow) => Self::Waits(Queue::Slow),
            // A person waits for the result of a test.
            (Queue::Hanging, Standing::Hanging) if is_test => Self::Waits(Queue::Hanging),
            (Queue::Hanging, Standing::Hanging) => Self::Probes,
        }
    }
}

/// How long a receiver has gone without answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    /// The end of the first attempt without an answer since the last success.
    pub(crate) since: Timestamp,
    /// Whether its attempts take long to fail.
    pub(crate) hangs: bool,
}

/// The behavior of a receiver that an attempt revealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It accepts deliveries.
    Success,
    /// It is good again: since `since`, it has answered many attempts in a row quickly.
    Good {
        /// The time of the first of these successes.
        since: Timestamp,
    },
    /// It timed out, could not be reached or took long to fail, and no other attempt has succeeded meanwhile.
    NoAnswer {
        /// Whether the failure took long.
        hangs: bool,
    },
    /// It fails quickly.
    Error,
    /// Nothing: it took long to fail, but other attempts have succeeded.
    Nothing,
}

/// The recent response times of a receiver.
#[derive(Default)]
pub(crate) struct Pace {
    answered_at: Option<Timestamp>,
    quick_at: Option<Timestamp>,
    /// The share of answers that took long, the latest counting most.
    late: f64,
}

impl Pace {
    /// Notes an answer that took the time `took`.
    pub(crate) fn answered(&mut self, took: Duration, now: Timestamp) {
        if took < QUICK {
            self.quick_at = Some(now);
        }
        let late = if took < LONG { 0.0 } else { 1.0 };
        let is_first = self.answered_at.replace(now).is_none_or(|at| now.since(at) >= LATELY);
        self.late = if is_first { late } else { self.late + WEIGHT * (late - self.late) };
    }

    /// Whether many of its latest answers took long, or none was quick.
    pub(crate) fn lingers(&self, now: Timestamp) -> bool {
        let is_recent = |at: Option<Timestamp>| at.is_some_and(|at| now.since(at) < LATELY);
        is_recent(self.answered_at) && (self.late >= LINGERING || !is_recent(self.quick_at))
    }
}

/// The observations of this process about a receiver.
#[derive(Default)]
pub(crate) struct Seen {
    /// The time of its last quick answer, unless it has been slow since.
    soon_at: Option<Timestamp>,
    /// The time at which it was last slow here, and the time at which it last became good again.
    slow_at: Option<Timestamp>,
    good_at: Option<Timestamp>,
    /// The time of its last late or missing answer or cut-off attempt, and of its last answer in time.
    late_at: Option<Timestamp>,
    replied_at: Option<Timestamp>,
    /// The number of quick failures since its last success.
    failures: u32,
    /// The time of the first of its quick successes in a row, and their number.
    streak: Option<(Timestamp, u32)>,
    /// The time of the last success, and of the last attempt without an answer since.
    answered_at: Option<Timestamp>,
    unanswered_at: Option<Timestamp>,
    silence: Option<Silence>,
    /// The time until which this process may probe a receiver that does not answer.
    probing_until: Option<Timestamp>,
}

impl Seen {
    /// The standing of the receiver, by the newer of this process's view and the endpoint's item. Callbacks have no
    /// `health`.
    pub(crate) fn standing(&self, health: Option<&Health>, now: Timestamp) -> Standing {
        let remembered = self.slow_at.filter(|at| now.since(*at) < memory(health));
        let slow_at = remembered.max(health.and_then(|health| health.slow_at));
        let good_at = self.good_at.max(health.and_then(|health| health.good_at));
        let is_slow = slow_at > good_at || self.silence(health, now).is_some();
        match self.soon_at {
            _ if is_slow && self.hangs(health, now) => Standing::Hanging,
            _ if is_slow => Standing::Slow,
            Some(at) if now.since(at) < MEMORY_OF_GOOD => Standing::Good,
            _ => Standing::Unknown,
        }
    }

    /// Whether it has not answered in time since its last late answer, by the newer of both sources.
    fn hangs(&self, health: Option<&Health>, now: Timestamp) -> bool {
        let remembered = self.late_at.filter(|at| now.since(*at) < memory(health));
        let recorded =
            health.filter(|health| health.hangs).and_then(|health| health.slow_at.or(health.unanswered_since));
        remembered.max(recorded) > self.replied_at
    }

    /// Whether it has answered in time and not been late since. For callbacks, which have no item.
    pub(crate) fn has_answered(&self, now: Timestamp) -> bool {
        let replied_at = self.replied_at.filter(|at| now.since(*at) < MEMORY_OF_CALLBACKS);
        replied_at.is_some() && replied_at >= self.late_at
    }

    /// The silence of the receiver if it does not answer, by the newer of both sources.
    pub(crate) fn silence(&self, health: Option<&Health>, now: Timestamp) -> Option<Silence> {
        let remembered = self.unanswered_at.filter(|at| now.since(*at) < memory(health));
        let recorded = health.and_then(|health| health.unanswered_since);
        // After a later silence, this process's own success no longer outweighs the item.
        let answered = self.answered_at.filter(|_| self.unanswered_at.is_none());
        let answered = answered.max(health.and_then(|health| health.healthy_at));
        let is_silent = remembered.max(recorded) > answered;
        is_silent.then(|| {
            let hangs = remembered.is_some() && self.silence.is_some_and(|own| own.hangs);
            let since = recorded.or(self.silence.map(|own| own.since)).unwrap_or(now);
            Silence { since, hangs: hangs || health.is_some_and(|health| health.hangs) }
        })
    }

    /// Whether it was ever slow here and has not been good since.
    pub(crate) fn has_been_slow(&self) -> bool {
        self.slow_at > self.good_at
    }

    /// Whether this process may probe a receiver that does not answer.
    pub(crate) fn is_probing(&self, now: Timestamp) -> bool {
        self.probing_until.is_some_and(|until| now < until)
    }

    /// Allows this process to probe a receiver that does not answer.
    pub(crate) fn let_probe(&mut self, until: Timestamp) {
        self.probing_until = Some(until);
    }

    /// Notes that an attempt was cut off because it took too long for its queue.
    pub(crate) fn cut(&mut self, now: Timestamp) {
        self.slow(now);
        self.late_at = Some(now);
    }

    fn slow(&mut self, now: Timestamp) {
        (self.slow_at, self.soon_at, self.streak) = (Some(now), None, None);
    }

    /// Notes the outcome of an attempt that began at `began`. Returns the behavior that it revealed.
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
                (self.unanswered_at, self.silence, self.failures) = (None, None, 0);
                match took {
                    _ if took <= SOON => return self.answered_soon(health, now),
                    _ if took <= ANSWERS => self.slow(now),
                    _ => self.cut(now),
                }
                Shown::Success
            }
            Outcome::Failed(Failure::Timeout | Failure::Connect | Failure::Dns) => self.unanswered(outcome, began, now),
            Outcome::Failed(_) if took > ANSWERS => self.unanswered(outcome, began, now),
            Outcome::Failed(_) => {
                (self.failures, self.streak) = (self.failures.saturating_add(1), None);
                if self.failures >= FAILURES || took > SOON {
                    self.slow(now);
                }
                if let Some(silence) = &mut self.silence {
                    silence.hangs = false;
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
            // The endpoint's item may still say that it is slow.
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
            self.cut(now);
        } else {
            self.slow(now);
        }
        if self.answered_at >= Some(began) {
            return if hangs { Shown::Nothing } else { Shown::Error };
        }
        self.unanswered_at = Some(now);
        self.silence.get_or_insert(Silence { since: now, hangs }).hangs = hangs;
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
        /// The standing after an attempt to a callback that ends immediately, at `second`.
        fn soon(&mut self, outcome: Outcome, second: i64) -> Standing {
            self.ended(outcome, None, at(second), at(second));
            self.standing(None, at(second))
        }
    }

    #[test]
    fn a_receiver_lingers_while_many_latest_answers_were_late() {
        let mut pace = Pace::default();
        assert!(!pace.lingers(at(0)), "there are no observations");
        pace.answered(QUICK, at(0));
        assert!(pace.lingers(at(1)));
        assert!(!pace.lingers(at(0).after(LATELY)), "that was long ago");
        pace.answered(Duration::ZERO, at(20));
        pace.answered(SOON, at(21));
        assert!(!pace.lingers(at(22)), "one late answer is not many");
        for second in 22..40 {
            pace.answered(if second % 3 == 0 { Duration::ZERO } else { SOON }, at(second));
        }
        assert!(pace.lingers(at(40)), "two of three are");
    }

    #[test]
    fn a_receiver_that_answers_soon_is_good_for_a_while() {
        let mut seen = Seen::default();
        assert_eq!(seen.standing(None, at(0)), Standing::Unknown);
        assert_eq!(seen.soon(DELIVERED, 0), Standing::Good);
        assert_eq!(seen.soon(ERROR, 1), Standing::Good, "once is not enough");
        assert_eq!(seen.standing(None, at(0).after(MEMORY_OF_GOOD)), Standing::Unknown);
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
        seen.cut(at(0));
        assert_eq!(seen.standing(None, at(0)), Standing::Hanging, "until it answers");
        let mut seen = Seen::default();
        let standings: Vec<_> =
            [ERROR, ERROR, DELIVERED, ERROR, ERROR, ERROR].map(|outcome| seen.soon(outcome, 0)).into();
        assert_eq!(standings[4], Standing::Good);
        assert_eq!(standings[5], Standing::Slow);
    }

    #[test]
    fn a_minute_of_successes_makes_a_slow_receiver_good() {
        let mut seen = Seen::default();
        seen.cut(at(0));
        for second in 1..=60 {
            assert_eq!(seen.soon(DELIVERED, second), Standing::Slow);
        }
        let shown = seen.ended(DELIVERED, None, at(61), at(61));
        assert_eq!((shown, seen.standing(None, at(61))), (Shown::Good { since: at(1) }, Standing::Good));
        // Nine of ten attempts succeed: it stays slow.
        seen.cut(at(100));
        for second in 101..400 {
            let hangs = second % 10 == 0;
            let expected = if hangs { Standing::Hanging } else { Standing::Slow };
            assert_eq!(seen.soon(if hangs { HANGS } else { DELIVERED }, second), expected);
        }
    }

    #[test]
    fn few_successes_over_a_long_time_make_no_receiver_good() {
        let mut seen = Seen::default();
        seen.cut(at(0));
        for second in [100, 200, 300, 400] {
            assert_eq!(seen.soon(DELIVERED, second), Standing::Slow);
        }
        assert_eq!(seen.soon(DELIVERED, 500), Standing::Good);
    }

    #[test]
    fn the_newer_counts_of_what_was_seen_and_what_is_recorded() {
        let health = |slow: Option<i64>, good: Option<i64>| Health {
            slow_at: slow.map(at),
            good_at: good.map(at),
            ..Health::default()
        };
        let mut seen = Seen::default();
        assert_eq!(seen.standing(Some(&health(Some(5), None)), at(10)), Standing::Slow);
        assert_eq!(seen.standing(Some(&health(None, Some(5))), at(10)), Standing::Unknown);
        seen.cut(at(10));
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
        assert_eq!(seen.standing(Some(&health), at(100)), Standing::Slow, "another process has seen it slow");
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
            seen.silence(health.as_ref(), now).map(|silence| silence.since.as_second())
        };
        assert_eq!(silent_since(&seen, None, at(100)), None);
        assert_eq!(silent_since(&seen, Some((Some(50), Some(40))), at(100)), Some(50));
        // It has answered this process since its item was read.
        seen.ended(DELIVERED, None, at(99), at(100));
        assert_eq!(silent_since(&seen, Some((Some(50), None)), at(100)), None);
        // It no longer answers. An endpoint's item may then be newer than this process's observations.
        seen.ended(HANGS, None, at(101), at(103));
        assert_eq!(silent_since(&seen, Some((None, Some(102))), at(104)), Some(103));
        assert_eq!(silent_since(&seen, Some((None, Some(104))), at(104)), None);
        let later = at(103).after(MEMORY);
        assert_eq!(silent_since(&seen, Some((None, None)), later), None, "another process has had an answer");
        assert_eq!(silent_since(&seen, Some((Some(50), None)), later), Some(50), "the answer before counts no more");
        // A callback has no item.
        assert_eq!(silent_since(&seen, None, later), Some(103));
        assert_eq!(silent_since(&seen, None, at(103).after(MEMORY_OF_CALLBACKS)), None);
    }

    #[test]
    fn what_takes_long_to_fail_is_no_answer() {
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
    fn a_receiver_that_fails_soon_hangs_no_more() {
        let mut seen = Seen::default();
        let hangs = |seen: &Seen| seen.silence(None, at(20)).map(|silence| silence.hangs);
        seen.ended(HANGS, None, at(0), at(15));
        assert_eq!(hangs(&seen), Some(true));
        seen.ended(ERROR, None, at(16), at(16));
        assert_eq!(hangs(&seen), Some(false), "but it is silent until a success");
    }

    #[test]
    fn a_postponement_is_once_to_twice_the_time_waited_so_far() {
        let now = at(100_000);
        for (since, least, most) in [(0, 1, 2), (100, 100, 200), (50_000, 3600, 7200)] {
            let until = put_off(now.before(Duration::from_secs(since)), SHORTLY, now);
            let wait = until.since(now).as_secs_f64();
            assert!((f64::from(least)..=f64::from(most)).contains(&wait), "{since}: {wait}");
        }
    }

    #[test]
    fn a_long_silence_is_probed_more_rarely() {
        let (attempt, now) = (Duration::from_secs(15), at(100_000));
        for (ago, expected) in [(10, 15), (600, 60), (86_400, 300)] {
            assert_eq!(rest(now.before(Duration::from_secs(ago)), attempt, now).as_secs(), expected);
        }
    }

    #[test]
    fn a_receiver_that_hangs_is_slow_once_it_answers_within_seconds() {
        let mut seen = Seen::default();
        seen.cut(at(0));
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
    fn each_standing_has_its_turn_in_each_queue() {
        use Queue::{Hanging, Shared, Slow};
        use Turn::{Elsewhere, Probes, Soon, Waits};
        for (standing, expected) in [
            (Standing::Good, [Soon, Waits(Slow), Waits(Slow)]),
            (Standing::Unknown, [Soon, Waits(Shared), Waits(Shared)]),
            (Standing::Slow, [Elsewhere(Slow), Waits(Slow), Waits(Slow)]),
            (Standing::Hanging, [Elsewhere(Hanging), Elsewhere(Hanging), Probes]),
        ] {
            assert_eq!([Shared, Slow, Hanging].map(|from| Turn::of(from, standing, false, false)), expected);
        }
        assert_eq!(Turn::of(Shared, Standing::Good, true, false), Elsewhere(Slow), "it lingers");
        assert_eq!(Turn::of(Hanging, Standing::Hanging, false, true), Waits(Hanging), "a test");
    }
}
