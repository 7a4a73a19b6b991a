//! Human-readable times, relative to now and in UTC.

use std::time::Duration;

use maud::{Markup, html};

use crate::{issue::Problem, timestamp::Timestamp};

/// The age up to which a time is shown as "just now".
const JUST_NOW: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

/// `9 min ago (2026-01-31 12:00:05 UTC)`.
pub fn when(at: Timestamp, now: Timestamp) -> Markup {
    html! { (ago(at, now)) " " span .soft { "(" (at.readable()) ")" } }
}

/// `9 min ago` or `in 9 min`, with the time in UTC on hover and for programs.
pub fn ago(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(at.readable()) { (distance(at, now)) } }
}

/// `9 min (since 2026-01-31 12:00:05 UTC)`. `word` is "since" or "until". The remaining time until `at` is rounded, so
/// almost seven days are not shown as six.
pub fn lasting(word: &str, at: Timestamp, now: Timestamp) -> Markup {
    let time = if at > now { left(at.since(now)) } else { length(now.since(at)) };
    html! { time datetime=(at) title=(at.readable()) { (time) } " " span .soft { "(" (word) " " (at.readable()) ")" } }
}

/// `2026-01-31 12:00:05 UTC`, also in a format for programs that read the page.
pub fn date(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (at.readable()) } }
}

/// `9 min ago`, with the UTC time on a separate line, for tables in which people compare times.
pub fn stacked(at: Timestamp, now: Timestamp) -> Markup {
    html! { (ago(at, now)) div .soft { (at.readable()) } }
}

/// `Today`, `Yesterday` or `3 days ago`, with the date on hover, for when only the day is known.
pub fn day(at: Timestamp, now: Timestamp) -> Markup {
    let words = match now.day().since(at.day()).as_secs() / 86_400 {
        0 => "Today".to_owned(),
        1 => "Yesterday".to_owned(),
        days => format!("{days} days ago"),
    };
    let readable = at.readable();
    let date = readable.split(' ').next().unwrap_or_default();
    html! { time datetime=(date) title=(date) { (words) } }
}

/// `12:00`.
pub fn hour(at: Timestamp) -> String {
    at.to_string().get(11..16).unwrap_or_default().to_owned()
}

/// The value for a `datetime-local` input, in UTC: `2026-01-31T12:00`.
pub fn local(at: Timestamp) -> String {
    at.to_string().get(..16).unwrap_or_default().to_owned()
}

/// Parses a time from a form or a link. Without a time zone, the time is interpreted as UTC.
pub fn moment(text: &str) -> Result<Timestamp, Vec<Problem>> {
    let zoned = match text.len() {
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        _ => text.to_owned(),
    };
    Timestamp::parse(&zoned)
}

/// `9 min ago` or `in 9 min`, and `just now` for a few seconds.
fn distance(at: Timestamp, now: Timestamp) -> String {
    let (left_until, since) = (at.since(now), now.since(at));
    match at > now {
        // Not "in 0 s", for what happened while the page was built.
        true if left_until < SECOND => "just now".to_owned(),
        true => format!("in {}", left(left_until)),
        false if since < JUST_NOW => "just now".to_owned(),
        false => format!("{} ago", length(since)),
    }
}

/// Formats a duration in its largest unit: `9 min`. Up to two minutes are shown in seconds.
pub fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats a remaining duration, rounded to its unit.
fn left(time: Duration) -> String {
    let unit = match time.as_secs() {
        0..=119 => 1,
        120..=7_199 => 60,
        7_200..=172_799 => 3_600,
        _ => 86_400,
    };
    length(time + Duration::from_secs(unit) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc_and_in_words() {
        let at = Timestamp::from_second(1_769_860_805).expect("a time");
        assert_eq!(at.readable(), "2026-01-31 12:00:05 UTC");
        assert_eq!((hour(at), local(at)), ("12:00".to_owned(), "2026-01-31T12:00".to_owned()));
        for (seconds, ago) in [
            (0, "just now"),
            (5, "5 s ago"),
            (119, "119 s ago"),
            (120, "2 min ago"),
            (7_200, "2 h ago"),
            (172_800, "2 days ago"),
        ] {
            assert_eq!(distance(at, at.after(Duration::from_secs(seconds))), ago);
        }
        assert_eq!(distance(at.after(Duration::from_mins(5)), at), "in 5 min");
        assert_eq!(distance(at.after(Duration::from_millis(900)), at), "just now");
        assert_eq!(distance(at.after(Duration::from_secs(3)), at), "in 3 s");
        assert_eq!(
            [604_799, 604_800, 7_199].map(|seconds| left(Duration::from_secs(seconds))),
            ["7 days", "7 days", "2 h"]
        );
    }

    #[test]
    fn a_moment_without_a_zone_is_in_utc() {
        let at = Timestamp::from_second(1_769_860_800).expect("a time");
        for text in ["2026-01-31T12:00", "2026-01-31T12:00:00", "2026-01-31T12:00:00.000Z", "2026-01-31T13:00:00+01:00"]
        {
            assert_eq!(moment(text).expect(text), at);
        }
        assert!(moment("yesterday").is_err() && moment("2026-01-31").is_err());
    }
}
