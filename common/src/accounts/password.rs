//! Passwords and their hashes: Argon2id with the parameters from OWASP's password storage cheat sheet, stored as PHC
//! strings, so the parameters can be raised later.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use argon2::{Algorithm, Argon2, Block, Params, Version, password_hash::phc};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::{CodePointMapData, props::GeneralCategory};
use zeroize::Zeroizing;

use crate::{
    accounts::token::Token,
    config::{ConfigError, Env},
    error::{Error, Result},
    issue::Problem,
    lock::lock,
    random,
};

/// A password: 8 to 128 characters (Unicode scalar values), never trimmed.
///
/// Keyboards and systems encode the same input differently: an accented letter as one character or two, a space as
/// U+00A0. Passwords are therefore compared in the OpaqueString form (RFC 8265), in line with NIST SP 800-63B: spaces
/// become U+0020, and the text is in Unicode normalization form C. No characters are forbidden.
pub struct Password {
    prepared: Zeroizing<String>,
    /// The password as typed, if it differs. Version 0.1.0 hashed passwords in this form.
    typed: Option<Zeroizing<String>>,
}

impl Password {
    /// Checks that the prepared `text` is 8 to 128 characters long. All characters are allowed.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        // Longer input takes too long to prepare.
        if let Some(problem) = Problem::length(text.chars().count(), 0, MAX_UNPREPARED_LENGTH) {
            return Err(vec![problem]);
        }
        let password = Self::of(text);
        match Problem::length(password.prepared.chars().count(), LENGTH.0, LENGTH.1) {
            None => Ok(password),
            Some(problem) => Err(vec![problem]),
        }
    }

    /// Generates an unguessable password, for an account whose user has to choose a new one.
    pub(super) fn random() -> Self {
        Self::of(Token::generate().reveal())
    }

    fn of(text: &str) -> Self {
        let spaces = CodePointMapData::<GeneralCategory>::new();
        let is_space = |c: char| spaces.get(c) == GeneralCategory::SpaceSeparator;
        let spaced = text.chars().map(|c| if is_space(c) { ' ' } else { c });
        // Reserves space for the longest form, because a string that grows leaves copies in memory.
        let mut prepared = Zeroizing::new(String::with_capacity(3 * text.len()));
        prepared.extend(ComposingNormalizerBorrowed::new_nfc().normalize_iter(spaced));
        let typed = (*prepared != *text).then(|| Zeroizing::new(text.to_owned()));
        Self { prepared, typed }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(redacted)")
    }
}

/// The text that was entered as a password. If it cannot be a password, it counts as a wrong one.
pub struct Guess(Option<Password>);

impl Guess {
    /// Accepts any text, so a malformed password fails like a wrong one.
    pub fn new(text: &str) -> Self {
        // Version 0.1.0 counted the characters as typed, so a prepared password can have fewer than 8.
        let (least, most) = LENGTH;
        let was_one = (least..=most).contains(&text.chars().count());
        Self(if was_one { Some(Password::of(text)) } else { Password::parse(text).ok() })
    }

    /// The guess, if it can be a password.
    pub fn password(self) -> Option<Password> {
        self.0
    }
}

/// A hashed password: a PHC string, `$argon2id$v=19$m=...,t=...,p=1$salt$hash`.
#[derive(Clone)]
pub struct PasswordHash(String);

impl PasswordHash {
    pub(crate) fn stored(phc: &str) -> Self {
        Self(phc.to_owned())
    }

    /// The PHC string, as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(redacted)")
    }
}

/// The result of checking a password.
#[derive(Debug)]
pub enum PasswordCheck {
    /// The password does not match, or there was no hash to check against.
    Wrong,
    /// The password matches.
    Right,
    /// The password matches, but the stored hash uses outdated parameters or was made from the password as typed.
    /// Contains the new hash.
    Outdated(PasswordHash),
}

/// The minimum and maximum length of a prepared password, in characters.
const LENGTH: (usize, usize) = (8, 128);
/// The maximum length of an unprepared password, in characters. Preparation combines up to four characters into one.
const MAX_UNPREPARED_LENGTH: usize = 4 * LENGTH.1;

const SALT_LENGTH: usize = 16;
const HASH_LENGTH: usize = 32;

/// Hashes passwords one at a time, in a shared buffer. With a buffer per hash, the allocator would keep all of them
/// (150 MB after 30 hashes instead of 21 MB).
#[derive(Clone)]
pub struct Hasher {
    params: Params,
    memory: Arc<Mutex<Vec<Block>>>,
}

