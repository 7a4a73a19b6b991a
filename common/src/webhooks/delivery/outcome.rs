//! The outcome of an attempt, and the step that follows.

use std::time::{Duration, SystemTime};

use time::{OffsetDateTime, format_description::well_known::Rfc2822};

use crate::{
    config::{ConfigError, Env},
    timestamp::Timestamp,
};

/// The outcome of an attempt. A receiver's failure is data, not an error in the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver responded with this 2xx status.
    Delivered(u16),
    /// The attempt failed for this reason.
    Failed(Failure),
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The receiver responded with this status and, possibly, a `Retry-After`.
    Status(u16, Option<Duration>),
    /// No complete response arrived in time.
    Timeout,
    /// The deployment does not allow the destination.
    Blocked,
    /// The host name has no address.
    Dns,
    /// No address accepted a connection.
    Connect,
    /// The TLS handshake failed, most often because the certificate is not trusted.
    Tls,
    /// The connection closed early, or the response was not valid HTTP.
    Protocol,
}

impl Outcome {
    /// Whether the receiver responded that it wants no more deliveries, which disables its endpoint.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Failed(Failure::Status(410, _)))
    }
}

impl Failure {
    /// The name of the reason in the delivery log, the function's log and the metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Status(410, _) => "gone",
            Self::Status(300..=399, _) => "redirect",
            Self::Status(400..=499, _) => "status_4xx",
            Self::Status(500..=599, _) => "status_5xx",
            Self::Status(..) => "status_other",
            Self::Timeout => "timeout",
            Self::Blocked => "blocked",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
        }
    }
}

/// The step after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// End the delivery as delivered.
    Delivered,
    /// Make another attempt after this delay.
    RetryAfter(Duration),
    /// End the delivery as failed.
    Failed,
}

/// The maximum delay that a receiver can request with `Retry-After`. Longer delays are shortened to this one.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);
/// The time from an event until its delivery fails, regardless of the receiver's `Retry-After`.
pub const MAX_AGE: Duration = Duration::from_hours(3 * 24);
/// The last hours before the deadline. An attempt that would be due after [`MAX_AGE`] is moved into these hours, so a
/// delivery still gets a last attempt after a long outage.
pub const LAST_HOURS: Duration = Duration::from_hours(4);
/// Each delay is extended by up to this fraction, so that deliveries that failed together are not retried together.
const JITTER: f64 = 0.2;

/// Reads the delays between attempts from `RETRY_SCHEDULE`.
pub fn retry_schedule(env: &Env) -> Result<Vec<Duration>, ConfigError> {
    let seconds = env.numbers("RETRY_SCHEDULE", &(0..=86_400), 20)?;
    Ok(seconds.into_iter().map(Duration::from_secs).collect())
}

/// Decides the step after attempt number `attempt` (the first is 1). `schedule` lists the delays after the first
/// attempt, the second, and so on; `left` is the time until the delivery fails; `jitter` returns a number in
/// `0.0..1.0`. An attempt that would be too late is moved to the last hours. If the last hours have already begun, the
/// delivery fails.
pub fn next_step(
    outcome: Outcome,
    attempt: u32,
    schedule: &[Duration],
    left: Duration,
    jitter: impl FnOnce() -> f64,
) -> NextStep {
    let failure = match outcome {
        Outcome::Delivered(_) => return NextStep::Delivered,
        Outcome::Failed(failure) => failure,
    };
    let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    let scheduled = match (failure, schedule.get(index)) {
        (Failure::Status(410, _), _) | (_, None) => return NextStep::Failed,
        (_, Some(delay)) => *delay,
    };
    let asked = match failure {
        Failure::Status(429 | 503, Some(asked)) => asked.min(MAX_RETRY_AFTER),
        _ => Duration::ZERO,
    };
    let jitter = jitter();
    let delay = scheduled.max(asked).mul_f64(1.0 + JITTER * jitter);
    match left {
        _ if delay <= left => NextStep::RetryAfter(delay),
        _ if left <= LAST_HOURS => NextStep::Failed,
        _ => NextStep::RetryAfter(left - LAST_HOURS.mul_f64(jitter)),
    }
}

