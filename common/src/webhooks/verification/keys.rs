//! The HMAC keys that a secret gives: the two right ones, and those of common mistakes.

use api::verification::{Cause, KeyForm, WhichSecret};
use base64::{
    Engine, alphabet,
    engine::{
        GeneralPurpose,
        general_purpose::{NO_PAD, STANDARD},
    },
};
use zeroize::Zeroizing;

use crate::{
    id::EndpointId,
    webhooks::{
        delivery::DeliveryId,
        destination::{PREFIX, SigningSecret},
    },
};

/// An HMAC key, with where it comes from.
pub(super) struct HmacKey {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) owner: Owner,
    pub(super) form: Derivation,
}

/// The owner of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The endpoint that the request is verified for.
    Own(WhichSecret),
    /// Another endpoint of the organization.
    Other(EndpointId),
    /// A job's callback.
    Callback(DeliveryId),
}

/// The form in which a secret is a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Derivation {
    Right(KeyForm),
    Wrong(Cause, &'static str),
}

/// The keys that deliveries are signed with.
pub(super) fn right(secret: &SigningSecret, owner: Owner) -> Vec<HmacKey> {
    let text = Zeroizing::new(secret.reveal().as_bytes().to_vec());
    let text = HmacKey { bytes: text, owner, form: Derivation::Right(KeyForm::Bytes) };
    let decoded = secret.decoded().map(|bytes| HmacKey { bytes, owner, form: Derivation::Right(KeyForm::Decoded) });
    [text].into_iter().chain(decoded).collect()
}

