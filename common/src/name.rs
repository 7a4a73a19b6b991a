//! Text chosen by users and operators: names, slugs and descriptions.

use std::{fmt, str::FromStr};

use serde::Serialize;
use text::{is_control, is_direction, is_visible};

use crate::{
    config::{ConfigError, Env},
    issue::Problem,
};

/// The display name of a person, an organization or a key: trimmed, 1 to 100 characters, at least one of them visible,
/// without characters that break lines or change the direction of the surrounding text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// Trims and validates `text`.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let name = text.trim();
        let mut problems = Vec::from_iter(Problem::length(name.chars().count(), 1, 100));
        if name.chars().any(is_control) {
            problems.push(Problem::format("Must not contain control characters"));
        }
        if name.chars().any(is_direction) {
            problems.push(Problem::format("Must not contain characters that change the direction of text"));
        }
        if !name.is_empty() && !name.chars().any(is_visible) {
            problems.push(Problem::format("Must have at least one visible character"));
        }
        if problems.is_empty() { Ok(Self(name.to_owned())) } else { Err(problems) }
    }

    /// Reads a stored name without validation: a rule added later must not lock users out of their accounts.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The service's name, chosen by its operator and shown above every page and in emails: 1 to 60 characters, at least
/// one of them visible, and none that needs escaping in an email header (RFC 5322, 3.2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName(String);

impl ServiceName {
    /// Reads the name from `SERVICE_NAME`.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        env.parsed("SERVICE_NAME")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServiceName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = Name::parse(text).is_ok_and(|name| name.as_str() == text) && text.chars().count() <= 60;
        if is_name && !text.contains(['"', '\\', '<', '>']) {
            Ok(Self(text.to_owned()))
        } else {
            Err("it must be a name of 1 to 60 characters, without quotes, backslashes or angle brackets")
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The unique name of an organization in URLs and commands: 2 to 60 of the characters `a-z`, `0-9` and `-`, not
/// starting or ending with `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Slug(String);

impl Slug {
    /// Validates `text`. Uppercase letters are rejected rather than silently changed.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 2, 60));
        if !text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-')) {
            problems.push(Problem::format("Must contain only lowercase letters, digits and hyphens"));
        }
        if text.starts_with('-') || text.ends_with('-') {
            problems.push(Problem::format("Must not start or end with a hyphen"));
        }
        if problems.is_empty() { Ok(Self(text.to_owned())) } else { Err(problems) }
    }

    /// Proposes a slug for an organization with this name: `analytical-engines` for "Analytical Engines". Returns `None`
    /// for a name with letters other than `a` to `z`, or with too few of them.
    pub fn proposed(name: &str) -> Option<Self> {
        // Combining marks are parts of letters.
        if name.chars().any(|c| !c.is_ascii() && !c.is_whitespace() && !is_general_punctuation(c)) {
            return None;
        }
        let name = name.to_ascii_lowercase();
        let words: Vec<_> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let words = words.join("-");
        Self::parse(words.get(..60).unwrap_or(&words).trim_end_matches('-')).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a character is in the Unicode block of dashes and quotation marks.
fn is_general_punctuation(character: char) -> bool {
    ('\u{2000}'..='\u{206f}').contains(&character)
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A description of a webhook endpoint: any text of at most 500 characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Description(String);

impl Description {
    /// Checks that `text` has at most 500 characters.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        match Problem::length(text.chars().count(), 0, 500) {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(vec![problem]),
        }
    }

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
    fn the_name_of_the_service_needs_no_escapes() {
        for good in ["Webhooks", "Bürger & Söhne", "a, b", "😀", &"x".repeat(60)] {
            assert_eq!(good.parse::<ServiceName>().expect(good).to_string(), good);
        }
        for bad in ["", " ", "a ", "\"a\"", "a\\b", "a <b@c.d>", "a\r\nBcc: b@c.d", "\u{202e}a", &"x".repeat(61)] {
            assert!(bad.parse::<ServiceName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_has_a_visible_character() {
        let invisible = [
            "\u{ad}",
            "\u{34f}",
            "\u{115f}",
            "\u{1160}",
            "\u{17b4}",
            "\u{180b}",
            "\u{180e}",
            "\u{200b}",
            "\u{200d}",
            "\u{2060}",
            "\u{2064}",
            "\u{2800}",
            "\u{3164}",
            "\u{fe0f}",
            "\u{feff}",
            "\u{ffa0}",
            "\u{fff9}",
            "\u{e0020}",
            "\u{e0100}",
            "\u{301}",
            "\u{200b} \u{2800}",
        ];
        for name in invisible {
            let problems = Name::parse(name).expect_err("a name without visible characters");
            assert_eq!(problems, [Problem::format("Must have at least one visible character")], "{name:?}");
            assert!(Name::parse(&format!("a{name}")).is_ok(), "{name:?}");
        }
        for name in
            ["!", "7", "ʻ", "👩\u{200d}🚀", "❤\u{fe0f}", "क\u{94d}\u{200d}ष", "한글", "שלום", "🏴\u{e0067}\u{e007f}"]
        {
            assert_eq!(Name::parse(name).expect(name).as_str(), name);
        }
    }

    #[test]
    fn a_name_keeps_to_its_line_and_direction() {
        let controls = ["\0", "\t", "\n", "\r", "\u{7f}", "\u{85}", "\u{2028}", "\u{2029}"];
        for control in controls {
            let problems = Name::parse(&format!("a{control}b")).expect_err("a control character");
            assert_eq!(problems, [Problem::format("Must not contain control characters")], "{control:?}");
        }
        let directions = ['\u{61c}', '\u{200e}', '\u{200f}'].into_iter();
        for control in directions.chain('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            let problems = Name::parse(&format!("a{control}b")).expect_err("a name with a change of direction");
            assert_eq!(problems.len(), 1, "{control:?}");
            assert!(problems[0].message.contains("direction"), "{control:?}");
        }
    }

    #[test]
    fn every_rule_that_a_slug_breaks_is_reported() {
        let codes = |text| Slug::parse(text).expect_err("not a slug").into_iter().map(|p| p.code).collect::<Vec<_>>();
        assert_eq!(codes("A"), [IssueCode::TooSmall, IssueCode::InvalidFormat]);
        assert_eq!(codes("-A-"), [IssueCode::InvalidFormat, IssueCode::InvalidFormat]);
        assert_eq!(codes(&"-".repeat(61)), [IssueCode::TooBig, IssueCode::InvalidFormat]);
    }

    #[test]
    fn a_slug_is_proposed_from_a_name_of_ascii_letters() {
        let proposed = |name: &str| Slug::proposed(name).map(|slug| slug.to_string());
        assert_eq!(proposed("Analytical Engines, Ltd."), Some("analytical-engines-ltd".to_owned()));
        assert_eq!(proposed(" --Doe & Co-- "), Some("doe-co".to_owned()));
        assert_eq!(proposed("Doe\u{2019}s\u{a0}Jobs"), Some("doe-s-jobs".to_owned()));
        for unusable in ["", "A", "&", "Café Noir", "zu\u{308}rich", "İstanbul", "5²", "東京"] {
            assert_eq!(proposed(unusable), None, "{unusable}");
        }
        assert_eq!(proposed(&"ab ".repeat(30)).map(|slug| slug.len()), Some(59));
    }

    proptest! {
        #[test]
        fn a_proposed_slug_is_valid(name in any::<String>()) {
            let proposed = Slug::proposed(&name);
            prop_assert!(proposed.is_none_or(|slug| Slug::parse(slug.as_str()).is_ok()));
        }

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
