//! Times in the formats of the API and for people.

use std::time::{Duration, SystemTime};

use api::Timestamp;
use humantime::{format_rfc3339_millis, format_rfc3339_seconds, parse_rfc3339};

use crate::terminal::shown;

/// The time this long ago. `None` if it is before 1970.
pub(crate) fn ago(duration: Duration) -> Option<Timestamp> {
    let then = SystemTime::now().checked_sub(duration)?;
    then.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(format_rfc3339_seconds(then).to_string().into())
}

/// The age of a time.
pub(crate) fn since(time: &Timestamp) -> Option<Duration> {
    parse_rfc3339(time.as_str()).ok()?.elapsed().ok()
}

/// The present time.
pub(crate) fn now() -> Timestamp {
    format_rfc3339_millis(SystemTime::now()).to_string().into()
}

/// The present time of day, in UTC: `12:00:00`.
pub(crate) fn time_of_day() -> String {
    short(&now()).split_off("2026-01-31 ".len())
}

/// A time without its fractions: `2026-01-31 12:00:00`.
pub(crate) fn short(time: &Timestamp) -> String {
    shown(time.as_str().get(..19).unwrap_or(time.as_str())).replace('T', " ")
}
