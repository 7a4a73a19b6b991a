//! The difference between the body that a receiver saw and the one that was sent.

use std::borrow::Cow;

use api::verification::Cause;
use base64::{Engine, engine::general_purpose::STANDARD};

use super::json::{self, JsonDifferences};
use crate::webhooks::destination::PREFIX;

/// The number of bytes shown before and after the first difference.
const BYTES_BEFORE: usize = 16;
const BYTES_AFTER: usize = 24;
/// The maximum number of bytes of a secret with its prefix.
const MAX_SECRET_BYTES: usize = 256 * 4;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
const WHITESPACE: &[u8] = b" \t\r\n";

/// The difference between two bodies, and its cause.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) cause: Cause,
    pub(super) message: String,
    /// The first byte that differs.
    pub(super) at: usize,
    pub(super) sent: String,
    pub(super) seen: String,
}

/// Compares two bodies. Returns `None` if they are equal.
pub(super) fn difference(sent: &[u8], seen: &[u8]) -> Option<Difference> {
    if sent == seen {
        return None;
    }
    let at = sent.iter().zip(seen).take_while(|(one, other)| one == other).count();
    let (cause, message) = what_happened(sent, seen);
    Some(Difference { cause, message, at, sent: around(sent, at), seen: around(seen, at) })
}

fn what_happened(sent: &[u8], seen: &[u8]) -> (Cause, String) {
    if seen.is_empty() {
        let message = "The body is empty or was not given. If the receiver saw no body, something had read it before: pass on its \
                       bytes instead of reading again.";
        return (Cause::BodyMissing, message.to_owned());
    }
    if let Some(message) = added(sent, seen) {
        return (Cause::WhiteSpaceAdded, message);
    }
    if sent.starts_with(seen) {
        let message = format!(
            "Only the first {} of {} bytes of the body were seen. Check the size limit of the receiver and the proxies \
             before it.",
            seen.len(),
            sent.len()
        );
        return (Cause::BodyCutOff, message);
    }
    if let Some(how) = encoded(sent, seen) {
        return (Cause::BodyEncoded, format!("The body {how}. Verify the bytes as they were received."));
    }
    let [sent_text, seen_text] = [sent, seen].map(|body| std::str::from_utf8(body).ok());
    if let (Some(sent), Some(seen)) = (sent_text, seen_text)
        && let Some(changes) = json::changes(sent, seen)
    {
        let message = format!(
            "The body was parsed and written again, which changed its {}. Verify the bytes as they were received, before \
             they are parsed.",
            named(changes)
        );
        return (Cause::BodyReserialized, message);
    }
    if is_lossy(sent, seen) {
        let message = "The body was decoded with a character set that lacks some of its characters. Verify the bytes as \
                       they were received.";
        return (Cause::BodyEncoded, message.to_owned());
    }
    (Cause::BodyChanged, "The body is not the one that was sent.".to_owned())
}

fn named(changes: JsonDifferences) -> String {
    let JsonDifferences { order, escapes, numbers, spaces } = changes;
    let all = [(order, "key order"), (spaces, "white space"), (escapes, "escapes"), (numbers, "numbers")];
    let all: Vec<_> = all.into_iter().filter_map(|(is_changed, name)| is_changed.then_some(name)).collect();
    match all.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        Some((last, _)) => (*last).to_owned(),
        None => "members".to_owned(),
    }
}

/// Describes what was added before or after the body, if it is nothing else.
fn added(sent: &[u8], seen: &[u8]) -> Option<String> {
    let start = seen.windows(sent.len().max(1)).take(BYTES_AFTER).position(|window| window == sent)?;
    let (before, after) = (seen.get(..start)?, seen.get(start + sent.len()..)?);
    let is_white = |bytes: &[u8]| bytes.iter().all(|byte| WHITESPACE.contains(byte));
    let before_white = before.strip_prefix(BYTE_ORDER_MARK).unwrap_or(before);
    if !is_white(before_white) || !is_white(after) {
        return None;
    }
    let what = match (before, after) {
        (before, _) if before.len() != before_white.len() => "A byte order mark was added before the body".to_owned(),
        ([], b"\n") => "A line feed was added after the body".to_owned(),
        ([], b"\r\n") => "A carriage return and a line feed were added after the body".to_owned(),
        ([], after) => format!("{} bytes of white space were added after the body", after.len()),
        (before, _) => format!("{} bytes of white space were added before the body", before.len()),
    };
    Some(format!("{what}. Verify the bytes as they were received; a copied body may get them from the editor."))
}

