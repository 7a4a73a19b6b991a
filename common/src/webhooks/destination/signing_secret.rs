//! The secret that a receiver shares with the service.

use std::fmt;

use base64::{
    Engine, alphabet,
    engine::{
        GeneralPurpose,
        general_purpose::{NO_PAD, STANDARD},
    },
};
use text::is_visible;
use zeroize::Zeroizing;

use crate::{
    issue::{IssueCode, Problem},
    random,
};

/// Marks a string as a webhook secret. The prefix is not part of the key.
pub(in crate::webhooks) const PREFIX: &str = "whsec_";

/// The minimum number of visible characters in a secret that a person types. 16 random letters and digits have 95 bits
/// of entropy.
const MIN_TYPED_LENGTH: usize = 16;

/// A signing secret of 1 to 256 characters, not blank. Its UTF-8 bytes are one HMAC key; the bytes that Standard
/// Webhooks libraries decode from it can be another.
#[derive(Clone)]
pub struct SigningSecret(Zeroizing<String>);

/// A property of a secret that makes it unsafe or impractical. Programs may choose such a secret, people may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// It begins or ends with white space or an invisible character, as pasted text often does. The receiver's copy is
    /// then a different key, and no library can decode it as base64.
    Padded,
    /// It decodes to an empty key. Some libraries accept an empty key, and anyone can sign with it.
    EmptyKey,
    /// It has fewer than 16 visible characters after the prefix. Anyone who sees one delivery can try short secrets
    /// until one gives the same signature.
    Short,
}

impl Flaw {
    fn problem(self) -> Problem {
        match self {
            Self::Padded => Problem::format("Must not begin or end with white space or invisible characters"),
            Self::EmptyKey => Problem::format("Must not decode to an empty key"),
            Self::Short => {
                let message =
                    format!("Must have at least {MIN_TYPED_LENGTH} visible characters, not counting {PREFIX}");
                Problem { code: IssueCode::TooSmall, message }
            }
        }
    }
}

impl fmt::Display for Flaw {
    /// Writes the predicate of a sentence about the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Padded => f.write_str("begins or ends with white space or an invisible character"),
            Self::EmptyKey => f.write_str("decodes to an empty key, which anyone can sign with"),
            Self::Short => write!(f, "has fewer than {MIN_TYPED_LENGTH} visible characters, so it can be guessed"),
        }
    }
}

