//! Passwords and their hashes: Argon2id with the parameters from OWASP's password storage cheat sheet, stored as PHC
//! strings, so that the parameters can be raised later.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use argon2::{Algorithm, Argon2, Block, Params, Version, password_hash::phc};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use zeroize::Zeroizing;

use crate::{
    config::{ConfigError, Env},
    error::{Error, Result},
    issue::Problem,
    random,
};

/// A password as typed: 8 to 128 characters (Unicode scalar values), never trimmed.
pub struct Password(Zeroizing<String>);

impl Password {
    /// Checks that `text` has 8 to 128 characters. Any character is allowed.
    ///
    /// # Errors
    /// `text` is too short or too long.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        match Problem::length(text.chars().count(), 8, 128) {
            None => Ok(Self(Zeroizing::new(text.to_owned()))),
            Some(problem) => Err(vec![problem]),
        }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(redacted)")
    }
}

/// A text that was typed as a password at sign-in. A text that cannot be a password is treated as a wrong one.
pub struct Guess(Option<Password>);

impl Guess {
    /// Accepts any text, so that a malformed password fails like a wrong one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Password::parse(text).ok())
    }

    /// The text, if it can be a password.
    #[must_use]
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
    #[must_use]
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
pub enum Checked {
    /// The password does not match, or there was no hash to check against.
    Wrong,
    /// The password matches.
    Right,
    /// The password matches, but the stored hash has weaker parameters than today's. This is the new hash.
    Outdated(PasswordHash),
}

const SALT_LENGTH: usize = 16;
const HASH_LENGTH: usize = 32;

/// Hashes passwords one at a time, in one buffer: the allocator would keep every buffer that was ever used (150 MB
/// after 30 hashes instead of 21 MB).
#[derive(Clone)]
pub struct Hasher {
    params: Params,
    memory: Arc<Mutex<Vec<Block>>>,
}

impl Hasher {
    /// Builds a hasher with the parameters in `ARGON2_MEMORY_KIB` and `ARGON2_ITERATIONS`.
    ///
    /// # Errors
    /// A variable is missing, or Argon2 rejects a value.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        let memory = env.number("ARGON2_MEMORY_KIB", 8..=1_048_576)?;
        let iterations = env.number("ARGON2_ITERATIONS", 1..=20)?;
        let params = Params::new(memory, iterations, 1, Some(HASH_LENGTH)).map_err(|error| {
            ConfigError::new("ARGON2_MEMORY_KIB", format!("or ARGON2_ITERATIONS is not accepted by Argon2: {error}"))
        })?;
        Ok(Self { params, memory: Arc::default() })
    }

    /// Hashes `password` with a new salt. This takes about 20 ms of CPU, so it runs off the async thread.
    ///
    /// # Errors
    /// Argon2 fails, which cannot happen with parameters that it has accepted.
    pub async fn hash(&self, password: Password) -> Result<PasswordHash> {
        let hasher = self.clone();
        tokio::task::spawn_blocking(move || hasher.hash_now(&password))
            .await
            .map_err(Error::internal("hashing a password"))?
    }

    /// Checks `guess` against `hash`. If there is no hash, or the guess cannot be a password, it does the same work
    /// anyway, so that the timing reveals nothing.
    ///
    /// # Errors
    /// The stored hash is malformed, or Argon2 fails.
    pub async fn check(&self, guess: Guess, hash: Option<PasswordHash>) -> Result<Checked> {
        let hasher = self.clone();
        tokio::task::spawn_blocking(move || match (guess.0, hash) {
            (Some(password), Some(hash)) => hasher.check_now(&password, &hash),
            (password, _) => {
                let stand_in = || Password(Zeroizing::new("no password".to_owned()));
                hasher.hash_now(&password.unwrap_or_else(stand_in)).map(|_| Checked::Wrong)
            }
        })
        .await
        .map_err(Error::internal("checking a password"))?
    }

    fn check_now(&self, password: &Password, hash: &PasswordHash) -> Result<Checked> {
        let doing = "checking a password";
        let stored = phc::PasswordHash::new(hash.as_str()).map_err(Error::internal(doing))?;
        let params = Params::try_from(&stored).map_err(Error::internal(doing))?;
        let (Some(salt), Some(expected)) = (&stored.salt, &stored.hash) else {
            return Err(Error::Internal(format!("{doing}: the stored hash is not complete")));
        };
        let computed = self.argon2(&params, password, salt.as_ref())?;
        // This comparison takes constant time.
        if *expected != phc::Output::new(&computed).map_err(Error::internal(doing))? {
            return Ok(Checked::Wrong);
        }
        let weaker = params.m_cost() < self.params.m_cost() || params.t_cost() < self.params.t_cost();
        if weaker { self.hash_now(password).map(Checked::Outdated) } else { Ok(Checked::Right) }
    }

    fn hash_now(&self, password: &Password) -> Result<PasswordHash> {
        let salt: [u8; SALT_LENGTH] = random::bytes();
        let hash = self.argon2(&self.params, password, &salt)?;
        Ok(PasswordHash(format!(
            "$argon2id$v=19$m={},t={},p={}${}${}",
            self.params.m_cost(),
            self.params.t_cost(),
            self.params.p_cost(),
            STANDARD_NO_PAD.encode(salt),
            STANDARD_NO_PAD.encode(hash),
        )))
    }

    fn argon2(&self, params: &Params, password: &Password, salt: &[u8]) -> Result<[u8; HASH_LENGTH]> {
        let mut hash = [0; HASH_LENGTH];
        // The buffer may be reused after a panic: the next hash overwrites it before reading.
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.resize(params.block_count(), Block::default());
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone())
            .hash_password_into_with_memory(password.0.as_bytes(), salt, &mut hash, memory.as_mut_slice())
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
        let Ok(Checked::Outdated(new)) = today.check_now(&password("correct horse"), &old) else {
            unreachable!("it is")
        };
        assert!(new.as_str().starts_with("$argon2id$v=19$m=128,t=2,p=1$"));
        assert!(matches!(today.check_now(&password("correct horse"), &new), Ok(Checked::Right)));
        assert!(matches!(hasher(64, 1).check_now(&password("correct horse"), &new), Ok(Checked::Right)));
        for hash in [&old, &new] {
            assert!(matches!(today.check_now(&password("wrong horse"), hash), Ok(Checked::Wrong)));
        }
    }

    #[test]
    fn a_parameter_that_argon2_rejects_stops_the_function() {
        let env = Env::new(|_| Some("1".to_owned()));
        let error = Hasher::from_env(&env).err().expect("1 KiB is too little");
        assert!(error.to_string().contains("ARGON2_MEMORY_KIB"));
    }
}
