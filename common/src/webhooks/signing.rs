//! The two signatures of a delivery, both over the exact bytes that are sent.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::webhooks::signing_secret::SigningSecret;

/// `x-webhook-signature`: HMAC-SHA256 of the body, lower-case hex.
#[must_use]
pub fn body_signature(secret: &SigningSecret, body: &[u8]) -> String {
    hex::encode(hmac(secret, &[body]))
}

/// `webhook-signature`: `v1,` and the base64 HMAC-SHA256 of `{id}.{timestamp}.{body}`, as specified by Standard
/// Webhooks (<https://www.standardwebhooks.com>, "Signature scheme"), so that a receiver can refuse a replay.
#[must_use]
pub fn standard_signature(secret: &SigningSecret, id: &str, timestamp: i64, body: &[u8]) -> String {
    let head = format!("{id}.{timestamp}.");
    format!("v1,{}", STANDARD.encode(hmac(secret, &[head.as_bytes(), body])))
}

fn hmac(secret: &SigningSecret, parts: &[&[u8]]) -> [u8; 32] {
    #[expect(clippy::expect_used, reason = "HMAC accepts a key of any length (RFC 2104)")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()).expect("a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use standardwebhooks::Webhook;

    use super::*;

    fn secret(text: &str) -> SigningSecret {
        SigningSecret::parse(text).expect("a secret")
    }

    /// RFC 4231, test case 2.
    #[test]
    fn the_body_signature_is_plain_hmac_sha256() {
        assert_eq!(
            body_signature(&secret("Jefe"), b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    proptest! {
        #[test]
        fn standard_webhooks_own_code_makes_the_same_signature(
            key in ".{1,64}", id in "[a-z0-9_]{1,40}", body in any::<String>(), timestamp in 0..i64::from(u32::MAX),
        ) {
            prop_assume!(!key.trim().is_empty());
            let theirs = Webhook::from_bytes(key.as_bytes().to_vec()).expect("a key");
            let signature = theirs.sign(&id, timestamp, body.as_bytes()).expect("signed");
            prop_assert_eq!(standard_signature(&secret(&key), &id, timestamp, body.as_bytes()), signature);
        }

        #[test]
        fn another_body_or_secret_has_another_signature(key in "[!-~]{1,32}", body in ".*", other in ".*") {
            prop_assume!(body != other);
            let key = secret(&key);
            prop_assert_ne!(body_signature(&key, body.as_bytes()), body_signature(&key, other.as_bytes()));
            let longer = secret(&format!("{}x", key.reveal()));
            prop_assert_ne!(body_signature(&key, body.as_bytes()), body_signature(&longer, body.as_bytes()));
        }
    }
}
