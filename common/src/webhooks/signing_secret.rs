//! The secret that a tenant's receiver shares with us.

use std::fmt;

use zeroize::Zeroizing;

use crate::issue::Problem;

/// 1 to 256 characters, not blank. Its UTF-8 bytes are the HMAC key, whatever they look like: a `whsec_` prefix is not
/// removed and base64 is not decoded.
#[derive(Clone)]
pub struct SigningSecret(Zeroizing<String>);

impl SigningSecret {
    /// Validates.
    ///
    /// # Errors
    /// Every rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 1, 256));
        if !text.is_empty() && text.trim().is_empty() {
            problems.push(Problem::format("Must not be blank"));
        }
        if problems.is_empty() { Ok(Self(Zeroizing::new(text.to_owned()))) } else { Err(problems) }
    }

    /// The secret itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_1_to_256_characters_and_is_not_blank() {
        for good in ["x", " x ", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &"ß".repeat(256)] {
            assert_eq!(SigningSecret::parse(good).expect("a secret").reveal(), good);
        }
        for bad in ["", " ", "\t\n", &"ß".repeat(257)] {
            assert!(SigningSecret::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn it_is_not_printed() {
        assert_eq!(format!("{:?}", SigningSecret::parse("canary").expect("a secret")), "SigningSecret(redacted)");
    }
}
