//! The headers that a receiver saw, in the forms in which programs print them.

use super::json::{WrittenJson, decoded};
use crate::issue::Problem;

/// The maximum number of bytes of all headers, and of headers.
const MAX_BYTES: usize = 32 * 1024;
const MAX_HEADERS: usize = 200;

/// A request's headers: names and values, in the order in which they were seen.
pub struct ReceivedHeaders {
    all: Vec<(String, String)>,
    /// The text that they were read from, in lower case.
    text: String,
}

/// A header that a verification reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadHeader {
    Id,
    Timestamp,
    Signature,
    /// `x-webhook-signature`.
    BodySignature,
}

/// A header as it was seen.
#[derive(Clone, Copy)]
pub(super) struct SeenHeader<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    /// Whether the name is that of the header, in any case.
    pub(super) is_named_right: bool,
}

impl ReadHeader {
    pub(super) const ALL: [Self; 4] = [Self::Id, Self::Timestamp, Self::Signature, Self::BodySignature];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Id => "webhook-id",
            Self::Timestamp => "webhook-timestamp",
            Self::Signature => "webhook-signature",
            Self::BodySignature => "x-webhook-signature",
        }
    }

    /// Whether `name` is another spelling of the header: of CGI, of a program's variables, or of another service.
    fn is_meant_by(self, name: &str) -> bool {
        let name = name.replace('_', "-");
        let name = name.strip_prefix("http-").unwrap_or(&name);
        let own = self.name();
        let brand = |prefix: &str| name.strip_prefix(prefix) == own.strip_prefix("webhook-");
        name == own
            || self != Self::BodySignature && brand("svix-")
            || matches!(self, Self::Id | Self::Timestamp) && name.strip_prefix("x-") == Some(own)
    }
}

impl ReceivedHeaders {
    /// Reads lines of `name: value`, such as those of `curl`, or JSON: an object, a list of pairs, or a list of names and
    /// values in turn. No headers are read from another text.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        if let Some(problem) = Problem::bytes(text.len(), MAX_BYTES) {
            return Err(vec![problem]);
        }
        let text = text.trim();
        let headers = match text.starts_with(['{', '[']) {
            true => WrittenJson::parse(text).and_then(of_json),
            false => text.lines().map(str::trim).filter(|line| !is_skipped(line)).map(of_line).collect(),
        };
        // The diagnosis says that nothing was read.
        let mut headers: Vec<_> = headers.unwrap_or_default();
        headers.truncate(MAX_HEADERS);
        Ok(Self { all: headers, text: text.to_ascii_lowercase() })
    }

    /// Whether the text is in a form that is not read.
    pub(super) fn are_unread(&self) -> bool {
        let is_empty = self.text.is_empty() || self.text == "{}";
        !is_empty && (self.all.is_empty() || self.text.contains(ReadHeader::Id.name()))
    }

    /// The headers that are, or are meant to be, this one. If some are named right, only those.
    pub(super) fn of(&self, part: ReadHeader) -> Vec<SeenHeader<'_>> {
        let all = self.all.iter().filter_map(|(name, value)| {
            let lower = name.to_ascii_lowercase();
            let is_named_right = lower == part.name();
            let header = SeenHeader { name, value, is_named_right };
            (is_named_right || part.is_meant_by(&lower)).then_some(header)
        });
        let mut all: Vec<_> = all.collect();
        if all.iter().any(|header| header.is_named_right) {
            all.retain(|header| header.is_named_right);
        }
        all
    }
}

/// Whether a line is empty, or begins a request.
fn is_skipped(line: &str) -> bool {
    line.is_empty() || line.starts_with("POST ")
}

