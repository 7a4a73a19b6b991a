//! JSON as text, in which strings are distinguished from other tokens.

use memchr::{memchr, memchr2, memchr3};

/// Removes the whitespace between JSON tokens. Many receivers verify the signature of `JSON.stringify(parsedBody)`
/// rather than of the received bytes. If the JSON is compact, the two are equal for ordinary payloads.
pub(super) fn compact(json: Vec<u8>) -> Vec<u8> {
    if memchr3(b' ', b'\n', b'\r', &json).or_else(|| memchr(b'\t', &json)).is_none() {
        return json;
    }
    let (mut compact, mut rest) = (Vec::with_capacity(json.len()), json.as_slice());
    while !rest.is_empty() {
        let (tokens, strings) = rest.split_at(memchr(b'"', rest).unwrap_or(rest.len()));
        compact.extend(tokens.iter().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')));
        let (string, after) = strings.split_at(string_length(strings));
        compact.extend_from_slice(string);
        rest = after;
    }
    compact
}

/// The length of the JSON string at the start of `json`, including its quotes.
pub(super) fn string_length(json: &[u8]) -> usize {
    let mut length = json.len().min(1);
    while let Some(rest) = json.get(length..) {
        match memchr2(b'"', b'\\', rest) {
            Some(at) if rest.get(at) == Some(&b'\\') => length += at + 2,
            Some(at) => return length + at + 1,
            None => break,
        }
    }
    json.len()
}
