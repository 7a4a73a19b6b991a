//! Parsers for the values of options.

use std::str::FromStr;

use api::{ClosedSet, NotAName, Secret, Timestamp, webhooks::EventName};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::value::RawValue;

/// Parses a member of a closed set. The help lists all members.
pub(super) fn one_of<T: ClosedSet + FromStr<Err = NotAName> + std::marker::Send + Sync>()
-> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::ALL.iter().map(|name| name.as_str())).try_map(|text| text.parse::<T>())
}

/// Parses the name of an event that producers send.
pub(super) fn event_of_a_job() -> impl TypedValueParser<Value = EventName> {
    PossibleValuesParser::new(EventName::OF_JOBS.map(EventName::as_str)).try_map(|text| text.parse::<EventName>())
}

/// A ceiling on requests; `None` for none. A type of its own, because `clap` treats an `Option` as an absent argument.
#[derive(Clone, Copy)]
pub(crate) struct Ceiling(pub(crate) Option<u32>);

/// Parses a ceiling on requests. The service checks its range.
pub(super) fn ceiling(text: &str) -> Result<Ceiling, std::num::ParseIntError> {
    if text == "none" { Ok(Ceiling(None)) } else { text.parse().map(|number| Ceiling(Some(number))) }
}

/// Parses JSON and keeps its exact text, except for white space between tokens.
pub(super) fn json(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    let (mut is_text, mut is_escaped) = (false, false);
    let kept = text.chars().filter(|character| {
        let is_kept = is_text || !matches!(character, ' ' | '\t' | '\r' | '\n');
        if is_escaped {
            is_escaped = false;
        } else if *character == '"' {
            is_text = !is_text;
        } else {
            is_escaped = is_text && *character == '\\';
        }
        is_kept
    });
    let kept: String = kept.collect();
    // Validates the original text: without white space, `1 2` would be a number.
    serde_json::from_str::<&RawValue>(text)?;
    RawValue::from_string(kept)
}

/// Parses `name: value`.
pub(super) fn header(text: &str) -> Result<(String, Secret), String> {
    let (name, value) = text.split_once(':').ok_or("must be a name and a value, as in 'authorization: Bearer abc'")?;
    Ok((name.trim().to_owned(), value.trim().into()))
}

/// Parses the name of a profile.
pub(super) fn profile(text: &str) -> Result<String, String> {
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    match (1..=60).contains(&text.len()) && is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("must be at most 60 letters, digits, dots, dashes and underscores".to_owned()),
    }
}

/// Parses the lifetime of a key, in seconds.
pub(super) fn lifetime(text: &str) -> Result<u32, String> {
    let lifetime = humantime::parse_duration(text).ok().and_then(|lifetime| lifetime.as_secs().try_into().ok());
    lifetime.ok_or_else(|| "must be a duration such as 12h or 90d".to_owned())
}

/// Parses a time in RFC 3339, or an age.
pub(crate) fn since(text: &str) -> Result<Timestamp, String> {
    let time = match humantime::parse_duration(text) {
        Ok(age) => crate::clock::ago(age),
        Err(_) => text.contains('T').then(|| text.into()),
    };
    time.ok_or_else(|| "must be an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_digits_duplicates_and_escapes() {
        for (text, kept) in [
            ("12345678901234567890123", "12345678901234567890123"),
            ("0.10000000000000000555", "0.10000000000000000555"),
            ("1e400", "1e400"),
            (
                r#" {"b": 1, "a": "x \" y\\" , "b" : [2,\t3]}\n"#.replace("\\n", "\n").replace("\\t", "\t").as_str(),
                r#"{"b":1,"a":"x \" y\\","b":[2,3]}"#,
            ),
            (r#""\ud800 \u0041""#, r#""\ud800 \u0041""#),
        ] {
            assert_eq!(json(text).expect(text).get(), kept);
        }
        for wrong in ["", "1 2", "tr ue", "{", "[1,]", "1 // one", "'a'"] {
            assert!(json(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn since_is_a_time_or_an_age() {
        for wrong in
            ["", "h", "-1h", "1x", "é", "99999999999999999999d", "18446744073709551615d", "300000d0000d", "300000d"]
        {
            assert!(since(wrong).is_err(), "{wrong}");
        }
        for right in ["90s", "15m", "2h", "3d", "1h 30m", "0s", "2026-01-31T12:00:00Z"] {
            assert!(since(right).expect(right).as_str().ends_with('Z'), "{right}");
        }
    }
}
