//! Signing secrets.

use api::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Generates a secret of 32 random bytes in the Standard Webhooks format.
pub(crate) fn generate() -> Result<Secret, Failure> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes)
        .map_err(|error| Failure::local(format!("The operating system provided no random bytes: {error}.")))?;
    let mut secret = String::with_capacity(50);
    secret.push_str("whsec_");
    base64::Engine::encode_string(&base64::engine::general_purpose::STANDARD, *bytes, &mut secret);
    Ok(secret.into())
}

/// Returns the `x-webhook-signature` and the `webhook-signature` for a body. Like the service, computes the second with
/// the secret's own bytes and, if the secret is base64, also with the decoded bytes, which Standard Webhooks libraries
/// use.
pub(crate) fn signatures(secret: &Secret, id: &str, timestamp: &str, body: &str) -> (String, String) {
    let text = secret.reveal();
    let decoded = base64(text.strip_prefix("whsec_").unwrap_or(text)).filter(|bytes| !bytes.is_empty());
    let signed = format!("{id}.{timestamp}.{body}");
    let keys = [Some(Zeroizing::new(text.as_bytes().to_vec())), decoded.map(Zeroizing::new)];
    let standard = keys.iter().flatten().map(|key| {
        format!("v1,{}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, mac(key, &signed)))
    });
    (hex::encode(mac(text.as_bytes(), body)), standard.collect::<Vec<_>>().join(" "))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).ok()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // A key of any length is valid.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Returns sixteen random bytes in hex.
pub(crate) fn random_hex() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::local(format!("The operating system provided no random bytes: {error}.")))?;
    Ok(hex::encode(bytes))
}

/// Whether `signature`, from the `x-webhook-signature` header, is valid for this body and secret.
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
    fn signatures_are_those_of_the_service() {
        // A test in common::webhooks::destination::signing expects the same signature.
        let secret = generate().expect("a secret");
        let now =
            std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).expect("a time").as_secs();
        let (hex, standard) = signatures(&secret, "msg_1", &now.to_string(), "{}");
        assert!(signs(&secret, "{}", &hex));
        let headers = [
            ("webhook-id", "msg_1".to_owned()),
            ("webhook-timestamp", now.to_string()),
            ("webhook-signature", standard.clone()),
        ];
        let headers: http::HeaderMap = headers
            .into_iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value")))
            .collect();
        for key in [
            standardwebhooks::Webhook::new(secret.reveal()),
            standardwebhooks::Webhook::from_bytes(secret.reveal().as_bytes().to_vec()),
        ] {
            key.expect("a key").verify(b"{}", &headers).expect("a signature");
        }
        assert_eq!(standard.split(' ').count(), 2);
        assert_eq!(signatures(&"no base64!".into(), "msg_1", "1", "{}").1.split(' ').count(), 1);
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