impl Hasher {
    /// Builds a hasher with the parameters in `ARGON2_MEMORY_KIB` and `ARGON2_ITERATIONS`.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        let memory = env.number("ARGON2_MEMORY_KIB", 8..=1_048_576)?;
        let iterations = env.number("ARGON2_ITERATIONS", 1..=20)?;
        let params = Params::new(memory, iterations, 1, Some(HASH_LENGTH)).map_err(|error| {
            ConfigError::new("ARGON2_MEMORY_KIB", format!("or ARGON2_ITERATIONS is not accepted by Argon2: {error}"))
        })?;
        Ok(Self { params, memory: Arc::default() })
    }

    /// Hashes `password` with a new salt. Hashing takes about 20 ms of CPU, so it runs on a blocking thread.
    ///
    /// # Errors
    /// Argon2 fails, which cannot happen with parameters that it has accepted.
    pub async fn hash(&self, password: Password) -> Result<PasswordHash> {
        let hasher = self.clone();
        tokio::task::spawn_blocking(move || hasher.hash_now(&password))
            .await
            .map_err(Error::internal("hashing a password"))?
    }

    /// Checks `guess` against `hash`. If there is no hash, or the guess cannot be a password, the check does the same
    /// work, so the timing reveals nothing.
    ///
    /// # Errors
    /// The stored hash is malformed, or Argon2 fails.
    pub async fn check(&self, guess: Guess, hash: Option<PasswordHash>) -> Result<PasswordCheck> {
        let hasher = self.clone();
        tokio::task::spawn_blocking(move || match (guess.0, hash) {
            (Some(password), Some(hash)) => hasher.check_now(&password, &hash),
            (password, _) => {
                let password = password.unwrap_or_else(|| Password::of("no password"));
                if password.typed.is_some() {
                    hasher.hash_now(&password)?;
                }
                hasher.hash_now(&password).map(|_| PasswordCheck::Wrong)
            }
        })
        .await
        .map_err(Error::internal("checking a password"))?
    }

    fn check_now(&self, password: &Password, hash: &PasswordHash) -> Result<PasswordCheck> {
        let doing = "checking a password";
        let stored = phc::PasswordHash::new(hash.as_str()).map_err(Error::internal(doing))?;
        let params = Params::try_from(&stored).map_err(Error::internal(doing))?;
        let (Some(salt), Some(expected)) = (&stored.salt, &stored.hash) else {
            return Err(Error::Internal(format!("{doing}: the stored hash is not complete")));
        };
        let matches = |text: &str| -> Result<bool> {
            let computed = self.argon2(&params, text, salt.as_ref())?;
            // This comparison takes constant time.
            Ok(*expected == phc::Output::new(&computed).map_err(Error::internal(doing))?)
        };
        let is_prepared = matches(&password.prepared)?;
        if !is_prepared && !password.typed.as_ref().map_or(Ok(false), |typed| matches(typed))? {
            return Ok(PasswordCheck::Wrong);
        }
        let weaker = params.m_cost() < self.params.m_cost() || params.t_cost() < self.params.t_cost();
        if weaker || !is_prepared {
            self.hash_now(password).map(PasswordCheck::Outdated)
        } else {
            Ok(PasswordCheck::Right)
        }
    }

    fn hash_now(&self, password: &Password) -> Result<PasswordHash> {
        let salt: [u8; SALT_LENGTH] = random::bytes();
        let hash = self.argon2(&self.params, &password.prepared, &salt)?;
        Ok(PasswordHash(format!(
            "$argon2id$v=19$m={},t={},p={}${}${}",
            self.params.m_cost(),
            self.params.t_cost(),
            self.params.p_cost(),
            STANDARD_NO_PAD.encode(salt),
            STANDARD_NO_PAD.encode(hash),
        )))
    }

    fn argon2(&self, params: &Params, password: &str, salt: &[u8]) -> Result<[u8; HASH_LENGTH]> {
        let mut hash = [0; HASH_LENGTH];
        // The buffer may be reused after a panic: the next hash overwrites it before reading.
        let mut memory = lock(&self.memory);
        memory.resize(params.block_count(), Block::default());
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone())
            .hash_password_into_with_memory(password.as_bytes(), salt, &mut hash, memory.as_mut_slice())
            .map_err(Error::internal("hashing a password"))?;
        Ok(hash)
    }
}

#[cfg(test)]
mod tests {
    use argon2::PasswordVerifier;

    use super::*;

    fn hasher(memory: u32, iterations: u32) -> Hasher {
        Hasher::from_env(&Env::new(move |name| match name {
            "ARGON2_MEMORY_KIB" => Some(memory.to_string()),
            _ => Some(iterations.to_string()),
        }))
        .expect("parameters of Argon2")
    }

    #[test]
    fn a_password_is_counted_in_characters_and_not_trimmed() {
        assert!(Password::parse("ßßßßßßß").is_err());
        assert!(Password::parse("ßßßßßßßß").is_ok());
        assert!(Password::parse("        ").is_ok());
        assert!(Password::parse(&"ß".repeat(128)).is_ok());
        assert!(Password::parse(&"ß".repeat(129)).is_err());
        assert_eq!(format!("{:?}", Password::parse("hunter2hunter2").expect("long enough")), "Password(redacted)");
    }

    /// The same passwords, as different keyboards and systems encode them.
    const SPELLINGS: [[&str; 2]; 6] = [
        ["p\u{e4}ssw\u{f6}rter", "pa\u{308}sswo\u{308}rter"],
        ["correct\u{a0}horse", "correct horse"],
        ["\u{3000}\u{2003}\u{202f}horses", "   horses"],
        ["\u{212b}ngstr\u{f6}m", "A\u{30a}ngstro\u{308}m"],
        ["\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}-secret", "\u{d55c}\u{ae00}-secret"],
        ["q\u{323}\u{307}uestions", "q\u{307}\u{323}uestions"],
    ];

