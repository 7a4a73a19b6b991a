//! The breaker: what attempts have shown of a receiver, and whether it answers.

use std::{ops::RangeInclusive, time::Duration};

use common::{
    random,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Failure, Outcome},
        endpoints::Health,
    },
};

/// How long this process goes by its own view of an endpoint that does not answer. After that, only the endpoint's record
/// counts, which another process may have changed.
const MEMORY: Duration = Duration::from_secs(10);
/// The same for callbacks, which have no record.
const MEMORY_OF_CALLBACKS: Duration = Duration::from_secs(10 * 60);
/// A failure that takes longer than this holds up others as much as no answer, and counts as no answer.
pub(crate) const SLOW: Duration = Duration::from_secs(5);
/// A receiver whose attempts take longer than this to fail hangs.
pub(crate) const SOON: Duration = Duration::from_secs(1);
/// The least and the most that an attempt is put off for a receiver that does not answer.
const PUT_OFF: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60 * 60);

/// When to try a receiver again that has been silent since `since`: after the same time again, or up to twice that. So a
/// long silence costs few tries, and when the receiver is back, what has waited does not come all at once.
pub(crate) fn put_off(since: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let silence = since.map_or(Duration::ZERO, |since| now.since(since)).clamp(*PUT_OFF.start(), *PUT_OFF.end());
    now.after(silence.mul_f64(1.0 + random::fraction()))
}

/// The silence of a receiver that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    /// The first attempt without an answer since the last success.
    pub(crate) since: Timestamp,
    /// Whether its attempts take long to fail, and so hold slots that others need.
    pub(crate) hangs: bool,
}

/// What an attempt has shown of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It takes deliveries.
    Success,
    /// It timed out, could not be connected to or took very long to fail, and no other attempt has succeeded meanwhile.
    NoAnswer {
        /// Whether that took long.
        hangs: bool,
    },
    /// It fails soon.
    Error,
    /// Nothing: it took long to fail, but other attempts have succeeded, or it answered.
    Nothing,
}

/// What this process has seen of a receiver.
#[derive(Default)]
pub(crate) struct Seen {
    /// The last success, and the last attempt without an answer since.
    answered_at: Option<Timestamp>,
    unanswered_at: Option<Timestamp>,
    silence: Option<Silence>,
    /// Until when this process may try a receiver that does not answer.
    probing_until: Option<Timestamp>,
}

impl Seen {
    /// Whether the receiver does not answer, by the newer of what this process saw and what the endpoint's record says. A
    /// callback has no `health`.
    pub(crate) fn silence(&self, health: Option<&Health>, now: Timestamp) -> Option<Silence> {
        let memory = if health.is_some() { MEMORY } else { MEMORY_OF_CALLBACKS };
        let remembered = self.unanswered_at.filter(|at| now.since(*at) < memory);
        let recorded = health.and_then(|health| health.unanswered_since);
        // A success from before the last silence is out of date: the record is as well informed.
        let answered = self.answered_at.filter(|_| self.unanswered_at.is_none());
        let answered = answered.max(health.and_then(|health| health.healthy_at));
        let is_silent = remembered.max(recorded) > answered;
        is_silent.then(|| {
            let hangs = remembered.is_some() && self.silence.is_some_and(|own| own.hangs);
            let since = recorded.or(self.silence.map(|own| own.since)).unwrap_or(now);
            Silence { since, hangs: hangs || health.is_some_and(|health| health.hangs) }
        })
    }

    /// Whether this process may try a receiver that does not answer.
    pub(crate) fn is_probing(&self, now: Timestamp) -> bool {
        self.probing_until.is_some_and(|until| now < until)
    }

    /// Lets this process try a receiver that does not answer.
    pub(crate) fn let_probe(&mut self, until: Timestamp) {
        self.probing_until = Some(until);
    }

