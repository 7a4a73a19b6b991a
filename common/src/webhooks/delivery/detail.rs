//! Human-readable details of a failed attempt.

use std::borrow::Cow;

/// The cause of a failure, as a sentence without a period. It may contain text from a receiver, so it is limited to 240
/// printable ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail(Cow<'static, str>);

/// The maximum length of a detail, which is stored with each attempt.
const MAX_BYTES: usize = 240;

impl Detail {
    /// Builds a detail. Characters other than printable ASCII become `?`, and long input is cut off.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let is_printable = |char: char| matches!(char, ' '..='~');
        if text.len() <= MAX_BYTES && text.chars().all(is_printable) {
            return Self(text);
        }
        let mut printable: String = text.chars().map(|char| if is_printable(char) { char } else { '?' }).collect();
        if printable.len() > MAX_BYTES {
            printable.truncate(MAX_BYTES - "...".len());
            printable.push_str("...");
        }
        Self(printable.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_printable_and_bounded() {
        for (text, shown) in [
            ("The connection was refused", "The connection was refused".to_owned()),
            ("a\r\nb\u{1b}[2J\u{202e}c\u{fc}", "a??b?[2J?c?".to_owned()),
            (&"x".repeat(240), "x".repeat(240)),
            (&"x".repeat(241), format!("{}...", "x".repeat(237))),
            (&"\u{1f600}".repeat(9_999), format!("{}...", "?".repeat(237))),
        ] {
            assert_eq!(Detail::new(text.to_owned()).as_str(), shown);
        }
    }
}
