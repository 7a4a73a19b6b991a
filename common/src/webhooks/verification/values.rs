//! The values of the headers that a verification reads.

use api::verification::{Cause, Finding};

use super::{
    finding::finding,
    headers::{ReadHeader, ReceivedHeaders},
};
use crate::timestamp::Timestamp;

/// The values that a verification reads from the headers, and what is wrong with the headers.
pub(super) struct Values {
    pub(super) id: Option<String>,
    pub(super) time: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) body_signature: Option<String>,
    /// The time of the request, in Unix seconds: the header's, or that of the receiver.
    pub(super) at: i64,
    pub(super) causes: Vec<Finding>,
}

impl Values {
    /// Reads the values. `received_at` is the receiver's time.
    pub(super) fn read(headers: &ReceivedHeaders, received_at: Timestamp) -> Self {
        let mut causes = Vec::new();
        let mut read = |part: ReadHeader| {
            let all = headers.of(part);
            let first = all.first()?;
            if !first.is_named_right {
                let message = format!(
                    "`{}` was seen under another name, {}. A verification that looks for `{}` does not find it.",
                    part.name(),
                    kind_of_name(first.name),
                    part.name()
                );
                causes.push(finding(Cause::HeaderNames, message));
            }
            let value = first.value.trim();
            if value != first.value {
                let message = format!(
                    "`{}` was seen with white space around its value. It is not part of the value: remove it.",
                    part.name()
                );
                causes.push(finding(Cause::HeaderValue, message));
            }
            // Frameworks and gateways join the values of repeated headers with commas.
            let joined = value.split_once(',').filter(|_| part != ReadHeader::Signature);
            if all.len() > 1 || joined.is_some() {
                let message = format!("`{}` was seen more than once. Each delivery has it once.", part.name());
                causes.push(finding(Cause::HeaderRepeated, message));
            }
            Some(joined.map_or(value, |(first, _)| first.trim_end()).to_owned())
        };
        let [id, time, signature, body_signature] = ReadHeader::ALL.map(&mut read);
        let at = time.as_deref().and_then(seconds).unwrap_or_else(|| received_at.as_second());
        Self { id, time, signature, body_signature, at, causes }
    }

    /// The names of the headers of `webhook-signature` that were not seen.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let values =
            [(&self.id, ReadHeader::Id), (&self.time, ReadHeader::Timestamp), (&self.signature, ReadHeader::Signature)];
        let is_missing = |value: &Option<String>| value.as_deref().is_none_or(str::is_empty);
        values.into_iter().filter_map(|(value, part)| is_missing(value).then_some(part.name())).collect()
    }

    /// The header's Unix seconds, if it has the form of a delivery.
    pub(super) fn seconds(&self) -> Option<i64> {
        self.time.as_deref().and_then(seconds)
    }
}

/// Unix seconds in the form of a delivery's timestamp.
fn seconds(text: &str) -> Option<i64> {
    let is_right = (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_right && !text.starts_with('0') { text.parse().ok() } else { None }
}

fn kind_of_name(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    match () {
        () if name.starts_with("http_") => "as in the environment of CGI, WSGI, Rack or PHP",
        () if name.starts_with("svix-") => "that of Svix",
        () if name.contains('_') => "with underscores",
        () => "with another prefix",
    }
}

/// The Unix seconds that a timestamp in another form may stand for.
pub(super) fn seconds_of(text: &str) -> Option<i64> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.as_second());
    }
    let whole = text.split('.').next().unwrap_or_default();
    let number: i64 = whole.parse().ok()?;
    let digits = whole.trim_start_matches('-').len();
    match digits {
        13 => Some(number / 1000),
        16 => Some(number / 1_000_000),
        19 => Some(number / 1_000_000_000),
        _ => Some(number),
    }
}
