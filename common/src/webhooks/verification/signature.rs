//! Signatures as receivers see and compute them, in any encoding and with any prefix.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};

/// A signature in a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The bytes of the signature.
    pub(super) tag: Vec<u8>,
    pub(super) encoding: Encoding,
    /// The text before the signature, such as `v1,` or `sha256=`; empty if there is none.
    pub(super) prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Base64,
    /// Base64 with `-` and `_`, or without padding.
    OtherBase64,
    Hex,
    UpperHex,
    /// Base64 of the hex text.
    HexInBase64,
}

/// The separators of entries, some of them from lists as programs print them.
const SEPARATORS: [char; 10] = [' ', ',', ';', '"', '\'', '[', ']', '\n', '\r', '\t'];
/// Accepts base64 with and without padding.
const EITHER: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, EITHER);
const URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, EITHER);

/// Whether `value` has exactly the form of `webhook-signature`.
pub(super) fn is_standard(value: &str) -> bool {
    let is_entry = |entry: &str| {
        entry.strip_prefix("v1,").is_some_and(|text| STANDARD.decode(text).is_ok_and(|tag| tag.len() == 32))
    };
    value.split(' ').all(is_entry)
}

/// Whether `value` has exactly the form of `x-webhook-signature`.
pub(super) fn is_lower_hex(value: &str) -> bool {
    value.len() == 64 && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Restores the plus signs that form decoding has turned into spaces.
pub(super) fn with_plus_signs(value: &str) -> String {
    value.replace(", ", ",").replace(' ', "+").replace("+v1,", " v1,")
}

/// The first signatures in a value, up to `most`, without repetitions.
pub(super) fn read(value: &str, most: usize) -> Vec<Given> {
    let mut found = Vec::new();
    let mut before = "";
    for value in [value, &with_plus_signs(value)] {
        for token in value.split(SEPARATORS).filter(|token| !token.is_empty()) {
            let (prefix, text) = match token.split_once('=') {
                Some((prefix, text)) if !text.trim_matches('=').is_empty() => (format!("{prefix}="), text),
                _ if before.starts_with('v') && before.len() <= 3 => (format!("{before},"), token),
                _ => (String::new(), token),
            };
            if let Some((tag, encoding)) = decode(text)
                && found.len() < most
                && found.iter().all(|given: &Given| given.tag != tag)
            {
                found.push(Given { tag, encoding, prefix });
            }
            before = token;
        }
        if !found.is_empty() {
            break;
        }
    }
    found
}

/// Decodes a signature of a length that a common hash function has.
fn decode(text: &str) -> Option<(Vec<u8>, Encoding)> {
    let is_hash = |tag: &Vec<u8>| matches!(tag.len(), 16 | 20 | 28 | 32 | 48 | 64);
    if let Some(tag) = hex::decode(text).ok().filter(is_hash) {
        let is_upper = text.bytes().any(|byte| byte.is_ascii_uppercase());
        return Some((tag, if is_upper { Encoding::UpperHex } else { Encoding::Hex }));
    }
    if let Some(tag) = STANDARD.decode(text).ok().and_then(|text| hex::decode(text).ok()).filter(is_hash) {
        return Some((tag, Encoding::HexInBase64));
    }
    if let Some(tag) = STANDARD.decode(text).ok().filter(is_hash) {
        return Some((tag, Encoding::Base64));
    }
    let tag = PLAIN.decode(text).or_else(|_other| URL.decode(text)).ok().filter(is_hash)?;
    Some((tag, Encoding::OtherBase64))
}

/// Compares in constant time.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_read_in_every_form() {
        let tag: Vec<u8> = (224..=255).collect();
        let plain = STANDARD.encode(&tag);
        let url = plain.replace('+', "-").replace('/', "_");
        let hex = hex::encode(&tag);
        for (value, encoding, prefix) in [
            (format!("v1,{plain}"), Encoding::Base64, "v1,"),
            (plain.clone(), Encoding::Base64, ""),
            (plain.trim_end_matches('=').to_owned(), Encoding::OtherBase64, ""),
            (format!("v1={url}"), Encoding::OtherBase64, "v1="),
            (format!("sha256={hex}"), Encoding::Hex, "sha256="),
            (hex.to_uppercase(), Encoding::UpperHex, ""),
            (STANDARD.encode(&hex), Encoding::HexInBase64, ""),
            (format!("[\"v1,{plain}\"]"), Encoding::Base64, "v1,"),
            (format!("v1,{}", plain.replace('+', " ")), Encoding::Base64, "v1,"),
        ] {
            let expected = Given { tag: tag.clone(), encoding, prefix: prefix.to_owned() };
            assert_eq!(read(&value, 4), [expected], "{value}");
        }
        let other = STANDARD.encode([1; 32]);
        assert_eq!(read(&format!("v1,{plain} v1,{other}"), 4).len(), 2);
        assert_eq!(read(&format!("v1,{plain},v1,{other}"), 4).len(), 2);
        assert_eq!(read(&format!("v1,{plain} v1,{plain}"), 4).len(), 1);
        assert_eq!(read(&format!("v1,{plain} v1,{other}"), 1).len(), 1);
        for none in ["", "v1", "v1,", "abc", "undefined", &plain[..20]] {
            assert_eq!(read(none, 4), [], "{none}");
        }
    }

    #[test]
    fn only_the_exact_form_is_standard() {
        let plain = STANDARD.encode([1; 32]);
        assert!(is_standard(&format!("v1,{plain} v1,{plain}")));
        for other in [plain.clone(), format!("v1,{plain},v1,{plain}"), format!("v1,{plain} "), String::new()] {
            assert!(!is_standard(&other), "{other}");
        }
    }
}