/// Describes how the body was encoded, if it was.
fn encoded(sent: &[u8], seen: &[u8]) -> Option<&'static str> {
    undo_encoding(seen).filter(|(decoded, _)| **decoded == *sent).map(|(_, how)| how)
}

/// Whether only the characters beyond ASCII differ.
fn is_lossy(sent: &[u8], seen: &[u8]) -> bool {
    let text = String::from_utf8_lossy(sent);
    let mut parts = text.split(|character: char| !character.is_ascii()).map(str::as_bytes);
    let mut rest = seen;
    !sent.is_ascii()
        && parts.all(|part| {
            let at = if part.is_empty() { Some(0) } else { memchr::memmem::find(rest, part) };
            let after = at.filter(|at| *at <= 8).and_then(|at| rest.get(at + part.len()..));
            after.map(|after| rest = after).is_some()
        })
}

/// Undoes an encoding of the whole body that programs add, if it has one. Also returns its description.
pub(super) fn undo_encoding(seen: &[u8]) -> Option<(Cow<'_, [u8]>, &'static str)> {
    let text = std::str::from_utf8(seen).ok();
    if let Some(text) = text {
        if let Some(inside) = text.strip_prefix("b'").and_then(|text| text.strip_suffix('\''))
            && let Some(bytes) = bytes_of_python(inside)
        {
            return Some((bytes.into(), "is the Python representation of its bytes, as in `f\"{body}\"`"));
        }
        if text.starts_with('"')
            && let Ok(inside) = serde_json::from_str::<String>(text)
        {
            return Some((inside.into_bytes().into(), "was written as a JSON string"));
        }
        if let Ok(bytes) = STANDARD.decode(text.trim_end())
            && !bytes.is_empty()
        {
            return Some((bytes.into(), "is still in base64, as API Gateway and other gateways hand it over"));
        }
        // Text that was decoded as Latin-1 has only characters up to U+00FF.
        let latin: Option<Vec<u8>> = text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect();
        if let Some(bytes) = latin.filter(|bytes| !bytes.is_ascii() && std::str::from_utf8(bytes).is_ok()) {
            return Some((bytes.into(), "was decoded as Latin-1 instead of UTF-8"));
        }
        return None;
    }
    let text: String = seen.iter().map(|byte| char::from(*byte)).collect();
    Some((text.into_bytes().into(), "was written in Latin-1 instead of UTF-8"))
}

/// Reads the inside of `b'…'`.
fn bytes_of_python(inside: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(inside.len()), inside.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    Some(bytes)
}

/// The text around a byte, on one line. Secrets that begin with `whsec_` are left out.
fn around(body: &[u8], at: usize) -> String {
    let (start, end) = (at.saturating_sub(BYTES_BEFORE), at.saturating_add(BYTES_AFTER).min(body.len()));
    let part = String::from_utf8_lossy(body.get(start..end).unwrap_or_default());
    let mut text = String::new();
    if start > 0 {
        text.push('…');
    }
    for character in part.trim_matches('\u{FFFD}').chars() {
        match character {
            '\n' => text.push('␊'),
            '\r' => text.push('␍'),
            '\t' => text.push('␉'),
            '\u{FEFF}' => text.push_str("⟨U+FEFF⟩"),
            character => text.push(character),
        }
    }
    if end < body.len() {
        text.push('…');
    }
    if has_secret(body, start, end) { "(not shown, because it contains a secret)".to_owned() } else { text }
}

