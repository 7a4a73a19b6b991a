//! Signing secrets.

use api::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Generates a secret of 32 random bytes, in the form of Standard Webhooks.
pub(crate) fn generate() -> Result<Secret, Failure> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes)
        .map_err(|error| Failure::local(format!("The operating system provided no random bytes: {error}.")))?;
    let mut secret = String::with_capacity(50);
    secret.push_str("whsec_");
    base64::Engine::encode_string(&base64::engine::general_purpose::STANDARD, *bytes, &mut secret);
    Ok(secret.into())
}

/// Whether `signature`, the value of `x-webhook-signature`, is that of this body by this secret.
pub(crate) fn signs(secret: &Secret, body: &str, signature: &str) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()) else { return false };
    mac.update(body.as_bytes());
    hex::decode(signature).is_ok_and(|signature| mac.verify_slice(&signature).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_secret_has_the_form_of_standard_webhooks() {
        let (one, other) = (generate().expect("a secret"), generate().expect("a secret"));
        assert!(one.reveal().starts_with("whsec_") && one.reveal().len() == 50 && one != other);
        assert!(standardwebhooks::Webhook::new(one.reveal()).is_ok());
    }

    #[test]
    fn a_signature_fits_one_secret_and_one_body() {
        // printf '{"a":1}' | openssl dgst -sha256 -hmac s
        let signature = "37beaf650f70b40ec9706929c2e9d835cbd63729988f48781e6383a147215f07";
        assert!(signs(&"s".into(), r#"{"a":1}"#, signature));
        for (secret, body, signature) in
            [("t", r#"{"a":1}"#, signature), ("s", "{}", signature), ("s", r#"{"a":1}"#, "00"), ("s", "{}", "é")]
        {
            assert!(!signs(&secret.into(), body, signature));
        }
    }
}