/// The keys that receivers use by mistake.
pub(super) fn wrong(secret: &SigningSecret, owner: Owner) -> Vec<HmacKey> {
    const DECODED: &str =
        "The decoded secret was converted to text, which changes its bytes. Use the bytes as the key.";
    let text = secret.reveal();
    let bare = text.strip_prefix(PREFIX);
    let own = bare.unwrap_or(text);
    let mut all: Vec<(Vec<u8>, Cause, &'static str)> = Vec::new();
    let mut add = |bytes: Vec<u8>, cause, message| all.push((bytes, cause, message));
    if let Some(bare) = bare {
        add(
            bare.as_bytes().to_vec(),
            Cause::SecretAsText,
            "The part of the secret after `whsec_` was used as text. Decode it from base64, or use the whole secret as \
             text.",
        );
        let message = "The prefix `whsec_` was decoded with the rest of the secret. Remove it before decoding.";
        // Node.js reads the underscore as a character of base64 for URLs. PHP, Python and Ruby skip it.
        add(lenient(text), Cause::SecretDecoded, message);
        add(lenient(&text.replace('_', "")), Cause::SecretDecoded, message);
    }
    if let Some(decoded) = secret.decoded() {
        add(String::from_utf8_lossy(&decoded).into_owned().into_bytes(), Cause::SecretDecoded, DECODED);
        let characters: String = decoded.iter().map(|byte| char::from(*byte)).collect();
        add(characters.into_bytes(), Cause::SecretDecoded, DECODED);
        add(
            hex::encode(&*decoded).into_bytes(),
            Cause::SecretDecoded,
            "The decoded secret was written in hex. Use its bytes as the key.",
        );
    }
    if let Ok(bytes) = hex::decode(own) {
        add(bytes, Cause::SecretDecoded, "The secret was decoded from hex. It is text, or base64.");
    }
    if !own.is_ascii() {
        let latin = text.chars().map(|character| u8::try_from(u32::from(character) & 0xFF).unwrap_or_default());
        let message = "Each character of the secret was converted to one byte. Use its UTF-8 bytes.";
        add(latin.collect(), Cause::SecretAltered, message);
    }
    for (form, message) in [
        (format!("{text}\n"), "The secret has a line break at its end, perhaps from a file. Remove it."),
        (format!("{text}\r\n"), "The secret has a line break at its end, perhaps from a file. Remove it."),
        (format!("{own}\n"), "The secret has a line break at its end, perhaps from a file, and lacks `whsec_`."),
        (format!("{text} "), "The secret has a space at its end. Remove it."),
        (format!("\"{text}\""), "The secret has quotes around it, perhaps from an environment file. Remove them."),
        (format!("'{text}'"), "The secret has quotes around it, perhaps from an environment file. Remove them."),
        (before_comment(text), "The secret was cut at `#`, perhaps in an environment file. Put it in quotes there."),
        (
            without_variables(text),
            "A `$` and the name after it are missing, perhaps because an environment file replaced them by the value of a \
             variable. Use a secret without `$`.",
        ),
        (text.trim_end_matches('=').to_owned(), "The `=` at the end of the secret is missing."),
        (text.replace('+', " "), "Each `+` of the secret became a space, as in a form or a query."),
        (text.trim().to_owned(), "White space around the secret was removed. It is part of the key."),
        (text.to_lowercase(), "The secret was converted to lower case."),
        (text.to_uppercase(), "The secret was converted to upper case."),
        (STANDARD.encode(text), "The secret was encoded in base64 once more."),
    ] {
        add(form.into_bytes(), Cause::SecretAltered, message);
    }
    let right: Vec<_> = self::right(secret, owner).into_iter().map(|key| key.bytes).collect();
    let all = all.into_iter().map(|(bytes, cause, message)| (Zeroizing::new(bytes), cause, message));
    let all = all.filter(|(bytes, ..)| !right.contains(bytes));
    all.map(|(bytes, cause, message)| HmacKey { bytes, owner, form: Derivation::Wrong(cause, message) }).collect()
}

/// The keys that programs use if they have no secret.
pub(super) fn none(owner: Owner) -> Vec<HmacKey> {
    let message = "The secret was empty or not set when the signature was computed. Check the receiver's settings.";
    let none = ["", "undefined", "null", "None", "nil"].into_iter();
    none.map(|text| HmacKey {
        bytes: Zeroizing::new(text.as_bytes().to_vec()),
        owner,
        form: Derivation::Wrong(Cause::SecretAltered, message),
    })
    .collect()
}

const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

/// Decodes base64 like Node.js: both alphabets, without other characters, up to the padding.
fn lenient(text: &str) -> Vec<u8> {
    let symbols = text.split('=').next().unwrap_or_default().chars().filter_map(|character| match character {
        '-' => Some('+'),
        '_' => Some('/'),
        character => (character.is_ascii_alphanumeric() || matches!(character, '+' | '/')).then_some(character),
    });
    let mut symbols = Zeroizing::new(symbols.collect::<String>());
    if symbols.len() % 4 == 1 {
        symbols.pop();
    }
    LENIENT.decode(&*symbols).unwrap_or_default()
}

/// Reads a line of an environment file without quotes like Node.js, dotenv and Bun, for which `#` begins a comment.
fn before_comment(text: &str) -> String {
    text.split('#').next().unwrap_or_default().trim_end().to_owned()
}

/// Replaces each `$NAME` like Next.js, Vite and Bun if there is no such variable.
fn without_variables(text: &str) -> String {
    let mut parts = text.split('$');
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            expanded.push_str(part.trim_start_matches(|other: char| other.is_ascii_alphanumeric() || other == '_'));
        } else {
            expanded.push('$');
            expanded.push_str(part);
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner::Own(WhichSecret::Current);

    /// `Buffer.from(text, "base64").toString("hex")` of Node.js 20.
    #[test]
    fn base64_is_decoded_like_node() {
        for (text, bytes) in [
            ("whsec_MfKQ9r8G", "c21b1e73 f31f290f 6bf0"),
            ("a-b_", "6be6ff"),
            ("YQ==YQ==", "61"),
            ("YWJjZ", "616263"),
            ("", ""),
        ] {
            assert_eq!(hex::encode(lenient(text)), bytes.replace(' ', ""), "{text}");
        }
    }

    /// As read by @next/env 16.4.6. `findings/env-file-secrets.sh` shows what others read.
    #[test]
    fn environment_files_are_read_like_next_js() {
        for (text, read) in [
            ("correct#horse", "correct"),
            ("correct #horse", "correct"),
            ("correct$horse-battery", "correct-battery"),
            ("pa$$word-x", "pa$-x"),
            ("1$2-$", "1$2-$"),
        ] {
            assert_eq!(without_variables(&before_comment(text)), read, "{text}");
        }
    }

    #[test]
    fn a_mistake_never_gives_a_right_key() {
        for text in [
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "c2VjcmV0MQ==",
            "correct horse",
            "correct#horse+$1",
            "geh\u{e4}im",
            "abcdef12",
            "a",
        ] {
            let secret = SigningSecret::parse(text).expect("a secret");
            let right: Vec<_> = right(&secret, OWNER).into_iter().map(|key| key.bytes).collect();
            assert!(wrong(&secret, OWNER).iter().all(|key| !right.contains(&key.bytes)), "{text}");
        }
    }
}
