//! An endpoint's custom headers, sent to the receiver with each attempt. They are usually credentials that the receiver
//! requires.

use std::{collections::BTreeMap, fmt};

use zeroize::Zeroizing;

use crate::issue::{IssueCode, MemberProblem, Problem};

/// Up to ten headers, sorted by name. Names are in lower case, because HTTP ignores their case. Values are secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, Zeroizing<String>>);

pub(crate) const MAX_HEADERS: usize = 10;
pub(crate) const MAX_NAME_LENGTH: usize = 64;
pub(crate) const MAX_VALUE_LENGTH: usize = 1024;

/// The headers that the service and its HTTP client set, trace headers, and headers that apply to the connection rather
/// than the request.
pub(crate) const RESERVED: [&str; 13] = [
    "connection",
    "cookie",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
pub(crate) const RESERVED_PREFIXES: [&str; 5] = ["content-", "proxy-", "webhook-", "x-webhook-", "x-event-"];

/// Replaces a header value in a receiver's response. The mask is never longer than the value.
const MASK: &str = "[secret]";

impl Headers {
    /// Validates a tenant's headers. `None` stands for a value that is not a string.
    ///
    /// # Errors
    /// One problem for each violated rule. Problems do not contain values or invalid names, because an invalid name may
    /// be a misplaced value.
    pub fn parse(chosen: &[(&str, Option<&str>)]) -> Result<Self, Vec<MemberProblem>> {
        let mut problems: Vec<_> =
            Problem::members(chosen.len(), MAX_HEADERS).map(MemberProblem::of_all).into_iter().collect();
        let mut headers = Self::default();
        for (name, value) in chosen {
            let Some(name) = name_of(name) else {
                problems.push(MemberProblem::of_all(Problem::format(format!(
                    "A name must be 1 to {MAX_NAME_LENGTH} letters, digits or characters of !#$%&'*+-.^_`|~"
                ))));
                continue;
            };
            let mut found = Vec::new();
            if is_reserved(&name) {
                found.push(Problem::format("Is reserved"));
            }
            if headers.0.contains_key(&name) {
                found.push(Problem::format("Must occur only once, regardless of case"));
            }
            match value.ok_or_else(not_a_text).and_then(value_of) {
                Ok(value) => drop(headers.0.insert(name.clone(), value)),
                Err(more) => found.extend(more),
            }
            problems.extend(found.into_iter().map(|problem| MemberProblem { member: Some(name.clone()), problem }));
        }
        if problems.is_empty() { Ok(headers) } else { Err(problems) }
    }

    /// Reads stored headers. Names that have since been reserved stay valid, so that no delivery is lost.
    pub(in crate::webhooks) fn stored<'a>(stored: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        stored.map(|(name, value)| Some((name_of(name)?, value_of(value).ok()?))).collect::<Option<_>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The names with the secret values.
    pub fn reveal(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Masks header values at the beginning of a receiver's response. A word from a value is masked if it is at least
    /// as long as the mask. Shorter words are unlikely to be secrets, and would match too often.
    pub fn mask(&self, answer: String) -> String {
        let mut words: Vec<_> = self.0.values().flat_map(|value| value.split(' ')).collect();
        words.retain(|word| word.len() >= MASK.len());
        // Longer words are masked first, because a word may be part of another word.
        words.sort_unstable_by_key(|word| std::cmp::Reverse(word.len()));
        // The response may have been cut off within a word.
        let cut = |word: &&str| {
            let beginnings = (MASK.len()..=word.len()).rev().filter_map(|end| word.get(..end));
            beginnings.into_iter().find(|beginning| answer.ends_with(beginning)).map(str::len)
        };
        let cut = words.iter().filter_map(cut).max();
        let mut answer = answer;
        if let Some(length) = cut {
            answer.truncate(answer.len() - length);
            answer.push_str(MASK);
        }
        words.iter().fold(answer, |answer, word| answer.replace(word, MASK))
    }
}

/// Parses a token as defined by RFC 9110, and converts it to lower case.
fn name_of(text: &str) -> Option<String> {
    let is_in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = (1..=MAX_NAME_LENGTH).contains(&text.len()) && text.bytes().all(is_in_token);
    is_name.then(|| text.to_ascii_lowercase())
}

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn not_a_text() -> Vec<Problem> {
    vec![Problem { code: IssueCode::InvalidType, message: "Must be a string".to_owned() }]
}

/// Accepts visible ASCII characters, with spaces only between them, as in `Bearer x`. Receivers treat other whitespace
/// differently.
fn value_of(text: &str) -> Result<Zeroizing<String>, Vec<Problem>> {
    let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 1, MAX_VALUE_LENGTH));
    let is_fine = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if !is_fine || text.starts_with(' ') || text.ends_with(' ') {
        problems.push(Problem::format("Must be visible ASCII characters, with spaces only between them"));
    }
    if problems.is_empty() { Ok(Zeroizing::new(text.to_owned())) } else { Err(problems) }
}