    #[test]
    fn every_spelling_of_a_password_is_the_same_password() {
        let hasher = hasher(64, 1);
        let check = |text: &str, hash: &PasswordHash| {
            hasher.check_now(&Guess::new(text).password().expect("a password"), hash).expect("checked")
        };
        for [one, other] in SPELLINGS.iter().copied().flat_map(|[one, other]| [[one, other], [other, one]]) {
            let hash = hasher.hash_now(&Password::parse(one).expect("a password")).expect("hashed");
            assert!(matches!(check(other, &hash), PasswordCheck::Right), "{one:?} {other:?}");
        }
        // Only encodings of the same password are equal. Similar letters, upper and lower case, and trailing spaces are
        // different.
        for [one, other] in [
            ["password-\u{fb01}", "password-fi"],
            ["Password-1", "password-1"],
            ["password-1 ", "password-1"],
            ["pass\u{200b}word", "password"],
            ["p\u{430}ssword", "password"],
        ] {
            let hash = hasher.hash_now(&Password::parse(one).expect("a password")).expect("hashed");
            assert!(matches!(check(other, &hash), PasswordCheck::Wrong), "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_hash_of_the_text_as_typed_is_right_and_outdated() {
        let hasher = hasher(64, 1);
        for typed in SPELLINGS.iter().flatten().chain(&["e\u{301}e\u{301}e\u{301}e\u{301}"]) {
            let guess = || Guess::new(typed).password().expect("a password");
            // A hash created by version 0.1.0.
            let salt: [u8; SALT_LENGTH] = random::bytes();
            let hash = hasher.argon2(&hasher.params, typed, &salt).expect("hashed");
            let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
            let old = PasswordHash(format!("$argon2id$v=19$m=64,t=1,p=1${salt}${hash}"));
            let new = match (hasher.check_now(&guess(), &old).expect("checked"), guess().typed.is_some()) {
                (PasswordCheck::Outdated(new), true) => new,
                (PasswordCheck::Right, false) => continue,
                (checked, _) => unreachable!("{typed:?}: {checked:?}"),
            };
            assert!(matches!(hasher.check_now(&guess(), &new), Ok(PasswordCheck::Right)), "{typed:?}");
            assert!(
                matches!(hasher.check_now(&Password::of("wrong horse"), &old), Ok(PasswordCheck::Wrong)),
                "{typed:?}"
            );
        }
    }

    #[test]
    fn a_new_password_is_counted_as_it_is_compared() {
        assert!(Password::parse(&"e\u{301}".repeat(7)).is_err(), "14 characters are 7");
        assert!(Password::parse(&"e\u{301}".repeat(128)).is_ok(), "256 characters are 128");
        assert!(Password::parse(&"e\u{301}".repeat(129)).is_err());
        assert!(Guess::new(&"e\u{301}".repeat(128)).password().is_some());
        assert!(Guess::new(&"e\u{301}".repeat(129)).password().is_none());
        assert!(Guess::new(&"a".repeat(30_000)).password().is_none());
    }

    #[test]
    fn another_implementation_verifies_the_hash() {
        let hasher = hasher(64, 2);
        for password in ["correct horse", "pässwörter"] {
            let hash = hasher.hash_now(&Password::parse(password).expect("long enough")).expect("hashed");
            assert!(hash.as_str().starts_with("$argon2id$v=19$m=64,t=2,p=1$"));
            let phc = phc::PasswordHash::new(hash.as_str()).expect("a PHC string");
            assert!(Argon2::default().verify_password(password.as_bytes(), &phc).is_ok());
            assert!(Argon2::default().verify_password(b"wrong horse", &phc).is_err());
        }
    }

    #[test]
    fn a_hash_with_weaker_parameters_is_right_and_outdated() {
        let password = |text| Password::parse(text).expect("long enough");
        let old = hasher(64, 1).hash_now(&password("correct horse")).expect("hashed");
        let today = hasher(128, 2);
        let Ok(PasswordCheck::Outdated(new)) = today.check_now(&password("correct horse"), &old) else {
            unreachable!("it is")
        };
        assert!(new.as_str().starts_with("$argon2id$v=19$m=128,t=2,p=1$"));
        assert!(matches!(today.check_now(&password("correct horse"), &new), Ok(PasswordCheck::Right)));
        assert!(matches!(hasher(64, 1).check_now(&password("correct horse"), &new), Ok(PasswordCheck::Right)));
        for hash in [&old, &new] {
            assert!(matches!(today.check_now(&password("wrong horse"), hash), Ok(PasswordCheck::Wrong)));
        }
    }

    #[test]
    fn a_parameter_that_argon2_rejects_stops_the_function() {
        let env = Env::new(|_| Some("1".to_owned()));
        let error = Hasher::from_env(&env).err().expect("1 KiB is too small");
        assert!(error.to_string().contains("ARGON2_MEMORY_KIB"));
    }
}
