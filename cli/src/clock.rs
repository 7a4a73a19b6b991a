//! Times, in the API's format and in human-readable formats.

use std::time::{Duration, SystemTime};

use api::Timestamp;
use humantime::{format_rfc3339_millis, format_rfc3339_seconds, parse_rfc3339};

use crate::terminal::shown;

/// Returns the time that was `duration` ago, or `None` if that is before 1970.
pub(crate) fn ago(duration: Duration) -> Option<Timestamp> {
    before(SystemTime::now(), duration)
}

/// Returns the time that was `duration` before `now`, or `None` if that is before 1970.
pub(crate) fn before(now: SystemTime, duration: Duration) -> Option<Timestamp> {
    let then = now.checked_sub(duration)?;
    then.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(format_rfc3339_seconds(then).to_string().into())
}

/// The age of a time.
pub(crate) fn since(time: &Timestamp) -> Option<Duration> {
    age_at(time, SystemTime::now())
}

/// The age of a time at `now`.
pub(crate) fn age_at(time: &Timestamp, now: SystemTime) -> Option<Duration> {
    now.duration_since(parse_rfc3339(time.as_str()).ok()?).ok()
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    format_rfc3339_millis(SystemTime::now()).to_string().into()
}

/// Returns the current time of day, in UTC: `12:00:00`.
pub(crate) fn time_of_day() -> String {
    short(&now()).split_off("2026-01-31 ".len())
}

/// Formats a duration in its largest unit: `12m`.
pub(crate) fn span(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ ..3_600 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Formats the age of a time.
pub(crate) fn age(time: &Timestamp) -> String {
    span(since(time).unwrap_or_default())
}

/// Formats the duration until a time.
pub(crate) fn until(time: &Timestamp) -> Option<String> {
    let left = parse_rfc3339(time.as_str()).ok()?.duration_since(SystemTime::now()).unwrap_or_default();
    // Rounded up, so a wait of 4.9 s is shown as 5s.
    Some(span(left + Duration::from_millis(999)))
}

/// Whether a time is in the future.
pub(crate) fn is_ahead(time: &Timestamp) -> bool {
    parse_rfc3339(time.as_str()).is_ok_and(|time| time > SystemTime::now())
}

/// Formats a time for a narrow column, without the year: `01-31 12:00:00`.
pub(crate) fn narrow(time: &Timestamp) -> String {
    let short = short(time);
    short.get("2026-".len()..).unwrap_or(&short).to_owned()
}

/// Formats a time without fractions of seconds: `2026-01-31 12:00:00`.
pub(crate) fn short(time: &Timestamp) -> String {
    shown(time.as_str().get(..19).unwrap_or(time.as_str())).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_one_unit() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3_599, "59m"), (3_600, "1h"), (172_799, "47h"), (172_800, "2d")]
        {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
