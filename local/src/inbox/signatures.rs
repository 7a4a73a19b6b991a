//! Verifies both signatures of a webhook according to their specification, without the service's own code.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The maximum difference between a `webhook-timestamp` and the time of receipt.
const TOLERANCE: Duration = Duration::from_mins(5);

/// The result of verifying a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The signature is valid.
    Right,
    /// The signature belongs to a different body or secret.
    Wrong,
    /// The signature is valid, but its timestamp is too far from now.
    Stale,
    /// The signature is missing.
    Missing,
}

impl Verdict {
    /// Returns the human-readable text.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Right => "valid",
            Self::Wrong => "invalid",
            Self::Stale => "valid, but its timestamp is more than 5 minutes off",
            Self::Missing => "missing",
        }
    }
}

/// The results of verifying a request's signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// The result for `webhook-signature`.
    pub(crate) standard: Verdict,
    /// The result for `x-webhook-signature`.
    pub(crate) simple: Verdict,
}

impl Verdicts {
    pub fn are_right(self) -> bool {
        self.standard == Verdict::Right && self.simple == Verdict::Right
    }
}

/// Verifies a request that arrived at `at`.
pub fn verdicts(secret: &str, headers: &HeaderMap, body: &[u8], at: SystemTime) -> Verdicts {
    Verdicts { standard: standard(secret, headers, body, at), simple: simple(secret, headers, body) }
}

fn simple(secret: &str, headers: &HeaderMap, body: &[u8]) -> Verdict {
    let Some(given) = header(headers, "x-webhook-signature") else { return Verdict::Missing };
    let is_right = hex::decode(given).is_ok_and(|given| is_signature(secret.as_bytes(), &[body], &given));
    if is_right { Verdict::Right } else { Verdict::Wrong }
}

fn standard(secret: &str, headers: &HeaderMap, body: &[u8], at: SystemTime) -> Verdict {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let [Some(id), Some(timestamp), Some(given)] = names.map(|name| header(headers, name)) else {
        return Verdict::Missing;
    };
    let encoded = secret.strip_prefix("whsec_").unwrap_or(secret);
    let keys = [Some(secret.as_bytes().to_vec()), BASE64_STANDARD.decode(encoded).ok()];
    let signed: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
    let is_right = given.split(' ').filter_map(|entry| BASE64_STANDARD.decode(entry.strip_prefix("v1,")?).ok());
    let mut is_right = is_right.filter(|entry| keys.iter().flatten().any(|key| is_signature(key, &signed, entry)));
    match is_right.next() {
        None => Verdict::Wrong,
        Some(_) if is_now(timestamp, at) => Verdict::Right,
        Some(_) => Verdict::Stale,
    }
}

fn is_now(timestamp: &str, at: SystemTime) -> bool {
    let Ok(seconds) = timestamp.parse::<u64>() else { return false };
    let now = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    now.abs_diff(seconds) <= TOLERANCE.as_secs()
}

/// Compares in constant time.
fn is_signature(key: &[u8], signed: &[&[u8]], given: &[u8]) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return false };
    signed.iter().for_each(|part| mac.update(part));
    mac.verify_slice(given).is_ok()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"{}";

    /// Returns the headers of a webhook sent at the time 1000, signed with the bytes of `key`.
    fn signed(key: &[u8]) -> HeaderMap {
        let tag = |parts: &[&[u8]]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key");
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        };
        let standard = format!("v1,AAAA v1,{}", BASE64_STANDARD.encode(tag(&[b"msg_1.1000.", BODY])));
        let values = [
            ("webhook-id", "msg_1".to_owned()),
            ("webhook-timestamp", "1000".to_owned()),
            ("webhook-signature", standard),
            ("x-webhook-signature", hex::encode(tag(&[BODY]))),
        ];
        values
            .into_iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_secret_of_the_sender_verifies_both() {
        let headers = signed(b"a secret");
        assert!(verdicts("a secret", &headers, BODY, at(1000)).are_right());
        let wrong = Verdicts { standard: Verdict::Wrong, simple: Verdict::Wrong };
        assert_eq!(verdicts("another", &headers, BODY, at(1000)), wrong);
        assert_eq!(verdicts("a secret", &headers, b"{ }", at(1000)), wrong);
    }

    #[test]
    fn a_secret_may_be_the_base64_of_the_key() {
        let secret = format!("whsec_{}", BASE64_STANDARD.encode("a secret"));
        let verdicts = verdicts(&secret, &signed(b"a secret"), BODY, at(1000));
        assert_eq!(verdicts, Verdicts { standard: Verdict::Right, simple: Verdict::Wrong });
    }

    #[test]
    fn an_old_signature_is_stale() {
        let headers = signed(b"a secret");
        for (now, standard) in
            [(700, Verdict::Right), (1300, Verdict::Right), (699, Verdict::Stale), (1301, Verdict::Stale)]
        {
            assert_eq!(verdicts("a secret", &headers, BODY, at(now)).standard, standard, "{now}");
        }
    }

    #[test]
    fn a_request_without_signatures_is_not_verified() {
        let missing = Verdicts { standard: Verdict::Missing, simple: Verdict::Missing };
        assert_eq!(verdicts("a secret", &HeaderMap::new(), BODY, at(1000)), missing);
    }
}
