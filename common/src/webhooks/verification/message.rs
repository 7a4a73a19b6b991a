//! The messages whose HMAC a signature can be: the right ones, and those of common mistakes.

use std::borrow::Cow;

use api::verification::{Cause, Scheme};
use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    body::undo_encoding,
    json::{Escapes, MemberOrder, Spaces, Style, WrittenJson},
};
use crate::webhooks::delivery::DeliveryId;

/// A message, with what distinguishes it from the right one.
pub(super) struct SignedMessage<'a> {
    pub(super) parts: Vec<Cow<'a, [u8]>>,
    pub(super) scheme: Scheme,
    pub(super) twist: Twist<'a>,
}

/// The difference between a message and the right one.
#[derive(Clone, Debug)]
pub(super) enum Twist<'a> {
    None,
    /// Another body was signed: that of this delivery, if it is known.
    Body(Cow<'a, [u8]>),
    /// The body was changed before it was signed.
    Rewritten(Cow<'a, [u8]>, &'static str),
    /// Another delivery's id.
    Id(DeliveryId),
    /// The Unix seconds of another attempt.
    Time(i64),
    /// Another delivery's id, time and body.
    Delivery(DeliveryId),
    /// Another delivery's body.
    BodyOf(DeliveryId),
    /// The parts are wrong, or in a wrong order.
    Composed(Cause, &'static str),
}

impl<'a> SignedMessage<'a> {
    /// `{id}.{time}.{body}`.
    pub(super) fn standard(id: &str, time: &str, body: Cow<'a, [u8]>, twist: Twist<'a>) -> Self {
        let head = format!("{id}.{time}.").into_bytes();
        Self { parts: vec![head.into(), body], scheme: Scheme::Standard, twist }
    }

    /// The body alone.
    pub(super) fn body(body: Cow<'a, [u8]>, twist: Twist<'a>) -> Self {
        Self { parts: vec![body], scheme: Scheme::Body, twist }
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// The bodies that `seen` may have been made from. Some programs add something to a body, or write its JSON again.
pub(super) fn restored(seen: &[u8]) -> Vec<Vec<u8>> {
    let unmarked = seen.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(seen);
    let mut all = vec![unmarked.trim_ascii().to_vec()];
    let decoded = undo_encoding(seen).map(|(decoded, _)| decoded.into_owned());
    let text = decoded.as_deref().unwrap_or(unmarked);
    if let Some(json) = std::str::from_utf8(text).ok().and_then(WrittenJson::parse) {
        for order in [MemberOrder::Kept, MemberOrder::OfDeliveries] {
            for escapes in [Escapes::Kept, Escapes::Few, Escapes::Ascii] {
                let style = Style { escapes, spaces: Spaces::None, order, has_doubles: false };
                all.extend(json.written(style, text.len()).map(String::into_bytes));
            }
        }
    }
    all.extend(decoded);
    all.sort();
    all.dedup();
    all.retain(|body| body != seen && !body.is_empty());
    all
}

/// The bodies that programs make from `seen` when they parse it and write it again.
pub(super) fn rewritten(seen: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let mut all = Vec::new();
    if let Some(json) = std::str::from_utf8(seen).ok().and_then(WrittenJson::parse) {
        use {Escapes::*, MemberOrder::*, Spaces::*};
        for (escapes, spaces, order, has_doubles, how) in [
            (Few, None, MemberOrder::Kept, true, "`JSON.stringify`"),
            (Few, Lines(2), MemberOrder::Kept, true, "`JSON.stringify` with an indentation"),
            (Ascii, Single, MemberOrder::Kept, false, "Python's `json.dumps`"),
            (Ascii, None, MemberOrder::Kept, false, "Python's `json.dumps` with short separators"),
            (Few, None, MemberOrder::Kept, false, "a JSON library"),
            (AsciiAndSlashes, None, MemberOrder::Kept, false, "PHP's `json_encode`"),
            (Html, None, Sorted, true, "Go's `json.Marshal`"),
            (Few, None, Sorted, false, "a JSON library that sorts keys"),
            (Ascii, Single, Sorted, false, "Python's `json.dumps` with sorted keys"),
        ] {
            let style = Style { escapes, spaces, order, has_doubles };
            all.extend(json.written(style, seen.len()).map(|text| (text.into_bytes(), how)));
        }
    }
    all.push((python_bytes(seen), "an f-string of Python bytes, as in `f\"{body}\"`"));
    all.push((b"[object Object]".to_vec(), "a parsed object that JavaScript converted to a string"));
    all.push((STANDARD.encode(seen).into_bytes(), "an encoder of base64"));
    all.push(([seen, b"\n"].concat(), "a program that adds a line feed"));
    all.retain(|(body, _)| body != seen);
    all
}

/// `repr` of Python bytes.
fn python_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut text = b"b'".to_vec();
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => text.extend([b'\\', *byte]),
            b' '..=b'~' => text.push(*byte),
            byte => text.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
    text.push(b'\'');
    text
}

/// The messages of code that puts the parts together wrongly.
pub(super) fn composed<'a>(id: &str, time: &str, body: &'a [u8]) -> Vec<SignedMessage<'a>> {
    const PARTS: &str = "The HMAC covers the wrong parts. Compute it over `{webhook-id}.{webhook-timestamp}.{body}`.";
    const NAMES: &str = "The HMAC covers placeholders instead of the values of headers. Check how your code reads them; \
                         their names are in lower case.";
    let milliseconds = format!("{time}000");
    let mut all = Vec::new();
    let mut add = |parts: [&str; 2], cause, message| {
        let [before, after] = parts.map(|part| Cow::Owned(part.as_bytes().to_vec()));
        let parts = vec![before, Cow::Borrowed(body), after];
        all.push(SignedMessage { parts, scheme: Scheme::Standard, twist: Twist::Composed(cause, message) });
    };
    for head in [
        format!("{time}."),
        format!("{id}."),
        format!("{time}.{id}."),
        format!("{id}{time}"),
        format!("{id}.{time}"),
        format!("{id}:{time}:"),
        format!("{id},{time},"),
        format!("{id}\n{time}\n"),
        format!("v0:{time}:"),
        format!("v1.{id}.{time}."),
        format!("v1,{id}.{time}."),
        time.to_owned(),
        id.to_owned(),
    ] {
        add([&head, ""], Cause::SignedContent, PARTS);
    }
    for tail in [format!(".{time}"), format!(".{id}.{time}"), format!(".{time}.{id}"), time.to_owned()] {
        add(["", &tail], Cause::SignedContent, PARTS);
    }
    let message = "The HMAC covers a timestamp in milliseconds. Use the header's text, which is in seconds.";
    add([&format!("{id}.{milliseconds}."), ""], Cause::SignedContent, message);
    if id != id.to_lowercase() {
        let message = "`webhook-id` was converted to upper case. Use the header's text.";
        add([&format!("{}.{time}.", id.to_lowercase()), ""], Cause::HeaderValue, message);
    }
    for nothing in ["undefined", "null", "None", "", "nil", "<nil>", "[]"] {
        add([&format!("{nothing}.{nothing}."), ""], Cause::HeaderNames, NAMES);
        add([&format!("{id}.{nothing}."), ""], Cause::HeaderNames, NAMES);
        add([&format!("{nothing}.{time}."), ""], Cause::HeaderNames, NAMES);
    }
    for (body, cause, message) in [
        ("", Cause::BodyMissing, "The HMAC covers an empty body. Something had read the body before your code."),
        ("undefined", Cause::BodyMissing, "The HMAC covers no body: it was `undefined`. Read the raw body."),
        ("null", Cause::BodyMissing, "The HMAC covers no body: it was `null`. Read the raw body."),
        ("None", Cause::BodyMissing, "The HMAC covers no body: it was `None`. Read the raw body."),
        ("{}", Cause::BodyMissing, "The HMAC covers an empty object instead of the body. Read the raw body."),
    ] {
        let parts = vec![Cow::Owned(format!("{id}.{time}.{body}").into_bytes())];
        all.push(SignedMessage { parts, scheme: Scheme::Standard, twist: Twist::Composed(cause, message) });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `repr` of Python 3.11.
    #[test]
    fn bytes_are_printed_like_python() {
        assert_eq!(python_bytes("{\"a\":\"é\\\\\"}".as_bytes()), br#"b'{"a":"\xc3\xa9\\\\"}'"#);
    }

    #[test]
    fn a_rewritten_event_is_restored() {
        let sent = r#"{"event":"job.completed","job_id":"\u00e9","nonce":null,"workflow":null,"deployment_id":null,"status":null,"result":{"b":1,"a":2},"error":null,"mapped_stack":null}"#;
        let sorted = rewritten(sent.as_bytes()).into_iter().find(|(_, how)| how.contains("sorted")).expect("one");
        assert_ne!(sorted.0, sent.as_bytes());
        let pretty = sent.replace(',', ",\n  ").replace("\\u00e9", "é");
        assert!(restored(pretty.as_bytes()).contains(&sent.as_bytes().to_vec()));
        let decoded = STANDARD.encode(sent);
        assert!(restored(decoded.as_bytes()).contains(&sent.as_bytes().to_vec()));
        assert!(restored(b"").is_empty());
    }
}
