//! The attempts at an endpoint, and the changes that they make to its item: to its health, its latest error and its
//! [streak](super::streak).
//!
//! A streak is stored in the endpoint's item, together with the latest error. It is written at its first failed
//! attempts, and removed by the next success, so neither a receiver that works nor one that has failed for a while
//! causes writes. A receiver that rejects some events and accepts others has no streak for longer than the time between
//! two successes.
//!
//! The write that makes a streak long enough also creates the pending notice, for the time when the streak has lasted
//! long enough. No attempt has to be made at that time.

use std::time::Duration;

use super::{
    health::{Health, NOTING, PENDING},
    item::*,
    last_error::{ERROR, LastError},
    streak::{LONG, Streak},
    table::{Endpoints, is_absent_or_before},
};
use crate::{
    aws::dynamo::{boolean, number, text},
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery},
        event::EventName,
    },
};

/// After a success that ended a streak, no other streak begins for this long. A receiver that rejects some events
/// therefore causes few writes.
const INTERVAL: Duration = Duration::from_secs(5);

/// The attempts at an endpoint that a process has made and stores together, without tests that failed.
#[derive(Debug, Default)]
pub struct EndpointAttempts<'a> {
    is_answered: bool,
    failed: Vec<&'a Attempt>,
}

impl<'a> EndpointAttempts<'a> {
    /// Adds an attempt to deliver `event`.
    pub fn add(&mut self, event: EventName, attempt: &'a Attempt) {
        if attempt.outcome == "delivered" {
            self.is_answered = true;
        } else if event != EventName::Test {
            self.failed.push(attempt);
        }
    }

    /// The last attempt of a delivery.
    pub fn last_of(delivery: &'a Delivery) -> Self {
        let mut attempts = Self::default();
        delivery.last_attempt.iter().for_each(|attempt| attempts.add(delivery.event, attempt));
        attempts
    }

    /// The streak of an endpoint with this health after these attempts, if it changes and is not long enough yet.
    fn streak(&self, health: &Health, now: Timestamp) -> Option<Streak> {
        let first = self.failed.iter().map(|attempt| attempt.at).min().filter(|_| !self.is_answered)?;
        let failed = u32::try_from(self.failed.len()).unwrap_or(u32::MAX);
        match health.streak {
            Some(streak) if streak.is_certain() => None,
            Some(streak) => Some(Streak { attempts: streak.attempts.saturating_add(failed), ..streak }),
            None if health.healthy_at.is_some_and(|at| now.since(at) < INTERVAL) => None,
            None => Some(Streak { since: first, attempts: failed }),
        }
    }
}

impl Endpoints {
    /// Records what attempts have shown about an endpoint: that it has become healthy, its latest error, and its streak.
    /// `health` is its health before these attempts. A repeated call has no effect.
    pub async fn note_attempts(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        health: Health,
        attempts: &EndpointAttempts<'_>,
        now: Timestamp,
    ) -> Result<()> {
        if attempts.is_answered && health.is_impaired() {
            self.note_answered(tenant, id, now).await?;
        }
        let Some(newest) = attempts.failed.iter().max_by_key(|attempt| attempt.at) else { return Ok(()) };
        let error = LastError::from(*newest);
        if let Some(streak) = attempts.streak(&health, now)
            && self.note_streak(tenant, id, health, streak, &error, now).await?
        {
            return Ok(());
        }
        self.note_error(tenant, id, &error, health.erred_at).await
    }

    /// Records a streak with its latest error, unless another process has changed the streak, or the receiver has become
    /// healthy or has been replaced since. Returns whether it was recorded.
    async fn note_streak(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        health: Health,
        streak: Streak,
        error: &LastError,
        now: Timestamp,
    ) -> Result<bool> {
        let update = self.change(tenant, id).set(STREAK, text(streak.written())).replace(&ERROR, error.attributes());
        let update = update
            .only_if(ACTIVE.equals(boolean(true)))
            .only_if(match health.streak {
                Some(before) => STREAK.equals(text(before.written())),
                None => STREAK.is_absent(),
            })
            // Another call may have counted the attempt.
            .only_if(is_absent_or_before(ERRED_AT, error.at))
            .only_if(is_absent_or_before(HEALTHY_AT, streak.since))
            .only_if(is_absent_or_before(RENEWED_AT, streak.since));
        let is_told = !streak.is_certain() || health.first_failed_at.is_some() || health.is_told();
        let update = if is_told {
            update
        } else {
            let at = now.max(streak.since.after(LONG.1));
            let update = update.set(NOTICE, text(PENDING)).set(NOTICE_AT, number(at.as_millisecond()));
            update.remove([NOTICE_TRIES]).only_if(FIRST_FAILED_AT.is_absent())
        };
        update.send(&self.dynamodb, NOTING).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::delivery::{Failure, Outcome, Trigger};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_streak_grows_until_it_is_certain() {
        let made = |second, status| {
            let outcome = match status {
                200 => Outcome::Delivered(status),
                _ => Outcome::Failed(Failure::Status(status, None)),
            };
            Attempt::new(at(second), 1, outcome, None, Trigger::Schedule)
        };
        let [first, second, success] = [made(100, 400), made(101, 500), made(102, 200)];
        let streak = |since, attempts| Some(Streak { since: at(since), attempts });
        for (before, healthy, attempts, expected) in [
            (None, None, &[&second, &first][..], streak(100, 2)),
            (streak(50, 2), None, &[&first], streak(50, 3)),
            (streak(50, 3), None, &[&first], None),
            // Some events are accepted.
            (None, None, &[&first, &success], None),
            (streak(50, 2), None, &[&first, &success], None),
            // A streak has just ended.
            (None, Some(99), &[&first], None),
            (None, Some(97), &[&first], streak(100, 1)),
            (None, None, &[&success], None),
        ] {
            let mut all = EndpointAttempts::default();
            attempts.iter().for_each(|attempt| all.add(EventName::Completed, attempt));
            let health = Health { streak: before, healthy_at: healthy.map(at), ..Health::default() };
            assert_eq!(all.streak(&health, at(102)), expected, "{health:?} {attempts:?}");
        }
        let mut test = EndpointAttempts::default();
        test.add(EventName::Test, &first);
        assert_eq!(test.streak(&Health::default(), at(102)), None, "tests do not count");
    }
}