impl SigningSecret {
    /// Validates a secret.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 1, 256));
        if !text.is_empty() && text.trim().is_empty() {
            problems.push(Problem::format("Must not be blank"));
        }
        if problems.is_empty() { Ok(Self(Zeroizing::new(text.to_owned()))) } else { Err(problems) }
    }

    /// Validates a secret that a person types, which must have no flaw.
    pub fn parse_typed(text: &str) -> Result<Self, Vec<Problem>> {
        let secret = Self::parse(text)?;
        let problems: Vec<_> = secret.flaws().map(Flaw::problem).collect();
        if problems.is_empty() { Ok(secret) } else { Err(problems) }
    }

    fn flaws(&self) -> impl Iterator<Item = Flaw> + use<> {
        let text = self.0.as_str();
        let is_padded = !text.starts_with(is_visible) || !text.ends_with(is_visible);
        let own = text.strip_prefix(PREFIX).unwrap_or(text);
        let is_short = own.chars().filter(|c| is_visible(*c)).count() < MIN_TYPED_LENGTH;
        let weak = if self.is_empty_key() { Some(Flaw::EmptyKey) } else { is_short.then_some(Flaw::Short) };
        is_padded.then_some(Flaw::Padded).into_iter().chain(weak)
    }

    /// The flaws of the secret, as the predicate of a sentence about it; `None` if it has none.
    pub fn flawed(&self) -> Option<String> {
        let flaws: Vec<_> = self.flaws().map(|flaw| flaw.to_string()).collect();
        (!flaws.is_empty()).then(|| flaws.join(", and "))
    }

    /// Adds the secret's flaws to the message about a change.
    pub fn remark(&self, done: &str) -> String {
        self.flawed().map_or_else(|| done.to_owned(), |flawed| format!("{done}. The secret {flawed}"))
    }

    /// Whether base64 decoders decode the secret to an empty key. Without the prefix, the secret may not be meant as
    /// base64, so the key counts as empty only if decoders skip every character.
    fn is_empty_key(&self) -> bool {
        match self.0.strip_prefix(PREFIX) {
            Some(text) => text.matches(is_symbol).count() < 2,
            None => self.0.is_ascii() && !self.0.contains(is_symbol),
        }
    }

    /// Generates a secret in a form that every Standard Webhooks library accepts.
    pub fn generate() -> Self {
        let key = Zeroizing::new(random::bytes::<32>());
        Self(Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(key.as_slice()))))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the secret in a form that every Standard Webhooks library accepts: unchanged, or with its bytes encoded.
    /// Each delivery is signed with both keys.
    pub fn for_libraries(&self) -> Zeroizing<String> {
        let key = self.0.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok()).filter(|key| !key.is_empty());
        match key {
            Some(_) => self.0.clone(),
            None => Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(self.0.as_bytes()))),
        }
    }

    /// The key that Standard Webhooks libraries decode from the secret as base64, if they accept it. The npm packages
    /// `standardwebhooks` and `svix` decode differently from the PyPI packages with the same names, but a string that
    /// both accept gives the same key. The key is shorter than the secret, so it never equals the secret's bytes.
    pub(in crate::webhooks) fn decoded(&self) -> Option<Zeroizing<Vec<u8>>> {
        let text = self.0.strip_prefix(PREFIX).unwrap_or(&self.0);
        decoded_by_npm(text).or_else(|| decoded_by_pypi(text))
    }
}

/// npm: padding is optional. A single last character after complete groups is dropped, even if it is not base64.
/// Lengths are in UTF-16 units.
fn decoded_by_npm(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let symbols = text.trim_end_matches('=');
    let (length, padding) = (symbols.encode_utf16().count(), text.len() - symbols.len());
    if padding > 2 || length + padding < 4 {
        return None;
    }
    let mut symbols = symbols.chars();
    if length % 4 == 1 {
        // npm drops only the second half of a surrogate pair, and the first half is not base64.
        symbols.next_back().filter(|last| last.len_utf16() == 1)?;
    }
    decode(symbols.as_str())
}

/// PyPI: characters outside the alphabet are skipped, and decoding ends at the padding that completes a group.
fn decoded_by_pypi(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if !text.is_ascii() {
        return None;
    }
    let (mut symbols, mut padding) = (Zeroizing::new(String::with_capacity(text.len())), 0);
    for character in text.chars() {
        if is_symbol(character) {
            symbols.push(character);
            padding = 0;
        } else if character == '=' {
            padding += 1;
        }
        let in_group = symbols.len() % 4;
        if in_group >= 2 && in_group + padding >= 4 {
            break;
        }
    }
    decode(&symbols)
}

/// Whether a character is in the base64 alphabet, which excludes padding.
fn is_symbol(character: char) -> bool {
    matches!(character, 'A'..='Z' | 'a'..='z' | '0'..='9' | '+' | '/')
}

/// Decodes without padding, and ignores bits after the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

