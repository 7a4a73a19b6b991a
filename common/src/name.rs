//! What people call things: names, slugs, descriptions.

use std::fmt;

use serde::Serialize;

use crate::issue::Problem;

/// A person's or an organization's name: trimmed, 1 to 100 characters, no control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// Trims and checks.
    ///
    /// # Errors
    /// Every rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let name = text.trim();
        let mut problems = Vec::from_iter(Problem::length(name.chars().count(), 1, 100));
        if name.chars().any(char::is_control) {
            problems.push(Problem::format("Must not contain control characters"));
        }
        if problems.is_empty() { Ok(Self(name.to_owned())) } else { Err(problems) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What an organization is called in addresses and commands: 2 to 60 of `a-z 0-9 -`, first and last not `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Slug(String);

impl Slug {
    /// Checks; an upper-case letter is a problem like any other, never changed for the caller.
    ///
    /// # Errors
    /// Every rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 2, 60));
        if !text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-')) {
            problems.push(Problem::format("Must contain only lower-case letters, digits and hyphens"));
        }
        if text.starts_with('-') || text.ends_with('-') {
            problems.push(Problem::format("Must not start or end with a hyphen"));
        }
        if problems.is_empty() { Ok(Self(text.to_owned())) } else { Err(problems) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A free text of at most 500 characters about a webhook endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Description(String);

impl Description {
    /// Checks.
    ///
    /// # Errors
    /// It is too long.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        match Problem::length(text.chars().count(), 0, 500) {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(vec![problem]),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::issue::IssueCode;

    #[test]
    fn a_name_is_trimmed_and_counted_in_characters() {
        assert_eq!(Name::parse("  Zoë ").expect("a name").as_str(), "Zoë");
        assert!(Name::parse(&"ß".repeat(100)).is_ok());
        assert_eq!(Name::parse(&"ß".repeat(101)).expect_err("too long")[..][0].code, IssueCode::TooBig);
        assert_eq!(Name::parse(" \t ").expect_err("blank")[..][0].code, IssueCode::TooSmall);
        assert_eq!(Name::parse("a\u{7}b").expect_err("a bell")[..][0].code, IssueCode::InvalidFormat);
    }

    #[test]
    fn every_rule_that_a_slug_breaks_is_told() {
        let codes = |text| Slug::parse(text).expect_err("not a slug").into_iter().map(|p| p.code).collect::<Vec<_>>();
        assert_eq!(codes("A"), [IssueCode::TooSmall, IssueCode::InvalidFormat]);
        assert_eq!(codes("-A-"), [IssueCode::InvalidFormat, IssueCode::InvalidFormat]);
        assert_eq!(codes(&"-".repeat(61)), [IssueCode::TooBig, IssueCode::InvalidFormat]);
    }

    proptest! {
        #[test]
        fn a_slug_is_accepted_exactly_when_it_matches(text in "[a-zA-Z0-9_-]{0,70}|[a-z0-9-]{0,4}") {
            let bytes = text.as_bytes();
            let matches = (2..=60).contains(&bytes.len())
                && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
                && !text.starts_with('-') && !text.ends_with('-');
            prop_assert_eq!(Slug::parse(&text).is_ok(), matches);
        }

        #[test]
        fn no_text_panics_a_parser(text in any::<String>()) {
            let _parsed = (Name::parse(&text), Slug::parse(&text), Description::parse(&text));
        }
    }
}
