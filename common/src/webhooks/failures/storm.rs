//! Storms: a workflow has failed so often that a process need not write each failure.
//!
//! Once the notice is known to be pending, full, and not sent before some time, the failures until then are only counted
//! here, and written together once in a minute. A process that dies forgets its count: then the mail says too low a number,
//! but there is one.

use std::time::Duration;

use super::table::Noted;
use crate::timestamp::Timestamp;

/// How far clocks may be apart, and how long a write may take.
const MARGIN: Duration = Duration::from_secs(10);
/// How often a process writes what it has counted.
const PAUSE: Duration = Duration::from_secs(60);

/// What a process knows of a workflow that fails very often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Until when it need not write each failure.
    until: Timestamp,
    /// When it writes its count.
    next_write: Timestamp,
    /// The failures that it has counted since it last wrote.
    counted: u64,
}

/// What to do with the failures of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Note them with their ids.
    Ids {
        /// How many others have been counted.
        more: u64,
    },
    /// Note them without their ids.
    Count {
        /// How many have been counted, with these.
        more: u64,
    },
    /// They have been counted.
    None,
}

impl Storm {
    /// What follows if this is how a process has noted failures.
    #[must_use]
    pub fn after(noted: &Noted, now: Timestamp) -> Option<Self> {
        let until = noted.due.before(MARGIN);
        (noted.is_full && now < until).then(|| Self { until, next_write: now.after(PAUSE), counted: 0 })
    }
}

/// What to do with failures, so many of them `new`. If nothing is to be written, they are counted.
pub fn write(storm: &mut Option<Storm>, new: u64, now: Timestamp) -> Write {
    let Some(known) = storm.as_mut() else { return Write::Ids { more: 0 } };
    if now >= known.until {
        let more = known.counted;
        *storm = None;
        return Write::Ids { more };
    }
    known.counted = known.counted.saturating_add(new);
    if now < known.next_write {
        return Write::None;
    }
    known.next_write = now.after(PAUSE);
    Write::Count { more: std::mem::take(&mut known.counted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_writes_once_a_minute_and_everything_shortly_before_the_mail() {
        let now = Timestamp::from_millisecond(1_769_860_800_000);
        let second = |second| now.after(Duration::from_secs(second));
        let noted = |is_full| Noted { is_full, due: second(200) };
        assert_eq!(Storm::after(&noted(false), now), None);
        assert_eq!(Storm::after(&noted(true), second(190)), None);
        let mut storm = Storm::after(&noted(true), now);
        let writes: Vec<_> = [1, 59, 60, 61, 119, 120, 179, 190, 191]
            .map(|at| write(&mut storm, 10, second(at)))
            .into_iter()
            .filter(|write| *write != Write::None)
            .collect();
        let counted = |more| Write::Count { more };
        assert_eq!(writes, [counted(30), counted(30), Write::Ids { more: 10 }, Write::Ids { more: 0 }]);
    }
}