/// No library accepts an empty key.
fn decode(symbols: &str) -> Option<Zeroizing<Vec<u8>>> {
    BASE64.decode(symbols).ok().filter(|key| !key.is_empty()).map(Zeroizing::new)
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The key that a library decodes from this form is one of the signing keys: the key decoded from the secret,
        /// or the secret's bytes.
        #[test]
        fn the_form_for_libraries_is_base64_of_a_key_that_signs(text in "(whsec_)?[a-zA-Z0-9+/=ß ]{1,40}") {
            let Ok(secret) = SigningSecret::parse_typed(&text) else { return Ok(()) };
            let form = secret.for_libraries();
            let key = STANDARD.decode(form.strip_prefix(PREFIX).expect("the prefix")).expect("base64");
            prop_assert!(!key.is_empty());
            prop_assert!(key == text.as_bytes() || secret.decoded().is_some_and(|decoded| *decoded == key));
        }
    }

    #[test]
    fn a_secret_has_1_to_256_characters_and_is_not_blank() {
        for good in ["x", " x ", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &"ß".repeat(256)] {
            assert_eq!(SigningSecret::parse(good).expect("a secret").reveal(), good);
        }
        for bad in ["", " ", "\t\n", &"ß".repeat(257)] {
            assert!(SigningSecret::parse(bad).is_err(), "{bad:?}");
        }
    }

    /// PyPI `standardwebhooks` 1.1.0 decodes these secrets to an empty key or rejects them: nothing after the prefix, a
    /// single symbol, and non-ASCII characters.
    #[test]
    fn a_typed_secret_does_not_decode_to_an_empty_key() {
        for nothing in [
            "whsec_",
            "whsec_=",
            "whsec_====",
            "whsec_ \n",
            "whsec_-_",
            "whsec_a",
            "whsec_a===",
            "whsec_p\u{e4}",
            "====",
            "-",
            "!!!!",
            "_",
        ] {
            let problems = SigningSecret::parse_typed(nothing).expect_err(nothing);
            assert!(problems.contains(&Problem::format("Must not decode to an empty key")), "{nothing:?}");
            assert!(SigningSecret::parse(nothing).is_ok(), "it may be stored: {nothing:?}");
        }
        assert_eq!(SigningSecret::parse_typed(" ").expect_err("blank").len(), 1);
    }

    #[test]
    fn a_typed_secret_has_16_visible_characters() {
        let visible = "Must have at least 16 visible characters, not counting whsec_";
        for short in [
            "s",
            "five5",
            "whsec_whsec_",
            "whsec_123456789012345",
            "fifteen-letters",
            "1234567 12345678",
            "a\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}z",
            "p\u{e4}ssword",
        ] {
            let problems = SigningSecret::parse_typed(short).expect_err(short);
            assert_eq!(problems, [Problem { code: IssueCode::TooSmall, message: visible.to_owned() }], "{short:?}");
            assert!(SigningSecret::parse(short).is_ok(), "it may be stored: {short:?}");
        }
        for good in [
            "sixteen--letters",
            "correct horse battery",
            "whsec_1234567890123456",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "ein gro\u{df}es Gl\u{fc}ck, sag ich",
            "\u{5bc6}\u{7801}\u{5bc6}\u{7801}\u{5bc6}\u{7801}\u{5bc6}\u{7801}\u{5bc6}\u{7801}\u{5bc6}\u{7801}\u{5bc6}\u{7801}\u{5bc6}\u{7801}",
        ] {
            assert_eq!(SigningSecret::parse_typed(good).expect(good).reveal(), good);
        }
    }

    #[test]
    fn white_space_around_a_typed_secret_is_refused_by_name() {
        for around in [" ", "\n", "\r\n", "\t", "\u{a0}", "\u{3000}", "\u{feff}", "\u{200b}", "\u{0}", "\u{2028}"] {
            for text in [format!("{around}correct-horse-battery"), format!("correct-horse-battery{around}")] {
                let problems = SigningSecret::parse_typed(&text).expect_err("white space");
                let refused = Problem::format("Must not begin or end with white space or invisible characters");
                assert_eq!(problems, [refused], "{text:?}");
                assert!(SigningSecret::parse(&text).is_ok(), "it may be stored: {text:?}");
            }
        }
        assert_eq!(SigningSecret::parse_typed(" short").expect_err("two rules").len(), 2);
    }

    #[test]
    fn the_message_about_a_change_names_the_flaws() {
        let remark = |text| SigningSecret::parse(text).expect("a secret").remark("Saved");
        assert_eq!(remark("correct-horse-battery"), "Saved");
        assert_eq!(remark("s"), "Saved. The secret has fewer than 16 visible characters, so it can be guessed");
        let both = "Saved. The secret begins or ends with white space or an invisible character, and decodes to an \
                    empty key, which anyone can sign with";
        assert_eq!(remark("whsec_ "), both);
    }

    fn decoded(text: &str) -> Option<Vec<u8>> {
        SigningSecret::parse(text).expect("a secret").decoded().map(|key| key.to_vec())
    }

    /// Results of npm `standardwebhooks` 1.1.1 and `svix` 2.5.0, and PyPI `standardwebhooks` 1.1.0 and `svix` 2.9.1.
    #[test]
    fn the_decoded_key_is_that_of_the_libraries() {
        for (text, key) in [
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some("31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0")),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some("31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0")),
            ("secret", Some("b1e72b7a")),
            ("c2VjcmV0MQ==", Some("73656372657431")),
            ("c2VjcmV0MQ", Some("73656372657431")),
            ("c2VjcmV0MR=", Some("73656372657431")),
            // Only npm accepts these, and drops a single last character.
            ("abcde", Some("69b71d")),
            ("abcd\u{e9}", Some("69b71d")),
            // Only PyPI accepts these: they are too short or have too much padding for npm, or PyPI skips characters.
            ("ab", Some("69")),
            ("abcd===", Some("69b71d")),
            ("ab-cd", Some("69b71d")),
            ("abc=defg", Some("69b7")),
            ("ab=cd", Some("69b71d")),
            ("4e8f-a b_c\n", Some("e1ef1f69b7")),
            // No library accepts these.
            ("a", None),
            ("whsec_", None),
            ("====", None),
            ("correct-horse-battery-staple", None),
            ("p\u{e4}ssword", None),
            ("abcd\u{1f980}", None),
            ("abc\u{1f980}", None),
        ] {
            assert_eq!(decoded(text).map(hex::encode).as_deref(), key, "{text:?}");
        }
    }

    #[test]
    fn a_generated_secret_is_base64_of_32_new_random_bytes() {
        let secret = SigningSecret::generate();
        assert!(secret.reveal().starts_with("whsec_") && SigningSecret::parse(secret.reveal()).is_ok());
        assert_eq!(secret.decoded().map(|key| key.len()), Some(32));
        assert_ne!(secret.reveal(), SigningSecret::generate().reveal());
    }

    proptest! {
        #[test]
        fn a_text_that_npm_and_pypi_accept_is_one_key(text in "[a-f+/=!\\-\u{e9}]{1,13}") {
            if let (Some(npm), Some(pypi)) = (decoded_by_npm(&text), decoded_by_pypi(&text)) {
                prop_assert_eq!(npm, pypi);
            }
        }

        #[test]
        fn a_key_in_any_usual_base64_is_decoded(key in prop::collection::vec(any::<u8>(), 3..190), prefixed: bool) {
            use base64::engine::general_purpose::STANDARD_NO_PAD;
            for text in [STANDARD.encode(&key), STANDARD_NO_PAD.encode(&key)] {
                let text = if prefixed { format!("whsec_{text}") } else { text };
                prop_assume!(text.len() <= 256);
                prop_assert_eq!(decoded(&text), Some(key.clone()));
            }
        }

        #[test]
        fn a_decoded_key_is_not_empty(text in "(whsec_)?[a-c+/=!\\-\u{e9}]{1,6}") {
            if decoded(&text).is_some() {
                prop_assert!(!SigningSecret::parse(&text).expect("a secret").is_empty_key());
            }
        }

        #[test]
        fn no_text_panics(text in ".{1,256}") {
            let _decoded = SigningSecret::parse(&text).map(|secret| secret.decoded());
        }
    }

    #[test]
    fn it_is_not_printed() {
        assert_eq!(format!("{:?}", SigningSecret::parse("canary").expect("a secret")), "SigningSecret(redacted)");
    }
}
