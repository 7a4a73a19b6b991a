//! Random bearer tokens for sessions, email verifications, password resets and browser logins.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{
    aws::dynamo::{Item, attributes, item, text},
    random,
};

attributes! { pub(crate)
    // The attributes of every item in the tokens table.
    TOKEN_HASH = "token_hash",
    KIND = "kind", EXPIRES_AT = "expires_at",
}

pub(crate) fn token_key(hash: &SecretHash) -> Item {
    item([(TOKEN_HASH, text(hash.as_str()))])
}

const BYTES: usize = 32;

/// 32 random bytes in base64url. Only the holder sees the token; the table stores its [`SecretHash`].
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

impl Token {
    /// Generates a token from the operating system's randomness.
    pub fn generate() -> Self {
        Self(Zeroizing::new(URL_SAFE_NO_PAD.encode(Zeroizing::new(random::bytes::<BYTES>()))))
    }

    /// Accepts any well-formed string, whether or not the token exists.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
        (bytes.len() == BYTES).then(|| Self(Zeroizing::new(text.to_owned())))
    }

    /// The secret, for its holder. Must not be logged or stored.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The hash that the token is stored under.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.reveal())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(redacted)")
    }
}

/// The SHA-256 of a random secret, in base64url. A leaked table is safe without a slow hash, because 256 random bits
/// cannot be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretHash(String);

impl SecretHash {
    pub(crate) fn of(secret: &str) -> Self {
        Self(URL_SAFE_NO_PAD.encode(Sha256::digest(secret)))
    }

    /// Wraps a hash that was read from the table.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The hash, as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_well_formed_and_not_printed() {
        let token = Token::generate();
        assert_eq!(token.reveal().len(), 43);
        assert_eq!(Token::parse(token.reveal()).expect("its own form").hash(), token.hash());
        assert_ne!(Token::generate().hash(), token.hash());
        assert!(!format!("{token:?}").contains(token.reveal()));
    }

    #[test]
    fn other_texts_are_not_tokens() {
        for text in ["", "abc", &"a".repeat(42), &"=".repeat(43), &"a".repeat(1000)] {
            assert!(Token::parse(text).is_none(), "{text}");
        }
    }
}
