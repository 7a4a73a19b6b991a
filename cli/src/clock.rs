//! Times in the formats of the API and for people.

use std::time::Duration;

use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

/// The time this long ago, in RFC 3339. `None` if it cannot be represented.
pub(crate) fn ago(duration: Duration) -> Option<String> {
    let then = OffsetDateTime::now_utc().checked_sub(duration.try_into().ok()?)?;
    then.replace_nanosecond(0).ok()?.format(&Rfc3339).ok()
}

/// The age of a time in RFC 3339.
pub(crate) fn since(time: &str) -> Option<Duration> {
    let then = OffsetDateTime::parse(time, &Rfc3339).ok()?.to_offset(UtcOffset::UTC);
    (OffsetDateTime::now_utc() - then).try_into().ok()
}

/// The present time, in RFC 3339 with milliseconds.
pub(crate) fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let whole = now.replace_nanosecond(now.nanosecond() / 1_000_000 * 1_000_000).unwrap_or(now);
    whole.format(&Rfc3339).unwrap_or_default()
}

/// The present time of day, in UTC: `12:00:00`.
pub(crate) fn time_of_day() -> String {
    let now = OffsetDateTime::now_utc().time();
    format!("{:02}:{:02}:{:02}", now.hour(), now.minute(), now.second())
}

/// A time of the API without its fractions: `2026-01-31 12:00:00`.
pub(crate) fn short(time: &str) -> String {
    time.get(..19).unwrap_or(time).replace('T', " ")
}
