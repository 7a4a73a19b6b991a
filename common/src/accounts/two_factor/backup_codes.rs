//! Backup codes, for users who lost their authenticator app. Each one works once, instead of a code from the app.

use std::fmt;

use zeroize::Zeroizing;

use crate::{accounts::token::SecretHash, id::UserId, random};

/// The number of codes that a user gets at once.
pub const COUNT: usize = 10;
/// Letters and digits that are hard to confuse. There are 32, so each character of a code stands for 5 random bits.
const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
/// A code has 80 random bits, so a fast hash is enough to protect it in the table.
const CHARACTERS: usize = 16;
/// A code is shown in groups of this size.
const GROUP: usize = 4;

/// New codes. Only the user sees them; the table stores their hashes.
pub struct BackupCodes(Zeroizing<Vec<String>>);

impl BackupCodes {
    /// Generates ten codes.
    pub fn generate() -> Self {
        Self(Zeroizing::new((0..COUNT).map(|_| code()).collect()))
    }

    /// The codes, for their user. They must not be logged or stored.
    pub fn reveal(&self) -> &[String] {
        &self.0
    }

    /// The hashes of the codes, as stored for `user`.
    pub(super) fn hashes(&self, user: UserId) -> Vec<SecretHash> {
        self.0.iter().map(|code| hash(code, user)).collect()
    }
}

impl fmt::Debug for BackupCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackupCodes(redacted)")
    }
}

/// The hash of a code that `user` entered. Case, spaces and hyphens do not matter.
pub(super) fn hash(code: &str, user: UserId) -> SecretHash {
    let code = code.chars().filter(|c| !c.is_whitespace() && *c != '-').flat_map(char::to_lowercase);
    SecretHash::of(&Zeroizing::new(format!("{user} {}", code.collect::<String>())))
}

fn code() -> String {
    let bytes = Zeroizing::new(random::bytes::<CHARACTERS>());
    let mut code = String::with_capacity(CHARACTERS + CHARACTERS / GROUP);
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 && index % GROUP == 0 {
            code.push('-');
        }
        code.extend(ALPHABET.get(usize::from(byte % 32)).map(|letter| char::from(*letter)));
    }
    code
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ten_different_codes_are_generated() {
        let codes = BackupCodes::generate();
        let different: BTreeSet<_> = codes.reveal().iter().collect();
        assert_eq!(different.len(), COUNT);
        for code in codes.reveal() {
            assert_eq!(code.len(), 19, "{code}");
            assert!(code.bytes().all(|byte| byte == b'-' || ALPHABET.contains(&byte)), "{code}");
        }
        assert_eq!(format!("{codes:?}"), "BackupCodes(redacted)");
    }

    #[test]
    fn the_spelling_of_a_code_does_not_matter() {
        let (user, other) = (UserId::generate(), UserId::generate());
        let hash = |code| hash(code, user);
        assert_eq!(hash("abcd-efgh-jkmn-pqrs"), hash(" ABCD EFGH jkmnpqrs\n"));
        assert_ne!(hash("abcd-efgh-jkmn-pqrs"), hash("abcd-efgh-jkmn-pqrt"));
        assert_ne!(hash("abcd"), super::hash("abcd", other), "users do not share hashes");
    }
}
