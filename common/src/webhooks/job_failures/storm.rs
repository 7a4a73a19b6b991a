//! Storms: workflows that fail so often that a process does not write each failure.
//!
//! A storm begins when a pending notice contains the maximum number of ids. Until shortly before the notice is due, a
//! process only counts further failures and writes the count once a minute. From ten seconds before that time on, it
//! writes about once a second, so the email has a nearly current number. While the email is late, the interval grows to
//! a minute. A count is written with the workflow's next failure. It is lost if the process stops or the write fails,
//! and the number in the email is then too low.

use std::time::Duration;

use super::table::Noted;
use crate::timestamp::Timestamp;

/// A margin for clock differences and the duration of a write.
const MARGIN: Duration = Duration::from_secs(10);
/// The minimum time between two writes of a process, once the notice is nearly due.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two writes of a process's count.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);

/// A process's state for a workflow in a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// The time until which the process does not write each failure.
    until: Timestamp,
    /// When the process next writes its count.
    next_write: Timestamp,
    /// The number of failures counted since the last write.
    counted: u64,
}

/// How a batch's failures are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Record the failures with their ids.
    Ids {
        /// The number of other failures counted so far.
        more: u64,
    },
    /// Record only the number of failures.
    Count {
        /// The number of failures counted so far, including these.
        more: u64,
    },
}

impl Storm {
    /// Returns the storm that begins after a process has recorded failures, if any.
    pub fn after(noted: &Noted, now: Timestamp) -> Option<Self> {
        let pause = now.since(noted.due).clamp(MIN_WRITE_INTERVAL, WRITE_INTERVAL);
        let until = noted.due.before(MARGIN).max(now.after(pause));
        noted.is_full.then(|| Self { until, next_write: now.after(WRITE_INTERVAL), counted: 0 })
    }
}

/// Decides how to write a batch with `new` new failures. Returns `None` if they are only counted for now.
pub fn write(storm: &mut Option<Storm>, new: u64, now: Timestamp) -> Option<Write> {
    let Some(known) = storm.as_mut() else { return Some(Write::Ids { more: 0 }) };
    if now >= known.until {
        let more = known.counted;
        *storm = None;
        return Some(Write::Ids { more });
    }
    known.counted = known.counted.saturating_add(new);
    if now < known.next_write {
        return None;
    }
    known.next_write = now.after(WRITE_INTERVAL);
    Some(Write::Count { more: std::mem::take(&mut known.counted) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_writes_once_a_minute_and_before_the_email() {
        let now = Timestamp::from_millisecond(1_769_860_800_000);
        let second = |second| now.after(Duration::from_secs(second));
        let noted = |is_full| Noted { is_full, due: second(200) };
        assert_eq!(Storm::after(&noted(false), now), None);
        let mut storm = Storm::after(&noted(true), now);
        let writes: Vec<_> = [1, 59, 60, 61, 119, 120, 179, 190, 191]
            .map(|at| write(&mut storm, 10, second(at)))
            .into_iter()
            .flatten()
            .collect();
        let counted = |more| Write::Count { more };
        assert_eq!(writes, [counted(30), counted(30), Write::Ids { more: 10 }, Write::Ids { more: 0 }]);
    }

    #[test]
    fn writes_become_rarer_while_an_email_is_late() {
        let due = Timestamp::from_millisecond(1_769_860_800_000);
        let pause =
            |now: Timestamp| Storm::after(&Noted { is_full: true, due }, now).map(|storm| storm.until.since(now));
        let late = [0, 20, 3600].map(|second| pause(due.after(Duration::from_secs(second))));
        assert_eq!([pause(due.before(MIN_WRITE_INTERVAL)), late[0]], [Some(MIN_WRITE_INTERVAL); 2]);
        assert_eq!(late[1..], [Some(Duration::from_secs(20)), Some(WRITE_INTERVAL)]);
    }
}