fn of_line(line: &str) -> Option<(String, String)> {
    let line = line.trim_start_matches("> ").trim_end_matches('\\').trim_end();
    let line = line.strip_prefix("-H ").map_or(line, |quoted| quoted.trim_matches(['\'', '"']));
    let (name, value) = line.split_once(':')?;
    let name = name.trim().trim_matches(['\'', '"']);
    let value = value.trim().trim_end_matches(',');
    let value = value.strip_prefix(['\'', '"']).and_then(|value| value.strip_suffix(['\'', '"'])).unwrap_or(value);
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

fn of_json(json: WrittenJson<'_>) -> Option<Vec<(String, String)>> {
    match json {
        WrittenJson::Object(members) => Some(members.iter().flat_map(|(name, value)| of_member(name, value)).collect()),
        WrittenJson::List(elements) if elements.iter().all(|element| matches!(element, WrittenJson::List(_))) => {
            elements.iter().map(pair).collect()
        }
        WrittenJson::List(elements) => {
            let texts: Option<Vec<_>> = elements.iter().map(text).collect();
            let texts = texts.filter(|texts| texts.len().is_multiple_of(2))?;
            let mut texts = texts.into_iter();
            Some(std::iter::from_fn(|| Some((texts.next()?, texts.next()?))).collect())
        }
        WrittenJson::Word(_) | WrittenJson::Text(_) => None,
    }
}

/// The values of a header. Frameworks add objects of their own to an environment, which have no text.
fn of_member(name: &str, value: &WrittenJson<'_>) -> Vec<(String, String)> {
    let values = match value {
        WrittenJson::List(values) => values.iter().filter_map(text).collect(),
        value => Vec::from_iter(text(value)),
    };
    values.into_iter().map(|value| (decoded(name).into_owned(), value)).collect()
}

fn pair(element: &WrittenJson<'_>) -> Option<(String, String)> {
    let WrittenJson::List(pair) = element else { return None };
    let [name, value] = pair.as_slice() else { return None };
    Some((text(name)?, text(value)?))
}

fn text(value: &WrittenJson<'_>) -> Option<String> {
    match value {
        WrittenJson::Text(text) => Some(decoded(text).into_owned()),
        WrittenJson::Word("null") | WrittenJson::List(_) | WrittenJson::Object(_) => None,
        WrittenJson::Word(word) => Some((*word).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str, part: ReadHeader) -> Vec<String> {
        let headers = ReceivedHeaders::parse(text).expect(text);
        headers.of(part).iter().map(|header| header.value.to_owned()).collect()
    }

    #[test]
    fn headers_are_read_in_every_printed_form() {
        for text in [
            "webhook-id: a",
            "POST /hook HTTP/1.1\r\nHost: x\r\nWebhook-Id:a\r\n\r\n",
            "> host: x\n> webhook-id: a",
            "curl: x\n  -H 'webhook-id: a' \\\n  -H 'b: c'",
            r#"{"host": "x", "webhook-id": "a", "n": 7}"#,
            r#"{"Webhook-Id": ["a"]}"#,
            r#"[["webhook-id", "a"], ["b", "c"]]"#,
            r#"["host", "x", "webhook-id", "a"]"#,
            "'webhook-id': 'a',\n'b': 'c',",
        ] {
            assert_eq!(values(text, ReadHeader::Id), ["a"], "{text}");
        }
        assert_eq!(values("webhook-id: a\nWebhook-ID: b", ReadHeader::Id), ["a", "b"]);
        assert_eq!(values("svix-id: a\nwebhook-id: b", ReadHeader::Id), ["b"]);
        assert_eq!(values("", ReadHeader::Id), [""; 0]);
    }

    #[test]
    fn other_names_of_a_header_are_recognized() {
        for (name, part) in [
            ("HTTP_WEBHOOK_ID", ReadHeader::Id),
            ("webhook_timestamp", ReadHeader::Timestamp),
            ("Svix-Signature", ReadHeader::Signature),
            ("X-Webhook-Id", ReadHeader::Id),
            ("HTTP_X_WEBHOOK_SIGNATURE", ReadHeader::BodySignature),
        ] {
            let headers = ReceivedHeaders::parse(&format!("{name}: a")).expect("a header");
            let found: Vec<_> = ReadHeader::ALL.into_iter().filter(|part| !headers.of(*part).is_empty()).collect();
            assert_eq!(found, [part], "{name}");
            assert!(!headers.of(part)[0].is_named_right, "{name}");
        }
    }

    #[test]
    fn a_text_in_another_form_has_no_headers() {
        let bomb = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for text in ["no colon", "[1, 2, 3]", "{", "[[1]]", "webhook-id: x\ny", &bomb] {
            assert_eq!(values(text, ReadHeader::Id), [""; 0], "{text}");
        }
        // `serde_json` would parse the string after its marker as JSON again.
        assert_eq!(values(r#"{"$serde_json::private::RawValue": "{\"webhook-id\": \"a\"}"}"#, ReadHeader::Id), [""; 0]);
        assert_eq!(values(&format!("{}webhook-id: a", "a: b\n".repeat(200)), ReadHeader::Id), [""; 0]);
        assert!(ReceivedHeaders::parse(&"a".repeat(40_000)).is_err());
    }
}