/// Whether a secret that begins with `whsec_` reaches into this part of the body.
fn has_secret(body: &[u8], start: usize, end: usize) -> bool {
    let from = start.saturating_sub(MAX_SECRET_BYTES);
    let near = body.get(from..end.saturating_add(PREFIX.len()).min(body.len())).unwrap_or_default();
    memchr::memmem::find_iter(near, PREFIX).any(|found| {
        let is_of_secret = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(*byte);
        let length = near.get(found..).unwrap_or_default().iter().take_while(is_of_secret).count();
        from + found + length > start && from + found < end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = r#"{"event":"job.completed","job_id":"é/1","nonce":1.0,"result":{"b":1,"a":"x"}}"#;

    fn cause(seen: &[u8]) -> Cause {
        difference(SENT.as_bytes(), seen).expect("a difference").cause
    }

    #[test]
    fn each_difference_has_its_cause() {
        let python = "b'{\"event\":\"job.completed\",\"job_id\":\"\\xc3\\xa9/1\",\"nonce\":1.0,\"result\":{\"b\":1,\"a\":\"x\"}}'";
        let latin: Vec<u8> =
            SENT.chars().map(|character| u8::try_from(u32::from(character)).expect("Latin-1")).collect();
        let mojibake: String = SENT.bytes().map(char::from).collect();
        for (seen, expected) in [
            (b"".to_vec(), Cause::BodyMissing),
            (format!("{SENT}\n").into_bytes(), Cause::WhiteSpaceAdded),
            (format!("{SENT}\r\n").into_bytes(), Cause::WhiteSpaceAdded),
            (format!("\u{FEFF}{SENT}").into_bytes(), Cause::WhiteSpaceAdded),
            (SENT.as_bytes()[..40].to_vec(), Cause::BodyCutOff),
            (SENT.replace(':', ": ").into_bytes(), Cause::BodyReserialized),
            (SENT.replace("1.0", "1").into_bytes(), Cause::BodyReserialized),
            (SENT.replace('é', "\\u00e9").into_bytes(), Cause::BodyReserialized),
            (SENT.replace(r#""b":1,"a":"x""#, r#""a":"x","b":1"#).into_bytes(), Cause::BodyReserialized),
            (STANDARD.encode(SENT).into_bytes(), Cause::BodyEncoded),
            (serde_json::to_vec(SENT).expect("JSON"), Cause::BodyEncoded),
            (python.as_bytes().to_vec(), Cause::BodyEncoded),
            (latin, Cause::BodyEncoded),
            (mojibake.into_bytes(), Cause::BodyEncoded),
            (SENT.replace('é', "\u{FFFD}\u{FFFD}").into_bytes(), Cause::BodyEncoded),
            (SENT.replace('é', "?").into_bytes(), Cause::BodyEncoded),
            (SENT.replace("job.completed", "job.failed").into_bytes(), Cause::BodyChanged),
            (b"{}".to_vec(), Cause::BodyChanged),
            (b"[object Object]".to_vec(), Cause::BodyChanged),
            (b"\xFF\xFE".to_vec(), Cause::BodyChanged),
        ] {
            assert_eq!(cause(&seen), expected, "{}", String::from_utf8_lossy(&seen));
        }
        assert_eq!(difference(b"{}", b"{}"), None);
        assert_eq!(difference(b"", b"x").map(|difference| difference.cause), Some(Cause::BodyChanged));
    }

    #[test]
    fn both_sides_are_shown_around_the_first_difference() {
        let seen = SENT.replace("\"nonce\":1.0", "\"nonce\": 1.0");
        let found = difference(SENT.as_bytes(), seen.as_bytes()).expect("a difference");
        assert_eq!(found.at, SENT.find("1.0").expect("it is there"));
        assert!(found.sent.contains(r#""nonce":1.0,"#) && found.seen.contains(r#""nonce": 1.0,"#), "{found:?}");
        let found = difference(b"{}", b"{}\r\n").expect("a difference");
        assert_eq!((found.at, found.sent.as_str(), found.seen.as_str()), (2, "{}", "{}␍␊"));
    }

    #[test]
    fn a_secret_in_the_body_is_not_shown() {
        for filler in [0, 3, 10, 30, 60] {
            let seen =
                format!("{}whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo={}", " ".repeat(filler), " ".repeat(30));
            for at in 0..seen.len() {
                let shown = around(seen.as_bytes(), at);
                let is_shown = (0..46)
                    .any(|from| shown.contains(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="[from..from + 4]));
                assert!(!is_shown, "{shown}");
            }
        }
    }
}
