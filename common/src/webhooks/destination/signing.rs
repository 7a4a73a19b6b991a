//! The two signatures of a delivery. Both cover the exact bytes that are sent.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::signing_secret::SigningSecret;
use crate::timestamp::Timestamp;

/// The secrets for signing an attempt: the current secret and, for a while after a rotation, the previous one.
#[derive(Clone, Copy, Debug)]
pub struct SigningKeys<'a> {
    /// The current secret, for both signatures.
    pub current: &'a SigningSecret,
    /// The secret before the latest rotation.
    pub previous: Option<&'a PreviousSecret>,
}

/// A replaced secret.
#[derive(Clone, Debug)]
pub struct PreviousSecret {
    pub secret: SigningSecret,
    /// When the service stops signing with this secret.
    pub expires_at: Timestamp,
}

impl<'a> SigningKeys<'a> {
    /// The secrets for signing an attempt at `now`, the current secret first.
    fn at(self, now: Timestamp) -> impl Iterator<Item = &'a SigningSecret> {
        let previous = self.previous.filter(|previous| now < previous.expires_at);
        [self.current].into_iter().chain(previous.map(|previous| &previous.secret))
    }
}

impl<'a> From<&'a SigningSecret> for SigningKeys<'a> {
    fn from(only: &'a SigningSecret) -> Self {
        Self { current: only, previous: None }
    }
}

/// `x-webhook-signature`: HMAC-SHA256 of the body, lower-case hex.
pub fn body_signature(secret: &SigningSecret, body: &[u8]) -> String {
    hex::encode(hmac(secret.reveal().as_bytes(), &[body]))
}

/// `webhook-signature`: `v1,` and the base64 HMAC-SHA256 of `{id}.{timestamp}.{body}`, as specified by Standard
/// Webhooks (<https://www.standardwebhooks.com>, "Signature scheme"), so a receiver can reject a replay. A secret can
/// represent two keys: its own bytes, and the bytes that libraries decode from it. There is one signature for each key.
pub fn standard_signatures(keys: SigningKeys<'_>, id: &str, now: Timestamp, body: &[u8]) -> String {
    let head = format!("{id}.{}.", now.as_second());
    let mut signatures = String::with_capacity(2 * SIGNATURE);
    let mut sign = |key: &[u8]| {
        signatures.push_str(if signatures.is_empty() { "v1," } else { " v1," });
        STANDARD.encode_string(hmac(key, &[head.as_bytes(), body]), &mut signatures);
    };
    for secret in keys.at(now) {
        sign(secret.reveal().as_bytes());
        if let Some(decoded) = secret.decoded() {
            sign(&decoded);
        }
    }
    signatures
}

/// The length of a signature and the space before it.
const SIGNATURE: usize = " v1,".len() + 44;

/// HMAC-SHA256 of the parts, one after the other.
pub(in crate::webhooks) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    #[expect(clippy::expect_used, reason = "HMAC accepts a key of any length (RFC 2104)")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
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

    #[test]
    fn both_secrets_sign_until_the_previous_one_expires() {
        let time = |millisecond| Timestamp::from_millisecond(millisecond);
        let (current, secret) = (secret("c2VjcmV0MQ=="), secret("c2VjcmV0Mg=="));
        let previous = PreviousSecret { secret, expires_at: time(2500) };
        let sign = |keys: SigningKeys<'_>, now| standard_signatures(keys, "msg_1", now, b"{}");
        let rotated = SigningKeys { current: &current, previous: Some(&previous) };
        let both = format!("{} {}", sign((&current).into(), time(2499)), sign((&previous.secret).into(), time(2499)));
        assert_eq!(sign(rotated, time(2499)), both);
        assert_eq!(both.split(' ').count(), 4);
        assert_eq!(sign(rotated, time(2500)), sign((&current).into(), time(2500)));
    }

    proptest! {
        #[test]
        fn the_standard_webhooks_library_makes_the_same_signature(
            key in ".{1,64}", id in "[a-z0-9_]{1,40}", body in any::<String>(), timestamp in 0..i64::from(u32::MAX),
        ) {
            prop_assume!(!key.trim().is_empty());
            let theirs = Webhook::from_bytes(key.as_bytes().to_vec()).expect("a key");
            let signature = theirs.sign(&id, timestamp, body.as_bytes()).expect("signed");
            let now = Timestamp::from_second(timestamp).expect("a time");
            let ours = standard_signatures((&secret(&key)).into(), &id, now, body.as_bytes());
            prop_assert_eq!(ours.split(' ').next(), Some(signature.as_str()));
        }

        #[test]
        fn code_of_standard_webhooks_verifies_with_a_decoded_secret(
            key in prop::collection::vec(any::<u8>(), 3..100), prefix in "(whsec_)?", body in any::<String>(),
        ) {
            let text = format!("{prefix}{}", STANDARD.encode(&key));
            let now = Timestamp::from_second(7).expect("a time");
            let signatures = standard_signatures((&secret(&text)).into(), "msg_1", now, body.as_bytes());
            prop_assert_eq!(signatures.len(), 2 * SIGNATURE - 1);
            let theirs = Webhook::new(&text).expect("a key").sign("msg_1", 7, body.as_bytes()).expect("signed");
            prop_assert_eq!(signatures.split(' ').nth(1), Some(theirs.as_str()));
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