/// Prints only the names.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Headers").field(&self.names().collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(name: &str, value: &str) -> Result<Headers, Vec<MemberProblem>> {
        Headers::parse(&[(name, Some(value))])
    }

    fn issues(problems: Vec<MemberProblem>) -> Vec<(Option<String>, IssueCode)> {
        problems.into_iter().map(|found| (found.member, found.problem.code)).collect()
    }

    #[test]
    fn names_are_tokens_of_1_to_64_characters_and_sorted() {
        let headers = Headers::parse(&[("X-Tenant", Some("b")), ("Authorization", Some("Bearer a"))]).expect("headers");
        assert_eq!(headers.reveal().collect::<Vec<_>>(), [("authorization", "Bearer a"), ("x-tenant", "b")]);
        for good in ["a", "!#$%&'*+-.^_`|~09", &"x".repeat(64), "x-api-key", "cookies", "hosts", "tea", "x-webhooks"] {
            assert!(one(good, "v").is_ok(), "{good}");
        }
        for bad in ["", " a", "a ", "a b", "a:", "a\r\nb", "ä", "(a)", "a/b", "\"a\"", "\0", &"x".repeat(65)] {
            assert_eq!(issues(one(bad, "v").expect_err(bad)), [(None, IssueCode::InvalidFormat)], "{bad}");
        }
    }

    #[test]
    fn reserved_names_are_refused_in_any_case() {
        let families = ["content-length", "content-type", "content-x", "proxy-connection", "proxy-authorization"];
        let ours = ["webhook-id", "webhook-x", "x-webhook-signature", "x-webhook-x", "x-event-type", "x-event-time"];
        for name in RESERVED.into_iter().chain(families).chain(ours) {
            for spelling in [name.to_owned(), name.to_uppercase()] {
                let found = issues(one(&spelling, "v").expect_err(name));
                assert_eq!(found, [(Some(name.to_owned()), IssueCode::InvalidFormat)]);
            }
        }
    }

    #[test]
    fn values_are_1_to_1024_visible_ascii_characters_or_spaces() {
        for good in ["x", "Bearer x", "a  b", "!~", &"x".repeat(1024)] {
            assert_eq!(one("a", good).expect(good).reveal().collect::<Vec<_>>(), [("a", good)]);
        }
        for (bad, codes) in [
            ("", vec![IssueCode::TooSmall]),
            (&"x".repeat(1025), vec![IssueCode::TooBig]),
            (" ", vec![IssueCode::InvalidFormat]),
            (" x", vec![IssueCode::InvalidFormat]),
            ("x ", vec![IssueCode::InvalidFormat]),
            ("x\ty", vec![IssueCode::InvalidFormat]),
            ("x\r\nhost: y", vec![IssueCode::InvalidFormat]),
            ("x\0", vec![IssueCode::InvalidFormat]),
            ("ß", vec![IssueCode::InvalidFormat]),
            ("\u{7f}", vec![IssueCode::InvalidFormat]),
        ] {
            let found = one("A", bad).expect_err("a bad value");
            assert_eq!(issues(found), codes.into_iter().map(|code| (Some("a".to_owned()), code)).collect::<Vec<_>>());
        }
        assert_eq!(
            issues(Headers::parse(&[("a", None)]).expect_err("no text")),
            [(Some("a".to_owned()), IssueCode::InvalidType)]
        );
    }

    #[test]
    fn there_are_up_to_ten_each_once() {
        let names: Vec<_> = (0..11).map(|number| format!("n{number}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), Some("v"))).collect();
        assert_eq!(Headers::parse(&all[..10]).expect("ten").names().count(), 10);
        assert_eq!(issues(Headers::parse(&all).expect_err("eleven")), [(None, IssueCode::TooBig)]);
        for other in ["A", "a"] {
            let twice = Headers::parse(&[("a", Some("v")), (other, Some("w"))]).expect_err("twice");
            assert_eq!(issues(twice), [(Some("a".to_owned()), IssueCode::InvalidFormat)]);
        }
        assert!(Headers::parse(&[]).expect("none").is_empty());
    }

    #[test]
    fn a_value_in_a_response_is_masked_even_if_truncated() {
        let headers = Headers::parse(&[("authorization", Some("Bearer canary-and-more")), ("x", Some("canary-a"))]);
        let headers = headers.expect("headers");
        for (answer, masked) in [
            ("got Bearer canary-and-more.", "got Bearer [secret]."),
            ("canary-and-morecanary-a", "[secret][secret]"),
            ("cut off: Bearer canary-and", "cut off: Bearer [secret]"),
            ("cut off: canary-and-more canary-a", "cut off: [secret] [secret]"),
            ("too short: canary-", "too short: canary-"),
            ("nothing ß", "nothing ß"),
            ("", ""),
        ] {
            assert_eq!(headers.mask(answer.to_owned()), masked);
        }
        assert_eq!(Headers::default().mask("as it is".to_owned()), "as it is");
    }

    #[test]
    fn it_is_printed_without_its_values() {
        assert_eq!(format!("{:?}", one("A", "canary").expect("a header")), r#"Headers(["a"])"#);
    }

    proptest! {
        #[test]
        fn accepted_headers_are_valid_for_the_http_client(name in "[ -~]{0,4}|\\PC{0,3}", value in "\\PC{0,5}|[\0-\u{ff}]{0,3}") {
            if let Ok(headers) = one(&name, &value) {
                for (name, value) in headers.reveal() {
                    prop_assert!(hyper::header::HeaderName::from_lowercase(name.as_bytes()).is_ok());
                    prop_assert!(hyper::header::HeaderValue::from_str(value).is_ok());
                }
            }
        }

        #[test]
        fn problems_do_not_reveal_values(value in "canary\\PC{1,9}[\0-\u{1f}]?") {
            if let Err(problems) = Headers::parse(&[(&value, Some(&value)), ("host", Some(&value)), ("a", Some(&value))]) {
                let said = format!("{problems:?}");
                prop_assert!(!said.contains("canary"), "{}", said);
            }
        }
    }
}