/// Parses a `Retry-After` header (RFC 9110, section 10.2.3): seconds, or an HTTP date. Accepts other readable forms, too:
/// fractions of seconds, several numbers joined by a proxy, of which the longest counts, and dates in another zone or
/// format. Returns `None` if it is neither.
pub(in crate::webhooks) fn retry_after(header: &str, now: Timestamp) -> Option<Duration> {
    let numbers: Option<Vec<_>> = header.split(',').map(|number| seconds(number.trim())).collect();
    if let Some(longest) = numbers.and_then(|numbers| numbers.into_iter().max()) {
        return Some(longest);
    }
    Some(date(header.trim())?.duration_since(SystemTime::from(now)).unwrap_or_default())
}

/// Parses seconds, rounding up.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let more = u64::from(fraction.contains(|digit| digit != '0'));
    // A number that overflows exceeds the limit, too.
    let seconds =
        || whole.parse().map_or(MAX_RETRY_AFTER, |whole: u64| Duration::from_secs(whole.saturating_add(more)));
    (is_number(whole) && is_number(fraction)).then(seconds)
}

/// Parses a date in a format of HTTP, of emails or of RFC 3339.
fn date(text: &str) -> Option<SystemTime> {
    let text = text.strip_suffix("UTC").map_or_else(|| text.to_owned(), |date| format!("{date}GMT"));
    let of_an_email = || OffsetDateTime::parse(&text, &Rfc2822).ok().map(SystemTime::from);
    let of_rfc_3339 = || text.parse::<Timestamp>().ok().map(SystemTime::from);
    httpdate::parse_http_date(&text).ok().or_else(of_an_email).or_else(of_rfc_3339)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SCHEDULE: [Duration; 3] = [Duration::from_secs(5), Duration::from_mins(5), Duration::from_mins(30)];

    fn after(failure: Failure, attempt: u32) -> NextStep {
        next_step(Outcome::Failed(failure), attempt, &SCHEDULE, MAX_AGE, || 0.0)
    }

    #[test]
    fn attempts_follow_the_schedule_and_the_last_one_fails() {
        assert_eq!(after(Failure::Timeout, 1), NextStep::RetryAfter(SCHEDULE[0]));
        assert_eq!(after(Failure::Status(500, None), 2), NextStep::RetryAfter(SCHEDULE[1]));
        assert_eq!(after(Failure::Status(302, None), 3), NextStep::RetryAfter(SCHEDULE[2]));
        assert_eq!(after(Failure::Blocked, 4), NextStep::Failed);
        assert_eq!(after(Failure::Blocked, u32::MAX), NextStep::Failed);
    }

    #[test]
    fn success_and_gone_both_end_a_delivery() {
        assert_eq!(next_step(Outcome::Delivered(204), 9, &SCHEDULE, Duration::ZERO, || 0.0), NextStep::Delivered);
        let gone = Failure::Status(410, Some(Duration::from_secs(1)));
        assert_eq!(after(gone, 1), NextStep::Failed);
    }

    #[test]
    fn retry_after_applies_to_429_and_503_if_it_is_longer() {
        let asked = |status, seconds| after(Failure::Status(status, Some(Duration::from_secs(seconds))), 1);
        assert_eq!(asked(429, 3600), NextStep::RetryAfter(Duration::from_hours(1)));
        assert_eq!(asked(503, 3600), NextStep::RetryAfter(Duration::from_hours(1)));
        assert_eq!(asked(429, 1), NextStep::RetryAfter(SCHEDULE[0]));
        assert_eq!(asked(429, 1_000_000), NextStep::RetryAfter(Duration::from_hours(24)));
        assert_eq!(asked(500, 3600), NextStep::RetryAfter(SCHEDULE[0]));
    }

    #[test]
    fn a_delivery_fails_if_the_next_attempt_would_be_too_late() {
        let asked = Failure::Status(503, Some(Duration::from_hours(1)));
        for (failure, delay) in [(asked, 3600), (Failure::Timeout, 5)] {
            let delay = Duration::from_secs(delay);
            let step = |left, jitter| next_step(Outcome::Failed(failure), 1, &SCHEDULE, left, || jitter);
            assert_eq!(step(delay, 0.0), NextStep::RetryAfter(delay));
            assert_eq!(step(delay, 0.1), NextStep::Failed);
            assert_eq!(step(Duration::ZERO, 0.0), NextStep::Failed);
        }
    }

    #[test]
    fn an_attempt_that_would_be_too_late_is_made_in_the_last_hours() {
        let asked = Failure::Status(503, Some(MAX_RETRY_AFTER));
        let step = |left, jitter| next_step(Outcome::Failed(asked), 1, &SCHEDULE, left, || jitter);
        let left = MAX_RETRY_AFTER - Duration::from_secs(1);
        assert_eq!(step(left, 0.0), NextStep::RetryAfter(left));
        assert_eq!(step(left, 0.5), NextStep::RetryAfter(left - LAST_HOURS / 2));
        assert_eq!(step(LAST_HOURS, 0.5), NextStep::Failed, "they have begun");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = "2026-01-31T12:00:00Z".parse().expect("a time");
        let read = |header| retry_after(header, now).map(|duration| duration.as_secs());
        assert_eq!(read(" 120 "), Some(120));
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("99999999999999999999999"), Some(86_400));
        assert_eq!(read("Sat, 31 Jan 2026 12:10:00 GMT"), Some(600));
        assert_eq!(read("Sat, 31 Jan 2026 11:00:00 GMT"), Some(0));
        for (readable, seconds) in [
            ("600.5", 601),
            ("600.0", 600),
            ("600, 600", 600),
            ("10,600 , 30.5", 600),
            ("18446744073709551615.5", u64::MAX),
            ("Sat, 31 Jan 2026 12:10:00 +0000", 600),
            ("Sat, 31 Jan 2026 13:10:00 +0100", 600),
            ("Sat, 31 Jan 2026 12:10:00 UTC", 600),
            ("31 Jan 2026 12:10:00 GMT", 600),
            ("Saturday, 31-Jan-26 12:10:00 GMT", 600),
            ("2026-01-31T12:10:00Z", 600),
            ("2026-01-31T13:10:00.5+01:00", 600),
        ] {
            assert_eq!(read(readable), Some(seconds), "{readable}");
        }
        for garbage in ["", "soon", "-5", "+5", "1.", ".5", "1.5.2", "600, soon", "600,", "12 s", "Sat, 99 Foo 2026"] {
            assert_eq!(read(garbage), None, "{garbage}");
        }
    }

    proptest! {
        #[test]
        fn jitter_adds_up_to_a_fifth(attempt in 1_u32..4, asked in 0_u64..100_000, jitter in 0.0..1.0) {
            let asked = Duration::from_secs(asked);
            let failed = Outcome::Failed(Failure::Status(503, Some(asked)));
            let NextStep::RetryAfter(delay) = next_step(failed, attempt, &SCHEDULE, MAX_AGE, || jitter) else {
                unreachable!("the schedule has three delays")
            };
            let base = SCHEDULE[attempt as usize - 1].max(asked.min(MAX_RETRY_AFTER));
            prop_assert_eq!(delay, base.mul_f64(1.0 + 0.2 * jitter));
        }

        /// Whatever the jitter, the last attempt comes after an outage from Friday evening to Monday morning (62 hours)
        /// has ended.
        #[test]
        fn the_tenth_attempt_is_made_in_the_last_hours_of_three_days(jitters in prop::array::uniform9(0.0..1.0)) {
            let schedule =
                [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 72_000].map(Duration::from_secs);
            let (mut attempt, mut now) = (1, Duration::ZERO);
            for jitter in jitters {
                let step = next_step(Outcome::Failed(Failure::Timeout), attempt, &schedule, MAX_AGE - now, || jitter);
                let NextStep::RetryAfter(delay) = step else { unreachable!("attempt {attempt} is not the last one") };
                (attempt, now) = (attempt + 1, now + delay);
            }
            prop_assert!((MAX_AGE - LAST_HOURS..=MAX_AGE).contains(&now), "{now:?}");
            let step = next_step(Outcome::Failed(Failure::Timeout), attempt, &schedule, MAX_AGE - now, || 0.0);
            prop_assert_eq!(step, NextStep::Failed);
        }

        #[test]
        fn no_header_panics_the_parser(header in any::<String>()) {
            let _parsed = retry_after(&header, Timestamp::now());
        }
    }
}
