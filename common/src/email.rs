//! Email addresses.

use std::fmt;

use serde::Serialize;

use crate::issue::Problem;

/// An email address: trimmed, one `@` with something on both sides, at most 254 characters (RFC 3696 erratum
/// 1690), no blanks or control characters, and none of the characters with which RFC 5322 says more than an
/// address: `Jo <jo@example.com>` would be a second name for one mailbox. Kept and compared lower-cased: whoever
/// owns `Jo@example.com` also reads `jo@example.com`, and two accounts for one mailbox help nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Email(String);

impl Email {
    /// Trims, checks and lower-cases.
    ///
    /// # Errors
    /// Every rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let email = text.trim().to_lowercase();
        let mut problems = Vec::from_iter(Problem::length(email.chars().count(), 0, 254));
        let sides: Vec<&str> = email.split('@').collect();
        let has_two_sides = matches!(sides[..], [local, domain] if !local.is_empty() && !domain.is_empty());
        let says_more = |c: char| c.is_whitespace() || c.is_control() || r#"<>()[],;:"\"#.contains(c);
        if !has_two_sides || email.chars().any(says_more) {
            problems.push(Problem::format("Must be an email address"));
        }
        if problems.is_empty() { Ok(Self(email)) } else { Err(problems) }
    }

    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_trimmed_and_lower_cased() {
        assert_eq!(Email::parse(" Jo@Example.COM\n").expect("an address").as_str(), "jo@example.com");
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        let long = format!("{}@example.com", "a".repeat(250));
        for text in [
            "",
            "@",
            "jo",
            "jo@",
            "@example.com",
            "a@b@c",
            "a b@c",
            "a@b\r\nBcc: x@y",
            "jo<jo@example.com>",
            "a,b@c",
            "\"a\"@b",
            &long,
        ] {
            assert!(Email::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_what_was_parsed_changes_nothing(text in any::<String>()) {
            if let Ok(email) = Email::parse(&text) {
                prop_assert_eq!(Email::parse(email.as_str()), Ok(email));
            }
        }
    }
}
