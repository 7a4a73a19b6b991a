//! Email addresses in canonical form, so that each mailbox has only one account.

use std::fmt;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::Serialize;

use crate::issue::Problem;

/// RFC 5321, 4.5.3.1.1.
const MAX_LOCAL_LENGTH: usize = 64;
/// RFC 3696, erratum 1690.
const MAX_LENGTH: usize = 254;
/// In bytes. Longer input is rejected without parsing, because the cost of IDNA grows faster than the length of its
/// input. (IDNA can also shorten the input, so this limit is far above the final one.)
const MAX_GIVEN: usize = 2000;

/// A deliverable email address in canonical form: an ASCII local part without quotes (SES does not accept any other)
/// and a dotted domain in its ASCII form, both lower-case. In practice `Jo@example.com` and `jo@example.com` are the
/// same mailbox, which should have only one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct EmailAddress(String);

impl EmailAddress {
    /// Trims, validates and canonicalizes `text`.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let text = text.trim();
        if text.len() > MAX_GIVEN {
            return Err(vec![Problem::format("Must be an email address")]);
        }
        let Some(email) = one_spelling(text) else {
            let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 0, MAX_LENGTH));
            problems.push(Problem::format("Must be an email address"));
            return Err(problems);
        };
        match Problem::length(email.len(), 0, MAX_LENGTH) {
            None => Ok(Self(email)),
            Some(problem) => Err(vec![problem]),
        }
    }

    /// Reads a stored address without validation: a rule added later must not lock users out of their accounts.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The canonical address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the canonical form of `text`, if it is an address.
fn one_spelling(text: &str) -> Option<String> {
    let (local, domain) = text.split_once('@')?;
    if !is_local_part(local) {
        return None;
    }
    let domain = Uts46::new().to_ascii(
        domain.as_bytes(),
        AsciiDenyList::STD3,
        Hyphens::CheckFirstLast,
        DnsLength::VerifyAllowRootDot,
    );
    let domain = domain.ok()?;
    let domain = domain.strip_suffix('.').unwrap_or(&domain);
    // A last label that starts with a digit is part of an IPv4 address (RFC 3696, 2) or invalid.
    let (_, top_level) = domain.rsplit_once('.')?;
    if !top_level.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    Some(format!("{}@{domain}", local.to_ascii_lowercase()))
}

/// Whether `text` is a dot-atom of RFC 5322, 3.2.3.
fn is_local_part(text: &str) -> bool {
    let is_atom_text = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let is_atom = |atom: &str| !atom.is_empty() && atom.chars().all(is_atom_text);
    text.len() <= MAX_LOCAL_LENGTH && text.split('.').all(is_atom)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::issue::IssueCode;

    #[test]
    fn one_mailbox_has_one_spelling() {
        for (text, email) in [
            (" Jo@Example.COM\n", "jo@example.com"),
            ("jo@example.com.", "jo@example.com"),
            ("o'neil+news=a/b@sub.example.co.uk", "o'neil+news=a/b@sub.example.co.uk"),
            ("jo@MÜNCHEN.example", "jo@xn--mnchen-3ya.example"),
            ("jo@mu\u{308}nchen。example．", "jo@xn--mnchen-3ya.example"),
            ("jo@ｅxample.com", "jo@example.com"),
            ("jo@exam\u{ad}ple.com", "jo@example.com"),
            ("jo@straße.example", "jo@xn--strae-oqa.example"),
            ("jo@XN--STRAE-OQA.example", "jo@xn--strae-oqa.example"),
            ("jo@r3---sn.example.com", "jo@r3---sn.example.com"),
            ("jo@1.example.xn--p1ai", "jo@1.example.xn--p1ai"),
        ] {
            assert_eq!(EmailAddress::parse(text).expect(text).as_str(), email);
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        let (long_local, long_label) =
            (format!("{}@example.com", "a".repeat(65)), format!("jo@{}.com", "a".repeat(64)));
        for text in [
            "",
            "@",
            ".@.",
            "jo",
            "jo@",
            "@example.com",
            "a@b@example.com",
            "a b@example.com",
            "a@example.com\r\nBcc: x@example.com",
            "jo<jo@example.com>",
            "a,b@example.com",
            "\"a\"@example.com",
            "ü@example.com",
            "jo\u{200b}@example.com",
            "ｊo@example.com",
            ".jo@example.com",
            "jo.@example.com",
            "jo..jo@example.com",
            "jo@localhost",
            "jo@localhost.",
            "jo@127.0.0.1",
            "jo@1.2.3.0x4",
            "jo@[127.0.0.1]",
            "jo@example..com",
            "jo@.example.com",
            "jo@example.com..",
            "jo@-example.com",
            "jo@example-.com",
            "jo@exa_mple.com",
            "jo@exa mple.com",
            "jo@exam%70le.com",
            "jo@xn--a.com",
            "jo@a\u{200d}b.com",
            "jo@\u{202e}example.com",
            &long_local,
            &long_label,
        ] {
            let problems = EmailAddress::parse(text).expect_err(text);
            assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), [IssueCode::InvalidFormat]);
        }
    }

    #[test]
    fn the_length_limit_applies_to_the_canonical_form() {
        let address = |last: usize| {
            let [local, label, last] = [64, 63, last].map(|length| "a".repeat(length));
            format!("{local}@{label}.{label}.{last}")
        };
        assert_eq!(EmailAddress::parse(&address(61)).expect("short enough").as_str().len(), 254);
        assert_eq!(EmailAddress::parse(&address(62)).expect_err("too long")[..][0].code, IssueCode::TooBig);
        let shrinking = format!("jo@{}example.com", "\u{ad}".repeat(300));
        assert_eq!(
            EmailAddress::parse(&shrinking).expect("the address is kept without them").as_str(),
            "jo@example.com"
        );
        // The ASCII form of a label with 63 of these characters exceeds 63 characters.
        assert!(EmailAddress::parse(&format!("jo@{}.com", "ü".repeat(63))).is_err());
    }

    proptest! {
        #[test]
        fn parsing_is_idempotent(text in r"\PC{0,20}|[a-zA-Z.+]{1,5}@[a-zß-üA-Z0-9.。\-]{1,20}\.\PC{1,5}") {
            if let Ok(email) = EmailAddress::parse(&text) {
                prop_assert!(email.as_str().is_ascii() && email.as_str().len() <= MAX_LENGTH);
                prop_assert_eq!(EmailAddress::parse(email.as_str()), Ok(email));
            }
        }

        #[test]
        fn no_text_panics_the_parser(text in any::<String>()) {
            let _parsed = EmailAddress::parse(&text);
        }
    }
}