    /// Notes the outcome of an attempt that began at `began`. Returns what it has shown.
    pub(crate) fn ended(&mut self, outcome: Outcome, began: Timestamp, now: Timestamp) -> Shown {
        let took = now.since(began);
        let is_silent = match outcome {
            Outcome::Delivered(_) => {
                self.answered_at = Some(now);
                (self.unanswered_at, self.silence) = (None, None);
                return Shown::Success;
            }
            Outcome::Failed(Failure::Timeout | Failure::Connect | Failure::Dns) => true,
            Outcome::Failed(_) => took > SLOW,
        };
        if !is_silent || self.answered_at >= Some(began) {
            if took > SOON {
                return Shown::Nothing;
            }
            if let Some(silence) = &mut self.silence {
                silence.hangs = false;
            }
            return Shown::Error;
        }
        let hangs = took > SOON || outcome == Outcome::Failed(Failure::Timeout);
        self.unanswered_at = Some(now);
        self.silence.get_or_insert(Silence { since: now, hangs }).hangs = hangs;
        Shown::NoAnswer { hangs }
    }

    /// Notes that an attempt has waited for its lane since `began`. If no other has succeeded meanwhile, the receiver counts
    /// as one that hangs, so that later attempts need not wait.
    pub(crate) fn found_full(&mut self, began: Timestamp, now: Timestamp) {
        if self.answered_at < Some(began) {
            self.unanswered_at = Some(now);
            self.silence.get_or_insert(Silence { since: now, hangs: true }).hangs = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIVERED: Outcome = Outcome::Delivered(200);
    const HANGS: Outcome = Outcome::Failed(Failure::Timeout);

    #[test]
    fn the_newest_counts_of_what_was_seen_and_what_is_recorded() {
        let mut seen = Seen::default();
        let at = |second| Timestamp::from_second(second).expect("a time");
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
        // It has answered this process since its record was read.
        seen.ended(DELIVERED, at(99), at(100));
        assert_eq!(silent_since(&seen, Some((Some(50), None)), at(100)), None);
        // It does not answer any more. An endpoint's record may then know better than this process.
        seen.ended(HANGS, at(101), at(103));
        assert_eq!(silent_since(&seen, Some((None, Some(102))), at(104)), Some(103));
        assert_eq!(silent_since(&seen, Some((None, Some(104))), at(104)), None);
        let later = at(103).after(MEMORY);
        assert_eq!(silent_since(&seen, Some((None, None)), later), None, "another process has had an answer");
        assert_eq!(silent_since(&seen, Some((Some(50), None)), later), Some(50), "the answer before counts no more");
        // A callback has no record.
        assert_eq!(silent_since(&seen, None, later), Some(103));
        assert_eq!(silent_since(&seen, None, at(103).after(MEMORY_OF_CALLBACKS)), None);
    }

    #[test]
    fn what_takes_long_to_fail_is_no_answer() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let failed = |failure, end| Seen::default().ended(Outcome::Failed(failure), at(0), at(end));
        for failure in [Failure::Connect, Failure::Dns] {
            assert_eq!(failed(failure, 1), Shown::NoAnswer { hangs: false });
            assert_eq!(failed(failure, 2), Shown::NoAnswer { hangs: true });
        }
        assert_eq!(failed(Failure::Timeout, 1), Shown::NoAnswer { hangs: true });
        assert_eq!(failed(Failure::Status(500, None), 1), Shown::Error);
        assert_eq!(failed(Failure::Status(500, None), 5), Shown::Nothing);
        assert_eq!(failed(Failure::Status(504, None), 6), Shown::NoAnswer { hangs: true });
    }

    #[test]
    fn a_receiver_that_fails_soon_hangs_no_more() {
        let (mut seen, at) = (Seen::default(), |second| Timestamp::from_second(second).expect("a time"));
        let hangs = |seen: &Seen| seen.silence(None, at(20)).map(|silence| silence.hangs);
        seen.ended(HANGS, at(0), at(15));
        assert_eq!(hangs(&seen), Some(true));
        seen.ended(Outcome::Failed(Failure::Status(500, None)), at(16), at(16));
        assert_eq!(hangs(&seen), Some(false), "but it is silent until a success");
    }

    #[test]
    fn an_attempt_is_put_off_for_as_long_as_the_silence_and_at_most_twice_that() {
        let now = Timestamp::from_second(100_000).expect("a time");
        for (since, least, most) in [(None, 1, 2), (Some(100), 100, 200), (Some(50_000), 3600, 7200)] {
            let until = put_off(since.map(|ago| now.before(Duration::from_secs(ago))), now);
            let wait = until.since(now).as_secs_f64();
            assert!((f64::from(least)..=f64::from(most)).contains(&wait), "{since:?}: {wait}");
        }
    }
}
