//! Times in the form in which they are stored and sent.

use std::{
    fmt,
    ops::RangeInclusive,
    str::FromStr,
    time::{Duration, SystemTime},
};

use serde::{Serialize, Serializer};
use time::{OffsetDateTime, error::ComponentRange, format_description::well_known::Rfc3339};

use crate::{issue::Problem, runtime_sources};

/// A UTC time in whole milliseconds, so storing a time does not change it. Formatted as in RFC 3339:
/// `2026-01-31T12:00:00.000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(i64);

/// Lengths in milliseconds.
const SECOND: i64 = 1000;
const HOUR: i64 = 60 * 60 * SECOND;
const DAY: i64 = 24 * HOUR;
/// The first millisecond of the year -9999, and the last of the year 9999.
const REPRESENTABLE: RangeInclusive<i64> = -377_705_116_800_000..=253_402_300_799_999;

impl Timestamp {
    pub fn now() -> Self {
        Self::of(runtime_sources::now().into())
    }

    fn of(time: OffsetDateTime) -> Self {
        Self(time.unix_timestamp() * SECOND + i64::from(time.millisecond()))
    }

    /// The time `seconds` after the Unix epoch.
    ///
    /// # Errors
    /// The time is after the year 9999.
    pub fn from_second(seconds: i64) -> Result<Self, ComponentRange> {
        OffsetDateTime::from_unix_timestamp(seconds).map(Self::of)
    }

    /// The time `milliseconds` after the Unix epoch, or the nearest one whose year has four digits.
    pub fn from_millisecond(milliseconds: i64) -> Self {
        Self(milliseconds.clamp(*REPRESENTABLE.start(), *REPRESENTABLE.end()))
    }

    /// Parses a time from a request, in any RFC 3339 format.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|_not_a_time| vec![Problem::format("Must be an RFC 3339 time")])
    }

    /// A human-readable time, to the second: `2026-01-31 12:00:05 UTC`.
    pub fn readable(self) -> String {
        let text = self.to_string();
        let (date, time) = text.split_once('T').unwrap_or((&text, ""));
        format!("{date} {} UTC", time.split('.').next().unwrap_or_default())
    }

    /// Midnight UTC at the start of this day.
    pub fn day(self) -> Self {
        Self(self.0.div_euclid(DAY) * DAY)
    }

    /// Midnight UTC at the end of this day.
    pub fn next_day(self) -> Self {
        Self::from_millisecond(self.day().0.saturating_add(DAY))
    }

    /// The start of this hour.
    pub fn hour(self) -> Self {
        Self(self.0.div_euclid(HOUR) * HOUR)
    }

    /// This time plus `time`.
    pub fn after(self, time: Duration) -> Self {
        let milliseconds = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self::from_millisecond(self.as_millisecond().saturating_add(milliseconds))
    }

    /// This time minus `time`.
    pub fn before(self, time: Duration) -> Self {
        let milliseconds = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self::from_millisecond(self.as_millisecond().saturating_sub(milliseconds))
    }

    /// The time since `earlier`; zero if `earlier` is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        let passed = self.as_millisecond().saturating_sub(earlier.as_millisecond());
        Duration::from_millis(u64::try_from(passed).unwrap_or(0))
    }

    /// Whole seconds since the Unix epoch.
    pub fn as_second(self) -> i64 {
        self.0.div_euclid(SECOND)
    }

    /// Whole milliseconds since the Unix epoch.
    pub fn as_millisecond(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from_unix_timestamp(self.as_second()).map_err(|_not_representable| fmt::Error)?;
        let (year, month, day) = time.to_calendar_date();
        let (hour, minute, second) = time.to_hms();
        let (month, millisecond) = (u8::from(month), self.0.rem_euclid(SECOND));
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Timestamp {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time = OffsetDateTime::parse(text, &Rfc3339).ok().map(Self::of);
        time.filter(|time| REPRESENTABLE.contains(&time.0)).ok_or("not an RFC 3339 time")
    }
}

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> Self {
        let milliseconds = Duration::from_millis(timestamp.0.unsigned_abs());
        if timestamp.0 < 0 { Self::UNIX_EPOCH - milliseconds } else { Self::UNIX_EPOCH + milliseconds }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_have_milliseconds_and_a_z() {
        for (text, written) in [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z"),
            ("2026-01-31T14:00:00.0129+02:00", "2026-01-31T12:00:00.012Z"),
        ] {
            assert_eq!(text.parse::<Timestamp>().expect("a time").to_string(), written);
        }
        let time: Timestamp = "2026-01-31T12:00:00.999Z".parse().expect("a time");
        assert_eq!((time.as_second(), time.as_millisecond()), (1_769_860_800, 1_769_860_800_999));
        for bad in ["2026-01-31", "9999-12-31T23:59:59-01:00"] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_before_1970_has_an_hour_and_a_day() {
        let time: Timestamp = "1969-12-31T22:30:00.007Z".parse().expect("a time");
        assert_eq!(time.hour().to_string(), "1969-12-31T22:00:00.000Z");
        assert_eq!(time.day().to_string(), "1969-12-31T00:00:00.000Z");
        assert_eq!(SystemTime::UNIX_EPOCH - Duration::from_millis(5_399_993), SystemTime::from(time));
    }

    #[test]
    fn a_time_beyond_the_calendar_is_its_nearest_end() {
        for (milliseconds, nearest) in [(i64::MAX, "9999-12-31T23:59:59.999Z"), (i64::MIN, "-9999-01-01T00:00:00.000Z")]
        {
            assert_eq!(Timestamp::from_millisecond(milliseconds).to_string(), nearest);
        }
    }

    proptest! {
        #[test]
        fn times_survive_a_round_trip(second in 0..253_402_300_800_i64) {
            let time = Timestamp::from_second(second).expect("before the year 10000");
            prop_assert_eq!(time.to_string().parse::<Timestamp>().expect("a time"), time);
        }
    }
}
