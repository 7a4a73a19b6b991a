//! Passwords and their hashes: Argon2id with the parameters that OWASP's password storage cheat sheet gives,
//! as a PHC string, so that the parameters can be raised later.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use zeroize::Zeroizing;

use crate::{
    config::{ConfigError, Env},
    error::{Error, Problem, Result},
    random,
};

/// A password as somebody typed it: 8 to 128 characters (Unicode scalar values), never trimmed.
pub struct Password(Zeroizing<String>);

impl Password {
    /// Checks.
    ///
    /// # Errors
    /// It is too short or too long.
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

/// A hashed password: a PHC string, `$argon2id$v=19$m=...,t=...,p=1$salt$hash`.
pub struct PasswordHash(String);

impl PasswordHash {
    /// The PHC string, for the table.
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

const SALT_LENGTH: usize = 16;
const HASH_LENGTH: usize = 32;

/// Hashes passwords, one at a time, always in the same memory: the allocator would keep every buffer that it
/// once gave (150 MB after 30 hashes against 21 MB).
#[derive(Clone)]
pub struct Hasher {
    params: Params,
    memory: Arc<Mutex<Vec<Block>>>,
}

impl Hasher {
    /// A hasher with the parameters in `ARGON2_MEMORY_KIB` and `ARGON2_ITERATIONS`.
    ///
    /// # Errors
    /// A variable is missing, or Argon2 does not take the value.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        let (memory, iterations) = (env.parsed("ARGON2_MEMORY_KIB")?, env.parsed("ARGON2_ITERATIONS")?);
        let params = Params::new(memory, iterations, 1, Some(HASH_LENGTH)).map_err(|error| {
            ConfigError::new("ARGON2_MEMORY_KIB", format!("or ARGON2_ITERATIONS is no parameter of Argon2: {error}"))
        })?;
        Ok(Self { params, memory: Arc::default() })
    }

    /// The hash of `password` with a new salt. Takes some 20 ms of CPU, so it runs off the async thread.
    ///
    /// # Errors
    /// Argon2 fails (it does not, with parameters that were accepted).
    pub async fn hash(&self, password: Password) -> Result<PasswordHash> {
        let hasher = self.clone();
        tokio::task::spawn_blocking(move || hasher.hash_now(&password))
            .await
            .map_err(Error::internal("hashing a password"))?
    }

    fn hash_now(&self, password: &Password) -> Result<PasswordHash> {
        let salt: [u8; SALT_LENGTH] = random::bytes();
        let mut hash = [0; HASH_LENGTH];
        // A panic while hashing leaves nothing in the memory that the next hash would read.
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.resize(self.params.block_count(), Block::default());
        Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone())
            .hash_password_into_with_memory(password.0.as_bytes(), &salt, &mut hash, memory.as_mut_slice())
            .map_err(Error::internal("hashing a password"))?;
        Ok(PasswordHash(format!(
            "$argon2id$v=19$m={},t={},p={}${}${}",
            self.params.m_cost(),
            self.params.t_cost(),
            self.params.p_cost(),
            STANDARD_NO_PAD.encode(salt),
            STANDARD_NO_PAD.encode(hash),
        )))
    }
}

#[cfg(test)]
mod tests {
    use argon2::{PasswordVerifier, password_hash::phc};

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
    fn a_parameter_that_argon2_does_not_take_stops_the_start() {
        let env = Env::new(|_| Some("1".to_owned()));
        let error = Hasher::from_env(&env).err().expect("1 KiB is too little");
        assert!(error.to_string().contains("ARGON2_MEMORY_KIB"));
    }
}
