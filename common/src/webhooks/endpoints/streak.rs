//! Streaks: failed attempts at an endpoint without a success in between. A streak that is long enough makes its endpoint
//! failing, so the tenant learns of an outage within minutes and not after the last attempt of a delivery.

use std::{str::FromStr, time::Duration};

use crate::{id::NotAnId, timestamp::Timestamp};

/// An endpoint is failing after this many failed attempts in a row, if the first of them began this long ago.
pub const LONG: (u32, Duration) = (3, Duration::from_mins(5));

/// Failed attempts at an endpoint without a success in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streak {
    /// When the first of them began.
    pub since: Timestamp,
    /// Their number. It is not counted further once it is large enough.
    pub attempts: u32,
}

impl Streak {
    /// Whether there are enough attempts to make the endpoint failing once the streak has lasted long enough.
    pub(super) fn is_certain(self) -> bool {
        self.attempts >= LONG.0
    }

    /// Whether the streak makes the endpoint failing.
    pub(super) fn is_long(self, now: Timestamp) -> bool {
        self.is_certain() && now.since(self.since) >= LONG.1
    }

    pub(super) fn written(self) -> String {
        format!("{}.{}", self.since.as_millisecond(), self.attempts)
    }
}

impl FromStr for Streak {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let (since, attempts) = text.split_once('.').ok_or(NotAnId)?;
        match (since.parse(), attempts.parse()) {
            (Ok(since), Ok(attempts)) => Ok(Self { since: Timestamp::from_millisecond(since), attempts }),
            _ => Err(NotAnId),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_is_long_with_enough_attempts_and_time() {
        let since = Timestamp::from_millisecond(1_000_000);
        for (attempts, milliseconds, expected) in
            [(3, 300_000, true), (2, 300_000, false), (3, 299_999, false), (100, 0, false)]
        {
            let streak = Streak { since, attempts };
            assert_eq!(streak.is_long(since.after(Duration::from_millis(milliseconds))), expected, "{streak:?}");
            assert_eq!(streak.written().parse(), Ok(streak));
        }
    }
}
