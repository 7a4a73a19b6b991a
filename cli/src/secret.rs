//! New signing secrets.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use crate::failure::Failure;

/// A secret of 32 random bytes, in the form of Standard Webhooks.
pub(crate) fn generate() -> Result<Zeroizing<String>, Failure> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(|error| Failure::Local(format!("There is no randomness: {error}.")))?;
    let mut secret = Zeroizing::new(String::with_capacity(50));
    let _infallible = write!(secret, "whsec_");
    base64::Engine::encode_string(&base64::engine::general_purpose::STANDARD, *bytes, &mut secret);
    Ok(secret)
}
